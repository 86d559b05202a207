/* onnx/load_tensor.c: TensorProto to nc_literal. raw_data stays where it lies; typed fields are decoded into the
 * model's arena; external data is load_external.c. The element count that the dims say must be the one the bytes
 * hold, and it is checked before anything is allocated. */
#include "onnx/loader.h"

#include "base/narrow.h"

#include <string.h>

static nc_code load_dims(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal *lit) {
    if (t->dims > NC_MAX_RANK)
        NC_FAIL(l->w, NC_E_LIMIT, "tensor '%.200s' has %zu dims, at most %d are supported", what, t->dims, NC_MAX_RANK);
    int64_t dims[NC_MAX_RANK];
    nc_wire r, packed;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, TensorProto_dims, &f)) {
        if (f.wire == NC_WIRE_VARINT) {
            dims[lit->rank++] = (int64_t)f.u;
            continue;
        }
        nc_wire_init(&packed, f.b);
        for (uint64_t u; packed.p < packed.end && nc_wire_varint(&packed, &u);) dims[lit->rank++] = (int64_t)u;
    }
    if (!nc_numel(dims, lit->rank, &lit->n))
        NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s': a dim is negative or their product overflows", what);
    lit->dims = nc_arena_copy(&l->m->arena, dims, (size_t)lit->rank * sizeof *dims);
    NC_NEED(l->w, lit->dims);
    return NC_OK;
}

static nc_code load_raw(nc_loader *l, const char *what, nc_bytes raw, nc_literal *lit) {
    if (raw.n != lit->bytes)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s': raw_data has %zu bytes, the dims need %zu", what, raw.n,
                lit->bytes);
    lit->keeps = l->keeps;
    lit->data = raw.n == 0 || l->keeps ? raw.p : nc_arena_copy(&l->m->arena, raw.p, raw.n);
    if (raw.n) NC_NEED(l->w, lit->data);
    return NC_OK;
}

/* Which typed field holds elements of this type, how many of its numbers make one element, how many it has. */
static nc_slot_kind typed_field(const nc_pb_tensor *t, nc_dtype type, uint32_t *number, size_t *per_elem, size_t *n) {
    *per_elem = 1;
    switch (type) {
    case NC_COMPLEX64: *per_elem = 2; /* fall through */
    case NC_FLOAT:
        *number = TensorProto_float_data;
        *n = t->float_data;
        return NC_SLOT_FLOATS;
    case NC_COMPLEX128: *per_elem = 2; /* fall through */
    case NC_DOUBLE:
        *number = TensorProto_double_data;
        *n = t->double_data;
        return NC_SLOT_DOUBLES;
    case NC_INT64:
        *number = TensorProto_int64_data;
        *n = t->int64_data;
        return NC_SLOT_INTS;
    case NC_UINT32:
    case NC_UINT64:
        *number = TensorProto_uint64_data;
        *n = t->uint64_data;
        return NC_SLOT_INTS;
    default:
        *number = TensorProto_int32_data;
        *n = t->int32_data;
        return NC_SLOT_INTS;
    }
}

/* Elements of 4 and 2 bits come as whole bytes in typed fields too, those of 6 bits one by one. */
static bool by_bytes(nc_dtype type) { return nc_dtype_is_packed(type) && 8 % nc_dtype_bits(type) == 0; }

/* Writes a number as one element of `size` bytes; false: it does not fit the type. */
static bool put_number(nc_dtype type, nc_slot_kind kind, size_t size, uint64_t u, uint8_t *to) {
    if (by_bytes(type)) { /* some writers spread the sign of the byte */
        int64_t b = (int32_t)u;
        *to = (uint8_t)b;
        return b >= -128 && b <= 255;
    }
    if (size == 8 || kind != NC_SLOT_INTS) {
        memcpy(to, &u, size);
        return true;
    }
    int64_t v = nc_dtype_is_float(type) || type == NC_UINT32 ? (int64_t)u : (int32_t)u;
    int bits = (int)size * 8;
    int64_t low = nc_dtype_class(type) == 'I' ? -((int64_t)1 << (bits - 1)) : 0;
    int64_t high = nc_dtype_class(type) == 'I' ? -low - 1 : ((int64_t)1 << bits) - 1;
    if (type == NC_BOOL) high = 1;
    if (v < low || v > high) return false;
    uint32_t x = (uint32_t)v;
    memcpy(to, &x, size); /* both architectures are little-endian */
    return true;
}

static nc_code load_typed(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal *lit) {
    uint32_t number;
    size_t per_elem, n;
    nc_slot_kind kind = typed_field(t, lit->dtype, &number, &per_elem, &n);
    size_t expected = by_bytes(lit->dtype) ? lit->bytes : (size_t)lit->n;
    if (n % per_elem || n / per_elem != expected)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s' of %s holds %zu %s, the dims need %zu", what,
                nc_dtype_name(lit->dtype), n / per_elem, by_bytes(lit->dtype) ? "bytes" : "elements", expected);
    uint8_t *to = nc_arena_array(&l->m->arena, lit->bytes, 1);
    NC_NEED(l->w, to);
    lit->data = to;
    size_t size = by_bytes(lit->dtype) ? 1 : nc_dtype_bytes(lit->dtype) / per_elem;
    int64_t i = 0; /* of packed elements that come one by one */
    if (lit->bytes > 0) to[lit->bytes - 1] = 0;
    nc_wire r, in;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, number, &f)) {
        if (kind != NC_SLOT_INTS && f.wire == NC_WIRE_BYTES) { /* they lie as the elements do */
            if (f.b.n) memcpy(to, f.b.p, f.b.n);
            to += f.b.n;
            continue;
        }
        nc_wire_init(&in, f.b);
        uint64_t u = f.u;
        do {
            if (f.wire == NC_WIRE_BYTES && !nc_wire_varint(&in, &u)) break;
            bool fits = size > 0 ? put_number(lit->dtype, kind, size, u, to) : u < 1u << nc_dtype_bits(lit->dtype);
            if (size == 0 && fits) nc_narrow_store(lit->dtype, to, i++, (uint8_t)u);
            if (!fits)
                NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s': %lld is not a value of %s", what, (long long)u,
                        nc_dtype_name(lit->dtype));
            to += size;
        } while (in.p < in.end);
    }
    return NC_OK;
}

static nc_code load_strings(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal *lit) {
    if (t->string_data != (uint64_t)lit->n)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s' holds %zu strings, the dims need %lld", what, t->string_data,
                (long long)lit->n);
    nc_str *to = nc_arena_array(&l->m->arena, t->string_data, sizeof *to);
    NC_NEED(l->w, to);
    lit->data = to;
    lit->bytes = t->string_data * sizeof *to;
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    for (; nc_wire_each(&r, TensorProto_string_data, &f); to++) {
        *to = (nc_str){nc_arena_strn(&l->m->arena, (const char *)f.b.p, f.b.n), f.b.n};
        NC_NEED(l->w, to->p);
    }
    return NC_OK;
}

static nc_code load_data(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal *lit) {
    if (t->data_location != 0 && t->data_location != 1)
        NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s': data_location is %lld", what, (long long)t->data_location);
    bool inside = t->raw_data.n || t->float_data || t->int32_data || t->string_data || t->int64_data ||
                  t->double_data || t->uint64_data;
    if (lit->dtype == NC_STRING) {
        if (t->data_location == 1 || t->raw_data.n)
            NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s': strings must lie in string_data", what);
        return load_strings(l, b, what, t, lit);
    }
    if (!nc_tensor_bytes(lit->dtype, lit->dims, lit->rank, &lit->bytes))
        NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s': its size overflows", what);
    if (t->data_location == 1) {
        if (inside) NC_FAIL(l->w, NC_E_BAD_MODEL, "tensor '%.200s' has external data and data of its own", what);
        return nc_load_external(l, b, what, lit);
    }
    if (t->raw_data.n == 0 && inside) return load_typed(l, b, what, t, lit);
    return load_raw(l, what, t->raw_data, lit);
}

static nc_code keep_extra(nc_loader *l, nc_bytes b, nc_literal *lit) {
#define BIT(message, number, kind, field) | NC_PB_BIT(number)
    return nc_load_extra(l, b, 0 NC_PB_TENSOR(BIT), &lit->extra);
#undef BIT
}

nc_code nc_load_tensor(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_literal **out) {
    nc_literal *lit = nc_arena_alloc(&l->m->arena, sizeof *lit);
    NC_NEED(l->w, lit);
    if (NC_PB_HAS(*t, TensorProto_segment))
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "tensor '%.200s': TensorProto.segment is not supported", what);
    NC_TRY(nc_load_dtype(l, t->data_type, what, &lit->dtype));
    NC_TRY(load_dims(l, b, what, t, lit));
    NC_TRY(load_data(l, b, what, t, lit));
    NC_TRY(keep_extra(l, b, lit));
    *out = lit;
    return NC_OK;
}

/* ---- contents that the caller gives ---- */

nc_object *nc_load_find_given(const nc_loader *l, const char *name) {
    for (int i = 0; l->given && i < l->given->n; i++)
        if (strcmp(l->given->names[i], name) == 0) return l->given->tensors[i];
    return NULL;
}

static bool same_shape(const nc_literal *lit, const nc_tensor *t) {
    if (lit->dtype != t->dtype || lit->rank != t->rank) return false;
    for (int d = 0; d < t->rank; d++)
        if (lit->dims[d] != t->dims[d]) return false;
    return true;
}

nc_code nc_load_given(nc_loader *l, nc_bytes b, const char *what, const nc_pb_tensor *t, nc_object *o,
                      nc_literal **out) {
    nc_literal *lit = nc_arena_alloc(&l->m->arena, sizeof *lit);
    NC_NEED(l->w, lit);
    NC_TRY(nc_load_dtype(l, t->data_type, what, &lit->dtype));
    NC_TRY(load_dims(l, b, what, t, lit));
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype == NC_STRING || nc_object_on_device(o))
        NC_FAIL(l->w, NC_E_TYPE, "initializer '%.200s': only a tensor of numbers in host memory can be given", what);
    if (!same_shape(lit, &o->t))
        NC_FAIL(l->w, NC_E_SHAPE, "initializer '%.200s': what was given has another type or shape than the model's %s",
                what, nc_dtype_name(lit->dtype));
    if (!nc_tensor_bytes(lit->dtype, lit->dims, lit->rank, &lit->bytes))
        NC_FAIL(l->w, NC_E_LIMIT, "initializer '%.200s': its size overflows", what);
    if (!NC_PUSH(&l->m->arena, l->m->buffers, o->buffer)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    lit->keeps = nc_buffer_ref(o->buffer);
    lit->data = o->t.data;
    *out = lit;
    return NC_OK;
}
