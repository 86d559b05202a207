/* onnx/save_graph.c: nc_graph to GraphProto. Where an output is not a value of this graph's own under its own name
 * (an input under another name, a capture, one value twice) an Identity node stands between. */
#include "onnx/saver.h"

#include <string.h>

/* ---- outputs ---- */

/* The name that output i goes out under; an Identity makes it where the value's own will not do. */
static nc_code save_output(nc_saver *s, const nc_graph *g, int i, nc_map *seen) {
    const nc_value *v = g->outputs.v[i];
    const char *own = s->names[v->id], *name = own;
    if (!g->parent) {
        name = g->output_names.v[i];
    } else if (v->origin == NC_FROM_CAPTURE || nc_map_get(seen, own)) {
        name = nc_save_new_name(s, own);
        NC_NEED(s->w, name);
    }
    if (strcmp(name, own) != 0) nc_save_identity(s, own, name);
    if (!nc_map_put(seen, name, (void *)(uintptr_t)name)) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    if (!g->parent && !v->type) NC_FAIL(s->w, NC_E_BAD_GRAPH, "the type of output '%.200s' is not known", name);
    const nc_type *told = nc_value_told(v);
    return nc_save_value_info(s, GraphProto_output, name, g->parent && !nc_save_can_say(told) ? NULL : told, v->extra);
}

static nc_code save_last_versions(nc_saver *s, const nc_graph *g, nc_map *seen) {
    for (int i = 0; i < g->vars.n; i++) {
        const nc_variable *var = g->vars.v[i];
        if (var->last == var->first || nc_map_get(seen, s->names[var->last->id])) continue;
        const nc_type *t = var->last->type ? var->last->type : var->first->type;
        NC_TRY(nc_save_value_info(s, GraphProto_output, s->names[var->last->id], t, var->last->extra));
    }
    return NC_OK;
}

static nc_code save_outputs(nc_saver *s, const nc_graph *g) {
    nc_map seen;
    nc_map_init(&seen, &s->w->scratch);
    for (int i = 0; i < g->outputs.n; i++) NC_TRY(save_output(s, g, i, &seen));
    return save_last_versions(s, g, &seen);
}

/* ---- constants and variables ---- */

static nc_code save_variable(nc_saver *s, const nc_variable *var) {
    const nc_type *t = var->first->type;
    const char *name = s->names[var->first->id];
    int64_t dims[NC_MAX_RANK];
    nc_literal zeros = {0};
    if (var->initial) return nc_save_tensor(s, GraphProto_initializer, name, var->initial);
    if (!t || t->kind != NC_T_TENSOR || t->rank < 0 || t->rank > NC_MAX_RANK || t->elem == NC_STRING)
        NC_FAIL(s->w, NC_E_UNSUPPORTED, "variable '%.200s' has no initial value and no numeric tensor type", name);
    for (int i = 0; i < t->rank; i++) {
        dims[i] = 0;
        if (i != var->grow_axis && !nc_dim_is_const(t->dims[i], &dims[i]))
            NC_FAIL(s->w, NC_E_UNSUPPORTED, "variable '%.200s' has no initial value and its size is not known", name);
    }
    zeros = (nc_literal){.dtype = t->elem, .rank = t->rank, .dims = dims};
    if (!nc_tensor_bytes(t->elem, dims, t->rank, &zeros.bytes))
        NC_FAIL(s->w, NC_E_LIMIT, "variable '%.200s' is too large", name);
    zeros.data = nc_arena_array(&s->w->scratch, zeros.bytes, 1);
    NC_NEED(s->w, zeros.data);
    return nc_save_tensor(s, GraphProto_initializer, name, &zeros);
}

static size_t bytes_inside(const nc_saver *s, const nc_literal *l) {
    return l && !(s->data && l->bytes >= s->min_bytes) ? l->bytes : 0;
}

static size_t bytes_of_literals(const nc_saver *s, const nc_graph *g) {
    size_t bytes = 0;
    for (int i = 0; i < g->consts.n; i++) bytes += bytes_inside(s, g->consts.v[i]->lit);
    for (int i = 0; i < g->inputs.n; i++) bytes += bytes_inside(s, g->inputs.v[i]->initial);
    for (int i = 0; i < g->vars.n; i++) bytes += bytes_inside(s, g->vars.v[i]->initial);
    return bytes;
}

static nc_code save_types(nc_saver *s, const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_out; i++) {
            const nc_value *v = n->out[i];
            if (!v || v->n_outputs || (v->var && v->var->last == v) || !nc_save_can_say(v->type)) continue;
            NC_TRY(nc_save_value_info(s, GraphProto_value_info, s->names[v->id], v->type, v->extra));
        }
    return NC_OK;
}

nc_code nc_save_graph(nc_saver *s, const nc_graph *g, uint32_t number, int depth) {
    size_t bytes = bytes_of_literals(s, g);
    if (bytes > s->max_file) return nc_save_too_large(s);
    nc_wire_mark mark = nc_wire_begin(s->out, number, bytes);
    for (const nc_node *n = g->first; n; n = n->next) NC_TRY(nc_save_node(s, n, depth));
    nc_wire_put_str(s->out, GraphProto_name, g->name && *g->name ? g->name : "graph");
    for (int i = 0; i < g->consts.n; i++)
        NC_TRY(nc_save_tensor(s, GraphProto_initializer, s->names[g->consts.v[i]->id], g->consts.v[i]->lit));
    for (int i = 0; i < g->vars.n; i++) NC_TRY(save_variable(s, g->vars.v[i]));
    for (int i = 0; i < g->inputs.n; i++) {
        const nc_value *v = g->inputs.v[i];
        const nc_type *said = nc_value_told(v), *t = g->parent && !nc_save_can_say(said) ? NULL : said;
        if (!g->parent && !t) NC_FAIL(s->w, NC_E_BAD_GRAPH, "the type of input '%.200s' is not known", s->names[v->id]);
        NC_TRY(nc_save_value_info(s, GraphProto_input, s->names[v->id], t, v->extra));
        if (v->initial) NC_TRY(nc_save_tensor(s, GraphProto_initializer, s->names[v->id], v->initial));
    }
    NC_TRY(save_outputs(s, g));
    NC_TRY(save_types(s, g));
    nc_save_extra(s, g->extra);
    nc_wire_end(s->out, mark);
    return NC_OK;
}
