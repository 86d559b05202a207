/* onnx/load_sparse.c: SparseTensorProto to a dense literal. Indices are linear, or one row of coordinates per value, in
 * any order, each place once. What the dense tensor takes is checked against what a file of this size may take before
 * it is made: a few bytes can name a very large shape. */
#include "onnx/loader.h"

#include <stdlib.h>
#include <string.h>

typedef struct sparse {
    const char *name;
    const nc_literal *values, *indices;
    nc_literal *dense;
} sparse;

static nc_code read_part(nc_loader *l, nc_bytes b, const char *name, const nc_literal **out) {
    nc_pb_tensor t;
    nc_literal *lit;
    NC_TRY(nc_pb_read_tensor(l->w, b, &t));
    NC_TRY(nc_load_tensor(l, b, name, &t, &lit));
    *out = lit;
    return NC_OK;
}

static nc_code read_dims(nc_loader *l, nc_bytes b, const nc_pb_sparse *pb, sparse *s) {
    if (pb->dims > NC_MAX_RANK)
        NC_FAIL(l->w, NC_E_LIMIT, "sparse tensor '%.200s' has %zu dims, at most %d are supported", s->name, pb->dims,
                NC_MAX_RANK);
    int64_t *dims = nc_arena_array(&l->m->arena, pb->dims + 1, sizeof *dims);
    NC_NEED(l->w, dims);
    nc_wire r, packed;
    nc_field f;
    nc_wire_init(&r, b);
    int n = 0;
    while (nc_wire_each(&r, SparseTensorProto_dims, &f)) {
        if (f.wire == NC_WIRE_VARINT) dims[n++] = (int64_t)f.u;
        nc_wire_init(&packed, f.b);
        for (uint64_t u; packed.p < packed.end && nc_wire_varint(&packed, &u);) dims[n++] = (int64_t)u;
    }
    s->dense->dims = dims;
    s->dense->rank = n;
    s->dense->dtype = s->values->dtype;
    if (!nc_numel(dims, n, &s->dense->n) || !nc_tensor_bytes(s->dense->dtype, dims, n, &s->dense->bytes))
        NC_FAIL(l->w, NC_E_BAD_MODEL, "sparse tensor '%.200s': a dim is negative or their product overflows", s->name);
    return NC_OK;
}

static nc_code check_parts(nc_loader *l, const sparse *s) {
    const nc_literal *v = s->values, *x = s->indices;
    if (v->dtype == NC_STRING || !nc_dtype_bytes(v->dtype))
        NC_FAIL(l->w, NC_E_UNSUPPORTED, "sparse tensor '%.200s' of %s is not supported", s->name,
                nc_dtype_name(v->dtype));
    if (v->rank != 1 || x->dtype != NC_INT64 || x->rank < 1 || x->rank > 2 || x->dims[0] != v->n ||
        (x->rank == 2 && x->dims[1] != s->dense->rank))
        NC_FAIL(l->w, NC_E_BAD_MODEL,
                "sparse tensor '%.200s': %lld values need int64 indices of shape [%lld] or [%lld,%d]", s->name,
                (long long)v->n, (long long)v->n, (long long)v->n, s->dense->rank);
    return NC_OK;
}

/* The linear place of value i; negative: outside the shape. */
static int64_t place_of(const sparse *s, int64_t i) {
    int64_t at, coordinate;
    const char *p = s->indices->data;
    if (s->indices->rank == 1) {
        memcpy(&at, p + i * 8, 8);
        return at < s->dense->n ? at : -1;
    }
    at = 0;
    for (int d = 0; d < s->dense->rank; d++) {
        memcpy(&coordinate, p + (i * s->dense->rank + d) * 8, 8);
        if (coordinate < 0 || coordinate >= s->dense->dims[d]) return -1;
        at = at * s->dense->dims[d] + coordinate;
    }
    return s->dense->n ? at : -1;
}

static int rising(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Places that do not rise are sorted, so that two values for one place are found. */
static nc_code check_once(nc_loader *l, const sparse *s) {
    int64_t n = s->values->n, *places = nc_arena_array(&l->w->scratch, (size_t)n + 1, sizeof *places);
    NC_NEED(l->w, places);
    for (int64_t i = 0; i < n; i++) places[i] = place_of(s, i);
    qsort(places, (size_t)n, sizeof *places, rising);
    for (int64_t i = 1; i < n; i++)
        if (places[i] == places[i - 1])
            NC_FAIL(l->w, NC_E_BAD_MODEL, "sparse tensor '%.200s' has two values for element %lld", s->name,
                    (long long)places[i]);
    return NC_OK;
}

static nc_code fill(nc_loader *l, const sparse *s, char *to) {
    size_t size = nc_dtype_bytes(s->dense->dtype);
    int64_t last = -1;
    bool rises = true;
    for (int64_t i = 0; i < s->values->n; i++) {
        int64_t at = place_of(s, i);
        if (at < 0)
            NC_FAIL(l->w, NC_E_BAD_MODEL, "sparse tensor '%.200s': index %lld is outside its shape", s->name,
                    (long long)i);
        memcpy(to + (size_t)at * size, (const char *)s->values->data + (size_t)i * size, size);
        rises = rises && at > last;
        last = at;
    }
    return rises ? NC_OK : check_once(l, s);
}

nc_code nc_load_sparse(nc_loader *l, nc_bytes b, nc_bytes *name, nc_literal **out) {
    nc_pb_sparse pb;
    nc_pb_tensor t;
    sparse s = {.dense = nc_arena_alloc(&l->m->arena, sizeof *s.dense)};
    NC_NEED(l->w, s.dense);
    NC_TRY(nc_pb_read_sparse(l->w, b, &pb));
    NC_TRY(nc_pb_read_tensor(l->w, pb.values, &t));
    *name = t.name;
    NC_TRY(nc_load_name(l, t.name, "name of a sparse tensor", &s.name));
    NC_TRY(read_part(l, pb.values, s.name, &s.values));
    NC_TRY(read_part(l, pb.indices, s.name, &s.indices));
    NC_TRY(read_dims(l, b, &pb, &s));
    NC_TRY(check_parts(l, &s));
    NC_TRY(nc_load_room(l, s.dense->bytes));
    char *to = nc_arena_array(&l->m->arena, s.dense->bytes + 1, 1);
    NC_NEED(l->w, to);
    s.dense->data = to;
    *out = s.dense;
    return fill(l, &s, to);
}
