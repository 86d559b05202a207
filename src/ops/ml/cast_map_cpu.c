/* ops/ml/cast_map_cpu.c: the host kernel of CastMap. DENSE: the values in the order of their keys. SPARSE: each value
 * at the place that its key says, of max_map places; keys beyond are left out, places without a key are 0, or the text
 * "0.f", as ONNX Runtime has it. */
#include "ops/ml/ml.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cast_map {
    nc_dtype to;
    int64_t n; /* places; -1: dense */
} cast_map;

nc_code nc_cast_map_prepare(nc_prep *p) {
    cast_map *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_type *y = p->node->out[0]->type;
    bool sparse = strcmp(nc_attr_str(p->node, "map_form"), "SPARSE") == 0;
    *s = (cast_map){.to = y->elem, .n = sparse ? nc_attr_int(p->node, "max_map") : -1};
    p->state = s;
    return NC_OK;
}

static nc_code cast_map_wrong(const nc_dyn *d, nc_code code, const char *text) {
    return nc_diag_set(d->call->diag, code, d->call->node, d->call->op, "%s", text);
}

typedef struct entry {
    int64_t key, at;
} entry;

static int by_key(const void *a, const void *b) {
    int64_t x = ((const entry *)a)->key, y = ((const entry *)b)->key;
    return (x > y) - (x < y);
}

/* from[i]: which value stands at place i; -1: none. */
static nc_code place(const nc_dyn *d, const nc_tensor *keys, int64_t places, int64_t *from) {
    const int64_t *key = keys->data;
    int64_t n = nc_tensor_numel(keys);
    if (places < 0) {
        entry *order = nc_alloc(((size_t)n + 1) * sizeof *order);
        if (order == NULL) return cast_map_wrong(d, NC_E_MEMORY, "out of memory");
        for (int64_t i = 0; i < n; i++) order[i] = (entry){key[i], i};
        qsort(order, (size_t)n, sizeof *order, by_key);
        for (int64_t i = 0; i < n; i++) from[i] = order[i].at;
        nc_free(order);
        return NC_OK;
    }
    for (int64_t i = 0; i < places; i++) from[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (key[i] < 0)
            return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op,
                               "key %lld is negative: it is a place of a sparse row", (long long)key[i]);
        if (key[i] < places) from[key[i]] = i;
    }
    return NC_OK;
}

static nc_code number_of(const nc_dyn *d, const nc_tensor *values, int64_t i, double *out) {
    if (values->dtype == NC_FLOAT) {
        *out = (double)((const float *)values->data)[i];
        return NC_OK;
    }
    const nc_str *s = (const nc_str *)values->data + i;
    char *end = s->p;
    if (s->n > 0) *out = nc_text_to_double(s->p, &end);
    if (s->n > 0 && end == s->p + s->n) return NC_OK;
    return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "'%.60s' is not a number",
                       s->n > 0 ? s->p : "");
}

/* Towards zero, NaN as 0, clamped, as Cast does it. */
static int64_t whole_of(double v) {
    if (v != v) return 0;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static nc_code put_numbers(nc_dyn *d, const nc_tensor *values, const int64_t *from, const int64_t *dims, nc_dtype to) {
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, to, 2, dims, &y));
    for (int64_t i = 0; i < dims[1]; i++) {
        double v = 0;
        if (from[i] >= 0) NC_TRY(number_of(d, values, from[i], &v));
        if (to == NC_FLOAT)
            ((float *)y.data)[i] = (float)v;
        else
            ((int64_t *)y.data)[i] = whole_of(v);
    }
    return NC_OK;
}

static nc_code put_texts(nc_dyn *d, const nc_tensor *values, const int64_t *from, const int64_t *dims) {
    enum { WIDTH = 64 }; /* "%f" of the largest float */
    static char nothing[] = "0.f";
    int64_t n = dims[1];
    nc_str *s = nc_alloc(((size_t)n + 1) * sizeof *s);
    char *digits = nc_alloc(((size_t)n + 1) * WIDTH);
    bool ok = s != NULL && digits != NULL;
    for (int64_t i = 0; ok && i < n; i++) {
        char *text = digits + i * WIDTH;
        s[i] = (nc_str){nothing, strlen(nothing)};
        if (from[i] < 0) continue;
        if (values->dtype == NC_STRING) {
            s[i] = ((const nc_str *)values->data)[from[i]];
            continue;
        }
        int length = snprintf(text, WIDTH, "%f", (double)((const float *)values->data)[from[i]]);
        s[i] = (nc_str){text, (size_t)length};
    }
    if (ok) d->out[0] = nc_object_strings(2, dims, s);
    nc_free(digits);
    nc_free(s);
    return d->out[0] != NULL ? NC_OK : cast_map_wrong(d, NC_E_MEMORY, "out of memory");
}

nc_code nc_cast_map(nc_dyn *d) {
    const cast_map *s = d->call->state;
    const nc_object *map = d->in[0];
    if (map == NULL || map->kind != NC_OBJ_MAP || map->n != 2 || map->items[0]->t.dtype != NC_INT64 ||
        nc_tensor_numel(&map->items[0]->t) != nc_tensor_numel(&map->items[1]->t))
        return cast_map_wrong(d, NC_E_TYPE, "X is no map with keys of type int64");
    const nc_tensor *keys = &map->items[0]->t, *values = &map->items[1]->t;
    if (values->dtype != NC_FLOAT && values->dtype != NC_STRING)
        return cast_map_wrong(d, NC_E_TYPE, "X is no map of floats or strings");
    int64_t dims[2] = {1, s->n >= 0 ? s->n : nc_tensor_numel(keys)};
    int64_t *from = nc_alloc(((size_t)dims[1] + 1) * sizeof *from);
    if (from == NULL) return cast_map_wrong(d, NC_E_MEMORY, "out of memory");
    nc_code code = place(d, keys, s->n, from);
    if (code == NC_OK)
        code = s->to == NC_STRING ? put_texts(d, values, from, dims) : put_numbers(d, values, from, dims, s->to);
    nc_free(from);
    return code;
}
