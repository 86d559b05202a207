/* onnx/load_graph.c: GraphProto to nc_graph: initializers, inputs, nodes, outputs, in that order whatever the file's
 * own. Names become values through one map per graph; a name of a graph around becomes a capture. Every name is
 * defined once in its graph. A name that an inner graph defines means the inner value in all of that graph, whatever
 * the graphs around it call so. */
#include "onnx/loader.h"

#include "ir/assume.h"
#include "ir/edit.h"

#include <string.h>

#define OF_GRAPH                                                                                     \
    (NC_PB_BIT(GraphProto_node) | NC_PB_BIT(GraphProto_name) | NC_PB_BIT(GraphProto_initializer) |   \
     NC_PB_BIT(GraphProto_input) | NC_PB_BIT(GraphProto_output) | NC_PB_BIT(GraphProto_value_info) | \
     NC_PB_BIT(GraphProto_sparse_initializer))

#define SHOW(b) (int)((b).n < 200 ? (b).n : 200), (const char *)(b).p

static const char *graph_name(const nc_scope *s) { return s->g->name ? s->g->name : ""; }

nc_code nc_scope_find(nc_loader *l, nc_scope *s, nc_bytes name, nc_value **out) {
    nc_value *v = NULL;
    for (const nc_scope *at = s; at; at = at->up) {
        v = nc_map_get_bytes(&at->names, name.p, name.n);
        if (v || nc_scope_hides(at, name)) break;
    }
    *out = v;
    if (!v || v == &l->absent || v->graph == s->g) return NC_OK;
    NC_TRY(nc_load_values(l, 1));
    *out = nc_edit_reach(s->g, v);
    NC_NEED(l->w, *out);
    if (!nc_map_put_bytes(&s->names, name.p, name.n, *out)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

bool nc_scope_hides(const nc_scope *s, nc_bytes name) {
    return s->up && nc_map_get_bytes(&s->makes, name.p, name.n) != NULL;
}

nc_code nc_scope_check_free(nc_loader *l, const nc_scope *s, nc_bytes name) {
    if (nc_map_get_bytes(&s->names, name.p, name.n))
        NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': '%.*s' is already defined in it", graph_name(s), SHOW(name));
    return NC_OK;
}

static nc_code keep_extra(nc_loader *l, nc_bytes info, nc_value *v) {
    nc_str extra;
    NC_TRY(nc_load_extra(l, info, NC_PB_BIT(ValueInfoProto_name) | NC_PB_BIT(ValueInfoProto_type), &extra));
    if (extra.n) v->extra = extra;
    return NC_OK;
}

nc_code nc_scope_define(nc_loader *l, nc_scope *s, nc_bytes name, nc_value *v) {
    NC_TRY(nc_scope_check_free(l, s, name));
    if (!nc_map_put_bytes(&s->names, name.p, name.n, v)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    const nc_bytes *b = nc_map_get_bytes(&s->infos, name.p, name.n);
    if (!b) return NC_OK;
    nc_pb_value info;
    NC_TRY(nc_pb_read_value(l->w, *b, &info));
    if (NC_PB_HAS(info, ValueInfoProto_type)) {
        if (!v->type) NC_TRY(nc_load_type(l, info.type, v->name, &v->type));
        NC_TRY(nc_load_sparse_type(l, info.type, v->name, &v->declared));
    }
    return keep_extra(l, *b, v);
}

nc_code nc_scope_label(nc_loader *l, const nc_scope *s, nc_bytes name, const char *what, const char **out) {
    if (s->body && (*out = nc_map_get_bytes(&s->call->outs, name.p, name.n)) != NULL) return NC_OK;
    NC_TRY(nc_load_name(l, name, what, out));
    if (*s->prefix) *out = nc_arena_printf(&l->w->scratch, "%s%s", s->prefix, *out);
    NC_NEED(l->w, *out);
    return NC_OK;
}

/* ---- initializers and inputs ---- */

typedef struct initializer {
    nc_bytes name;
    const nc_literal *lit;
    bool is_input; /* what an input is when the caller gives nothing */
} initializer;

typedef struct initializers {
    NC_VEC(initializer *) list;
    nc_map by_name;
} initializers;

static nc_code note_initializer(nc_loader *l, nc_scope *s, initializers *all, nc_bytes name, const nc_literal *lit) {
    if (!name.n) NC_FAIL(l->w, NC_E_BAD_MODEL, "graph '%.100s': an initializer has no name", graph_name(s));
    NC_TRY(nc_scope_check_free(l, s, name));
    if (nc_map_get_bytes(&all->by_name, name.p, name.n))
        NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': '%.*s' is already defined in it", graph_name(s), SHOW(name));
    initializer *x = nc_arena_alloc(&l->w->scratch, sizeof *x);
    NC_NEED(l->w, x);
    *x = (initializer){name, lit, false};
    if (!NC_PUSH(&l->w->scratch, all->list, x) || !nc_map_put_bytes(&all->by_name, name.p, name.n, x))
        NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code read_initializers(nc_loader *l, nc_scope *s, nc_bytes b, initializers *all) {
    nc_wire r;
    nc_field f;
    nc_literal *lit;
    nc_map_init(&all->by_name, &l->w->scratch);
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_initializer, &f)) {
        nc_pb_tensor t;
        const char *name;
        NC_TRY(nc_pb_read_tensor(l->w, f.b, &t));
        NC_TRY(nc_load_name(l, t.name, "name of an initializer", &name));
        nc_object *given = s->up || s->call ? NULL : nc_load_find_given(l, name);
        NC_TRY(given ? nc_load_given(l, f.b, name, &t, given, &lit) : nc_load_tensor(l, f.b, name, &t, &lit));
        if (given && !nc_map_put(&l->taken, name, given)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        NC_TRY(note_initializer(l, s, all, t.name, lit));
    }
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_sparse_initializer, &f)) {
        nc_bytes name;
        NC_TRY(nc_load_sparse(l, f.b, &name, &lit));
        NC_TRY(note_initializer(l, s, all, name, lit));
    }
    return NC_OK;
}

static nc_code add_constants(nc_loader *l, nc_scope *s, const initializers *all) {
    for (int i = 0; i < all->list.n; i++) {
        const initializer *x = all->list.v[i];
        const char *label;
        if (x->is_input) continue;
        NC_TRY(nc_load_values(l, 1));
        NC_TRY(nc_scope_label(l, s, x->name, "name of an initializer", &label));
        nc_value *v = nc_edit_const(s->g, label, x->lit);
        NC_NEED(l->w, v);
        NC_TRY(nc_scope_define(l, s, x->name, v));
    }
    return NC_OK;
}

/* The initializer of an input must be one of the values that the input could have. */
static nc_code check_initial(nc_loader *l, const char *name, const nc_literal *lit, const nc_type *type) {
    bool fits = !type || (type->kind == NC_T_TENSOR && type->elem == lit->dtype);
    if (fits && type && type->rank >= 0) {
        fits = type->rank == lit->rank;
        int64_t dim;
        for (int i = 0; fits && i < lit->rank; i++) fits = !nc_dim_is_const(type->dims[i], &dim) || dim == lit->dims[i];
    }
    if (!fits) NC_FAIL(l->w, NC_E_BAD_MODEL, "input '%.200s' and its initializer differ in type or shape", name);
    return NC_OK;
}

/* An initializer that is also an input of the main graph is what the input is when the caller gives nothing. Before IR
 * version 4 every initializer had to be listed as an input: there, and in subgraphs, it is a constant. */
static nc_code add_input(nc_loader *l, nc_scope *s, nc_bytes b, initializers *all) {
    nc_pb_value info;
    const char *name;
    const nc_type *type = NULL;
    NC_TRY(nc_pb_read_value(l->w, b, &info));
    if (!info.name.n) NC_FAIL(l->w, NC_E_BAD_MODEL, "graph '%.100s': an input has no name", graph_name(s));
    NC_TRY(nc_scope_label(l, s, info.name, "name of a graph input", &name));
    if (NC_PB_HAS(info, ValueInfoProto_type)) NC_TRY(nc_load_type(l, info.type, name, &type));
    initializer *x = nc_map_get_bytes(&all->by_name, info.name.p, info.name.n);
    if (x) NC_TRY(check_initial(l, name, x->lit, type));
    if (x && (s->g->parent || l->m->ir_version < NC_ONNX_IR_FREE_INITIALIZERS)) return NC_OK;
    if (!type && !s->g->parent) NC_FAIL(l->w, NC_E_BAD_MODEL, "input '%.200s' has no type", name);
    NC_TRY(nc_load_values(l, 1));
    NC_TRY(nc_scope_check_free(l, s, info.name));
    nc_value *v = nc_edit_input(s->g, name, type);
    NC_NEED(l->w, v);
    if (type) NC_TRY(nc_load_sparse_type(l, info.type, name, &v->declared));
    if (x && nc_edit_set_initial(v, x->lit) != NC_OK) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    if (x) x->is_input = true;
    NC_TRY(nc_scope_define(l, s, info.name, v));
    return keep_extra(l, b, v);
}

static nc_code load_inputs(nc_loader *l, nc_scope *s, nc_bytes b, initializers *all) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_input, &f)) NC_TRY(add_input(l, s, f.b, all));
    return NC_OK;
}

/* ---- nodes and outputs ---- */

/* Notes what the file says of values; outputs come last, so that what they say counts. */
static nc_code note_infos(nc_loader *l, nc_scope *s, nc_bytes b, uint32_t number) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, number, &f)) {
        nc_pb_value info;
        NC_TRY(nc_pb_read_value(l->w, f.b, &info));
        if (!info.name.n) continue;
        nc_bytes *b_info = nc_arena_copy(&l->w->scratch, &f.b, sizeof f.b);
        NC_NEED(l->w, b_info);
        if (!nc_map_put_bytes(&s->infos, info.name.p, info.name.n, b_info)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* The names that the nodes of an inner graph give. */
static nc_code note_makes(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_wire r, in_node;
    nc_field node, f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_node, &node)) {
        nc_wire_init(&in_node, node.b);
        while (nc_wire_each(&in_node, NodeProto_output, &f))
            if (f.b.n && !nc_map_put_bytes(&s->makes, f.b.p, f.b.n, s)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code load_one(nc_loader *l, nc_scope *s, nc_bytes node) {
    NC_TRY(nc_load_room(l, 0));
    if (++l->n_nodes > NC_ONNX_MAX_NODES)
        NC_FAIL(l->w, NC_E_LIMIT, "the model has more than %d nodes", NC_ONNX_MAX_NODES);
    const char *at_node = l->w->at_node, *at_op = l->w->at_op;
    NC_TRY(nc_load_node(l, s, node));
    l->w->at_node = at_node;
    l->w->at_op = at_op;
    return NC_OK;
}

/* The node `first` and those behind it, in an order in which they can be read. */
static nc_code load_sorted(nc_loader *l, nc_scope *s, nc_wire r, uint32_t number, nc_bytes first) {
    NC_VEC(nc_bytes) rest = {0};
    nc_field f = {.b = first};
    do
        if (!NC_PUSH(&l->w->scratch, rest, f.b)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    while (nc_wire_each(&r, number, &f));
    NC_TRY(nc_load_sort(l, rest.v, rest.n));
    NC_TRY(nc_assume(l->w, l->m, NC_ASSUME_ORDER, "graph '%.100s': a node uses what a later one gives", graph_name(s)));
    for (int i = 0; i < rest.n; i++) NC_TRY(load_one(l, s, rest.v[i]));
    return NC_OK;
}

nc_code nc_load_nodes(nc_loader *l, nc_scope *s, nc_bytes b, uint32_t number) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, number, &f)) {
        bool waits;
        NC_TRY(nc_load_node_waits(l, s, f.b, &waits));
        if (waits) return load_sorted(l, s, r, number, f.b);
        NC_TRY(load_one(l, s, f.b));
    }
    return NC_OK;
}

static nc_code load_outputs(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, GraphProto_output, &f)) {
        nc_pb_value info;
        const char *name;
        nc_value *v;
        NC_TRY(nc_pb_read_value(l->w, f.b, &info));
        NC_TRY(nc_load_name(l, info.name, "name of a graph output", &name));
        NC_TRY(nc_scope_find(l, s, info.name, &v));
        if (!v || v == &l->absent)
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': output '%.200s' is not defined", graph_name(s), name);
        if (nc_edit_output(s->g, v, name) != NC_OK) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code load_scope(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_pb_graph pb;
    initializers all = {0};
    const char *name;
    NC_TRY(nc_pb_read_graph(l->w, b, &pb));
    NC_TRY(nc_load_name(l, pb.name, "GraphProto.name", &name));
    s->g->name = nc_arena_str(&l->m->arena, name);
    NC_NEED(l->w, s->g->name);
    nc_map_init(&s->names, &l->w->scratch);
    nc_map_init(&s->infos, &l->w->scratch);
    nc_map_init(&s->makes, &l->w->scratch);
    if (s->up) NC_TRY(note_makes(l, s, b));
    NC_TRY(nc_load_extra(l, b, OF_GRAPH, &s->g->extra));
    NC_TRY(note_infos(l, s, b, GraphProto_value_info));
    NC_TRY(note_infos(l, s, b, GraphProto_output));
    NC_TRY(read_initializers(l, s, b, &all));
    NC_TRY(load_inputs(l, s, b, &all));
    NC_TRY(add_constants(l, s, &all));
    NC_TRY(nc_load_nodes(l, s, b, GraphProto_node));
    return load_outputs(l, s, b);
}

nc_code nc_load_graph(nc_loader *l, nc_bytes b, nc_scope *up, nc_graph *g) {
    if (l->depth >= NC_ONNX_MAX_DEPTH) NC_FAIL(l->w, NC_E_LIMIT, "graphs are nested deeper than %d", NC_ONNX_MAX_DEPTH);
    nc_scope s = {.up = up, .g = g, .call = up ? up->call : NULL, .prefix = up ? up->prefix : ""};
    const char *prefix = l->prefix;
    l->prefix = *s.prefix ? s.prefix : NULL; /* a graph given to a function has the symbols of who gives it */
    l->depth++;
    nc_code code = load_scope(l, &s, b);
    l->depth--;
    l->prefix = prefix;
    return code;
}
