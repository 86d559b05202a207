/* kernels/cpu/vision/resize.c: passes over the axes, see resize.h. Lines of an inner axis lie side by side, so that a
 * pass over an outer axis adds whole rows. */
#include "kernels/cpu/vision/resize.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

enum { BLOCK = 4096, TERMS = 4 /* elements of work that a result costs */, PICK_BYTES = 65536 /* of an item */ };

typedef struct resize_pass {
    const nck_resize_axis *a;
    nc_dtype type;
    int64_t outer, inner, cuts; /* an item is one outer line and one of `cuts` pieces of the inner ones */
    const void *x;
    void *y;
} resize_pass;

#define TEXT "kernels/cpu/vision/resize_rows.inc"
#include "kernels/cpu/per_float.inc"

static void resize_range(const resize_pass *p, int64_t cut, int64_t *lo, int64_t *hi) {
    *lo = p->inner * cut / p->cuts;
    *hi = p->inner * (cut + 1) / p->cuts;
}

static void resize_forward_item(void *ctx, int64_t i) {
    const resize_pass *p = ctx;
    int64_t lo, hi, o = i / p->cuts;
    resize_range(p, i % p->cuts, &lo, &hi);
    if (p->inner == 1)
        p->type == NC_FLOAT ? resize_line_f32(p, o) : resize_line_f64(p, o);
    else
        p->type == NC_FLOAT ? resize_rows_f32(p, o, lo, hi) : resize_rows_f64(p, o, lo, hi);
}

static void resize_backward_item(void *ctx, int64_t i) {
    const resize_pass *p = ctx;
    int64_t lo, hi, o = i / p->cuts;
    resize_range(p, i % p->cuts, &lo, &hi);
    p->type == NC_FLOAT ? resize_back_f32(p, o, lo, hi) : resize_back_f64(p, o, lo, hi);
}

int64_t nck_resize_buffer(const nc_tensor *x, const nc_tensor *y) {
    int64_t n = 1;
    for (int k = 0; k < x->rank; k++) n *= x->dims[k] > y->dims[k] ? x->dims[k] : y->dims[k];
    return n;
}

/* Inner axes first: an axis that grows is worked on when the others are still small. */
static void resize_run_passes(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, char *buffer,
                              void (*item)(void *, int64_t), nc_pool *pool) {
    int64_t dims[NC_MAX_RANK], size = nck_resize_buffer(x, y);
    size_t bytes = nc_dtype_bytes(x->dtype);
    const void *from = x->data;
    memcpy(dims, x->dims, sizeof dims);
    if (nc_tensor_numel(y) == 0) return;
    if (n == 0) memcpy(y->data, x->data, (size_t)nc_tensor_numel(x) * bytes);
    for (int k = n - 1, step = 0; k >= 0; k--, step++) {
        resize_pass p = {.a = &axes[k], .type = x->dtype, .outer = 1, .inner = 1, .cuts = 1, .x = from};
        for (int d = 0; d < x->rank; d++) *(d < axes[k].axis ? &p.outer : &p.inner) *= d == axes[k].axis ? 1 : dims[d];
        dims[axes[k].axis] = y->dims[axes[k].axis];
        p.y = k == 0 ? y->data : buffer + (size_t)(step % 2) * (size_t)size * bytes;
        p.cuts = p.inner > BLOCK ? nc_ceil_div(p.inner, BLOCK) : 1;
        nc_parallel(nc_pool_for(pool, p.outer * p.inner * dims[axes[k].axis] * TERMS), p.outer * p.cuts, item, &p);
        from = p.y;
    }
}

void nck_resize(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, void *buffer,
                nc_pool *pool) {
    resize_run_passes(x, axes, n, y, buffer, resize_forward_item, pool);
}

void nck_resize_grad(const nc_tensor *dy, const nck_resize_axis *axes, int n, const nc_tensor *dx, void *buffer,
                     nc_pool *pool) {
    if (nc_tensor_numel(dy) == 0)
        memset(dx->data, 0, (size_t)nc_tensor_numel(dx) * nc_dtype_bytes(dx->dtype));
    else
        resize_run_passes(dy, axes, n, dx, buffer, resize_backward_item, pool);
}

/* ---- nearest ---- */

/* Axes behind the last one that changes are one element of more bytes: a block of channels moves as it is. */
typedef struct picks {
    const nc_tensor *x, *y;
    int rank;
    const nck_resize_axis *of[NC_MAX_RANK]; /* NULL: the axis stays */
    int64_t strides[NC_MAX_RANK], rows, per_item;
    size_t bytes;
} picks;

static int64_t resize_row_source(const picks *p, int64_t row) {
    int64_t offset = 0;
    for (int k = p->rank - 2; k >= 0; k--) {
        int64_t i = row % p->y->dims[k];
        offset += (p->of[k] != NULL ? p->of[k]->index[i] : i) * p->strides[k];
        row /= p->y->dims[k];
    }
    return offset;
}

static void pick_row(const picks *p, const char *x, char *y, const nck_resize_axis *a) {
    size_t b = p->bytes;
    if (b == 4)
        for (int64_t i = 0; i < a->out; i++)
            ((uint32_t *)(void *)y)[i] = ((const uint32_t *)(const void *)x)[a->index[i]];
    else if (b == 1)
        for (int64_t i = 0; i < a->out; i++) y[i] = x[a->index[i]];
    else if (b == 64)
        for (int64_t i = 0; i < a->out; i++) memcpy(y + i * 64, x + a->index[i] * 64, 64);
    else if (b == 32)
        for (int64_t i = 0; i < a->out; i++) memcpy(y + i * 32, x + a->index[i] * 32, 32);
    else
        for (int64_t i = 0; i < a->out; i++) memcpy(y + (size_t)i * b, x + (size_t)a->index[i] * b, b);
}

static void pick_item(void *ctx, int64_t item) {
    const picks *p = ctx;
    int last = p->rank - 1;
    size_t row_bytes = (size_t)p->y->dims[last] * p->bytes;
    int64_t before = -1;
    for (int64_t row = item * p->per_item; row < p->rows && row < (item + 1) * p->per_item; row++) {
        char *y = (char *)p->y->data + (size_t)row * row_bytes;
        int64_t from = resize_row_source(p, row);
        const char *x = (const char *)p->x->data + (size_t)from * p->bytes;
        if (from == before)
            memcpy(y, y - row_bytes, row_bytes);
        else if (p->of[last] == NULL)
            memcpy(y, x, row_bytes);
        else
            pick_row(p, x, y, p->of[last]);
        before = from;
    }
}

void nck_resize_nearest(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, nc_pool *pool) {
    picks p = {.x = x, .y = y, .rank = y->rank, .bytes = nc_dtype_bytes(x->dtype)};
    int64_t total = nc_tensor_numel(y);
    if (total == 0) return;
    if (y->rank == 0) {
        memcpy(y->data, x->data, p.bytes);
        return;
    }
    for (int k = 0; k < n; k++) p.of[axes[k].axis] = &axes[k];
    for (; p.rank > 1 && p.of[p.rank - 1] == NULL; p.rank--) {
        p.bytes *= (size_t)y->dims[p.rank - 1];
        total /= y->dims[p.rank - 1];
    }
    nc_dense_strides(x->dims, p.rank, p.strides);
    p.rows = total / y->dims[p.rank - 1];
    p.per_item = 1 + PICK_BYTES / (y->dims[p.rank - 1] * (int64_t)p.bytes);
    nc_parallel(pool, nc_ceil_div(p.rows, p.per_item), pick_item, &p);
}

void nck_resize_fill_outside(const nck_resize_axis *axes, int n, const nc_tensor *y, const void *value) {
    size_t bytes = nc_dtype_bytes(y->dtype);
    for (int k = 0; k < n; k++) {
        int64_t outer = 1, inner = 1;
        for (int d = 0; d < y->rank; d++) *(d < axes[k].axis ? &outer : &inner) *= d == axes[k].axis ? 1 : y->dims[d];
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < axes[k].out; i++)
                for (int64_t e = 0; axes[k].outside[i] && e < inner; e++)
                    memcpy((char *)y->data + (size_t)((o * axes[k].out + i) * inner + e) * bytes, value, bytes);
    }
}
