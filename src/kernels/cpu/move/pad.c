/* kernels/cpu/move/pad.c: borders, see pad.h. Axes without borders that stand side by side are one; the last ones make
 * an element, so that channels in blocks are copied as blocks. A table per axis says where each index comes from; rows
 * are the last axis, whose middle is copied at once. The gradient adds serially, so that its order is that of dy. */
#include "kernels/cpu/move/pad.h"

#include "base/intmath.h"

#include <string.h>

enum { ITEM = 1 << 16 }; /* bytes */

typedef struct pad_job {
    int rank;
    int64_t outer[NC_MAX_RANK], inner[NC_MAX_RANK]; /* dims with the borders, and without */
    int64_t begin[NC_MAX_RANK];                     /* the borders in front */
    int64_t strides[NC_MAX_RANK];                   /* of what is without, in elements */
    const int64_t *from[NC_MAX_RANK];               /* where index i comes from, -1: nowhere; NULL: from i */
    const char *x, *value;
    char *y;
    size_t unit, bytes;      /* of a number, of an element */
    int64_t rows, n, lo, hi; /* columns lo..hi-1 of n are x's in a row */
    int64_t per_item;
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

/* An axis more, or a part of the one before where neither has borders; its table. The end of the tables is returned. */
static int64_t *add_axis(pad_job *j, nck_pad_mode mode, int64_t outer, int64_t inner, int64_t begin, int64_t *table) {
    bool plain = begin == 0 && outer == inner;
    if (plain && j->rank > 0 && !j->from[j->rank - 1]) {
        j->outer[j->rank - 1] *= outer, j->inner[j->rank - 1] *= inner;
        return table;
    }
    j->outer[j->rank] = outer, j->inner[j->rank] = inner, j->begin[j->rank] = begin;
    j->from[j->rank++] = plain ? NULL : table;
    int64_t first, left = nck_pad_left(outer, inner, begin, &first);
    for (int64_t i = 0; !plain && i < outer; i++) {
        int64_t from = source(mode, i - nc_max64(begin, 0), left);
        *table++ = from < 0 ? from : first + from;
    }
    return table;
}

static void find_axes(pad_job *j, nck_pad_mode mode, const nc_tensor *outer, const nc_tensor *inner,
                      const int64_t *begin, int64_t *table) {
    j->unit = j->bytes = nc_dtype_bytes(outer->dtype);
    for (int k = 0; k < outer->rank; k++) table = add_axis(j, mode, outer->dims[k], inner->dims[k], begin[k], table);
    if (j->rank == 0) (void)add_axis(j, mode, 1, 1, 0, table);
    if (j->rank > 1 && !j->from[j->rank - 1]) j->bytes *= (size_t)j->outer[--j->rank];
    nc_dense_strides(j->inner, j->rank, j->strides);
    int last = j->rank - 1;
    int64_t first = j->begin[last], end = first + j->inner[last];
    j->n = j->outer[last], j->rows = 1;
    for (int k = 0; k < last; k++) j->rows *= j->outer[k];
    j->lo = first < 0 ? 0 : first > j->n ? j->n : first;
    j->hi = end < j->lo ? j->lo : end > j->n ? j->n : end;
}

static int64_t index_from(const pad_job *j, int k, int64_t i) { return j->from[k] ? j->from[k][i] : i; }

/* The rows, one after the other. */
typedef struct pad_walk {
    int64_t at[NC_MAX_RANK];
} pad_walk;

static void pad_start(const pad_job *j, pad_walk *w, int64_t row) {
    for (int k = j->rank - 2; k >= 0; k--) w->at[k] = row % j->outer[k], row /= j->outer[k];
}

static void pad_next(const pad_job *j, pad_walk *w) {
    int k = j->rank - 2;
    for (; k >= 0 && ++w->at[k] == j->outer[k]; k--) w->at[k] = 0;
}

/* The element that a row begins with; -1: the row is all constant. */
static int64_t pad_row(const pad_job *j, const pad_walk *w) {
    int64_t offset = 0;
    for (int k = 0; k < j->rank - 1; k++) {
        int64_t from = index_from(j, k, w->at[k]);
        if (from < 0) return -1;
        offset += from * j->strides[k];
    }
    return offset;
}

static void pad_fill(const pad_job *j, char *y, size_t bytes) {
    const char *end = y + bytes;
    if (j->unit == 4)
        for (; y < end; y += 4) memcpy(y, j->value, 4);
    else
        for (; y < end; y += j->unit) memcpy(y, j->value, j->unit);
}

static void pad_put(const pad_job *j, char *y, const char *x, int64_t lo, int64_t hi) {
    const int64_t *from = j->from[j->rank - 1];
    for (int64_t i = lo; i < hi; i++) {
        const char *e = x + from[i] * (int64_t)j->bytes;
        if (from[i] < 0)
            pad_fill(j, y + i * (int64_t)j->bytes, j->bytes);
        else if (j->bytes == 4)
            memcpy(y + i * 4, e, 4);
        else
            memcpy(y + i * (int64_t)j->bytes, e, j->bytes);
    }
}

static void pad_item(void *ctx, int64_t item) {
    const pad_job *j = ctx;
    int64_t row = item * j->per_item, end = nc_min64(row + j->per_item, j->rows);
    char *y = j->y + row * j->n * (int64_t)j->bytes;
    pad_walk w;
    for (pad_start(j, &w, row); row < end; row++, pad_next(j, &w), y += j->n * (int64_t)j->bytes) {
        int64_t offset = pad_row(j, &w);
        if (offset < 0) {
            pad_fill(j, y, (size_t)j->n * j->bytes);
            continue;
        }
        const char *x = j->x + offset * (int64_t)j->bytes;
        pad_put(j, y, x, 0, j->lo);
        if (j->hi > j->lo)
            memcpy(y + j->lo * (int64_t)j->bytes, x + index_from(j, j->rank - 1, j->lo) * (int64_t)j->bytes,
                   (size_t)(j->hi - j->lo) * j->bytes);
        pad_put(j, y, x, j->hi, j->n);
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
    pad_job j = {.x = x->data, .y = y->data, .value = value != NULL ? value : zero};
    if (nc_tensor_numel(y) == 0) return;
    find_axes(&j, mode, y, x, begin, workspace);
    int64_t bytes = j.n * (int64_t)j.bytes;
    j.per_item = bytes < ITEM ? ITEM / bytes : 1;
    nc_parallel(pool, nc_ceil_div(j.rows, j.per_item), pad_item, &j);
}

#define DEFINE_ADD(S, T)                                       \
    static void pad_add_##S(T *to, const T *from, int64_t n) { \
        for (int64_t i = 0; i < n; i++) to[i] += from[i];      \
    }
DEFINE_ADD(f32, float)
DEFINE_ADD(f64, double)

void nck_pad_grad(nck_pad_mode mode, const nc_tensor *dy, const int64_t *begin, const nc_tensor *dx, void *workspace) {
    pad_job j = {0};
    pad_walk w;
    memset(dx->data, 0, (size_t)nc_tensor_numel(dx) * nc_dtype_bytes(dx->dtype));
    if (nc_tensor_numel(dy) == 0) return;
    find_axes(&j, mode, dy, dx, begin, workspace);
    int64_t row = 0, each = (int64_t)(j.bytes / j.unit), at = 0;
    for (pad_start(&j, &w, 0); row < j.rows; row++, pad_next(&j, &w)) {
        int64_t offset = pad_row(&j, &w);
        for (int64_t i = 0; i < j.n; i++, at += each) {
            int64_t from = index_from(&j, j.rank - 1, i);
            if (offset < 0 || from < 0) continue;
            if (dx->dtype == NC_FLOAT)
                pad_add_f32((float *)dx->data + (offset + from) * each, (const float *)dy->data + at, each);
            else
                pad_add_f64((double *)dx->data + (offset + from) * each, (const double *)dy->data + at, each);
        }
    }
}
