/* base/object.c: counted values: tensors, string tensors and lists of objects. Counting is atomic; changing an
 * object is for its only holder. Device memory is held through the buffer and never touched here. */
#include "base/object.h"

#include "base/mem.h"

#include <string.h>

static nc_object *new_object(nc_object_kind kind) {
    nc_object *o = nc_alloc(sizeof *o); /* clearing the room for dims would cost more than the rest */
    if (!o) return NULL;
    atomic_init(&o->refs, 1);
    o->kind = kind;
    nc_tensor_set(&o->t, NULL, NC_UNDEFINED, 0);
    o->buffer = NULL;
    o->items = NULL;
    o->n = o->cap = 0;
    return o;
}

/* ---- tensors ---- */

static bool dense_bytes(nc_dtype t, int rank, const int64_t *dims, size_t *bytes) {
    int64_t n;
    if (rank < 0 || rank > NC_MAX_RANK || !nc_numel(dims, rank, &n)) return false;
    if (t != NC_STRING) return nc_tensor_bytes(t, dims, rank, bytes);
    return !__builtin_mul_overflow((size_t)n, sizeof(nc_str), bytes);
}

nc_object *nc_object_tensor(nc_buffer *takes, nc_dtype t, int rank, const int64_t *dims) {
    size_t bytes = 0;
    if (!takes) return NULL;
    nc_object *o = dense_bytes(t, rank, dims, &bytes) && bytes <= takes->bytes ? new_object(NC_OBJ_TENSOR) : NULL;
    if (!o) {
        nc_buffer_unref(takes);
        return NULL;
    }
    o->buffer = takes;
    o->t.data = takes->ptr;
    o->t.dtype = t;
    o->t.rank = rank;
    if (rank) memcpy(o->t.dims, dims, (size_t)rank * sizeof *dims);
    nc_dense_strides(dims, rank, o->t.strides);
    return o;
}

static void release_strings(nc_buffer *b) {
    nc_str *s = b->ptr;
    for (size_t i = 0; i < b->bytes / sizeof *s; i++) nc_free(s[i].p);
    nc_free(s);
}

nc_object *nc_object_strings(int rank, const int64_t *dims, const nc_str *copies) {
    size_t bytes;
    if (!dense_bytes(NC_STRING, rank, dims, &bytes)) return NULL;
    size_t n = bytes / sizeof(nc_str);
    nc_str *s = nc_alloc_zero(n ? n : 1, sizeof *s);
    nc_buffer *b = s ? nc_buffer_wrap(s, bytes, release_strings, NULL) : NULL;
    if (!b) {
        nc_free(s);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = copies ? copies[i].n : 0;
        s[i].p = len < SIZE_MAX ? nc_alloc(len + 1) : NULL;
        if (!s[i].p) {
            nc_buffer_unref(b);
            return NULL;
        }
        if (len) memcpy(s[i].p, copies[i].p, len);
        s[i].p[len] = 0;
        s[i].n = len;
    }
    return nc_object_tensor(b, NC_STRING, rank, dims);
}

nc_object *nc_object_host_tensor(nc_dtype t, int rank, const int64_t *dims) {
    size_t bytes;
    if (t == NC_STRING) return nc_object_strings(rank, dims, NULL);
    if (!dense_bytes(t, rank, dims, &bytes)) return NULL;
    return nc_object_tensor(nc_buffer_host(bytes), t, rank, dims);
}

/* ---- lists ---- */

nc_object *nc_object_list(nc_object_kind kind, nc_dtype elem) {
    nc_object *o = new_object(kind);
    if (o) o->t.dtype = elem;
    return o;
}

nc_object *nc_object_ref(nc_object *o) {
    if (o) atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

/* Lists may nest without bound (tapes of tapes), so dying objects are threaded through t.data instead of recursion. */
static void queue_destruction(nc_object *o, nc_object **dead) {
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
    nc_buffer_unref(o->buffer);
    o->t.data = *dead;
    *dead = o;
}

void nc_object_unref(nc_object *o) {
    nc_object *dead = NULL;
    queue_destruction(o, &dead);
    while (dead) {
        nc_object *x = dead;
        dead = x->t.data;
        for (int64_t i = 0; i < x->n; i++) queue_destruction(x->items[i], &dead);
        nc_free(x->items);
        nc_free(x);
    }
}

static bool reserve(nc_object *list, int64_t cap) {
    size_t bytes;
    if (cap <= list->cap) return true;
    if (__builtin_mul_overflow((size_t)cap, sizeof *list->items, &bytes)) return false;
    nc_object **items = nc_realloc(list->items, bytes);
    if (!items) return false;
    list->items = items;
    list->cap = cap;
    return true;
}

bool nc_object_push(nc_object *list, nc_object *takes) {
    if (list->n == list->cap && !reserve(list, list->cap ? 2 * list->cap : 4)) {
        nc_object_unref(takes);
        return false;
    }
    list->items[list->n++] = takes;
    return true;
}

nc_object *nc_object_pop(nc_object *list) { return list->n ? list->items[--list->n] : NULL; }

nc_object *nc_object_own(nc_object *takes) {
    if (!takes || atomic_load_explicit(&takes->refs, memory_order_acquire) == 1) return takes;
    nc_object *o = nc_object_list(takes->kind, takes->t.dtype);
    if (o && reserve(o, takes->n)) {
        o->t = takes->t;
        o->buffer = takes->buffer ? nc_buffer_ref(takes->buffer) : NULL;
        for (int64_t i = 0; i < takes->n; i++) o->items[i] = nc_object_ref(takes->items[i]);
        o->n = takes->n;
    } else {
        nc_object_unref(o);
        o = NULL;
    }
    nc_object_unref(takes);
    return o;
}

bool nc_object_on_device(const nc_object *o) {
    return o->kind == NC_OBJ_TENSOR && o->buffer && o->buffer->kind == NC_MEM_DEVICE;
}
