/* run/state_var.c: the memory of one variable: room that grows in buckets, contents in and out. The rows of a growing
 * variable lie apart by its capacity. Names and who may hold it are in state.c. */
#include "run/state.h"

#include <string.h>

/* The next power of two, at least 16; what is too large for one is returned as it is, and refused for its bytes. */
static int64_t bucket(int64_t n) {
    int64_t cap = 16;
    if (n > INT64_MAX / 2) return n;
    while (cap < n) cap *= 2;
    return cap;
}

static nc_code room_bytes(nc_work *w, const nc_state_var *v, const int64_t *dims, int64_t cap, size_t *out) {
    int64_t d[NC_MAX_RANK];
    memcpy(d, dims, (size_t)v->rank * sizeof *d);
    if (v->grow_axis >= 0) d[v->grow_axis] = cap;
    if (nc_dtype_is_packed(v->dtype) && v->grow_axis >= 0)
        NC_FAIL(w, NC_E_UNSUPPORTED, "a variable of %s cannot grow", nc_dtype_name(v->dtype));
    if (!nc_tensor_bytes(v->dtype, d, v->rank, out)) NC_FAIL(w, NC_E_LIMIT, "variable too large");
    return NC_OK;
}

void nc_state_tensor(const nc_state_var *v, const int64_t *dims, nc_tensor *t) {
    int64_t room[NC_MAX_RANK];
    nc_tensor_set(t, v->buffer ? v->buffer->ptr : NULL, v->dtype, v->rank);
    memcpy(t->dims, dims, (size_t)v->rank * sizeof *t->dims);
    memcpy(room, dims, (size_t)v->rank * sizeof *room);
    if (v->grow_axis >= 0) room[v->grow_axis] = v->cap;
    nc_dense_strides(room, v->rank, t->strides);
}

bool nc_state_var_is_dense(const nc_state_var *v) {
    int64_t outer = 1;
    for (int d = 0; d < v->grow_axis; d++) outer *= v->dims[d];
    return v->grow_axis < 0 || outer <= 1 || v->cap == v->dims[v->grow_axis];
}

nc_code nc_state_var_grow(nc_work *w, nc_state_var *v, int axis) {
    if (v->grow_axis == axis) return NC_OK;
    if (v->grow_axis >= 0)
        NC_FAIL(w, NC_E_STATE, "expected one that grows along axis %d, got one that grows along axis %d", axis,
                v->grow_axis);
    v->grow_axis = axis, v->cap = v->dims[axis], v->fixed[axis] = -1;
    return NC_OK;
}

/* Copies the outer blocks of a tensor whose rows along the grow axis lie apart by `from` and `to`. */
static nc_code copy_rows(nc_work *w, const nc_state_var *v, void *dst, bool dst_host, int64_t to, const void *src,
                         bool src_host, int64_t from) {
    size_t bits = nc_dtype_bits(v->dtype);
    int64_t outer = 1, inner = 1, n = v->grow_axis >= 0 ? v->dims[v->grow_axis] : 1;
    for (int d = 0; d < v->rank; d++) {
        if (d < v->grow_axis) outer *= v->dims[d];
        if (d > v->grow_axis) inner *= v->dims[d];
    }
    size_t row = (size_t)inner / 8 * bits + ((size_t)inner % 8 * bits + 7) / 8; /* packed ones have one row */
    for (int64_t o = 0; o < outer && n && row; o++) {
        char *to_p = (char *)dst + (size_t)(o * to) * row;
        const char *from_p = (const char *)src + (size_t)(o * from) * row;
        NC_TRY(v->device->table->copy(v->device, NULL, to_p, dst_host, from_p, src_host, (size_t)n * row, &w->diag));
    }
    return v->device->table->stream_sync(v->device, NULL, &w->diag);
}

/* A lent variable has the memory it was lent with. */
static nc_code refuse_other_memory(nc_work *w, const nc_state_var *v, const int64_t *dims) {
    for (int d = 0; d < v->rank; d++)
        if (dims[d] != v->dims[d])
            NC_FAIL(w, NC_E_STATE,
                    "axis %d: expected %lld, got %lld: it lies in the caller's memory, which has no other "
                    "room",
                    d, (long long)v->dims[d], (long long)dims[d]);
    return NC_OK;
}

nc_code nc_state_reserve(nc_work *w, nc_state_var *v, const int64_t *dims) {
    bool same = v->buffer != NULL, on_host = v->device->table->host_memory;
    for (int d = 0; d < v->rank; d++)
        if (d != v->grow_axis) same &= v->dims[d] == dims[d];
    int64_t want = v->grow_axis >= 0 ? dims[v->grow_axis] : 1;
    if (same && (v->grow_axis < 0 || want <= v->cap)) return NC_OK;
    if (v->lent) return refuse_other_memory(w, v, dims);
    int64_t cap = v->grow_axis >= 0 ? bucket(want) : 1;
    size_t bytes;
    NC_TRY(room_bytes(w, v, dims, cap, &bytes));
    nc_buffer *b = nc_env_buffer(v->env, v->device, v->budget, bytes, &w->diag);
    if (!b) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    if (same && v->set) {
        nc_code code = copy_rows(w, v, b->ptr, on_host, cap, v->buffer->ptr, on_host, v->cap);
        if (code != NC_OK) {
            nc_buffer_unref(b);
            return code;
        }
    }
    nc_buffer_unref(v->buffer);
    v->buffer = b, v->cap = cap;
    if (!same) {
        memcpy(v->dims, dims, (size_t)v->rank * sizeof *dims);
        v->set = false;
    }
    return NC_OK;
}

nc_code nc_state_var_fill(nc_work *w, nc_state_var *v, const int64_t *dims, const void *host) {
    NC_TRY(nc_state_reserve(w, v, dims));
    bool on_host = v->device->table->host_memory;
    size_t bytes;
    memcpy(v->dims, dims, (size_t)v->rank * sizeof *dims);
    NC_TRY(room_bytes(w, v, dims, v->cap, &bytes));
    v->dirty = true;
    if (host) {
        NC_TRY(copy_rows(w, v, v->buffer->ptr, on_host, v->grow_axis >= 0 ? v->cap : 1, host, true,
                         v->grow_axis >= 0 ? dims[v->grow_axis] : 1));
    } else if (bytes) {
        NC_TRY(v->device->table->fill(v->device, NULL, v->buffer->ptr, 0, bytes, &w->diag));
        NC_TRY(v->device->table->stream_sync(v->device, NULL, &w->diag));
    }
    v->set = true, v->dirty = false;
    return NC_OK;
}

nc_code nc_state_var_read(nc_work *w, const nc_state_var *v, nc_object **out) {
    nc_object *o = nc_object_host_tensor(v->dtype, v->rank, v->dims);
    NC_NEED(w, o);
    int64_t to = v->grow_axis >= 0 ? v->dims[v->grow_axis] : 1, from = v->grow_axis >= 0 ? v->cap : 1;
    nc_code code = copy_rows(w, v, o->t.data, true, to, v->buffer->ptr, v->device->table->host_memory, from);
    if (code != NC_OK) {
        nc_object_unref(o);
        return code;
    }
    *out = o;
    return NC_OK;
}
