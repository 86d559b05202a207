/* kernels/cpu/reduce/softmax.c: softmax rows cut into items; see softmax.h.
 * A row is handled in runs. Runs of dense rows are used where they lie; others are gathered into a small buffer and
 * scattered back, so one text serves every axis and stride. Forward, where rows lie side by side in memory, a strip of
 * them goes together instead: gathering would touch a cache line per element. */
#include "kernels/cpu/reduce/softmax.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>

enum { RUN = NCK_REDUCE_RUN, ITEM = 8192, STRIP = 64, STRIP_MIN = 8 };

typedef struct job {
    nck_softmax_kind kind;
    nck_walk walk; /* all dims but the axis */
    int64_t rows, n, per_item;
    int64_t width, n_strips; /* rows side by side and strips of them; 0: rows go singly */
    const void *x, *dy;      /* gradient: x is y */
    void *y;                 /* gradient: dx */
    int64_t xs, ds, ys;      /* strides along the axis */
    const nck_reduce_table *table;
} job;

#define DEFINE(S, T)                                                                                                   \
    static const T *fetch_##S(const T *p, int64_t stride, int64_t n, T *buffer) {                                      \
        if (stride == 1) return p;                                                                                     \
        for (int64_t i = 0; i < n; i++) buffer[i] = p[i * stride];                                                     \
        return buffer;                                                                                                 \
    }                                                                                                                  \
    static void put_##S(const T *from, T *p, int64_t stride, int64_t n) {                                              \
        if (from != p)                                                                                                 \
            for (int64_t i = 0; i < n; i++) p[i * stride] = from[i];                                                   \
    }                                                                                                                  \
    static void row_##S(const job *j, const T *x, T *y) {                                                              \
        const nck_reduce_##S *k = &j->table->S;                                                                        \
        T in[RUN], out[RUN], top = -(T)INFINITY;                                                                       \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < j->n; i += RUN) {                                                                      \
            int64_t n = nc_min64(RUN, j->n - i);                                                                       \
            T m = k->max(fetch_##S(x + i * j->xs, j->xs, n, in), n);                                                   \
            top = top > m || top != top ? top : m;                                                                     \
        }                                                                                                              \
        for (int64_t i = 0; i < j->n; i += RUN) {                                                                      \
            int64_t n = nc_min64(RUN, j->n - i);                                                                       \
            T *e = j->kind == NCK_SOFTMAX && j->ys == 1 ? y + i : out;                                                 \
            k->exp_shift(fetch_##S(x + i * j->xs, j->xs, n, in), top, e, n);                                           \
            sum += (double)k->sum(e, n);                                                                               \
            if (j->kind == NCK_SOFTMAX) put_##S(e, y + i * j->ys, j->ys, n);                                           \
        }                                                                                                              \
        T log_sum = (T)log(sum);                                                                                       \
        for (int64_t i = 0; i < j->n; i += RUN) {                                                                      \
            int64_t n = nc_min64(RUN, j->n - i);                                                                       \
            if (j->kind == NCK_LOG_SOFTMAX) {                                                                          \
                for (int64_t e = i; e < i + n; e++) y[e * j->ys] = (x[e * j->xs] - top) - log_sum;                     \
            } else if (j->ys == 1) {                                                                                   \
                k->divide(y + i, (T)sum, n);                                                                           \
            } else {                                                                                                   \
                for (int64_t e = i; e < i + n; e++) y[e * j->ys] /= (T)sum;                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* m <= STRIP rows side by side */                                                                                 \
    static void strip_##S(const job *j, const T *x, T *y, int64_t m) {                                                 \
        T top[STRIP], e[STRIP], last[STRIP];                                                                           \
        double sum[STRIP];                                                                                             \
        for (int64_t c = 0; c < m; c++) top[c] = -(T)INFINITY, sum[c] = 0;                                             \
        for (int64_t i = 0; i < j->n; i++)                                                                             \
            for (int64_t c = 0; c < m; c++) {                                                                          \
                T v = x[i * j->xs + c];                                                                                \
                top[c] = top[c] > v || top[c] != top[c] ? top[c] : v;                                                  \
            }                                                                                                          \
        for (int64_t i = 0; i < j->n; i++) {                                                                           \
            for (int64_t c = 0; c < m; c++) e[c] = x[i * j->xs + c] - top[c];                                          \
            j->table->S.exp_shift(e, 0, e, m);                                                                         \
            for (int64_t c = 0; c < m; c++) sum[c] += (double)e[c];                                                    \
            if (j->kind == NCK_SOFTMAX) put_##S(e, y + i * j->ys, 1, m);                                               \
        }                                                                                                              \
        for (int64_t c = 0; c < m; c++) last[c] = (T)(j->kind == NCK_SOFTMAX ? sum[c] : log(sum[c]));                  \
        for (int64_t i = 0; i < j->n; i++)                                                                             \
            for (int64_t c = 0; c < m; c++) {                                                                          \
                T *d = y + i * j->ys + c;                                                                              \
                *d = j->kind == NCK_SOFTMAX ? *d / last[c] : (x[i * j->xs + c] - top[c]) - last[c];                    \
            }                                                                                                          \
    }                                                                                                                  \
    static void grad_row_##S(const job *j, const T *y, const T *dy, T *dx) {                                           \
        const nck_reduce_##S *k = &j->table->S;                                                                        \
        T a[RUN], b[RUN], out[RUN];                                                                                    \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < j->n; i += RUN) {                                                                      \
            int64_t n = nc_min64(RUN, j->n - i);                                                                       \
            const T *g = fetch_##S(dy + i * j->ds, j->ds, n, b);                                                       \
            sum +=                                                                                                     \
                (double)(j->kind == NCK_SOFTMAX ? k->dot(fetch_##S(y + i * j->xs, j->xs, n, a), g, n) : k->sum(g, n)); \
        }                                                                                                              \
        for (int64_t i = 0; i < j->n; i += RUN) {                                                                      \
            int64_t n = nc_min64(RUN, j->n - i);                                                                       \
            const T *p = fetch_##S(y + i * j->xs, j->xs, n, a), *g = fetch_##S(dy + i * j->ds, j->ds, n, b);           \
            T *d = j->ys == 1 ? dx + i : out;                                                                          \
            (j->kind == NCK_SOFTMAX ? k->softmax_grad : k->log_grad)(p, g, (T)sum, d, n);                              \
            put_##S(d, dx + i * j->ys, j->ys, n);                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void strip_item_##S(void *ctx, int64_t item) {                                                              \
        const job *j = ctx;                                                                                            \
        int64_t c = item % j->n_strips * STRIP;                                                                        \
        nck_walk w = j->walk;                                                                                          \
        nck_walk_start(&w, item / j->n_strips);                                                                        \
        strip_##S(j, (const T *)j->x + w.offset[0] + c, (T *)j->y + w.offset[1] + c, nc_min64(STRIP, j->width - c));   \
    }                                                                                                                  \
    static void item_##S(void *ctx, int64_t item) {                                                                    \
        const job *j = ctx;                                                                                            \
        int64_t r = item * j->per_item, end = nc_min64(r + j->per_item, j->rows);                                      \
        nck_walk w = j->walk;                                                                                          \
        for (nck_walk_start(&w, r); r < end; r++, nck_walk_next(&w)) {                                                 \
            const T *x = (const T *)j->x + w.offset[0];                                                                \
            T *y = (T *)j->y + w.offset[1];                                                                            \
            if (j->dy)                                                                                                 \
                grad_row_##S(j, x, (const T *)j->dy + w.offset[2], y);                                                 \
            else                                                                                                       \
                row_##S(j, x, y);                                                                                      \
        }                                                                                                              \
    }
DEFINE(f32, float)
DEFINE(f64, double)

static void run(job *j, const nc_tensor *x, const nc_tensor *y, const nc_tensor *dy, int axis, nc_pool *pool) {
    int64_t dims[NC_MAX_RANK], strides[3][NC_MAX_RANK] = {{0}};
    int n = 0;
    for (int d = 0; d < x->rank; d++) {
        if (d == axis) continue;
        dims[n] = x->dims[d];
        strides[0][n] = x->strides[d];
        strides[1][n] = y->strides[d];
        strides[2][n++] = dy ? dy->strides[d] : 0;
    }
    bool strips = !dy && n > 0 && strides[0][n - 1] == 1 && strides[1][n - 1] == 1 && dims[n - 1] >= STRIP_MIN;
    nck_walk_init(&j->walk, strips ? n - 1 : n, dims, dy ? 3 : 2, strides);
    j->width = strips ? dims[n - 1] : 0;
    j->n_strips = nc_ceil_div(j->width, STRIP);
    j->rows = nck_walk_rows(&j->walk);
    j->n = x->dims[axis];
    if (j->rows == 0 || j->n == 0) return;
    j->xs = x->strides[axis];
    j->ys = y->strides[axis];
    j->ds = dy ? dy->strides[axis] : 0;
    j->x = x->data;
    j->y = y->data;
    j->dy = dy ? dy->data : NULL;
    j->per_item = j->n >= ITEM ? 1 : ITEM / j->n;
    j->table = nck_isa_get()->reduce;
    if (strips)
        nc_parallel(pool, j->rows * j->n_strips, x->dtype == NC_FLOAT ? strip_item_f32 : strip_item_f64, j);
    else
        nc_parallel(pool, nc_ceil_div(j->rows, j->per_item), x->dtype == NC_FLOAT ? item_f32 : item_f64, j);
}

void nck_softmax(nck_softmax_kind kind, const nc_tensor *x, const nc_tensor *y, int axis, nc_pool *pool) {
    job j = {.kind = kind};
    run(&j, x, y, NULL, axis, pool);
}

void nck_softmax_grad(nck_softmax_kind kind, const nc_tensor *y, const nc_tensor *dy, const nc_tensor *dx, int axis,
                      nc_pool *pool) {
    job j = {.kind = kind};
    run(&j, y, dx, dy, axis, pool);
}
