/* kernels/cpu/norm/norm.c: normalization of rows and of channels, see norm.h. Rows are read three times: mean, squares,
 * result; runs of a row stay in the first cache. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>

/* STEP: inner loops of a fixed length, which compilers turn into vectors. */
enum { RUN = NCK_REDUCE_RUN, ITEM = 16384, STEP = 16 };

typedef struct job {
    const nck_norm_args *a;
    const nck_reduce_table *table;
    int64_t per_item;
} job;

#define DEFINE(S, T)                                                                                          \
    static double sum_##S(const nck_reduce_table *t, const T *x, int64_t n) {                                 \
        double sum = 0;                                                                                       \
        for (int64_t i = 0; i < n; i += RUN) sum += (double)t->S.sum(x + i, nc_min64(RUN, n - i));            \
        return sum;                                                                                           \
    }                                                                                                         \
    /* the sum of (x - shift)^2 */                                                                            \
    static double squares_##S(const nck_reduce_table *t, const T *x, int64_t n, T shift) {                    \
        T d[RUN];                                                                                             \
        double sum = 0;                                                                                       \
        for (int64_t i = 0; i < n; i += RUN) {                                                                \
            int64_t m = nc_min64(RUN, n - i), at = 0;                                                         \
            for (; at + STEP <= m; at += STEP)                                                                \
                for (int k = 0; k < STEP; k++) d[at + k] = x[i + at + k] - shift;                             \
            for (; at < m; at++) d[at] = x[i + at] - shift;                                                   \
            sum += (double)t->S.dot(d, d, m);                                                                 \
        }                                                                                                     \
        return sum;                                                                                           \
    }                                                                                                         \
    static void scaled_##S(const T *restrict x, T mean, T inv, T scale, T bias, T *restrict y, int64_t n) {   \
        int64_t i = 0;                                                                                        \
        for (; i + STEP <= n; i += STEP)                                                                      \
            for (int k = 0; k < STEP; k++) y[i + k] = (x[i + k] - mean) * inv * scale + bias;                 \
        for (; i < n; i++) y[i] = (x[i] - mean) * inv * scale + bias;                                         \
    }                                                                                                         \
    static void row_##S(const job *j, int64_t row) {                                                          \
        const nck_norm_args *a = j->a;                                                                        \
        const nck_norm_pick *p = &a->pick;                                                                    \
        const T *x = (const T *)a->x + row * a->cols, *s = a->scale, *b = a->bias;                            \
        T *y = (T *)a->y + row * a->cols;                                                                     \
        int64_t n = a->cols, base = row % p->mod * p->row_step;                                               \
        T mean = a->center ? (T)(sum_##S(j->table, x, n) / (double)n) : 0;                                    \
        T inv = (T)(1 / sqrt(squares_##S(j->table, x, n, mean) / (double)n + a->epsilon));                    \
        if (a->mean) ((T *)a->mean)[row] = mean;                                                              \
        if (a->inv_std) ((T *)a->inv_std)[row] = inv;                                                         \
        if (p->div == 1 && p->col_step == 1 && s) {                                                           \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * inv * s[base + i];                         \
            for (int64_t i = 0; b && i < n; i++) y[i] += b[base + i];                                         \
            return;                                                                                           \
        }                                                                                                     \
        int64_t step = p->col_step == 0 ? n : p->div;                                                         \
        for (int64_t i = 0; i < n; i += step) {                                                               \
            int64_t at = base + i / p->div * p->col_step;                                                     \
            scaled_##S(x + i, mean, inv, s ? s[at] : 1, b ? b[at] : 0, y + i, nc_min64(step, n - i));         \
        }                                                                                                     \
    }                                                                                                         \
    static void item_##S(void *ctx, int64_t item) {                                                           \
        const job *j = ctx;                                                                                   \
        int64_t end = nc_min64((item + 1) * j->per_item, j->a->rows);                                         \
        for (int64_t r = item * j->per_item; r < end; r++) row_##S(j, r);                                     \
    }                                                                                                         \
    static void channel_item_##S(void *ctx, int64_t item) {                                                   \
        const nck_norm_channels *a = ctx;                                                                     \
        int64_t c = item % a->C;                                                                              \
        double inv = 1 / sqrt((double)((const T *)a->var)[c] + a->epsilon);                                   \
        const T *x = (const T *)a->x + item * a->size;                                                        \
        T scale = (T)((double)((const T *)a->scale)[c] * inv);                                                \
        scaled_##S(x, ((const T *)a->mean)[c], 1, scale, ((const T *)a->bias)[c], (T *)a->y + item * a->size, \
                   a->size);                                                                                  \
    }
DEFINE(f32, float)
DEFINE(f64, double)

void nck_norm_rows(const nck_norm_args *a, nc_pool *pool) {
    job j = {.a = a, .table = nck_isa_get()->reduce, .per_item = a->cols >= ITEM ? 1 : ITEM / (a->cols + 1)};
    if (a->rows == 0) return;
    nc_parallel(pool, nc_ceil_div(a->rows, j.per_item), a->type == NC_FLOAT ? item_f32 : item_f64, &j);
}

void nck_norm_by_channel(const nck_norm_channels *a, nc_pool *pool) {
    nck_norm_channels copy = *a;
    nc_parallel(pool, a->N * a->C, a->type == NC_FLOAT ? channel_item_f32 : channel_item_f64, &copy);
}

/* ---- statistics ---- */

typedef struct stats {
    const nck_reduce_table *table;
    int64_t N, C, S;
    const void *x;
    void *mean, *var;
} stats;

#define DEFINE_STATS(S_, T)                                                                                          \
    static void stats_##S_(void *ctx, int64_t c) {                                                                   \
        const stats *s = ctx;                                                                                        \
        double sum = 0, squares = 0, n = (double)(s->N * s->S);                                                      \
        for (int64_t i = 0; i < s->N; i++) sum += sum_##S_(s->table, (const T *)s->x + (i * s->C + c) * s->S, s->S); \
        T mean = (T)(sum / n);                                                                                       \
        for (int64_t i = 0; i < s->N; i++)                                                                           \
            squares += squares_##S_(s->table, (const T *)s->x + (i * s->C + c) * s->S, s->S, mean);                  \
        ((T *)s->mean)[c] = mean;                                                                                    \
        ((T *)s->var)[c] = (T)(squares / n);                                                                         \
    }
DEFINE_STATS(f32, float)
DEFINE_STATS(f64, double)

void nck_channel_stats(nc_dtype type, int64_t N, int64_t C, int64_t S, const void *x, void *mean, void *var,
                       nc_pool *pool) {
    stats s = {.table = nck_isa_get()->reduce, .N = N, .C = C, .S = S, .x = x, .mean = mean, .var = var};
    nc_parallel(pool, C, type == NC_FLOAT ? stats_f32 : stats_f64, &s);
}
