/* api/value.c: public values are counted objects. */
#include "api/api.h"

#include "base/mem.h"

#include <string.h>

_Static_assert(NACRE_MAX_RANK == NC_MAX_RANK, "one limit inside and outside");

nacre_code nc_api_check_shape(nacre_type type, int rank, const int64_t *dims, size_t *bytes, nacre_error *err) {
    if (rank < 0 || rank > NC_MAX_RANK)
        return nc_api_fail(err, NC_E_ARGUMENT, "rank %d: expected 0 to %d", rank, NC_MAX_RANK);
    if (type != NACRE_STRING && !nc_dtype_bits((nc_dtype)type))
        return nc_api_fail(err, NC_E_TYPE, "%d is no element type", (int)type);
    int64_t n;
    if (!nc_numel(dims, rank, &n))
        return nc_api_fail(err, NC_E_SHAPE, "a dim is negative, or the tensor has too many elements");
    *bytes = 0;
    if (type != NACRE_STRING && !nc_tensor_bytes((nc_dtype)type, dims, rank, bytes))
        return nc_api_fail(err, NC_E_SHAPE, "the tensor is too large");
    return NACRE_OK;
}

/* What a buffer's release needs to call the caller's. */
typedef struct giver {
    void (*release)(void *owner);
    void *owner;
} giver;

static void give_back(nc_buffer *b) {
    giver *g = b->owner;
    g->release(g->owner);
    nc_free(g);
}

nacre_code nacre_value_tensor_owned(nacre_type type, int rank, const int64_t *dims, void *keeps_data,
                                    void (*release)(void *owner), void *owner, nacre_value **out, nacre_error *err) {
    giver *g = nc_alloc_zero(1, sizeof *g);
    if (!g) return nc_api_error(err, NC_E_MEMORY, NULL);
    *g = (giver){release, owner};
    nacre_code code = nacre_value_tensor(type, rank, dims, keeps_data, out, err);
    if (code != NACRE_OK) {
        nc_free(g);
        return code;
    }
    nc_buffer *b = nc_api_object(*out)->buffer;
    b->release = give_back, b->owner = g;
    return NACRE_OK;
}

nacre_code nacre_value_tensor(nacre_type type, int rank, const int64_t *dims, void *keeps_data, nacre_value **out,
                              nacre_error *err) {
    size_t bytes;
    nacre_code code = nc_api_check_shape(type, rank, dims, &bytes, err);
    if (code != NACRE_OK) return code;
    if (type == NACRE_STRING) return nc_api_fail(err, NC_E_TYPE, "use nacre_value_strings for strings");
    if (!keeps_data && bytes) return nc_api_fail(err, NC_E_ARGUMENT, "data is NULL");
    nc_buffer *b = nc_buffer_wrap(keeps_data, bytes, NULL, NULL);
    nc_object *o = b ? nc_object_tensor(b, (nc_dtype)type, rank, dims) : NULL;
    if (!o) return nc_api_error(err, NC_E_MEMORY, NULL);
    *out = nc_api_value(o);
    return NACRE_OK;
}

/* From the first element of a strided tensor to one behind the last, in elements; false: that cannot be addressed. */
static bool reach(int rank, const int64_t *dims, const int64_t *strides, int64_t *out) {
    int64_t last = 0;
    for (int d = 0; d < rank; d++) {
        if (dims[d] == 0) {
            *out = 0;
            return true;
        }
        int64_t step;
        if (strides[d] < 0 || __builtin_mul_overflow(dims[d] - 1, strides[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return !__builtin_add_overflow(last, 1, out);
}

nacre_code nacre_value_strided(nacre_type type, int rank, const int64_t *dims, const int64_t *strides, void *keeps_data,
                               void (*release)(void *owner), void *owner, nacre_value **out, nacre_error *err) {
    size_t bytes;
    int64_t n;
    nacre_code code = nc_api_check_shape(type, rank, dims, &bytes, err);
    if (code != NACRE_OK) return code;
    if (type == NACRE_STRING || nc_dtype_is_packed((nc_dtype)type))
        return nc_api_fail(err, NC_E_TYPE, "a tensor of %s is dense", nc_dtype_name((nc_dtype)type));
    if (!reach(rank, dims, strides, &n) || n > INT64_MAX / 16)
        return nc_api_fail(err, NC_E_ARGUMENT,
                           "strides must not be negative, and the last element must be addressable");
    code = release ? nacre_value_tensor_owned(type, rank, dims, keeps_data, release, owner, out, err)
                   : nacre_value_tensor(type, rank, dims, keeps_data, out, err);
    if (code != NACRE_OK) return code;
    nc_object *o = nc_api_object(*out);
    memcpy(o->t.strides, strides, (size_t)rank * sizeof *strides);
    o->buffer->bytes = (size_t)n * nc_dtype_bytes(o->t.dtype);
    return NACRE_OK;
}

nacre_code nacre_value_new_tensor(nacre_type type, int rank, const int64_t *dims, nacre_value **out, nacre_error *err) {
    size_t bytes;
    nacre_code code = nc_api_check_shape(type, rank, dims, &bytes, err);
    if (code != NACRE_OK) return code;
    nc_object *o = nc_object_host_tensor((nc_dtype)type, rank, dims);
    if (!o) return nc_api_error(err, NC_E_MEMORY, NULL);
    if (bytes) memset(o->t.data, 0, bytes);
    *out = nc_api_value(o);
    return NACRE_OK;
}

nacre_code nacre_value_strings_n(int rank, const int64_t *dims, const char *const *strings, const size_t *bytes,
                                 nacre_value **out, nacre_error *err) {
    size_t unused;
    int64_t n = 0;
    nacre_code code = nc_api_check_shape(NACRE_STRING, rank, dims, &unused, err);
    if (code != NACRE_OK) return code;
    if (!nc_numel(dims, rank, &n)) return nc_api_error(err, NC_E_SHAPE, NULL);
    nc_str *s = nc_alloc_zero((size_t)n + 1, sizeof *s);
    for (int64_t i = 0; s && i < n; i++)
        s[i] = (nc_str){.p = (char *)(uintptr_t)strings[i], .n = bytes ? bytes[i] : strlen(strings[i])};
    nc_object *o = s ? nc_object_strings(rank, dims, s) : NULL;
    nc_free(s);
    if (!o) return nc_api_error(err, NC_E_MEMORY, NULL);
    *out = nc_api_value(o);
    return NACRE_OK;
}

nacre_code nacre_value_strings(int rank, const int64_t *dims, const char *const *strings, nacre_value **out,
                               nacre_error *err) {
    return nacre_value_strings_n(rank, dims, strings, NULL, out, err);
}

static nacre_code make_list(nc_object_kind kind, nacre_type element, nacre_value *const *items, size_t n,
                            nacre_value **out, nacre_error *err) {
    for (size_t i = 0; i < n; i++)
        if (nc_object_on_device(nc_api_object(items[i])))
            return nc_api_fail(err, NC_E_ARGUMENT, "item %zu lies in a device's memory: copy it to the host first", i);
    nc_object *list = nc_object_list(kind, (nc_dtype)element);
    for (size_t i = 0; list && i < n; i++) {
        if (nc_object_push(list, nc_object_ref(nc_api_object(items[i])))) continue;
        nc_object_unref(list);
        list = NULL;
    }
    if (!list) return nc_api_error(err, NC_E_MEMORY, NULL);
    *out = nc_api_value(list);
    return NACRE_OK;
}

nacre_code nacre_value_sequence(nacre_type element, nacre_value *const *items, size_t n, nacre_value **out,
                                nacre_error *err) {
    return make_list(NC_OBJ_SEQUENCE, element, items, n, out, err);
}

nacre_code nacre_value_optional(nacre_type element, nacre_value *item, nacre_value **out, nacre_error *err) {
    return make_list(NC_OBJ_OPTIONAL, element, &item, item ? 1 : 0, out, err);
}

nacre_code nacre_value_map(nacre_value *keys, nacre_value *values, nacre_value **out, nacre_error *err) {
    const nc_object *k = nc_api_object(keys);
    if (k->kind != NC_OBJ_TENSOR || k->t.rank != 1)
        return nc_api_fail(err, NC_E_ARGUMENT, "a map's keys are a tensor of rank 1");
    if (nacre_value_count(values) != k->t.dims[0])
        return nc_api_fail(err, NC_E_SHAPE, "a map of %lld keys has %lld values", (long long)k->t.dims[0],
                           (long long)nacre_value_count(values));
    return make_list(NC_OBJ_MAP, (nacre_type)k->t.dtype, (nacre_value *const[]){keys, values}, 2, out, err);
}

nacre_value *nacre_value_ref(nacre_value *v) { return nc_api_value(nc_object_ref(nc_api_object(v))); }
void nacre_value_release(nacre_value *v) { nc_object_unref(nc_api_object(v)); }
nacre_kind nacre_value_kind(const nacre_value *v) { return (nacre_kind)nc_api_object(v)->kind; }
nacre_type nacre_value_type(const nacre_value *v) { return (nacre_type)nc_api_object(v)->t.dtype; }
int nacre_value_rank(const nacre_value *v) { return nc_api_object(v)->t.rank; }
const int64_t *nacre_value_dims(const nacre_value *v) { return nc_api_object(v)->t.dims; }

int64_t nacre_value_count(const nacre_value *v) {
    const nc_object *o = nc_api_object(v);
    return o->kind == NC_OBJ_TENSOR ? nc_tensor_numel(&o->t) : o->n;
}

void *nacre_value_data(nacre_value *v) {
    const nc_object *o = nc_api_object(v);
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype == NC_STRING) return NULL;
    if (nc_object_on_device(o) && o->buffer->device->table->lend)
        o->buffer->device->table->lend(o->buffer->device, o->t.data);
    return o->t.data;
}

size_t nacre_value_bytes(const nacre_value *v) {
    const nc_object *o = nc_api_object(v);
    size_t bytes = 0;
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype == NC_STRING) return 0;
    return nc_tensor_bytes(o->t.dtype, o->t.dims, o->t.rank, &bytes) ? bytes : 0;
}

const char *nacre_value_string(const nacre_value *v, int64_t i, size_t *bytes) {
    const nc_object *o = nc_api_object(v);
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype != NC_STRING || i < 0 || i >= nc_tensor_numel(&o->t)) return NULL;
    const nc_str *s = (const nc_str *)o->t.data + i;
    if (bytes) *bytes = s->n;
    return s->p ? s->p : "";
}

nacre_value *nacre_value_item(const nacre_value *v, int64_t i) {
    const nc_object *o = nc_api_object(v);
    if (o->kind == NC_OBJ_TENSOR || i < 0 || i >= o->n) return NULL;
    return nc_api_value(nc_object_ref(o->items[i]));
}
