/* ir/edit.c: values of a graph: inputs, outputs, constants, variables, and replacing one value by another. Nodes
 * are changed in edit_node.c, copies made in edit_clone.c, order restored in edit_sort.c.
 *
 * Uses are an unordered array on the value; a use is dropped by moving the last one into its place, so the order
 * of uses is a function of the edits alone. */
#include "ir/edit.h"

#include "base/steps.h"
#include "ir/edit_core.h"

#include <string.h>

nc_graph *nc_edit_new_graph(nc_model *m, nc_node *owner, const char *name) {
    nc_graph *g = nc_arena_alloc(&m->arena, sizeof *g);
    if (!g || !(g->name = nc_arena_str(&m->arena, name ? name : ""))) return NULL;
    g->model = m;
    g->owner = owner;
    g->parent = owner ? owner->graph : NULL;
    return g;
}

nc_value *nc_edit_new_value(nc_graph *g, nc_origin origin, const char *name, const nc_type *type) {
    nc_arena *a = &g->model->arena;
    nc_value *v = nc_arena_alloc(a, sizeof *v);
    if (!v) return NULL;
    int id = g->model->next_id;
    v->name = name ? nc_arena_str(a, name) : nc_arena_printf(a, "v%d", id);
    if (!v->name) return NULL;
    g->model->next_id++;
    v->id = id;
    v->graph = g;
    v->origin = origin;
    v->type = type;
    return v;
}

bool nc_edit_add_use(nc_value *v, nc_node *n, int i) {
    nc_use u = {n, i};
    if (!v) return true;
    if (!NC_PUSH(&v->graph->model->arena, v->uses, u)) return false;
    n->at_use[i] = v->uses.n - 1;
    return true;
}

void nc_edit_drop_use(nc_value *v, const nc_node *n, int i) {
    int k = v ? n->at_use[i] : 0;
    nc_steps_add(1);
    if (!v || k >= v->uses.n || v->uses.v[k].node != n || v->uses.v[k].i != i) return; /* was never added */
    nc_use last = v->uses.v[--v->uses.n];
    if (k == v->uses.n) return;
    v->uses.v[k] = last;
    last.node->at_use[last.i] = k;
}

nc_value *nc_edit_input(nc_graph *g, const char *name, const nc_type *type) {
    nc_value *v = nc_edit_new_value(g, NC_FROM_INPUT, name, type);
    return v && NC_PUSH(&g->model->arena, g->inputs, v) ? v : NULL;
}

/* ---- constants ---- */

bool nc_edit_keep(nc_model *m, nc_buffer *b) {
    if (!b || (m->buffers.n && m->buffers.v[m->buffers.n - 1] == b)) return true;
    if (!NC_PUSH(&m->arena, m->buffers, b)) return false;
    nc_buffer_ref(b);
    return true;
}

void nc_edit_let_go(nc_model *m, nc_buffer *b) {
    for (int i = m->buffers.n - 1; i >= 0; i--) {
        if (m->buffers.v[i] != b) continue;
        m->buffers.v[i] = m->buffers.v[--m->buffers.n];
        nc_buffer_unref(b);
    }
}

const nc_literal *nc_edit_copy_literal(nc_model *m, const nc_literal *lit) {
    nc_literal *l = nc_arena_copy(&m->arena, lit, sizeof *lit);
    int64_t *dims = nc_arena_array(&m->arena, (size_t)lit->rank + 1, sizeof *dims);
    if (!l || !dims || !nc_edit_keep(m, lit->keeps)) return NULL;
    if (lit->rank) memcpy(dims, lit->dims, (size_t)lit->rank * sizeof *dims);
    l->dims = dims;
    if (lit->extra.n && !(l->extra.p = nc_arena_strn(&m->arena, lit->extra.p, lit->extra.n))) return NULL;
    return l;
}

nc_code nc_edit_set_initial(nc_value *input, const nc_literal *lit) {
    const nc_literal *copy = lit ? nc_edit_copy_literal(input->graph->model, lit) : NULL;
    if (lit && !copy) return NC_E_MEMORY;
    input->initial = copy;
    return NC_OK;
}

static const nc_type *literal_type(nc_model *m, const nc_literal *l) {
    const nc_dim *dims[NC_MAX_RANK];
    if (l->rank > NC_MAX_RANK) return NULL;
    for (int i = 0; i < l->rank; i++)
        if (!(dims[i] = nc_dim_const(m->dims, l->dims[i]))) return NULL;
    return nc_type_tensor(&m->arena, l->dtype, l->rank, dims);
}

nc_value *nc_edit_const(nc_graph *g, const char *name, const nc_literal *lit) {
    nc_model *m = g->model;
    const nc_literal *l = lit ? nc_edit_copy_literal(m, lit) : NULL;
    const nc_type *type = l ? literal_type(m, l) : NULL;
    nc_value *v = type ? nc_edit_new_value(g, NC_FROM_CONST, name, type) : NULL;
    if (!v || !NC_PUSH(&m->arena, g->consts, v)) return NULL;
    v->lit = l;
    return v;
}

int nc_edit_drop_consts(nc_graph *g) {
    int n = 0, k = g->consts.n;
    for (int i = 0; i < g->consts.n; i++)
        if (g->consts.v[i]->uses.n > 0 || g->consts.v[i]->n_outputs > 0 || g->consts.v[i]->var)
            g->consts.v[n++] = g->consts.v[i];
    g->consts.n = n;
    return k - n;
}

static void *copy_strings(nc_arena *a, const nc_str *from, int64_t n) {
    nc_str *to = nc_arena_array(a, (size_t)n + 1, sizeof *to);
    for (int64_t i = 0; to && i < n; i++) {
        to[i].n = from[i].n;
        if (!(to[i].p = nc_arena_strn(a, from[i].p ? from[i].p : "", from[i].n))) return NULL;
    }
    return to;
}

const nc_literal *nc_edit_literal(nc_model *m, nc_dtype t, int rank, const int64_t *dims, const void *data) {
    nc_literal l = {.dtype = t, .rank = rank, .dims = dims};
    if (rank < 0 || rank > NC_MAX_RANK || !nc_numel(dims, rank, &l.n)) return NULL;
    if (t == NC_STRING) {
        l.bytes = (size_t)l.n * sizeof(nc_str);
        l.data = copy_strings(&m->arena, data, l.n);
    } else {
        if (!nc_tensor_bytes(t, dims, rank, &l.bytes)) return NULL;
        void *p = nc_arena_alloc(&m->arena, l.bytes + 1);
        if (p && l.bytes) memcpy(p, data, l.bytes);
        l.data = p;
    }
    return l.data ? nc_edit_copy_literal(m, &l) : NULL;
}

nc_value *nc_edit_const_i64(nc_graph *g, const char *name, int rank, int64_t n, const int64_t *v) {
    const nc_literal *l = nc_edit_literal(g->model, NC_INT64, rank, &n, v);
    return l ? nc_edit_const(g, name, l) : NULL;
}

#define STORE(T)                     \
    do {                             \
        T x_ = (T)v;                 \
        memcpy(out, &x_, sizeof x_); \
        return true;                 \
    } while (0)

static bool store_scalar(nc_dtype t, double v, void *out) {
    memset(out, 0, 16);
    uint16_t h;
    switch (t) {
    case NC_FLOAT:
    case NC_COMPLEX64: STORE(float);
    case NC_DOUBLE:
    case NC_COMPLEX128: STORE(double);
    case NC_INT8: STORE(int8_t);
    case NC_UINT8: STORE(uint8_t);
    case NC_INT16: STORE(int16_t);
    case NC_UINT16: STORE(uint16_t);
    case NC_INT32: STORE(int32_t);
    case NC_UINT32: STORE(uint32_t);
    case NC_INT64: STORE(int64_t);
    case NC_UINT64: STORE(uint64_t);
    case NC_BOOL: STORE(bool);
    case NC_STRING: return v == 0;
    case NC_FLOAT16: h = nc_f64_to_f16(v); break;
    case NC_BFLOAT16: h = nc_f32_to_bf16((float)v); break;
    default: return false;
    }
    memcpy(out, &h, sizeof h);
    return true;
}

nc_value *nc_edit_const_scalar(nc_graph *g, const char *name, nc_dtype t, double v) {
    _Alignas(nc_str) char bytes[16];
    if (!store_scalar(t, v, bytes)) return NULL;
    const nc_literal *l = nc_edit_literal(g->model, t, 0, NULL, bytes);
    return l ? nc_edit_const(g, name, l) : NULL;
}

/* ---- outputs and variables ---- */

nc_code nc_edit_output(nc_graph *g, nc_value *v, const char *name) {
    nc_arena *a = &g->model->arena;
    const char *copy = nc_arena_str(a, name ? name : v->name);
    if (!copy || !NC_PUSH(a, g->output_names, copy)) return NC_E_MEMORY;
    if (!NC_PUSH(a, g->outputs, v)) {
        g->output_names.n--;
        return NC_E_MEMORY;
    }
    v->n_outputs++;
    return NC_OK;
}

void nc_edit_remove_output(nc_graph *g, int i) {
    g->outputs.v[i]->n_outputs--;
    for (int k = i; k + 1 < g->outputs.n; k++) {
        g->outputs.v[k] = g->outputs.v[k + 1];
        g->output_names.v[k] = g->output_names.v[k + 1];
    }
    g->outputs.n--, g->output_names.n--;
}

void nc_edit_set_output(nc_graph *g, int i, nc_value *v) {
    g->outputs.v[i]->n_outputs--;
    if (!v->declared) v->declared = g->outputs.v[i]->declared; /* said of the output, whichever value it is */
    g->outputs.v[i] = v;
    v->n_outputs++;
}

static nc_variable *new_variable(nc_value *v, const nc_literal *initial) {
    nc_graph *g = v->graph;
    nc_variable *var = nc_arena_alloc(&g->model->arena, sizeof *var);
    if (!var) return NULL;
    *var = (nc_variable){.id = g->vars.n, .name = v->name, .first = v, .last = v, .initial = initial, .grow_axis = -1};
    return NC_PUSH(&g->model->arena, g->vars, var) ? var : NULL;
}

nc_value *nc_edit_variable(nc_graph *g, const char *name, const nc_type *type, const nc_literal *initial) {
    const nc_literal *l = initial ? nc_edit_copy_literal(g->model, initial) : NULL;
    if (initial && !l) return NULL;
    nc_value *v = nc_edit_new_value(g, NC_FROM_VARIABLE, name, type);
    if (!v || !(v->var = new_variable(v, l))) return NULL;
    return v;
}

static void take_out(nc_value **v, int *n, const nc_value *x) {
    int k = 0;
    for (int i = 0; i < *n; i++)
        if (v[i] != x) v[k++] = v[i];
    *n = k;
}

nc_code nc_edit_make_variable(nc_value *v) {
    nc_graph *g = v->graph;
    if (g->parent || (v->origin != NC_FROM_INPUT && v->origin != NC_FROM_CONST)) return NC_E_ARGUMENT;
    nc_variable *var = new_variable(v, v->origin == NC_FROM_CONST ? v->lit : v->initial);
    if (!var) return NC_E_MEMORY;
    if (v->origin == NC_FROM_INPUT)
        take_out(g->inputs.v, &g->inputs.n, v);
    else
        take_out(g->consts.v, &g->consts.n, v);
    v->lit = v->initial = NULL;
    v->var = var;
    v->origin = NC_FROM_VARIABLE;
    return NC_OK;
}

void nc_edit_remove_input(nc_value *v) {
    nc_graph *g = v->graph;
    if (v->origin == NC_FROM_INPUT && v->uses.n == 0 && v->n_outputs == 0) take_out(g->inputs.v, &g->inputs.n, v);
}

void nc_edit_set_version(nc_variable *var, nc_value *last) {
    last->var = var;
    var->last = last;
}

/* ---- replacing ---- */

void nc_edit_replace_uses_if(nc_value *old, nc_value *by, bool (*keep)(const nc_use *u, void *ctx), void *ctx) {
    if (old == by) return;
    /* From the back: dropping a use then finds it at once and moves only uses that were seen. */
    for (int k = old->uses.n - 1; k >= 0; k--) {
        nc_use u = old->uses.v[k];
        nc_steps_add(1);
        if (!keep || keep(&u, ctx)) nc_edit_set_in(u.node, u.i, by);
    }
}

/* A version that a node made hands its place in the chain over; version 0 is the variable itself and keeps it. */
static void replace_version(nc_value *old, nc_value *by) {
    nc_variable *var = old->var;
    if (!var || old->origin != NC_FROM_NODE) return;
    if (var->last == old) var->last = by;
    if (!by->var) by->var = var;
    old->var = NULL;
}

void nc_edit_replace(nc_value *old, nc_value *by) {
    if (old == by) return;
    nc_edit_replace_uses_if(old, by, NULL, NULL);
    nc_graph *g = old->graph;
    for (int i = 0; old->n_outputs && i < g->outputs.n; i++)
        if (g->outputs.v[i] == old) nc_edit_set_output(g, i, by);
    replace_version(old, by);
}
