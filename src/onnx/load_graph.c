/* onnx/load_graph.c: GraphProto to nc_graph: initializers, inputs, nodes, outputs, in that order whatever the file's
 * own. Names become values through one map per graph; a name of a graph around becomes a capture. Every name is
 * defined once and before its use, and an inner graph may not take a name that an outer one already has. */
#include "onnx/loader.h"

#include "ir/edit.h"

#include <string.h>

#define SHOW(b) (int)((b).n < 200 ? (b).n : 200), (const char *)(b).p

static const char *graph_name(const nc_scope *s) {
    return s->g->name ? s->g->name : "";
}

nc_code nc_scope_find(nc_loader *l, nc_scope *s, nc_bytes name, nc_value **out) {
    nc_value *v = NULL;
    nc_scope *at = s;
    for (; at && !v; at = at->up) {
        v = nc_map_get_bytes(&at->names, name.p, name.n);
        if (v) break;
    }
    *out = v;
    if (!v || at == s) return NC_OK;
    NC_TRY(nc_load_values(l, 1));
    *out = nc_edit_reach(s->g, v);
    NC_NEED(l->w, *out);
    if (!nc_map_put_bytes(&s->names, name.p, name.n, *out)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

nc_code nc_scope_check_free(nc_loader *l, const nc_scope *s, nc_bytes name) {
    for (const nc_scope *at = s; at; at = at->up)
        if (nc_map_get_bytes(&at->names, name.p, name.n))
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': '%.*s' is already defined in %s", graph_name(s), SHOW(name),
                    at == s ? "it" : "a graph around it");
    return NC_OK;
}

nc_code nc_scope_define(nc_loader *l, nc_scope *s, nc_bytes name, nc_value *v) {
    NC_TRY(nc_scope_check_free(l, s, name));
    if (!nc_map_put_bytes(&s->names, name.p, name.n, v)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    if (v->type) return NC_OK;
    const nc_bytes *type = nc_map_get_bytes(&s->infos, name.p, name.n);
    if (type) NC_TRY(nc_load_type(l, *type, v->name, &v->type));
    return NC_OK;
}

static nc_code load_initializers(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_initializer, &f)) {
        nc_pb_tensor t;
        nc_literal *lit;
        const char *name;
        NC_TRY(nc_pb_read_tensor(l->w, f.b, &t));
        NC_TRY(nc_load_name(l, t.name, "name of an initializer", &name));
        if (!*name) NC_FAIL(l->w, NC_E_BAD_MODEL, "graph '%.100s': an initializer has no name", graph_name(s));
        NC_TRY(nc_load_values(l, 1));
        NC_TRY(nc_scope_check_free(l, s, t.name));
        NC_TRY(nc_load_tensor(l, f.b, name, &t, &lit));
        nc_value *v = nc_edit_const(s->g, name, lit);
        NC_NEED(l->w, v);
        NC_TRY(nc_scope_define(l, s, t.name, v));
    }
    return NC_OK;
}

/* An initializer that is an input too is an input's default: a constant, unless a session is asked to make it an input.
 * Before IR version 4 every initializer had to be listed so, and none was meant to be fed. */
static nc_code check_default(nc_loader *l, const nc_scope *s, const nc_value *c, const nc_type *type) {
    if (type && (type->kind != NC_T_TENSOR || type->elem != c->lit->dtype))
        NC_FAIL(l->w, NC_E_BAD_MODEL, "graph '%.100s': input '%.200s' and its initializer differ in type",
                graph_name(s), c->name);
    return NC_OK;
}

static nc_code load_inputs(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_input, &f)) {
        nc_pb_value info;
        const char *name;
        const nc_type *type = NULL;
        NC_TRY(nc_pb_read_value(l->w, f.b, &info));
        NC_TRY(nc_load_name(l, info.name, "name of a graph input", &name));
        if (!*name) NC_FAIL(l->w, NC_E_BAD_MODEL, "graph '%.100s': an input has no name", graph_name(s));
        if (NC_PB_HAS(info, ValueInfoProto_type)) NC_TRY(nc_load_type(l, info.type, name, &type));
        const nc_value *known = nc_map_get_bytes(&s->names, info.name.p, info.name.n);
        if (known && known->origin == NC_FROM_CONST) {
            NC_TRY(check_default(l, s, known, type));
            if (!s->up && l->m->ir_version >= 4 && !NC_PUSH(&l->m->arena, l->m->overridable, known->name))
                NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
            continue;
        }
        if (!type && !s->up) NC_FAIL(l->w, NC_E_BAD_MODEL, "input '%.200s' has no type", name);
        NC_TRY(nc_load_values(l, 1));
        NC_TRY(nc_scope_check_free(l, s, info.name));
        nc_value *v = nc_edit_input(s->g, name, type);
        NC_NEED(l->w, v);
        NC_TRY(nc_scope_define(l, s, info.name, v));
    }
    return NC_OK;
}

/* Notes where the types of node outputs stand; outputs come last, so that what they say counts. */
static nc_code note_infos(nc_loader *l, nc_scope *s, nc_bytes b, uint32_t number) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, number, &f)) {
        nc_pb_value info;
        NC_TRY(nc_pb_read_value(l->w, f.b, &info));
        if (!info.name.n || !NC_PB_HAS(info, ValueInfoProto_type)) continue;
        nc_bytes *type = nc_arena_copy(&l->w->scratch, &info.type, sizeof info.type);
        NC_NEED(l->w, type);
        if (!nc_map_put_bytes(&s->infos, info.name.p, info.name.n, type)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code load_nodes(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_node, &f)) {
        if (++l->n_nodes > NC_ONNX_MAX_NODES)
            NC_FAIL(l->w, NC_E_LIMIT, "the model has more than %d nodes", NC_ONNX_MAX_NODES);
        const char *node = l->w->at_node, *op = l->w->at_op;
        NC_TRY(nc_load_node(l, s, f.b));
        l->w->at_node = node;
        l->w->at_op = op;
    }
    return NC_OK;
}

static nc_code load_outputs(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_map seen;
    nc_wire_init(&r, b);
    nc_map_init(&seen, &l->w->scratch);
    while (nc_wire_each(&r, GraphProto_output, &f)) {
        nc_pb_value info;
        const char *name;
        nc_value *v;
        NC_TRY(nc_pb_read_value(l->w, f.b, &info));
        NC_TRY(nc_load_name(l, info.name, "name of a graph output", &name));
        NC_TRY(nc_scope_find(l, s, info.name, &v));
        if (!v) NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': output '%.200s' is not defined", graph_name(s), name);
        if (!s->up && nc_map_get(&seen, name))
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': output '%.200s' is there twice", graph_name(s), name);
        if (!nc_map_put(&seen, name, v)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        if (nc_edit_output(s->g, v, name) != NC_OK) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code load_scope(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_pb_graph pb;
    const char *name;
    NC_TRY(nc_pb_read_graph(l->w, b, &pb));
    NC_TRY(nc_load_name(l, pb.name, "GraphProto.name", &name));
    s->g->name = nc_arena_str(&l->m->arena, name);
    NC_NEED(l->w, s->g->name);
    if (pb.sparse_initializer)
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "graph '%.100s': sparse_initializer is not supported", name);
    nc_map_init(&s->names, &l->w->scratch);
    nc_map_init(&s->infos, &l->w->scratch);
    NC_TRY(load_initializers(l, s, b));
    NC_TRY(load_inputs(l, s, b));
    NC_TRY(note_infos(l, s, b, GraphProto_value_info));
    NC_TRY(note_infos(l, s, b, GraphProto_output));
    NC_TRY(load_nodes(l, s, b));
    return load_outputs(l, s, b);
}

nc_code nc_load_graph(nc_loader *l, nc_bytes b, nc_scope *up, nc_graph *g) {
    if (l->depth >= NC_ONNX_MAX_DEPTH)
        NC_FAIL(l->w, NC_E_LIMIT, "graphs are nested deeper than %d", NC_ONNX_MAX_DEPTH);
    nc_scope s = {.up = up, .g = g};
    l->depth++;
    nc_code code = load_scope(l, &s, b);
    l->depth--;
    return code;
}
