/* kernels/cpu/pool/pool.c: pools by direct loops over the taps of every place, see pool.h. The transposes scatter
 * within their plane. */
#include "kernels/cpu/pool/pool.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct job {
    const nck_pool_args *a;
    int64_t *index;
    bool column_major;
    nck_pool_divide by;
    double p;
} job;

/* The taps of one place. */
typedef struct taps {
    int64_t first[NCK_WINDOW_DIMS], low[NCK_WINDOW_DIMS], high[NCK_WINDOW_DIMS];
} taps;

static void taps_at(const nck_window *w, int64_t place, taps *t) {
    for (int d = NCK_WINDOW_DIMS - 1; d >= 0; place /= w->out[d], d--)
        nck_window_taps(w, d, place % w->out[d], &t->first[d], &t->low[d], &t->high[d]);
}

#define FOR_TAPS(w, t, at)                                                                               \
    for (int64_t i0 = (t)->low[0]; i0 < (t)->high[0]; i0++)                                              \
        for (int64_t i1 = (t)->low[1]; i1 < (t)->high[1]; i1++)                                          \
            for (int64_t i2 = (t)->low[2],                                                               \
                         at = (((t)->first[0] + i0 * (w)->dil[0]) * (w)->in[1] + (t)->first[1] +         \
                               i1 * (w)->dil[1]) * (w)->in[2] + (t)->first[2] + i2 * (w)->dil[2];        \
                 i2 < (t)->high[2]; i2++, at += (w)->dil[2])

static double divisor(const nck_window *w, const taps *t, nck_pool_divide by) {
    double n = 1;
    if (by == NCK_POOL_SUM) return 1;
    for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
        int64_t count = t->high[d] - t->low[d];
        if (by == NCK_POOL_BY_PADDED) { /* a window that ceil_mode lets hang over counts only what is padded */
            int64_t room = w->in[d] + w->pad_end[d] - t->first[d];
            count = (room + w->dil[d] - 1) / w->dil[d];
            if (count > w->k[d]) count = w->k[d];
        }
        n *= (double)count;
    }
    return n;
}

static int64_t by_columns(const nck_window *w, int64_t at) {
    int64_t i2 = at % w->in[2], i1 = at / w->in[2] % w->in[1], i0 = at / w->in[2] / w->in[1];
    return (i2 * w->in[1] + i1) * w->in[0] + i0;
}

#define DEFINE_MAX(S, T, LOWEST)                                                          \
    static void max_##S(void *ctx, int64_t plane) {                                       \
        const job *j = ctx;                                                               \
        const nck_window *w = &j->a->w;                                                   \
        int64_t n_out = nck_window_n_out(w), base = plane * nck_window_n_in(w);           \
        const T *x = (const T *)j->a->x + base;                                           \
        for (int64_t o = 0; o < n_out; o++) {                                             \
            taps t;                                                                       \
            T top = LOWEST;                                                               \
            int64_t where = -1;                                                           \
            taps_at(w, o, &t);                                                            \
            FOR_TAPS(w, &t, at) {                                                         \
                T v = x[at];                                                              \
                if (where >= 0 && (top != top || !(v > top || v != v))) continue;         \
                top = v;                                                                  \
                where = at;                                                               \
            }                                                                             \
            ((T *)j->a->y)[plane * n_out + o] = top;                                      \
            if (j->index == NULL) continue;                                               \
            if (where >= 0) where = base + (j->column_major ? by_columns(w, where) : where); \
            j->index[plane * n_out + o] = where;                                          \
        }                                                                                 \
    }
DEFINE_MAX(f32, float, -INFINITY)
DEFINE_MAX(f64, double, -INFINITY)
DEFINE_MAX(i8, int8_t, INT8_MIN)
DEFINE_MAX(u8, uint8_t, 0)

#define DEFINE_SUMS(S, T)                                                                              \
    static void average_##S(void *ctx, int64_t plane) {                                                \
        const job *j = ctx;                                                                            \
        const nck_window *w = &j->a->w;                                                                \
        int64_t n_out = nck_window_n_out(w);                                                           \
        const T *x = (const T *)j->a->x + plane * nck_window_n_in(w);                                  \
        for (int64_t o = 0; o < n_out; o++) {                                                          \
            taps t;                                                                                    \
            double sum = 0;                                                                            \
            taps_at(w, o, &t);                                                                         \
            FOR_TAPS(w, &t, at) sum += (double)x[at];                                                  \
            ((T *)j->a->y)[plane * n_out + o] = (T)(sum / divisor(w, &t, j->by));                      \
        }                                                                                              \
    }                                                                                                  \
    static void average_grad_##S(void *ctx, int64_t plane) {                                           \
        const job *j = ctx;                                                                            \
        const nck_window *w = &j->a->w;                                                                \
        int64_t n_out = nck_window_n_out(w), n_in = nck_window_n_in(w);                                \
        T *dx = (T *)j->a->y + plane * n_in;                                                           \
        memset(dx, 0, (size_t)n_in * sizeof *dx);                                                      \
        for (int64_t o = 0; o < n_out; o++) {                                                          \
            taps t;                                                                                    \
            taps_at(w, o, &t);                                                                         \
            T part = (T)((double)((const T *)j->a->x)[plane * n_out + o] / divisor(w, &t, j->by));     \
            FOR_TAPS(w, &t, at) dx[at] += part;                                                        \
        }                                                                                              \
    }                                                                                                  \
    static void lp_##S(void *ctx, int64_t plane) {                                                     \
        const job *j = ctx;                                                                            \
        const nck_window *w = &j->a->w;                                                                \
        int64_t n_out = nck_window_n_out(w);                                                           \
        const T *x = (const T *)j->a->x + plane * nck_window_n_in(w);                                  \
        for (int64_t o = 0; o < n_out; o++) {                                                          \
            taps t;                                                                                    \
            double sum = 0;                                                                            \
            taps_at(w, o, &t);                                                                         \
            FOR_TAPS(w, &t, at) {                                                                      \
                double v = fabs((double)x[at]);                                                        \
                sum += j->p == 2 ? v * v : j->p == 1 ? v : pow(v, j->p);                               \
            }                                                                                          \
            double root = j->p == 2 ? sqrt(sum) : j->p == 1 ? sum : pow(sum, 1 / j->p);                \
            ((T *)j->a->y)[plane * n_out + o] = (T)root;                                               \
        }                                                                                              \
    }
DEFINE_SUMS(f32, float)
DEFINE_SUMS(f64, double)

void nck_pool_max(const nck_pool_args *a, int64_t *index, bool column_major, nc_pool *pool) {
    job j = {.a = a, .index = index, .column_major = column_major};
    nc_parallel(pool, a->planes,
                a->type == NC_FLOAT    ? max_f32
                : a->type == NC_DOUBLE ? max_f64
                : a->type == NC_INT8   ? max_i8
                                       : max_u8,
                &j);
}

void nck_pool_average(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool) {
    job j = {.a = a, .by = by};
    nc_parallel(pool, a->planes, a->type == NC_FLOAT ? average_f32 : average_f64, &j);
}

void nck_pool_average_grad(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool) {
    job j = {.a = a, .by = by};
    nc_parallel(pool, a->planes, a->type == NC_FLOAT ? average_grad_f32 : average_grad_f64, &j);
}

void nck_pool_lp(const nck_pool_args *a, double p, nc_pool *pool) {
    job j = {.a = a, .p = p};
    nc_parallel(pool, a->planes, a->type == NC_FLOAT ? lp_f32 : lp_f64, &j);
}

/* ---- placing ---- */

typedef struct placing {
    int64_t m, share;
    const void *x;
    const int64_t *index;
    bool add;
    void *y;
} placing;

#define DEFINE_PLACE(S, T)                                                          \
    static void place_##S(void *ctx, int64_t plane) {                               \
        const placing *p = ctx;                                                     \
        const T *x = (const T *)p->x + plane * p->m;                                \
        const int64_t *index = p->index + plane * p->m;                             \
        T *y = p->y;                                                                \
        memset(y + plane * p->share, 0, (size_t)p->share * sizeof *y);              \
        for (int64_t i = 0; i < p->m; i++) {                                        \
            if (index[i] < 0) continue;                                             \
            if (p->add) y[index[i]] += x[i];                                        \
            else y[index[i]] = x[i];                                                \
        }                                                                           \
    }
DEFINE_PLACE(f32, float)
DEFINE_PLACE(f64, double)

nc_code nck_pool_place(nc_dtype type, int64_t planes, int64_t m, int64_t n, const void *x, const int64_t *index,
                       bool add, void *y, int64_t *bad, nc_pool *pool) {
    placing p = {.m = m, .share = planes > 0 ? n / planes : 0, .x = x, .index = index, .add = add, .y = y};
    for (int64_t i = 0; i < planes * m; i++) {
        int64_t plane = i / m, at = index[i];
        if ((add && at == -1) || (at >= plane * p.share && at < (plane + 1) * p.share)) continue;
        *bad = at;
        return NC_E_DATA;
    }
    nc_parallel(pool, planes, type == NC_FLOAT ? place_f32 : place_f64, &p);
    return NC_OK;
}
