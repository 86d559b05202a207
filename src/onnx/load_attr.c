/* onnx/load_attr.c: AttributeProto to nc_attr: numbers, strings, lists of them, tensors, types. Graphs are read by
 * the node (load_node.c), references to a function's attributes are followed before (load_function.c). Kinds that no
 * operator takes are kept as bytes; only custom operators may have them. */
#include "onnx/loader.h"

#include "ir/assume.h"

#include <limits.h>
#include <string.h>

static int guess_type(const nc_pb_attribute *a) {
    if (NC_PB_HAS(*a, AttributeProto_f)) return NC_PB_A_FLOAT;
    if (NC_PB_HAS(*a, AttributeProto_i)) return NC_PB_A_INT;
    if (NC_PB_HAS(*a, AttributeProto_s)) return NC_PB_A_STRING;
    if (NC_PB_HAS(*a, AttributeProto_t)) return NC_PB_A_TENSOR;
    if (NC_PB_HAS(*a, AttributeProto_g)) return NC_PB_A_GRAPH;
    if (NC_PB_HAS(*a, AttributeProto_tp)) return NC_PB_A_TYPE;
    if (a->floats) return NC_PB_A_FLOATS;
    if (a->ints) return NC_PB_A_INTS;
    if (a->strings) return NC_PB_A_STRINGS;
    if (NC_PB_HAS(*a, AttributeProto_sparse_tensor)) return NC_PB_A_SPARSE;
    if (a->tensors) return NC_PB_A_TENSORS;
    if (a->graphs) return NC_PB_A_GRAPHS;
    if (a->type_protos) return NC_PB_A_TYPES;
    if (a->sparse_tensors) return NC_PB_A_SPARSES;
    return NC_PB_A_UNDEFINED;
}

nc_code nc_load_attr_type(nc_loader *l, const nc_pb_attribute *a, int *out) {
    int64_t type = a->type ? a->type : guess_type(a);
    const char *name;
    NC_TRY(nc_load_name(l, a->name, "AttributeProto.name", &name));
    if (!*name) NC_FAIL(l->w, NC_E_BAD_MODEL, "an attribute has no name");
    if (type <= 0 || type > NC_PB_A_TYPES)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.200s' has no valid type (%lld)", name, (long long)type);
    if (!a->type && l->m->ir_version >= NC_ONNX_IR_TYPED_ATTRIBUTES)
        NC_TRY(nc_assume(l->w, l->m, NC_ASSUME_ATTRIBUTE_TYPE, "attribute '%.100s' does not say its type", name));
    *out = (int)type;
    return NC_OK;
}

/* The list starts empty where the attribute has none: an empty list is a value too. */
static nc_code load_ints(nc_loader *l, nc_bytes b, size_t n, nc_attr *out) {
    int64_t *to = nc_arena_array(&l->w->scratch, n, sizeof *to);
    NC_NEED(l->w, to);
    out->ints = to;
    nc_wire r, packed;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, AttributeProto_ints, &f)) {
        uint64_t u = f.u;
        if (f.wire == NC_WIRE_VARINT) *to++ = (int64_t)u;
        nc_wire_init(&packed, f.b);
        while (packed.p < packed.end && nc_wire_varint(&packed, &u)) *to++ = (int64_t)u;
    }
    return NC_OK;
}

static nc_code load_floats(nc_loader *l, nc_bytes b, size_t n, nc_attr *out) {
    float *to = nc_arena_array(&l->w->scratch, n, sizeof *to);
    NC_NEED(l->w, to);
    out->floats = to;
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, AttributeProto_floats, &f)) {
        uint32_t bits = (uint32_t)f.u;
        if (f.wire == NC_WIRE_32) memcpy(to++, &bits, 4);
        if (f.b.n) memcpy(to, f.b.p, f.b.n); /* little-endian as the file is */
        to += f.b.n / 4;
    }
    return NC_OK;
}

static nc_code load_strings(nc_loader *l, nc_bytes b, size_t n, nc_attr *out) {
    nc_str *to = nc_arena_array(&l->w->scratch, n, sizeof *to);
    NC_NEED(l->w, to);
    out->strings = to;
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (; nc_wire_each(&r, AttributeProto_strings, &f); to++) {
        *to = (nc_str){nc_arena_strn(&l->w->scratch, (const char *)f.b.p, f.b.n), f.b.n};
        NC_NEED(l->w, to->p);
    }
    return NC_OK;
}

static nc_code load_string(nc_loader *l, nc_bytes s, nc_attr *out) {
    out->s = (nc_str){nc_arena_strn(&l->w->scratch, s.n ? (const char *)s.p : "", s.n), s.n};
    NC_NEED(l->w, out->s.p);
    return NC_OK;
}

static nc_code load_tensor(nc_loader *l, const nc_pb_attribute *a, nc_attr *out) {
    nc_pb_tensor t;
    nc_literal *lit;
    NC_TRY(nc_pb_read_tensor(l->w, a->t, &t));
    NC_TRY(nc_load_tensor(l, a->t, out->name, &t, &lit));
    out->tensor = lit;
    return NC_OK;
}

static nc_code load_type(nc_loader *l, const nc_pb_attribute *a, nc_attr *out) {
    NC_TRY(nc_load_type(l, a->tp, out->name, &out->type));
    if (!out->type) NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.200s' holds no type", out->name);
    return NC_OK;
}

nc_code nc_load_attr(nc_loader *l, nc_bytes b, const nc_pb_attribute *a, nc_attr *out) {
    int type;
    NC_TRY(nc_load_attr_type(l, a, &type));
    *out = (nc_attr){0};
    NC_TRY(nc_load_name(l, a->name, "AttributeProto.name", &out->name));
    size_t n = type == NC_PB_A_INTS      ? a->ints
               : type == NC_PB_A_FLOATS  ? a->floats
               : type == NC_PB_A_STRINGS ? a->strings
                                         : 0;
    if (n > INT_MAX) NC_FAIL(l->w, NC_E_LIMIT, "attribute '%.200s' has %zu elements", out->name, n);
    out->n = (int)n;
    switch (type) {
    case NC_PB_A_FLOAT:
        out->kind = NC_A_FLOAT;
        out->f = a->f;
        return NC_OK;
    case NC_PB_A_INT:
        out->kind = NC_A_INT;
        out->i = a->i;
        return NC_OK;
    case NC_PB_A_STRING: out->kind = NC_A_STRING; return load_string(l, a->s, out);
    case NC_PB_A_TENSOR: out->kind = NC_A_TENSOR; return load_tensor(l, a, out);
    case NC_PB_A_TYPE: out->kind = NC_A_TYPE; return load_type(l, a, out);
    case NC_PB_A_INTS: out->kind = NC_A_INTS; return load_ints(l, b, n, out);
    case NC_PB_A_FLOATS: out->kind = NC_A_FLOATS; return load_floats(l, b, n, out);
    case NC_PB_A_STRINGS: out->kind = NC_A_STRINGS; return load_strings(l, b, n, out);
    case NC_PB_A_TENSORS:
    case NC_PB_A_GRAPHS:
    case NC_PB_A_SPARSE:
    case NC_PB_A_SPARSES:
    case NC_PB_A_TYPES: out->kind = NC_A_OTHER; return load_string(l, b, out);
    default: NC_FAIL(l->w, NC_E_BAD_MODEL, "attribute '%.200s': a graph does not fit here", out->name);
    }
}
