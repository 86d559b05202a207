/* kernels/cpu/move/gather.c: gather along an axis and its gradient; see move.h.
 * Indices are checked before anything is written. Gather's items are runs of output rows. The gradient's items own
 * disjoint rows and columns of the destination, clear them and go through all indices in order: a row is added to while
 * it is in the cache, and sums never depend on threads. */
#include "kernels/cpu/move/move.h"

#include "base/intmath.h"

#include <string.h>

enum {
    ITEM_BYTES = 1 << 16,
    FEW = 64,
    RANGES = 32,           /* of rows that a gradient is cut into, at most: each goes through all indices */
    RANGE_BYTES = 1 << 18, /* and of such a size at least */
    COLUMNS = 1024,        /* of an item of the gradient; where all rows are one range */
    FEW_COLUMNS = 128
};

typedef struct rows_job {
    int64_t outer, axis, n, inner; /* inner: bytes for gather, elements for its gradient */
    nc_dtype idx_type;
    const void *index;
    const int64_t
        *offsets; /* gather of at most FEW indices: of their rows, in bytes from the start of a slice; else NULL */
    const char *src;
    char *dst;
    int64_t per_item;
    nc_dtype type;
    bool onto;
    int64_t n_ranges, n_columns, columns; /* of the gradient: ranges of rows, pieces of a row, elements of a piece */
} rows_job;

static int64_t index_at(nc_dtype t, const void *index, int64_t i) {
    return t == NC_INT32 ? ((const int32_t *)index)[i] : ((const int64_t *)index)[i];
}

static int64_t wrapped(const rows_job *j, int64_t i) {
    int64_t v = index_at(j->idx_type, j->index, i);
    return v < 0 ? v + j->axis : v;
}

/* With offsets also where the row of each index starts, in units of `inner` per row. */
static nc_code check_indices(nc_dtype t, const void *index, int64_t n, int64_t axis, int64_t *bad, int64_t inner,
                             int64_t *offsets) {
    if (t != NC_INT32 && t != NC_INT64) return NC_E_TYPE;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = index_at(t, index, i);
        if (v >= -axis && v < axis) {
            if (offsets) offsets[i] = (v < 0 ? v + axis : v) * inner;
            continue;
        }
        if (bad) *bad = v;
        return NC_E_DATA;
    }
    return NC_OK;
}

/* Rows of a size that the compiler knows are moved without a call. */
static inline void gather_rows(const rows_job *j, int64_t r, int64_t end, int64_t inner) {
    int64_t outer = r == 0 ? 0 : r / j->n, i = r - outer * j->n;
    const char *slice = j->src + outer * j->axis * inner;
    char *dst = j->dst + r * inner;
    for (int64_t to; r < end; r += to - i, i = 0, slice += j->axis * inner) {
        to = nc_min64(j->n, i + end - r);
        if (j->offsets)
            for (int64_t k = i; k < to; k++, dst += inner) memcpy(dst, slice + j->offsets[k], (size_t)inner);
        else
            for (int64_t k = i; k < to; k++, dst += inner) memcpy(dst, slice + wrapped(j, k) * inner, (size_t)inner);
    }
}

static void gather_item(void *ctx, int64_t item) {
    const rows_job *j = ctx;
    int64_t first = item * j->per_item, end = nc_min64(first + j->per_item, j->outer * j->n);
    switch (j->inner) {
    case 4: gather_rows(j, first, end, 4); break;
    case 8: gather_rows(j, first, end, 8); break;
    default: gather_rows(j, first, end, j->inner); break;
    }
}

nc_code nck_gather(int64_t outer, int64_t axis, size_t inner_bytes, const void *data, nc_dtype idx_type, int64_t n,
                   const void *index, void *out, int64_t *bad, nc_pool *pool) {
    if (outer == 0 || inner_bytes == 0 || n == 0) return NC_OK;
    int64_t offsets[FEW], rows = outer * n;
    bool few = n <= FEW && outer > 1;
    NC_TRY(check_indices(idx_type, index, n, axis, bad, (int64_t)inner_bytes, few ? offsets : NULL));
    rows_job j = {.outer = outer,
                  .axis = axis,
                  .n = n,
                  .inner = (int64_t)inner_bytes,
                  .idx_type = idx_type,
                  .index = index,
                  .offsets = few ? offsets : NULL,
                  .src = data,
                  .dst = out,
                  .per_item = rows};
    int64_t row_bytes = nc_max64(j.inner, 16), items = 1;
    if (rows * row_bytes > ITEM_BYTES) {
        j.per_item = nc_max64(1, ITEM_BYTES / row_bytes);
        items = nc_ceil_div(rows, j.per_item);
    }
    nc_parallel(pool, items, gather_item, &j);
    return NC_OK;
}

/* U is an unsigned type for integers, so that sums wrap. */
#define ADD_ROW(T, U)                                                      \
    do {                                                                   \
        T *d = (T *)(void *)j->dst + to;                                   \
        const T *s = (const T *)(const void *)j->src + from;               \
        for (int64_t k = 0; k < width; k++) d[k] = (T)((U)d[k] + (U)s[k]); \
    } while (0)

/* Some rows of one slice of the destination, and of those some columns. */
static void grad_item(void *ctx, int64_t item) {
    const rows_job *j = ctx;
    int64_t o = item / j->n_columns / j->n_ranges, range = item / j->n_columns % j->n_ranges;
    int64_t c = item % j->n_columns * j->columns, width = nc_min64(j->columns, j->inner - c);
    int64_t low = j->axis * range / j->n_ranges, high = j->axis * (range + 1) / j->n_ranges;
    int64_t es = (int64_t)nc_dtype_bytes(j->type);
    char *rows = j->dst + ((o * j->axis + low) * j->inner + c) * es;
    if (!j->onto && width == j->inner) memset(rows, 0, (size_t)((high - low) * width * es));
    for (int64_t r = low; !j->onto && width < j->inner && r < high; r++, rows += j->inner * es)
        memset(rows, 0, (size_t)(width * es));
    for (int64_t i = 0; i < j->n; i++) {
        int64_t row = wrapped(j, i), to = (o * j->axis + row) * j->inner + c, from = (o * j->n + i) * j->inner + c;
        if (row < low || row >= high) continue;
        switch (j->type) {
        case NC_FLOAT: ADD_ROW(float, float); break;
        case NC_DOUBLE: ADD_ROW(double, double); break;
        case NC_INT32: ADD_ROW(int32_t, uint32_t); break;
        default: ADD_ROW(int64_t, uint64_t); break;
        }
    }
}

nc_code nck_gather_grad(nc_dtype type, int64_t outer, int64_t axis, int64_t inner, void *data, bool onto,
                        nc_dtype idx_type, int64_t n, const void *index, const void *src, int64_t *bad, nc_pool *pool) {
    if (type != NC_FLOAT && type != NC_DOUBLE && type != NC_INT32 && type != NC_INT64) return NC_E_UNSUPPORTED;
    if (outer == 0 || inner == 0) return NC_OK;
    NC_TRY(check_indices(idx_type, index, n, axis, bad, 0, NULL));
    if (axis == 0) return NC_OK;
    rows_job j = {.outer = outer,
                  .axis = axis,
                  .n = n,
                  .inner = inner,
                  .idx_type = idx_type,
                  .index = index,
                  .src = src,
                  .dst = data,
                  .type = type,
                  .onto = onto};
    int64_t slice = axis * inner * (int64_t)nc_dtype_bytes(type);
    j.n_ranges = nc_min64(nc_min64(axis, RANGES), nc_ceil_div(slice, RANGE_BYTES));
    j.columns = j.n_ranges > 1 ? COLUMNS : FEW_COLUMNS;
    j.n_columns = nc_ceil_div(inner, j.columns);
    nc_parallel(nc_pool_for(pool, outer * (n + axis) * inner), outer * j.n_ranges * j.n_columns, grad_item, &j);
    return NC_OK;
}
