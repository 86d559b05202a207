/* kernels/cpu/index/elements.c: single elements by indices along one axis, see index.h. Work is cut along the dims
 * before the axis, where no two pieces meet the same element of data. */
#include "kernels/cpu/index/index.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

enum { STEPS = 4 }; /* elements of work that an index costs */

#define SUFFIX f32
#define ELEM float
#define SUM_AS float
#define IS_NAN IS_NAN_FLOAT
#include "kernels/cpu/index/combine.inc"

#define SUFFIX f64
#define ELEM double
#define SUM_AS double
#define IS_NAN IS_NAN_FLOAT
#include "kernels/cpu/index/combine.inc"

#define SUFFIX i32
#define ELEM int32_t
#define SUM_AS uint32_t
#define IS_NAN IS_NAN_INT
#include "kernels/cpu/index/combine.inc"

#define SUFFIX i64
#define ELEM int64_t
#define SUM_AS uint64_t
#define IS_NAN IS_NAN_INT
#include "kernels/cpu/index/combine.inc"

#define SUFFIX u64
#define ELEM uint64_t
#define SUM_AS uint64_t
#define IS_NAN IS_NAN_INT
#include "kernels/cpu/index/combine.inc"

void nck_combine_row(nck_combine how, nc_dtype type, int64_t n, void *dst, const void *src) {
    switch (type) {
    case NC_FLOAT: combine_f32(how, n, dst, src); return;
    case NC_DOUBLE: combine_f64(how, n, dst, src); return;
    case NC_INT32: combine_i32(how, n, dst, src); return;
    case NC_INT64: combine_i64(how, n, dst, src); return;
    default: combine_u64(how, n, dst, src); return;
    }
}

typedef struct elements_job {
    nck_combine how;
    const nc_tensor *data, *index;
    int axis;
    size_t bytes;
    int64_t inner_len;            /* elements of index behind the dims before the axis */
    int64_t strides[NC_MAX_RANK]; /* of data */
    char *out;                    /* gather */
    const char *src;              /* scatter */
} elements_job;

static void copy_one(size_t bytes, char *dst, const char *src) {
    switch (bytes) {
    case 1: *dst = *src; break;
    case 2: memcpy(dst, src, 2); break;
    case 4: memcpy(dst, src, 4); break;
    case 8: memcpy(dst, src, 8); break;
    default: memcpy(dst, src, bytes); break;
    }
}

/* A row of results by indices of 64 bits, `apart` from one to the next; each moves `own` on, 0 along the axis. */
#define PICK(T)                                                                                                        \
    static void pick_##T(const T *x, int64_t size, int64_t apart, int64_t own, const int64_t *at, T *out, int64_t n) { \
        for (int64_t e = 0; e < n; e++) out[e] = x[(at[e] < 0 ? at[e] + size : at[e]) * apart + e * own];              \
    }
PICK(uint32_t)
PICK(uint64_t)

/* The common case, a row of the last dim after another: true where it was one. */
static bool gather_rows(const elements_job *j, int64_t base, int64_t first) {
    const nc_tensor *x = j->data, *at = j->index;
    int last = at->rank - 1;
    int64_t n = at->dims[last], size = x->dims[j->axis], apart = j->strides[j->axis], own = j->axis != last;
    if (j->out == NULL || at->dtype != NC_INT64 || (j->bytes != 4 && j->bytes != 8)) return false;
    for (int64_t r = 0; r < j->inner_len / n; r++) {
        int64_t from = base, to = first + r * n, rest = r;
        for (int k = last - 1; k > j->axis; rest /= at->dims[k--]) from += rest % at->dims[k] * j->strides[k];
        const int64_t *index = (const int64_t *)at->data + to;
        if (j->bytes == 4)
            pick_uint32_t((const uint32_t *)x->data + from, size, apart, own, index, (uint32_t *)(void *)j->out + to,
                          n);
        else
            pick_uint64_t((const uint64_t *)x->data + from, size, apart, own, index, (uint64_t *)(void *)j->out + to,
                          n);
    }
    return true;
}

/* One coordinate of the dims before the axis. */
static void elements_item(void *ctx, int64_t i_outer) {
    const elements_job *j = ctx;
    const nc_tensor *x = j->data, *at = j->index;
    int64_t base = 0, place[NC_MAX_RANK] = {0}, first = i_outer * j->inner_len;
    for (int64_t k = j->axis - 1, rest = i_outer; k >= 0; k--) {
        base += rest % at->dims[k] * j->strides[k];
        rest /= at->dims[k];
    }
    if (gather_rows(j, base, first)) return;
    for (int64_t e = 0; e < j->inner_len; e++) {
        int64_t index = nck_index_at(at, first + e), offset = base;
        if (index < 0) index += x->dims[j->axis];
        for (int k = j->axis + 1; k < at->rank; k++) offset += place[k] * j->strides[k];
        offset += index * j->strides[j->axis];
        char *in_data = (char *)x->data + offset * (int64_t)j->bytes;
        if (j->out != NULL)
            copy_one(j->bytes, j->out + (first + e) * (int64_t)j->bytes, in_data);
        else if (j->how == NCK_SET)
            copy_one(j->bytes, in_data, j->src + (first + e) * (int64_t)j->bytes);
        else
            nck_combine_row(j->how, x->dtype, 1, in_data, j->src + (first + e) * (int64_t)j->bytes);
        for (int k = at->rank - 1; k >= j->axis && ++place[k] == at->dims[k]; k--) place[k] = 0;
    }
}

static nc_code elements_run(elements_job *j, nck_bad_index *bad, nc_pool *pool) {
    int64_t n = nc_tensor_numel(j->index), size = j->data->dims[j->axis], outer = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = nck_index_at(j->index, i);
        if (v >= -size && v < size) continue;
        *bad = (nck_bad_index){v, size};
        return NC_E_DATA;
    }
    if (n == 0) return NC_OK;
    for (int k = 0; k < j->axis; k++) outer *= j->index->dims[k];
    j->bytes = nc_dtype_bytes(j->data->dtype);
    j->inner_len = n / outer;
    nc_dense_strides(j->data->dims, j->data->rank, j->strides);
    nc_parallel(nc_pool_for(pool, n * STEPS), outer, elements_item, j);
    return NC_OK;
}

nc_code nck_gather_elements(const nc_tensor *data, const nc_tensor *index, int axis, void *out, nck_bad_index *bad,
                            nc_pool *pool) {
    elements_job j = {.data = data, .index = index, .axis = axis, .out = out};
    return elements_run(&j, bad, pool);
}

static bool combines(nck_combine how, nc_dtype t) {
    return how == NCK_SET || t == NC_FLOAT || t == NC_DOUBLE || t == NC_INT32 || t == NC_INT64 || t == NC_UINT64;
}

nc_code nck_scatter_elements(nck_combine how, const nc_tensor *data, const nc_tensor *index, int axis, const void *src,
                             nck_bad_index *bad, nc_pool *pool) {
    if (!combines(how, data->dtype)) return NC_E_UNSUPPORTED;
    elements_job j = {.how = how, .data = data, .index = index, .axis = axis, .src = src};
    return elements_run(&j, bad, pool);
}

/* ---- rows ---- */

typedef struct rows {
    nck_combine how;
    const nc_tensor *data, *index;
    int batch, depth;
    int64_t n, per_batch, bytes_row, cut; /* rows of index; of one batch; of data; bytes of a piece of a row */
    int64_t strides[NC_MAX_RANK];
    char *out;
    const char *src;
} rows;

static char *row_of(const rows *r, int64_t i) {
    int64_t offset = 0;
    for (int64_t k = r->batch - 1, rest = i / r->per_batch; k >= 0; k--) {
        offset += rest % r->data->dims[k] * r->strides[k];
        rest /= r->data->dims[k];
    }
    for (int k = 0; k < r->depth; k++) {
        int64_t v = nck_index_at(r->index, i * r->depth + k);
        offset += (v < 0 ? v + r->data->dims[r->batch + k] : v) * r->strides[r->batch + k];
    }
    return (char *)r->data->data + offset * (int64_t)nc_dtype_bytes(r->data->dtype);
}

enum { ROWS = 256, PIECE = 16384 };

static void gather_item(void *ctx, int64_t item) {
    const rows *r = ctx;
    int64_t end = (item + 1) * ROWS < r->n ? (item + 1) * ROWS : r->n;
    for (int64_t i = item * ROWS; i < end; i++) memcpy(r->out + i * r->bytes_row, row_of(r, i), (size_t)r->bytes_row);
}

/* A piece of every row: two rows may have the same index, pieces of a row never meet. */
static void scatter_item(void *ctx, int64_t item) {
    const rows *r = ctx;
    int64_t at = item * r->cut, len = r->bytes_row - at < r->cut ? r->bytes_row - at : r->cut;
    int64_t bytes = (int64_t)nc_dtype_bytes(r->data->dtype);
    for (int64_t i = 0; i < r->n; i++) {
        char *dst = row_of(r, i) + at;
        const char *src = r->src + i * r->bytes_row + at;
        if (r->how == NCK_SET)
            memcpy(dst, src, (size_t)len);
        else
            nck_combine_row(r->how, r->data->dtype, len / bytes, dst, src);
    }
}

static nc_code rows_init(rows *r, nck_bad_index *bad) {
    const nc_tensor *at = r->index, *x = r->data;
    r->depth = (int)at->dims[at->rank - 1];
    r->n = r->per_batch = 1;
    for (int k = 0; k < at->rank - 1; k++) {
        r->n *= at->dims[k];
        if (k >= r->batch) r->per_batch *= at->dims[k];
    }
    for (int64_t i = 0; i < r->n * r->depth; i++) {
        int64_t v = nck_index_at(at, i), size = x->dims[r->batch + i % r->depth];
        if (v >= -size && v < size) continue;
        *bad = (nck_bad_index){v, size};
        return NC_E_DATA;
    }
    nc_dense_strides(x->dims, x->rank, r->strides);
    r->bytes_row = (int64_t)nc_dtype_bytes(x->dtype);
    for (int k = r->batch + r->depth; k < x->rank; k++) r->bytes_row *= x->dims[k];
    return NC_OK;
}

nc_code nck_gather_nd(const nc_tensor *data, const nc_tensor *index, int batch, void *out, nck_bad_index *bad,
                      nc_pool *pool) {
    rows r = {.data = data, .index = index, .batch = batch, .out = out};
    NC_TRY(rows_init(&r, bad));
    if (r.n > 0 && r.bytes_row > 0) nc_parallel(pool, nc_ceil_div(r.n, ROWS), gather_item, &r);
    return NC_OK;
}

nc_code nck_scatter_nd(nck_combine how, const nc_tensor *data, const nc_tensor *index, int batch, const void *src,
                       nck_bad_index *bad, nc_pool *pool) {
    rows r = {.how = how, .data = data, .index = index, .batch = batch, .src = src, .cut = PIECE};
    if (!combines(how, data->dtype)) return NC_E_UNSUPPORTED;
    NC_TRY(rows_init(&r, bad));
    if (r.n > 0 && r.bytes_row > 0) nc_parallel(pool, nc_ceil_div(r.bytes_row, PIECE), scatter_item, &r);
    return NC_OK;
}
