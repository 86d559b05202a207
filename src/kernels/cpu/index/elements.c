/* kernels/cpu/index/elements.c: single elements by indices along one axis, see index.h. Work is cut along the dims
 * before the axis, and when elements are put also along the last dim where that is not the axis: no two pieces meet the
 * same element of data. */
#include "kernels/cpu/index/index.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

enum { STEPS = 4, PIECE = 32 }; /* elements of work that an index costs; fewest of a piece of the last dim */

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
    int64_t step;                 /* of index along its last dim */
    int64_t piece, n_pieces;      /* of its last dim */
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

/* A row of the last dim: where it begins in data, but for what index adds, in index, and in the other operand. */
typedef struct row_at {
    int64_t data, index, other;
} row_at;

/* Row r of those behind coordinate `outer` of the dims before the axis. */
static row_at row_of_elements(const elements_job *j, int64_t outer, int64_t r) {
    const nc_tensor *at = j->index;
    int last = at->rank - 1;
    row_at a = {.other = outer * j->inner_len + r * at->dims[last]};
    for (int k = last - 1; k > j->axis; r /= at->dims[k--]) {
        a.index += r % at->dims[k] * at->strides[k];
        a.data += r % at->dims[k] * j->strides[k];
    }
    a.index += j->axis < last ? r * at->strides[j->axis] : 0;
    for (int k = j->axis - 1; k >= 0; outer /= at->dims[k--]) {
        a.index += outer % at->dims[k] * at->strides[k];
        a.data += outer % at->dims[k] * j->strides[k];
    }
    return a;
}

static int64_t index_of(const elements_job *j, int64_t i) {
    int64_t index = nck_index_at(j->index, i);
    return index < 0 ? index + j->data->dims[j->axis] : index;
}

static void gather_row(const elements_job *j, row_at a, int64_t n) {
    const nc_tensor *x = j->data, *at = j->index;
    int64_t size = x->dims[j->axis], apart = j->strides[j->axis], own = j->axis != at->rank - 1,
            bytes = (int64_t)j->bytes;
    const int64_t *index = (const int64_t *)at->data + a.index;
    bool dense = at->dtype == NC_INT64 && j->step == 1;
    char *out = j->out + a.other * bytes;
    if (own && j->step == 0)
        memcpy(out, (const char *)x->data + (a.data + index_of(j, a.index) * apart) * bytes, (size_t)(n * bytes));
    else if (dense && bytes == 4)
        pick_uint32_t((const uint32_t *)x->data + a.data, size, apart, own, index, (uint32_t *)(void *)out, n);
    else if (dense && bytes == 8)
        pick_uint64_t((const uint64_t *)x->data + a.data, size, apart, own, index, (uint64_t *)(void *)out, n);
    else
        for (int64_t e = 0; e < n; e++)
            copy_one(j->bytes, out + e * bytes,
                     (const char *)x->data + (a.data + index_of(j, a.index + e * j->step) * apart + e * own) * bytes);
}

/* Indices that were expanded along a row put it as a whole. */
static void scatter_row(const elements_job *j, row_at a, int64_t n) {
    int64_t apart = j->strides[j->axis], own = j->axis != j->index->rank - 1, bytes = (int64_t)j->bytes;
    int64_t run = own && j->step == 0 ? n : 1;
    for (int64_t e = 0; e < n; e += run) {
        char *dst = (char *)j->data->data + (a.data + index_of(j, a.index + e * j->step) * apart + e * own) * bytes;
        const char *src = j->src + (a.other + e) * bytes;
        if (j->how == NCK_SET && run == 1)
            copy_one(j->bytes, dst, src);
        else if (j->how == NCK_SET)
            memcpy(dst, src, (size_t)(run * bytes));
        else if (j->how == NCK_ADD && run == 1 && j->data->dtype == NC_FLOAT)
            *(float *)(void *)dst += *(const float *)(const void *)src;
        else
            nck_combine_row(j->how, j->data->dtype, run, dst, src);
    }
}

/* One coordinate of the dims before the axis, and a piece of the last dim. */
static void elements_item(void *ctx, int64_t item) {
    const elements_job *j = ctx;
    int64_t outer = item / j->n_pieces, c0 = item % j->n_pieces * j->piece, last = j->index->dims[j->index->rank - 1];
    int64_t n = nc_min64(j->piece, last - c0);
    for (int64_t r = 0; r < j->inner_len / last; r++) {
        row_at a = row_of_elements(j, outer, r);
        a.data += j->axis != j->index->rank - 1 ? c0 : 0, a.index += c0 * j->step, a.other += c0;
        if (j->out != NULL)
            gather_row(j, a, n);
        else
            scatter_row(j, a, n);
    }
}

/* Does one of n indices lie out of range? Then v + size or size - 1 - v is below 0, or wraps to below 0. */
#define IS_BAD(U, S)                                                         \
    typedef U U##_v __attribute__((vector_size(16)));                        \
    static bool is_bad_##U(const U *at, int64_t n, U size) {                 \
        enum { LANES = 16 / sizeof(U) };                                     \
        U##_v v, all = {0};                                                  \
        U bad = 0;                                                           \
        int64_t i = 0;                                                       \
        for (; i + LANES <= n; i += LANES) {                                 \
            memcpy(&v, at + i, sizeof v);                                    \
            all |= (v + size) | (size - 1 - v);                              \
        }                                                                    \
        for (int k = 0; k < LANES; k++) bad |= all[k];                       \
        for (; i < n; i++) bad |= (U)(at[i] + size) | (U)(size - 1 - at[i]); \
        return (S)bad < 0;                                                   \
    }
IS_BAD(uint32_t, int32_t)
IS_BAD(uint64_t, int64_t)

/* Among n indices from `first` on, dense. */
static bool has_bad(const nc_tensor *at, int64_t first, int64_t n, int64_t size) {
    if (at->dtype == NC_INT64) return is_bad_uint64_t((const uint64_t *)at->data + first, n, (uint64_t)size);
    return size <= INT32_MAX && is_bad_uint32_t((const uint32_t *)at->data + first, n, (uint32_t)size);
}

/* Is an index out of range? The first one then. */
static bool find_bad(const elements_job *j, int64_t outer, nck_bad_index *bad) {
    const nc_tensor *at = j->index;
    int64_t last = at->dims[at->rank - 1], size = j->data->dims[j->axis], rows = outer * j->inner_len / last;
    if (nc_is_dense(at) && !has_bad(at, 0, rows * last, size)) return false;
    for (int64_t r = 0; r < rows; r++) {
        row_at a = row_of_elements(j, r / (j->inner_len / last), r % (j->inner_len / last));
        for (int64_t e = 0; e < (j->step == 0 ? 1 : last); e++) {
            int64_t v = nck_index_at(at, a.index + e * j->step);
            if (v >= -size && v < size) continue;
            *bad = (nck_bad_index){v, size};
            return true;
        }
    }
    return false;
}

static nc_code elements_run(elements_job *j, nck_bad_index *bad, nc_pool *pool) {
    const nc_tensor *at = j->index;
    int64_t n = nc_tensor_numel(at), outer = 1, last = at->dims[at->rank - 1];
    if (n == 0) return NC_OK;
    for (int k = 0; k < j->axis; k++) outer *= at->dims[k];
    j->bytes = nc_dtype_bytes(j->data->dtype);
    j->inner_len = n / outer;
    j->step = at->strides[at->rank - 1];
    nc_dense_strides(j->data->dims, j->data->rank, j->strides);
    if (find_bad(j, outer, bad)) return NC_E_DATA;
    pool = nc_pool_for(pool, n * STEPS);
    j->piece = last;
    if (pool != NULL && j->axis != at->rank - 1)
        j->piece = nc_min64(last, nc_max64(PIECE, nc_ceil_div(last * outer, 2 * nc_pool_threads(pool))));
    j->n_pieces = nc_ceil_div(last, j->piece);
    nc_parallel(pool, outer * j->n_pieces, elements_item, j);
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

enum { ROWS = 256, ROW_BYTES = 16384 };

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
    rows r = {.how = how, .data = data, .index = index, .batch = batch, .src = src, .cut = ROW_BYTES};
    if (!combines(how, data->dtype)) return NC_E_UNSUPPORTED;
    NC_TRY(rows_init(&r, bad));
    if (r.n > 0 && r.bytes_row > 0) nc_parallel(pool, nc_ceil_div(r.bytes_row, ROW_BYTES), scatter_item, &r);
    return NC_OK;
}
