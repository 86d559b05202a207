/* onnx/load_function.c: model-local functions. A call is replaced by the function's nodes while the graph is read: the
 * body's bytes are read again for every call, with the actual values under the formal names, so the work is linear in
 * the nodes that come out. Values and nodes inside a call are named `<function>_<number of the call>/<name>`, outputs
 * as the caller names them. The function's own opset imports decide the versions of its nodes. Recursion and calls
 * nested too deeply are refused by name. */
#include "onnx/loader.h"

#include <limits.h>
#include <string.h>

#define SHOW(b) (int)((b).n < 200 ? (b).n : 200), (const char *)(b).p
#define SHOWN_IN_NAMES 64 /* bytes of a function's name in the names of its values */

/* ---- the functions of a model ---- */

static const char *key_of(nc_loader *l, const char *domain, const char *name, const char *overload) {
    return nc_arena_printf(&l->w->scratch, "%s|%s|%s", domain, name, overload);
}

static nc_code read_formals(nc_loader *l, nc_bytes b, uint32_t number, size_t n, nc_bytes **out, int *n_out) {
    if (n > INT_MAX) NC_FAIL(l->w, NC_E_LIMIT, "a function has %zu inputs or outputs", n);
    *out = nc_arena_array(&l->w->scratch, n, sizeof **out);
    NC_NEED(l->w, *out);
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, number, &f)) (*out)[(*n_out)++] = f.b;
    return NC_OK;
}

static nc_code note_function(nc_loader *l, nc_bytes b) {
    nc_pb_function pb;
    const char *domain, *overload;
    nc_function *fn = nc_arena_alloc(&l->w->scratch, sizeof *fn);
    NC_NEED(l->w, fn);
    fn->b = b;
    NC_TRY(nc_pb_read_function(l->w, b, &pb));
    NC_TRY(nc_load_name(l, pb.name, "FunctionProto.name", &fn->name));
    NC_TRY(nc_load_name(l, pb.domain, "FunctionProto.domain", &domain));
    NC_TRY(nc_load_name(l, pb.overload, "FunctionProto.overload", &overload));
    if (!*fn->name) NC_FAIL(l->w, NC_E_BAD_MODEL, "a function has no name");
    if (strcmp(domain, "ai.onnx") == 0) domain = "";
    NC_TRY(read_formals(l, b, FunctionProto_input, pb.input, &fn->in, &fn->n_in));
    NC_TRY(read_formals(l, b, FunctionProto_output, pb.output, &fn->out, &fn->n_out));
    NC_TRY(nc_load_opsets(l, b, FunctionProto_opset_import, pb.opset_import, &fn->opsets, &fn->n_opsets));
    const char *key = key_of(l, domain, fn->name, overload);
    NC_NEED(l->w, key);
    if (nc_map_get(&l->functions, key))
        NC_FAIL(l->w, NC_E_BAD_MODEL, "function '%.200s' of domain '%.100s' is there twice", fn->name, domain);
    if (!nc_map_put(&l->functions, key, fn)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

nc_code nc_load_functions(nc_loader *l, nc_bytes b) {
    nc_wire r;
    nc_field f;
    nc_map_init(&l->functions, &l->w->scratch);
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, ModelProto_functions, &f)) NC_TRY(note_function(l, f.b));
    return NC_OK;
}

nc_code nc_load_find_function(nc_loader *l, const char *domain, const char *op, const char *overload,
                              nc_function **out) {
    *out = NULL;
    if (!l->functions.n) return NC_OK;
    const char *key = key_of(l, domain, op, overload);
    NC_NEED(l->w, key);
    *out = nc_map_get(&l->functions, key);
    return NC_OK;
}

int64_t nc_scope_opset(const nc_loader *l, const nc_scope *s, const char *domain) {
    const nc_function *fn = s->call ? s->call->fn : NULL;
    for (int i = 0; fn && i < fn->n_opsets; i++)
        if (strcmp(fn->opsets[i].domain, domain) == 0) return fn->opsets[i].version;
    return nc_model_opset(l->m, domain);
}

/* ---- attributes ---- */

nc_code nc_load_resolve(nc_loader *l, nc_scope *s, nc_bytes b, nc_given *g, nc_pb_attribute *pa, bool *there) {
    *g = (nc_given){b, s};
    *there = true;
    NC_TRY(nc_pb_read_attribute(l->w, b, pa));
    if (!pa->ref_attr_name.n) return NC_OK;
    if (!s->call)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.*s' has ref_attr_name outside a function", SHOW(pa->name));
    const nc_given *given = nc_map_get_bytes(&s->call->attrs, pa->ref_attr_name.p, pa->ref_attr_name.n);
    *there = given != NULL;
    if (!given) return NC_OK;
    nc_bytes name = pa->name;
    int64_t type = pa->type;
    *g = *given;
    NC_TRY(nc_pb_read_attribute(l->w, g->b, pa));
    if (type && pa->type && type != pa->type)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.*s' is of type %lld, the function '%.100s' is given type %lld",
                SHOW(name), (long long)type, s->call->fn->name, (long long)pa->type);
    pa->name = name;
    return NC_OK;
}

static nc_code give_attr(nc_loader *l, nc_call *c, nc_bytes name, const nc_given *g) {
    nc_given *copy = nc_arena_copy(&l->w->scratch, g, sizeof *g);
    NC_NEED(l->w, copy);
    if (!nc_map_put_bytes(&c->attrs, name.p, name.n, copy)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* What the node says, then the function's defaults, whose graphs see the names of the body. */
static nc_code give_attrs(nc_loader *l, nc_scope *s, nc_bytes b, nc_call *c, nc_scope *body) {
    nc_wire r;
    nc_field f;
    nc_given g;
    nc_pb_attribute pa;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, NodeProto_attribute, &f)) {
        bool there;
        NC_TRY(nc_load_resolve(l, s, f.b, &g, &pa, &there));
        if (there && nc_map_get_bytes(&c->attrs, pa.name.p, pa.name.n))
            NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.*s' is there twice", SHOW(pa.name));
        if (there) NC_TRY(give_attr(l, c, pa.name, &g));
    }
    nc_wire_init(&r, c->fn->b);
    while (nc_wire_each(&r, FunctionProto_attribute_proto, &f)) {
        NC_TRY(nc_pb_read_attribute(l->w, f.b, &pa));
        g = (nc_given){f.b, body};
        if (!nc_map_get_bytes(&c->attrs, pa.name.p, pa.name.n)) NC_TRY(give_attr(l, c, pa.name, &g));
    }
    return NC_OK;
}

/* ---- calls ---- */

static nc_code check_call(nc_loader *l, const nc_pb_node *pb, const nc_function *fn) {
    if (fn->open) NC_FAIL(l->w, NC_E_BAD_GRAPH, "function '%.200s' calls itself", fn->name);
    if (l->n_open >= NC_ONNX_MAX_CALLS)
        NC_FAIL(l->w, NC_E_LIMIT, "function '%.200s': calls are nested deeper than %d", fn->name, NC_ONNX_MAX_CALLS);
    if (pb->input > (size_t)fn->n_in)
        NC_FAIL(l->w, NC_E_BAD_GRAPH, "function '%.200s' takes at most %d inputs, got %zu", fn->name, fn->n_in,
                pb->input);
    if (pb->output > (size_t)fn->n_out)
        NC_FAIL(l->w, NC_E_BAD_GRAPH, "function '%.200s' gives %d outputs, not %zu", fn->name, fn->n_out, pb->output);
    return NC_OK;
}

static nc_code bind_inputs(nc_loader *l, nc_scope *s, nc_bytes b, const nc_pb_node *pb, nc_scope *body) {
    const nc_function *fn = body->call->fn;
    nc_value **in = nc_arena_array(&l->w->scratch, pb->input, sizeof *in);
    NC_NEED(l->w, in);
    NC_TRY(nc_load_args(l, s, b, in));
    for (int i = 0; i < fn->n_in; i++) {
        nc_value *v = (size_t)i < pb->input && in[i] ? in[i] : &l->absent;
        if (nc_map_get_bytes(&body->names, fn->in[i].p, fn->in[i].n))
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "function '%.200s': input '%.*s' is there twice", fn->name, SHOW(fn->in[i]));
        if (!nc_map_put_bytes(&body->names, fn->in[i].p, fn->in[i].n, v)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code name_outputs(nc_loader *l, nc_scope *s, nc_bytes b, nc_call *c) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (int i = 0; nc_wire_each(&r, NodeProto_output, &f); i++) {
        const char *label;
        if (!f.b.n) continue;
        NC_TRY(nc_scope_check_free(l, s, f.b));
        NC_TRY(nc_scope_label(l, s, f.b, "NodeProto.output", &label));
        if (!nc_map_put_bytes(&c->outs, c->fn->out[i].p, c->fn->out[i].n, (void *)(uintptr_t)label))
            NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code bind_outputs(nc_loader *l, nc_scope *s, nc_bytes b, nc_scope *body) {
    const nc_function *fn = body->call->fn;
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (int i = 0; nc_wire_each(&r, NodeProto_output, &f); i++) {
        if (!f.b.n) continue;
        nc_value *v = nc_map_get_bytes(&body->names, fn->out[i].p, fn->out[i].n);
        if (!v || v == &l->absent)
            NC_FAIL(l->w, NC_E_BAD_GRAPH, "function '%.200s': output '%.*s' is not defined", fn->name,
                    SHOW(fn->out[i]));
        NC_TRY(nc_scope_define(l, s, f.b, v));
    }
    return NC_OK;
}

static nc_code read_call(nc_loader *l, nc_scope *s, nc_bytes b, const nc_pb_node *pb, nc_scope *body) {
    const char *node = l->w->at_node, *op = l->w->at_op, *prefix = l->prefix;
    NC_TRY(bind_inputs(l, s, b, pb, body));
    NC_TRY(give_attrs(l, s, b, body->call, body));
    NC_TRY(nc_load_random_id(l, b, &body->call->random_id));
    if (s->call) body->call->random_id = 0;
    NC_TRY(name_outputs(l, s, b, body->call));
    l->prefix = body->prefix;
    NC_TRY(nc_load_nodes(l, body, body->call->fn->b, FunctionProto_node));
    l->prefix = prefix;
    l->w->at_node = node;
    l->w->at_op = op;
    return bind_outputs(l, s, b, body);
}

nc_code nc_load_call(nc_loader *l, nc_scope *s, nc_bytes b, const nc_pb_node *pb, nc_function *fn) {
    NC_TRY(check_call(l, pb, fn));
    nc_call call = {.fn = fn};
    nc_scope body = {.g = s->g, .call = &call, .body = true};
    body.prefix = nc_arena_printf(&l->w->scratch, "%.*s_%lld/", SHOWN_IN_NAMES, fn->name, (long long)++l->n_calls);
    NC_NEED(l->w, body.prefix);
    nc_map_init(&call.attrs, &l->w->scratch);
    nc_map_init(&call.outs, &l->w->scratch);
    nc_map_init(&body.names, &l->w->scratch);
    nc_map_init(&body.infos, &l->w->scratch);
    fn->open = true;
    l->n_open++;
    nc_code code = read_call(l, s, b, pb, &body);
    l->n_open--;
    fn->open = false;
    return code;
}
