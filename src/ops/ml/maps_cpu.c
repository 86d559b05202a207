/* ops/ml/maps_cpu.c: host kernels of ZipMap and DictVectorizer. A map is two tensors, keys and values. */
#include "ops/ml/ml.h"

#include "base/mem.h"

#include <string.h>

static nc_code no_memory(const nc_dyn *d) {
    return nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

typedef struct words {
    nc_dtype type; /* NC_STRING or NC_INT64 */
    int64_t n;
    const void *data;
} words;

static nc_code maps_prepare(nc_prep *p, const char *strings, const char *ints) {
    const nc_attr *s = nc_node_attr(p->node, strings), *i = nc_node_attr(p->node, ints);
    words *w = nc_arena_alloc(p->arena, sizeof *w);
    NC_NEED(p->w, w);
    if ((s == NULL) == (i == NULL)) NC_FAIL(p->w, NC_E_BAD_GRAPH, "needs %s or %s", strings, ints);
    *w = s != NULL ? (words){NC_STRING, s->n, s->strings} : (words){NC_INT64, i->n, i->ints};
    p->state = w;
    return NC_OK;
}

nc_code nc_zip_map_prepare(nc_prep *p) { return maps_prepare(p, "classlabels_strings", "classlabels_int64s"); }
nc_code nc_dict_prepare(nc_prep *p) { return maps_prepare(p, "string_vocabulary", "int64_vocabulary"); }

/* ---- ZipMap ---- */

static nc_object *keys_of(const words *w) {
    if (w->type == NC_STRING) return nc_object_strings(1, &w->n, w->data);
    nc_object *keys = nc_object_host_tensor(NC_INT64, 1, &w->n);
    if (keys != NULL && w->n > 0) memcpy(keys->t.data, w->data, (size_t)w->n * sizeof(int64_t));
    return keys;
}

/* All rows share the keys. */
static bool push_row(nc_object *list, const words *w, nc_object *keys, const float *row) {
    nc_object *map = nc_object_list(NC_OBJ_MAP, w->type), *values = nc_object_host_tensor(NC_FLOAT, 1, &w->n);
    if (values != NULL && w->n > 0) memcpy(values->t.data, row, (size_t)w->n * sizeof(float));
    bool ok = map != NULL && values != NULL && nc_object_push(map, nc_object_ref(keys));
    ok = ok ? nc_object_push(map, values) : (nc_object_unref(values), false);
    if (!ok) {
        nc_object_unref(map);
        return false;
    }
    return nc_object_push(list, map);
}

nc_code nc_zip_map(nc_dyn *d) {
    const words *w = d->call->state;
    const nc_tensor *x = d->in[0] != NULL ? &d->in[0]->t : d->call->in[0];
    int64_t rows = x->rank > 1 ? x->dims[0] : 1, columns = x->rank > 0 ? x->dims[x->rank - 1] : 1;
    if (x->rank > 2 || columns != w->n)
        return nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op, "X has %lld columns for %lld labels",
                           (long long)columns, (long long)w->n);
    nc_object *keys = keys_of(w), *list = d->out[0] = nc_object_list(NC_OBJ_SEQUENCE, NC_FLOAT);
    bool ok = keys != NULL && list != NULL;
    for (int64_t i = 0; ok && i < rows; i++) ok = push_row(list, w, keys, (const float *)x->data + i * columns);
    nc_object_unref(keys);
    return ok ? NC_OK : no_memory(d);
}

/* ---- DictVectorizer ---- */

static bool same_key(const words *w, int64_t i, const nc_tensor *keys, int64_t k) {
    if (w->type == NC_INT64) return ((const int64_t *)w->data)[i] == ((const int64_t *)keys->data)[k];
    const nc_str *a = (const nc_str *)w->data + i, *b = (const nc_str *)keys->data + k;
    return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n) == 0);
}

/* The place in the map of word i, or -1. */
static int64_t maps_find(const words *w, int64_t i, const nc_tensor *keys) {
    int64_t n = nc_tensor_numel(keys);
    for (int64_t k = 0; k < n; k++)
        if (same_key(w, i, keys, k)) return k;
    return -1;
}

static nc_code vectorize_strings(nc_dyn *d, const words *w, const nc_tensor *keys, const nc_tensor *values) {
    int64_t dims[2] = {1, w->n};
    nc_str *picked = nc_alloc_zero((size_t)w->n + 1, sizeof *picked);
    if (picked == NULL) return no_memory(d);
    for (int64_t i = 0; i < w->n; i++) {
        int64_t k = maps_find(w, i, keys);
        if (k >= 0) picked[i] = ((const nc_str *)values->data)[k];
    }
    d->out[0] = nc_object_strings(2, dims, picked);
    nc_free(picked);
    return d->out[0] != NULL ? NC_OK : no_memory(d);
}

nc_code nc_dict_vectorizer(nc_dyn *d) {
    const words *w = d->call->state;
    const nc_object *map = d->in[0];
    if (map == NULL || map->kind != NC_OBJ_MAP || map->n != 2 || map->items[0]->t.dtype != w->type ||
        nc_tensor_numel(&map->items[0]->t) != nc_tensor_numel(&map->items[1]->t))
        return nc_diag_set(d->call->diag, NC_E_TYPE, d->call->node, d->call->op, "X is no map with keys of type %s",
                           nc_dtype_name(w->type));
    const nc_tensor *keys = &map->items[0]->t, *values = &map->items[1]->t;
    if (values->dtype == NC_STRING) return vectorize_strings(d, w, keys, values);
    size_t bytes = nc_dtype_bytes(values->dtype);
    int64_t dims[2] = {1, w->n};
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, values->dtype, 2, dims, &y));
    for (int64_t i = 0; i < w->n; i++) {
        int64_t k = maps_find(w, i, keys);
        if (k >= 0)
            memcpy((char *)y.data + (size_t)i * bytes, (const char *)values->data + (size_t)k * bytes, bytes);
        else
            memset((char *)y.data + (size_t)i * bytes, 0, bytes);
    }
    return NC_OK;
}
