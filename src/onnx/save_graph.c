/* onnx/save_graph.c: nc_graph to GraphProto. Where an output is not a value of this graph's own under its own name
 * (an input under another name, a capture, one value twice) an Identity node stands between. */
#include "onnx/saver.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const nc_saver *s, const nc_value *v) {
    return v ? s->names[v->id] : "";
}

/* An absent argument is an empty string: it holds its place. */
static void put_arg(nc_text *out, uint32_t number, const char *name) {
    nc_wire_put_bytes(out, number, name, strlen(name));
}

/* ---- nodes ---- */

static nc_code save_list(nc_saver *s, const nc_attr *a, int *type) {
    nc_text *out = s->out;
    switch (a->kind) {
    case NC_A_INTS:
        *type = NC_PB_A_INTS;
        nc_wire_put_ints(out, AttributeProto_ints, a->ints, (size_t)a->n);
        return NC_OK;
    case NC_A_FLOATS:
        *type = NC_PB_A_FLOATS;
        nc_wire_put_floats(out, AttributeProto_floats, a->floats, (size_t)a->n);
        return NC_OK;
    case NC_A_STRINGS:
        *type = NC_PB_A_STRINGS;
        for (int i = 0; i < a->n; i++) nc_wire_put_bytes(out, AttributeProto_strings, a->strings[i].p, a->strings[i].n);
        return NC_OK;
    default: NC_FAIL(s->w, NC_E_UNSUPPORTED, "attribute '%.200s' has a kind that cannot be saved", a->name);
    }
}

static nc_code save_attr_value(nc_saver *s, const nc_node *n, const nc_attr *a, int depth, int *type) {
    nc_text *out = s->out;
    switch (a->kind) {
    case NC_A_INT: *type = NC_PB_A_INT; nc_wire_put_int(out, AttributeProto_i, a->i); return NC_OK;
    case NC_A_FLOAT: *type = NC_PB_A_FLOAT; nc_wire_put_float(out, AttributeProto_f, a->f); return NC_OK;
    case NC_A_STRING: *type = NC_PB_A_STRING; nc_wire_put_bytes(out, AttributeProto_s, a->s.p, a->s.n); return NC_OK;
    case NC_A_TENSOR: *type = NC_PB_A_TENSOR; return nc_save_tensor(s, AttributeProto_t, NULL, a->tensor);
    case NC_A_TYPE: *type = NC_PB_A_TYPE; return nc_save_type(s, AttributeProto_tp, a->name, a->type);
    case NC_A_GRAPH:
        *type = NC_PB_A_GRAPH;
        return nc_save_graph(s, n->subs[a->sub].graph, AttributeProto_g, depth + 1);
    default: return save_list(s, a, type);
    }
}

nc_code nc_save_attr(nc_saver *s, const nc_node *n, const nc_attr *a, int depth) {
    int type = 0;
    nc_wire_mark mark = nc_wire_begin(s->out, NodeProto_attribute, 0);
    nc_wire_put_str(s->out, AttributeProto_name, a->name);
    NC_TRY(save_attr_value(s, n, a, depth, &type));
    nc_wire_put_int(s->out, AttributeProto_type, type);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

static void save_random_id(nc_saver *s, const nc_node *n) {
    char digits[24];
    if (!n->random_id) return;
    snprintf(digits, sizeof digits, "%lld", (long long)n->random_id);
    nc_wire_mark mark = nc_wire_begin(s->out, NodeProto_metadata_props, 0);
    nc_wire_put_str(s->out, StringStringEntryProto_key, NC_PB_RANDOM_KEY);
    nc_wire_put_str(s->out, StringStringEntryProto_value, digits);
    nc_wire_end(s->out, mark);
}

static nc_code save_node(nc_saver *s, const nc_node *n, int depth) {
    nc_wire_mark mark = nc_wire_begin(s->out, GraphProto_node, 128);
    for (int i = 0; i < n->n_in; i++) put_arg(s->out, NodeProto_input, name_of(s, n->in[i]));
    for (int i = 0; i < n->n_out; i++) put_arg(s->out, NodeProto_output, name_of(s, n->out[i]));
    nc_wire_put_str(s->out, NodeProto_name, n->name);
    nc_wire_put_str(s->out, NodeProto_op_type, n->card->name);
    nc_wire_put_str(s->out, NodeProto_domain, n->card->domain);
    for (int i = 0; i < n->n_attrs; i++) NC_TRY(nc_save_attr(s, n, &n->attrs[i], depth));
    save_random_id(s, n);
    nc_wire_end(s->out, mark);
    return NC_OK;
}

static void save_identity(nc_saver *s, const char *from, const char *to) {
    nc_wire_mark mark = nc_wire_begin(s->out, GraphProto_node, 128);
    put_arg(s->out, NodeProto_input, from);
    put_arg(s->out, NodeProto_output, to);
    nc_wire_put_str(s->out, NodeProto_op_type, "Identity");
    nc_wire_end(s->out, mark);
}

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
    if (strcmp(name, own) != 0) save_identity(s, own, name);
    if (!nc_map_put(seen, name, (void *)(uintptr_t)name)) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    if (!g->parent && !v->type) NC_FAIL(s->w, NC_E_BAD_GRAPH, "the type of output '%.200s' is not known", name);
    return nc_save_value_info(s, GraphProto_output, name, g->parent && !nc_save_can_say(v->type) ? NULL : v->type);
}

static nc_code save_last_versions(nc_saver *s, const nc_graph *g, nc_map *seen) {
    for (int i = 0; i < g->vars.n; i++) {
        const nc_variable *var = g->vars.v[i];
        if (var->last == var->first || nc_map_get(seen, s->names[var->last->id])) continue;
        const nc_type *t = var->last->type ? var->last->type : var->first->type;
        NC_TRY(nc_save_value_info(s, GraphProto_output, s->names[var->last->id], t));
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

static size_t bytes_of_literals(const nc_graph *g) {
    size_t bytes = 0;
    for (int i = 0; i < g->consts.n; i++) bytes += g->consts.v[i]->lit->bytes;
    for (int i = 0; i < g->vars.n; i++) bytes += g->vars.v[i]->initial ? g->vars.v[i]->initial->bytes : 0;
    return bytes;
}

static nc_code save_types(nc_saver *s, const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_out; i++) {
            const nc_value *v = n->out[i];
            if (!v || v->n_outputs || (v->var && v->var->last == v) || !nc_save_can_say(v->type)) continue;
            NC_TRY(nc_save_value_info(s, GraphProto_value_info, s->names[v->id], v->type));
        }
    return NC_OK;
}

nc_code nc_save_graph(nc_saver *s, const nc_graph *g, uint32_t number, int depth) {
    nc_wire_mark mark = nc_wire_begin(s->out, number, bytes_of_literals(g));
    for (const nc_node *n = g->first; n; n = n->next) NC_TRY(save_node(s, n, depth));
    nc_wire_put_str(s->out, GraphProto_name, g->name && *g->name ? g->name : "graph");
    for (int i = 0; i < g->consts.n; i++)
        NC_TRY(nc_save_tensor(s, GraphProto_initializer, s->names[g->consts.v[i]->id], g->consts.v[i]->lit));
    for (int i = 0; i < g->vars.n; i++) NC_TRY(save_variable(s, g->vars.v[i]));
    for (int i = 0; i < g->inputs.n; i++) {
        const nc_value *v = g->inputs.v[i];
        const nc_type *t = g->parent && !nc_save_can_say(v->type) ? NULL : v->type;
        if (!g->parent && !t) NC_FAIL(s->w, NC_E_BAD_GRAPH, "the type of input '%.200s' is not known", s->names[v->id]);
        NC_TRY(nc_save_value_info(s, GraphProto_input, s->names[v->id], t));
    }
    NC_TRY(save_outputs(s, g));
    NC_TRY(save_types(s, g));
    nc_wire_end(s->out, mark);
    return NC_OK;
}
