/* kernels/cpu/move/pad.c: borders, see pad.h. A table per axis says where each index comes from; rows are the last
 * axis, whose middle is copied at once. The gradient adds serially, so that its order is that of dy. */
#include "kernels/cpu/move/pad.h"

#include "base/intmath.h"

#include <string.h>

enum { ITEM = 16384 };

typedef struct pad_job {
    const nc_tensor *x, *y;
    const int64_t *from[NC_MAX_RANK];
    int64_t strides[NC_MAX_RANK]; /* of x */
    const char *value;
    size_t bytes;
    int64_t rows, per_item, lo, hi; /* y's columns lo..hi-1 are x's in a row */
} pad_job;

static int64_t source(nck_pad_mode mode, int64_t i, int64_t d) {
    if (i >= 0 && i < d) return i;
    if (mode == NCK_PAD_CONSTANT || d == 0) return -1;
    if (mode == NCK_PAD_EDGE) return i < 0 ? 0 : d - 1;
    int64_t period = mode == NCK_PAD_WRAP ? d : d > 1 ? 2 * (d - 1) : 1;
    i %= period;
    if (i < 0) i += period;
    return i < d ? i : period - i;
}

static void tables(pad_job *j, nck_pad_mode mode, const int64_t *begin, void *workspace) {
    int64_t *at = workspace;
    for (int k = 0; k < j->y->rank; k++) {
        j->from[k] = at;
        for (int64_t i = 0; i < j->y->dims[k]; i++) *at++ = source(mode, i - begin[k], j->x->dims[k]);
    }
    nc_dense_strides(j->x->dims, j->x->rank, j->strides);
}

/* The element of x that a row begins with, counted without its last axis; -1: the row is all constant. */
static int64_t pad_row_source(const pad_job *j, int64_t row) {
    int64_t offset = 0;
    for (int k = j->y->rank - 2; k >= 0; k--) {
        int64_t from = j->from[k][row % j->y->dims[k]];
        if (from < 0) return -1;
        offset += from * j->strides[k];
        row /= j->y->dims[k];
    }
    return offset;
}

static void pad_put(const pad_job *j, char *y, const char *x, int64_t lo, int64_t hi, const int64_t *from) {
    for (int64_t i = lo; i < hi; i++) {
        const char *e = x == NULL || from[i] < 0 ? j->value : x + from[i] * (int64_t)j->bytes;
        switch (j->bytes) {
        case 4: memcpy(y + i * 4, e, 4); break;
        case 8: memcpy(y + i * 8, e, 8); break;
        case 1: y[i] = *e; break;
        default: memcpy(y + i * (int64_t)j->bytes, e, j->bytes); break;
        }
    }
}

static void pad_item(void *ctx, int64_t i_item) {
    const pad_job *j = ctx;
    int last = j->y->rank - 1;
    int64_t n = j->y->dims[last], end = (i_item + 1) * j->per_item;
    for (int64_t row = i_item * j->per_item; row < end && row < j->rows; row++) {
        char *y = (char *)j->y->data + row * n * (int64_t)j->bytes;
        int64_t offset = pad_row_source(j, row);
        if (offset < 0) {
            pad_put(j, y, NULL, 0, n, NULL);
            continue;
        }
        const char *x = (const char *)j->x->data + offset * (int64_t)j->bytes;
        pad_put(j, y, x, 0, j->lo, j->from[last]);
        if (j->hi > j->lo)
            memcpy(y + j->lo * (int64_t)j->bytes, x + j->from[last][j->lo] * (int64_t)j->bytes,
                   (size_t)(j->hi - j->lo) * j->bytes);
        pad_put(j, y, x, j->hi, n, j->from[last]);
    }
}

size_t nck_pad_workspace(const nc_tensor *y) {
    size_t n = 0;
    for (int k = 0; k < y->rank; k++) n += (size_t)y->dims[k];
    return (n + 1) * sizeof(int64_t);
}

void nck_pad(nck_pad_mode mode, const nc_tensor *x, const int64_t *begin, const void *value, const nc_tensor *y,
             void *workspace, nc_pool *pool) {
    static const char zero[16];
    int64_t total = nc_tensor_numel(y);
    pad_job j = {.x = x, .y = y, .value = value != NULL ? value : zero, .bytes = nc_dtype_bytes(x->dtype)};
    if (total == 0) return;
    if (y->rank == 0) {
        memcpy(y->data, x->data, j.bytes);
        return;
    }
    tables(&j, mode, begin, workspace);
    int64_t n = y->dims[y->rank - 1], b = begin[y->rank - 1], inside = b + x->dims[x->rank - 1];
    j.lo = b < 0 ? 0 : b > n ? n : b;
    j.hi = inside < j.lo ? j.lo : inside > n ? n : inside;
    j.rows = total / n;
    j.per_item = n < ITEM ? ITEM / n : 1;
    nc_parallel(pool, nc_ceil_div(j.rows, j.per_item), pad_item, &j);
}

void nck_pad_grad(nck_pad_mode mode, const nc_tensor *dy, const int64_t *begin, const nc_tensor *dx, void *workspace) {
    pad_job j = {.x = dx, .y = dy, .bytes = nc_dtype_bytes(dx->dtype)};
    int64_t total = nc_tensor_numel(dy), n = dy->rank > 0 ? dy->dims[dy->rank - 1] : 1;
    memset(dx->data, 0, (size_t)nc_tensor_numel(dx) * j.bytes);
    if (total == 0) return;
    tables(&j, mode, begin, workspace);
    for (int64_t row = 0; row < total / n; row++) {
        int64_t offset = pad_row_source(&j, row);
        for (int64_t i = 0; offset >= 0 && i < n; i++) {
            int64_t from = dy->rank > 0 ? j.from[dy->rank - 1][i] : 0;
            if (from < 0) continue;
            if (dx->dtype == NC_FLOAT)
                ((float *)dx->data)[offset + from] += ((const float *)dy->data)[row * n + i];
            else
                ((double *)dx->data)[offset + from] += ((const double *)dy->data)[row * n + i];
        }
    }
}
