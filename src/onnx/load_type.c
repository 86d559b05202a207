/* onnx/load_type.c: TypeProto to nc_type: tensors, sequences, optionals, maps. Sparse and opaque types are refused
 * by name. A dim is a number, a symbol by name, or, when the file leaves it open, a fresh symbol `<value>_dim<k>`. */
#include "onnx/loader.h"

#include "ir/dim_sign.h"

#include <string.h>

nc_code nc_load_dtype(nc_loader *l, int64_t number, const char *what, nc_dtype *out) {
    if (number > 0 && number < NC_N_DTYPES && nc_dtype_class((nc_dtype)number)) {
        *out = (nc_dtype)number;
        return NC_OK;
    }
    NC_FAIL(l->w, NC_E_BAD_MODEL, "%.200s: %lld is not an element type", what, (long long)number);
}

/* Some converters write the same sign for every dim they do not know: it ties none of them together. */
static bool says_nothing(nc_bytes name) {
    static const char *const signs[] = {"?", "-1", "None"};
    for (int i = 0; i < 3; i++)
        if (strlen(signs[i]) == name.n && memcmp(signs[i], name.p, name.n) == 0) return true;
    return false;
}

static nc_code load_dim(nc_loader *l, nc_bytes b, const char *name, int i, const nc_dim **out) {
    nc_pb_dim d;
    nc_dims *dims = l->m->dims;
    NC_TRY(nc_pb_read_dim(l->w, b, &d));
    if (NC_PB_HAS(d, Dimension_dim_value) && d.dim_value >= 0) {
        *out = nc_dim_const(dims, d.dim_value);
    } else if (d.dim_param.n && !says_nothing(d.dim_param)) {
        const char *sym;
        NC_TRY(nc_load_name(l, d.dim_param, "Dimension.dim_param", &sym));
        if (l->prefix) sym = nc_arena_printf(&l->w->scratch, "%s%s", l->prefix, sym); /* each call has its own */
        NC_NEED(l->w, sym);
        *out = nc_dim_declared(dims, sym);
    } else {
        char *hint = nc_arena_printf(&l->w->scratch, "%s_dim%d", name, i);
        NC_NEED(l->w, hint);
        const char *sign = "";
        if (d.dim_param.n) NC_TRY(nc_load_name(l, d.dim_param, "Dimension.dim_param", &sign));
        *out = *sign ? nc_dim_signed(dims, hint, sign) : nc_dim_fresh(dims, hint);
    }
    NC_NEED(l->w, *out);
    return NC_OK;
}

static nc_code load_tensor_type(nc_loader *l, nc_bytes b, const char *name, const nc_type **out) {
    nc_pb_tensor_type t;
    nc_pb_shape shape = {0};
    nc_dtype elem = NC_UNDEFINED;
    const nc_dim *dims[NC_MAX_RANK];
    NC_TRY(nc_pb_read_tensor_type(l->w, b, &t));
    *out = NULL;
    if (t.elem_type == 0) return NC_OK;
    NC_TRY(nc_load_dtype(l, t.elem_type, name, &elem));
    bool ranked = NC_PB_HAS(t, TypeProto_Tensor_shape);
    if (ranked) NC_TRY(nc_pb_read_shape(l->w, t.shape, &shape));
    if (shape.dim > NC_MAX_RANK)
        NC_FAIL(l->w, NC_E_LIMIT, "'%.200s' has %zu dims, at most %d are supported", name, shape.dim, NC_MAX_RANK);
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, t.shape);
    for (int i = 0; nc_wire_each(&r, TensorShapeProto_dim, &f); i++) NC_TRY(load_dim(l, f.b, name, i, &dims[i]));
    *out = nc_type_tensor(&l->m->arena, elem, ranked ? (int)shape.dim : -1, dims);
    NC_NEED(l->w, *out);
    return NC_OK;
}

static nc_code load_type(nc_loader *l, nc_bytes b, const char *name, int depth, const nc_type **out);

static nc_code load_holder(nc_loader *l, nc_bytes b, nc_type_kind kind, const char *name, int depth,
                           const nc_type **out) {
    nc_pb_holder h;
    const nc_type *of = NULL;
    NC_TRY(nc_pb_read_holder(l->w, b, &h));
    if (NC_PB_HAS(h, TypeProto_Sequence_elem_type)) NC_TRY(load_type(l, h.elem_type, name, depth + 1, &of));
    *out = nc_type_holding(&l->m->arena, kind, of);
    NC_NEED(l->w, *out);
    return NC_OK;
}

static nc_code load_map(nc_loader *l, nc_bytes b, const char *name, int depth, const nc_type **out) {
    nc_pb_map m;
    nc_type t = {.kind = NC_T_MAP};
    NC_TRY(nc_pb_read_map(l->w, b, &m));
    NC_TRY(nc_load_dtype(l, m.key_type, name, &t.elem));
    if (NC_PB_HAS(m, TypeProto_Map_value_type)) NC_TRY(load_type(l, m.value_type, name, depth + 1, &t.of));
    *out = nc_arena_copy(&l->m->arena, &t, sizeof t);
    NC_NEED(l->w, *out);
    return NC_OK;
}

static nc_code load_type(nc_loader *l, nc_bytes b, const char *name, int depth, const nc_type **out) {
    nc_pb_type t;
    if (depth > NC_ONNX_MAX_DEPTH)
        NC_FAIL(l->w, NC_E_LIMIT, "the type of '%.200s' is nested deeper than %d", name, NC_ONNX_MAX_DEPTH);
    NC_TRY(nc_pb_read_type(l->w, b, &t));
    *out = NULL;
    if (NC_PB_HAS(t, TypeProto_opaque_type) || (NC_PB_HAS(t, TypeProto_sparse_tensor_type) && depth > 0))
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "'%.200s': %s is not supported", name,
                NC_PB_HAS(t, TypeProto_opaque_type) ? "opaque_type" : "sparse_tensor_type inside of another type");
    if (NC_PB_HAS(t, TypeProto_sparse_tensor_type)) return load_tensor_type(l, t.sparse_tensor_type, name, out);
    if (NC_PB_HAS(t, TypeProto_tensor_type)) return load_tensor_type(l, t.tensor_type, name, out);
    if (NC_PB_HAS(t, TypeProto_sequence_type)) return load_holder(l, t.sequence_type, NC_T_SEQUENCE, name, depth, out);
    if (NC_PB_HAS(t, TypeProto_optional_type)) return load_holder(l, t.optional_type, NC_T_OPTIONAL, name, depth, out);
    if (NC_PB_HAS(t, TypeProto_map_type)) return load_map(l, t.map_type, name, depth, out);
    return NC_OK;
}

nc_code nc_load_type(nc_loader *l, nc_bytes b, const char *name, const nc_type **out) {
    return load_type(l, b, name, 0, out);
}

nc_code nc_load_sparse_type(nc_loader *l, nc_bytes b, const char *name, const nc_type **out) {
    nc_pb_type t;
    const nc_type *dense;
    NC_TRY(nc_pb_read_type(l->w, b, &t));
    *out = NULL;
    if (!NC_PB_HAS(t, TypeProto_sparse_tensor_type)) return NC_OK;
    NC_TRY(load_tensor_type(l, t.sparse_tensor_type, name, &dense));
    nc_type sparse = *dense;
    sparse.kind = NC_T_SPARSE;
    *out = nc_arena_copy(&l->m->arena, &sparse, sizeof sparse);
    NC_NEED(l->w, *out);
    return NC_OK;
}
