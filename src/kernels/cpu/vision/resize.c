/* kernels/cpu/vision/resize.c: passes over the axes, see resize.h. Lines of an inner axis lie side by side, so that a
 * pass over an outer axis adds whole rows. */
#include "kernels/cpu/vision/resize.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

enum {
    BLOCK = 4096,
    TERMS = 4,         /* elements of work that a result costs */
    SLICES = 4,        /* for each thread */
    LEAST_GROWN = 6,   /* places of a line of which four go at a time */
    PICK_BYTES = 65536 /* of an item */
};

typedef struct resize_pass {
    const nck_resize_axis *a;
    nc_dtype type;
    int64_t outer, inner, cuts; /* an item is one outer line and one of `cuts` pieces of the inner ones */
    int64_t times; /* the line grows to twice, four or eight times its length, its taps with it; 0: otherwise */
    const void *x;
    void *y;
} resize_pass;

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Do the taps of every place but the first and last move on by one from place to place? */
static int64_t resize_times(const nck_resize_axis *a) {
    int64_t times = a->in > 0 && a->out % a->in == 0 ? a->out / a->in : 0;
    if (a->taps != 2 || a->in < LEAST_GROWN || (times != 2 && times != 4 && times != 8)) return 0;
    for (int64_t i = 4 * times; i < 2 * (a->out - times); i++)
        if (a->index[i] != a->index[i - 2 * times] + 1 || a->weight[i] != a->weight[i - 2 * times]) return 0;
    return times;
}

/* n results for each of four places: v[q][i] is result q of place i. */
static void resize_put(const four *v, int n, float *y, int64_t times) {
    four a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    if (n == 2) {
        *(four *)(void *)y = a, *(four *)(void *)(y + 4) = b;
        return;
    }
    four c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    *(four *)(void *)y = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    *(four *)(void *)(y + times) = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    *(four *)(void *)(y + 2 * times) = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    *(four *)(void *)(y + 3 * times) = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* A line that grows by p->times, from its second place on, four at a time; returns the first result that is left. */
static int64_t resize_grown(const resize_pass *p, const float *x, float *y) {
    int64_t times = p->times, j = 1, from[16];
    int n = times == 2 ? 2 : 4;
    float w[16];
    for (int64_t i = 0; i < 2 * times; i++) {
        from[i] = p->a->index[2 * times + i] - 1;
        w[i] = (float)p->a->weight[2 * times + i];
    }
    for (; j + 4 < p->a->in; j += 4)
        for (int64_t q = 0; q < times; q += n) {
            four v[4];
            for (int r = 0; r < n; r++) {
                const int64_t *at = from + 2 * (q + r);
                const four *x0 = (const void *)(x + j + at[0]), *x1 = (const void *)(x + j + at[1]);
                v[r] = w[2 * (q + r)] * *x0 + w[2 * (q + r) + 1] * *x1;
            }
            resize_put(v, n, y + times * j + q, times);
        }
    return times * j;
}

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

/* The passes over a tensor, each from where the one before it wrote to. */
typedef struct resize_work {
    resize_pass pass[NC_MAX_RANK];
    int n;
    int64_t slices; /* of the axes before the first that is resized: no pass mixes them */
    void (*item)(void *, int64_t);
} resize_work;

/* One slice through all passes: what a pass has written is still near. */
static void resize_slice_item(void *ctx, int64_t slice) {
    const resize_work *w = ctx;
    for (int k = 0; k < w->n; k++) {
        const resize_pass *p = &w->pass[k];
        int64_t items = p->outer / w->slices * p->cuts;
        for (int64_t i = slice * items; i < (slice + 1) * items; i++) w->item((void *)(uintptr_t)p, i);
    }
}

/* Inner axes first: an axis that grows is worked on when the others are still small. */
static void resize_plan_passes(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, char *buffer,
                               resize_work *w) {
    size_t size = (size_t)nck_resize_buffer(x, y) * nc_dtype_bytes(x->dtype);
    const void *from = x->data;
    w->n = n, w->slices = 1;
    for (int d = 0; d < axes[0].axis; d++) w->slices *= x->dims[d];
    for (int k = n - 1, step = 0; k >= 0; k--, step++) {
        resize_pass *p = &w->pass[step];
        *p = (resize_pass){.a = &axes[k], .type = x->dtype, .outer = 1, .inner = 1, .x = from};
        for (int d = 0; d < axes[k].axis; d++) p->outer *= x->dims[d];
        for (int d = axes[k].axis + 1; d < y->rank; d++) p->inner *= y->dims[d];
        p->y = k == 0 ? y->data : buffer + (size_t)(step % 2) * size;
        p->times = p->inner == 1 && p->type == NC_FLOAT ? resize_times(p->a) : 0;
        p->cuts = p->inner > BLOCK ? nc_ceil_div(p->inner, BLOCK) : 1;
        from = p->y;
    }
}

/* Slice by slice where there are enough of them, else pass by pass. */
static void resize_run_passes(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, char *buffer,
                              void (*item)(void *, int64_t), nc_pool *pool) {
    resize_work w = {.item = item};
    if (nc_tensor_numel(y) == 0) return;
    if (n == 0) {
        memcpy(y->data, x->data, (size_t)nc_tensor_numel(x) * nc_dtype_bytes(x->dtype));
        return;
    }
    resize_plan_passes(x, axes, n, y, buffer, &w);
    nc_pool *wanted = nc_pool_for(pool, nc_max64(nc_tensor_numel(x), nc_tensor_numel(y)) * n * TERMS);
    if (w.slices >= SLICES * nc_pool_threads(wanted)) {
        nc_parallel(wanted, w.slices, resize_slice_item, &w);
        return;
    }
    for (int k = 0; k < n; k++) nc_parallel(wanted, w.pass[k].outer * w.pass[k].cuts, item, &w.pass[k]);
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
    int64_t times; /* every element of a row stands so many times, one after the other; 0: otherwise */
    size_t bytes;
} picks;

static int64_t pick_times(const nck_resize_axis *a) {
    int64_t times = a != NULL && a->in > 0 && a->out % a->in == 0 ? a->out / a->in : 0;
    for (int64_t i = 0; times > 0 && i < a->out; i++)
        if (a->index[i] != i / times) return 0;
    return times;
}

/* Elements of four bytes, each `times` times. */
static void pick_again(const uint32_t *x, uint32_t *y, int64_t in, int64_t times) {
    typedef uint32_t words __attribute__((vector_size(16), aligned(4), may_alias));
    int64_t j = 0;
    for (; times == 2 && j + 4 <= in; j += 4, y += 8) {
        words v = *(const words *)(const void *)(x + j);
        *(words *)(void *)y = __builtin_shufflevector(v, v, 0, 0, 1, 1);
        *(words *)(void *)(y + 4) = __builtin_shufflevector(v, v, 2, 2, 3, 3);
    }
    for (; j < in; j++, y += times) {
        int64_t q = 0;
        for (; q + 4 <= times; q += 4) *(words *)(void *)(y + q) = (words){x[j], x[j], x[j], x[j]};
        for (; q < times; q++) y[q] = x[j];
    }
}

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
    if (b == 4 && p->times > 0)
        pick_again((const void *)x, (void *)y, a->in, p->times);
    else if (b == 4)
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
    p.times = p.bytes == 4 ? pick_times(p.of[p.rank - 1]) : 0;
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
