/* onnx/load_node.c: NodeProto to nc_node: card and version by opset, inputs by name, attributes, subgraphs, outputs,
 * then the card's own check. Constant nodes become constants of the graph, calls of functions the nodes of the
 * function (load_function.c). A node's outputs are not visible in its subgraphs. */
#include "onnx/loader.h"

#include "base/near.h"
#include "ir/assume.h"
#include "ir/edit.h"

#include <limits.h>
#include <string.h>

typedef struct head {
    const char *name, *op, *domain, *overload;
} head;

static nc_code read_head(nc_loader *l, const nc_scope *s, nc_bytes b, const nc_pb_node *pb, head *h) {
    h->name = "";
    if (pb->name.n) NC_TRY(nc_scope_label(l, s, pb->name, "NodeProto.name", &h->name));
    l->w->at_node = h->name;
    NC_TRY(nc_load_name(l, pb->op_type, "NodeProto.op_type", &h->op));
    l->w->at_op = h->op;
    NC_TRY(nc_load_name(l, pb->domain, "NodeProto.domain", &h->domain));
    NC_TRY(nc_load_name(l, pb->overload, "NodeProto.overload", &h->overload));
    if (strcmp(h->domain, "ai.onnx") == 0) h->domain = "";
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    if (!*h->name && nc_wire_each(&r, NodeProto_output, &f)) /* for messages: unnamed nodes go by their first output */
        NC_TRY(nc_scope_label(l, s, f.b, "NodeProto.output", &l->w->at_node));
    if (!*h->op) NC_FAIL(l->w, NC_E_BAD_MODEL, "a node has no op_type");
    if (pb->attribute > NC_ONNX_MAX_ATTRS)
        NC_FAIL(l->w, NC_E_LIMIT, "the node has %zu attributes, at most %d are allowed", pb->attribute,
                NC_ONNX_MAX_ATTRS);
    if (pb->input > INT_MAX) NC_FAIL(l->w, NC_E_LIMIT, "the node has %zu inputs", pb->input);
    return nc_load_values(l, pb->output);
}

/* ---- Constant ---- */

static void scalar_literal(nc_literal *lit, nc_dtype t, const void *data, size_t n, int rank, const int64_t *dims) {
    *lit = (nc_literal){.dtype = t, .rank = rank, .dims = dims, .n = (int64_t)n, .data = data};
    lit->bytes = n * (t == NC_STRING ? sizeof(nc_str) : nc_dtype_bytes(t));
}

/* The value that one attribute of a Constant node stands for; data lies in scratch unless it is a tensor. */
static nc_code constant_literal(nc_loader *l, const nc_attr *a, int64_t *dims, nc_literal *lit) {
    dims[0] = a->n;
    size_t n = (size_t)a->n;
    if (strcmp(a->name, "value") == 0 && a->kind == NC_A_TENSOR)
        *lit = *a->tensor;
    else if (strcmp(a->name, "value_float") == 0 && a->kind == NC_A_FLOAT)
        scalar_literal(lit, NC_FLOAT, &a->f, 1, 0, dims);
    else if (strcmp(a->name, "value_int") == 0 && a->kind == NC_A_INT)
        scalar_literal(lit, NC_INT64, &a->i, 1, 0, dims);
    else if (strcmp(a->name, "value_string") == 0 && a->kind == NC_A_STRING)
        scalar_literal(lit, NC_STRING, &a->s, 1, 0, dims);
    else if (strcmp(a->name, "value_floats") == 0 && a->kind == NC_A_FLOATS)
        scalar_literal(lit, NC_FLOAT, a->floats, n, 1, dims);
    else if (strcmp(a->name, "value_ints") == 0 && a->kind == NC_A_INTS)
        scalar_literal(lit, NC_INT64, a->ints, n, 1, dims);
    else if (strcmp(a->name, "value_strings") == 0 && a->kind == NC_A_STRINGS)
        scalar_literal(lit, NC_STRING, a->strings, n, 1, dims);
    else
        NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.200s' is not a value of a Constant", a->name);
    return NC_OK;
}

/* Copies what lies in scratch into the model. */
static nc_code keep_literal(nc_loader *l, nc_literal *lit) {
    nc_arena *a = &l->m->arena;
    lit->dims = nc_arena_copy(a, lit->dims, (size_t)lit->rank * sizeof *lit->dims);
    lit->data = nc_arena_copy(a, lit->data, lit->bytes);
    NC_NEED(l->w, lit->dims);
    NC_NEED(l->w, lit->data);
    if (lit->dtype != NC_STRING) return NC_OK;
    nc_str *s = (nc_str *)(uintptr_t)lit->data;
    for (int64_t i = 0; i < lit->n; i++) {
        s[i].p = nc_arena_strn(a, s[i].p, s[i].n);
        NC_NEED(l->w, s[i].p);
    }
    return NC_OK;
}

static nc_code sparse_literal(nc_loader *l, const nc_pb_attribute *pa, nc_literal *lit) {
    static const char value[] = "sparse_value";
    nc_literal *dense;
    nc_bytes name;
    if (pa->name.n != sizeof value - 1 || memcmp(pa->name.p, value, pa->name.n) != 0)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "a sparse tensor is the value of a Constant only as sparse_value");
    NC_TRY(nc_load_sparse(l, pa->sparse_tensor, &name, &dense));
    *lit = *dense;
    return NC_OK;
}

static nc_code load_constant(nc_loader *l, nc_scope *s, nc_bytes b, const nc_pb_node *pb) {
    nc_wire r;
    nc_field f, out;
    nc_pb_attribute pa;
    nc_given given;
    nc_attr a;
    nc_literal lit;
    bool there;
    int64_t dims[1];
    if (pb->attribute != 1 || pb->output != 1 || pb->input != 0)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "a Constant must have one attribute, one output and no input");
    nc_wire_init(&r, b);
    bool found = nc_wire_each(&r, NodeProto_attribute, &f);
    nc_wire_init(&r, b);
    if (!found || !nc_wire_each(&r, NodeProto_output, &out)) return nc_fail(l->w, NC_E_FAIL, "fields went missing");
    NC_TRY(nc_load_resolve(l, s, f.b, &given, &pa, &there));
    if (!there) NC_FAIL(l->w, NC_E_BAD_MODEL, "a Constant takes its value from an attribute that the call lacks");
    if (pa.type == NC_PB_A_SPARSE || NC_PB_HAS(pa, AttributeProto_sparse_tensor)) {
        NC_TRY(sparse_literal(l, &pa, &lit));
    } else {
        NC_TRY(nc_load_attr(l, given.b, &pa, &a));
        NC_TRY(constant_literal(l, &a, dims, &lit));
        if (a.kind != NC_A_TENSOR) NC_TRY(keep_literal(l, &lit));
    }
    const char *name;
    if (!out.b.n) return NC_OK;
    NC_TRY(nc_scope_check_free(l, s, out.b));
    NC_TRY(nc_scope_label(l, s, out.b, "NodeProto.output", &name));
    nc_value *v = nc_edit_const(s->g, name, &lit);
    NC_NEED(l->w, v);
    return nc_scope_define(l, s, out.b, v);
}

/* ---- other nodes ---- */

/* ONNX's own domains: what they hold is written down, so a name that is not there makes the graph invalid. */
static bool is_onnx(const char *domain) {
    return !*domain || strcmp(domain, "ai.onnx.ml") == 0 || strcmp(domain, "ai.onnx.training") == 0;
}

/* Elsewhere an op is one that nobody has registered, if its domain is imported or one of the library's own. Programs
 * look for the words, which are onnxruntime's. */
static nc_code unknown_op(nc_loader *l, const head *h, int64_t opset) {
    const char *domain = *h->domain ? h->domain : "ai.onnx", *overload = *h->overload ? ", overload " : "";
    if (is_onnx(h->domain))
        NC_FAIL(l->w, NC_E_BAD_GRAPH, "No Op registered for %.100s with domain_version of %lld%s%.60s in domain '%s'",
                h->op, (long long)opset, overload, h->overload, domain);
    if (opset == 0 && strncmp(h->domain, "com.microsoft", 13) != 0)
        NC_FAIL(l->w, NC_E_BAD_GRAPH, "the model imports no opset of domain '%.200s'", h->domain);
    NC_FAIL(l->w, NC_E_NO_OP, "%.100s:%.100s(%lld) is not a registered function/op%s%.60s", domain, h->op,
            (long long)opset, overload, h->overload);
}

/* A domain that the model does not import means its newest operators, but a model has to import something. */
static nc_code find_card(nc_loader *l, const nc_scope *s, const head *h, const nc_card **card,
                         const nc_op_version **version) {
    int64_t opset = nc_scope_opset(l, s, h->domain);
    *card = NULL;
    for (const nc_registry *r = l->m->registry; r && !*card; r = r->base) *card = r->find(r, h->domain, h->op);
    if (l->m->n_opsets == 0 && opset == 0)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "the model imports no opset of domain '%.200s'", h->domain);
    if (*card && (*card)->traits & NC_LOWERED)
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "op '%s' of domain '%s' is made while planning: a file cannot have it", h->op,
                h->domain);
    if (*card && opset == 0)
        NC_TRY(nc_assume(l->w, l->m, NC_ASSUME_OPSET_MISSING, "domain '%.100s' is not imported", h->domain));
    *version = *card && !*h->overload ? nc_card_version(*card, opset ? opset : INT64_MAX) : NULL;
    return *version ? NC_OK : unknown_op(l, h, opset);
}

nc_code nc_load_args(nc_loader *l, nc_scope *s, nc_bytes b, nc_value **in) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (int i = 0; nc_wire_each(&r, NodeProto_input, &f); i++) {
        if (!f.b.n) continue;
        NC_TRY(nc_scope_find(l, s, f.b, &in[i]));
        if (!in[i])
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "graph '%.100s': input %d '%.*s' is not defined before this node", s->g->name,
                    i, (int)(f.b.n < 200 ? f.b.n : 200), (const char *)f.b.p);
        if (in[i] == &l->absent) in[i] = NULL;
    }
    return NC_OK;
}

static nc_code load_output_names(nc_loader *l, nc_scope *s, nc_bytes b, const char **names) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (int i = 0; nc_wire_each(&r, NodeProto_output, &f); i++) {
        names[i] = "";
        if (!f.b.n) continue;
        NC_TRY(nc_scope_check_free(l, s, f.b));
        NC_TRY(nc_scope_label(l, s, f.b, "NodeProto.output", &names[i]));
    }
    return NC_OK;
}

static nc_code load_attrs(nc_loader *l, nc_scope *s, nc_bytes b, nc_node *n) {
    nc_wire r;
    nc_field f;
    nc_map seen;
    nc_map_init(&seen, &l->w->scratch);
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, NodeProto_attribute, &f)) {
        nc_pb_attribute pa;
        nc_given given;
        nc_attr a;
        int type;
        bool there;
        NC_TRY(nc_load_resolve(l, s, f.b, &given, &pa, &there));
        if (!there) continue;
        NC_TRY(nc_load_attr_type(l, &pa, &type));
        const char *name;
        NC_TRY(nc_load_name(l, pa.name, "AttributeProto.name", &name));
        if (nc_map_get(&seen, name)) NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.200s' is there twice", name);
        if (!nc_map_put(&seen, name, n)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        if (type == NC_PB_A_GRAPH) {
            nc_graph *g = nc_edit_subgraph(n, name);
            NC_NEED(l->w, g);
            NC_TRY(nc_load_graph(l, pa.g, given.scope, g));
        } else {
            NC_TRY(nc_load_attr(l, given.b, &pa, &a));
            if (nc_edit_set_attr(n, &a) != NC_OK) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        }
    }
    return NC_OK;
}

static nc_code name_is_unknown(nc_loader *l, const nc_scope *s, const char *attr, const char *name) {
    nc_near near = {.wanted = name};
    char text[200];
    for (const nc_scope *at = s; at; at = at->up)
        for (size_t i = 0; i < at->names.cap; i++) {
            const nc_map_slot *slot = &at->names.slots[i];
            if (slot->value) nc_near_offer(&near, nc_arena_strn(&l->w->scratch, slot->key, slot->key_bytes));
        }
    NC_FAIL(l->w, NC_E_BAD_GRAPH, "attribute '%s' names '%.100s', which is not defined before this node%s", attr, name,
            nc_near_text(&near, text));
}

/* The values that attributes name become inputs, behind those of the file. */
static nc_code add_named(nc_loader *l, nc_scope *s, nc_node *n) {
    for (const char *const *attr = n->card->names_values; attr && *attr; attr++) {
        int count;
        const nc_str *names = nc_attr_strings(nc_node_attr(n, *attr), &count);
        for (int i = 0; i < count; i++) {
            nc_value *v;
            NC_TRY(nc_scope_find(l, s, (nc_bytes){(const unsigned char *)names[i].p, names[i].n}, &v));
            if (!v || v == &l->absent) return name_is_unknown(l, s, *attr, names[i].p);
            if (nc_edit_add_in(n, v) != NC_OK) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        }
    }
    return NC_OK;
}

nc_code nc_load_random_id(nc_loader *l, nc_bytes b, int64_t *out) {
    static const char key[] = NC_PB_RANDOM_KEY;
    nc_wire r;
    nc_field f;
    *out = 0;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, NodeProto_metadata_props, &f)) {
        nc_pb_entry e;
        NC_TRY(nc_pb_read_entry(l->w, f.b, &e));
        if (e.key.n != sizeof key - 1 || memcmp(e.key.p, key, e.key.n) != 0) continue;
        int64_t id = 0;
        bool ok = e.value.n > 0 && e.value.n <= 18;
        for (size_t i = 0; ok && i < e.value.n; i++) {
            ok = e.value.p[i] >= '0' && e.value.p[i] <= '9';
            id = id * 10 + (e.value.p[i] - '0');
        }
        if (!ok || id == 0) NC_FAIL(l->w, NC_E_BAD_MODEL, "metadata %s is not a positive number", key);
        if (id > l->max_random_id) l->max_random_id = id;
        *out = id;
        return NC_OK;
    }
    return NC_OK;
}

/* A random node's id, from its metadata or, when the whole model is read, from the model's counter. A function's own
 * metadata would give every call the same numbers: there the call's id goes to the first random node inside. */
static nc_code give_random_id(nc_loader *l, const nc_scope *s, nc_bytes b, nc_node *n) {
    if (s->call) {
        n->random_id = s->call->random_id;
        s->call->random_id = 0;
    } else {
        NC_TRY(nc_load_random_id(l, b, &n->random_id));
    }
    if (!n->random_id && !NC_PUSH(&l->w->scratch, l->random, n)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code define_outputs(nc_loader *l, nc_scope *s, nc_bytes b, nc_node *n) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (int i = 0; nc_wire_each(&r, NodeProto_output, &f); i++)
        if (f.b.n) NC_TRY(nc_scope_define(l, s, f.b, n->out[i]));
    return NC_OK;
}

/* What an in-place node updates is a variable: files say it as an initializer (save.h), whose new versions are
 * outputs. */
static nc_code find_variables(nc_loader *l, nc_node *n) {
    int n_updates = n->card->traits & NC_IN_PLACE ? n->card->n_updates : 0;
    for (int i = 0; i < n_updates && i < n->n_in && i < n->n_out; i++) {
        nc_value *v = n->in[i];
        if (!v || !n->out[i]) continue;
        if (v->origin == NC_FROM_CONST && !v->graph->parent && nc_edit_make_variable(v) != NC_OK)
            NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        if (v->var && v->var->last != v)
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "input %d '%.200s' is not the newest version of its variable", i, v->name);
        if (v->var) nc_edit_set_version(v->var, n->out[i]);
    }
    return NC_OK;
}

/* Documentation, metadata and fields of newer formats; a random id is written anew. */
static nc_code keep_extra(nc_loader *l, nc_bytes b, nc_node *n) {
    uint64_t known = NC_EXTRA_OF_NODE | NC_PB_BIT(NodeProto_input) | NC_PB_BIT(NodeProto_output) |
                     NC_PB_BIT(NodeProto_name) | NC_PB_BIT(NodeProto_op_type) | NC_PB_BIT(NodeProto_attribute) |
                     NC_PB_BIT(NodeProto_domain) | NC_PB_BIT(NodeProto_overload);
    return nc_load_extra(l, b, known, &n->extra);
}

nc_code nc_load_node(nc_loader *l, nc_scope *s, nc_bytes b) {
    nc_pb_node pb;
    head h;
    const nc_card *card = NULL;
    const nc_op_version *version = NULL;
    nc_function *fn;
    NC_TRY(nc_pb_read_node(l->w, b, &pb));
    NC_TRY(read_head(l, s, b, &pb, &h));
    NC_TRY(nc_load_find_function(l, h.domain, h.op, h.overload, &fn));
    if (fn) return nc_load_call(l, s, b, &pb, fn);
    if (!*h.domain && strcmp(h.op, "Constant") == 0) return load_constant(l, s, b, &pb);
    NC_TRY(find_card(l, s, &h, &card, &version));
    nc_value **in = nc_arena_array(&l->w->scratch, pb.input, sizeof *in);
    const char **out = nc_arena_array(&l->w->scratch, pb.output, sizeof *out);
    NC_NEED(l->w, in);
    NC_NEED(l->w, out);
    NC_TRY(nc_load_args(l, s, b, in));
    NC_TRY(load_output_names(l, s, b, out));
    nc_node *n =
        nc_edit_node(s->g, NULL, card, version, *h.name ? h.name : NULL, in, (int)pb.input, out, (int)pb.output);
    NC_NEED(l->w, n);
    NC_TRY(load_attrs(l, s, b, n));
    l->w->at_node = n->name;
    l->w->at_op = card->name;
    NC_TRY(add_named(l, s, n));
    if (card->traits & NC_RANDOM) NC_TRY(give_random_id(l, s, b, n));
    NC_TRY(keep_extra(l, b, n));
    NC_TRY(nc_node_check(l->w, n));
    NC_TRY(find_variables(l, n));
    return define_outputs(l, s, b, n);
}
