/* kernels/cpu/pool/pool.c: pools by direct loops over the taps of every place, or of a line of places, see pool.h.
 * The transposes scatter within their plane. */
#include "kernels/cpu/pool/pool.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/window_kernel.h"
#include "kernels/cpu/isa.h"

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

#define FOR_TAPS(w, t, at)                                                                                           \
    for (int64_t i0 = (t)->low[0]; i0 < (t)->high[0]; i0++)                                                          \
        for (int64_t i1 = (t)->low[1]; i1 < (t)->high[1]; i1++)                                                      \
            for (int64_t i2 = (t)->low[2],                                                                           \
                         at = (((t)->first[0] + i0 * (w)->dil[0]) * (w)->in[1] + (t)->first[1] + i1 * (w)->dil[1]) * \
                                  (w)->in[2] +                                                                       \
                              (t)->first[2] + i2 * (w)->dil[2];                                                      \
                 i2 < (t)->high[2]; i2++, at += (w)->dil[2])

/* The taps along dim d that the window at place o counts. */
static int64_t count_along(const nck_window *w, int d, int64_t o, nck_pool_divide by) {
    int64_t first = o * w->stride[d] - w->pad[d], low, high;
    if (first >= 0 && first + (w->k[d] - 1) * w->dil[d] < w->in[d]) return w->k[d];
    if (by == NCK_POOL_BY_PADDED) { /* a window that ceil_mode lets hang over counts only what is padded */
        int64_t count = (w->in[d] + w->pad_end[d] - first + w->dil[d] - 1) / w->dil[d];
        return count < w->k[d] ? count : w->k[d];
    }
    nck_window_taps(w, d, o, &first, &low, &high);
    return high - low;
}

static double count_at(const nck_window *w, int64_t o0, int64_t o1, int64_t o2, nck_pool_divide by) {
    if (by == NCK_POOL_SUM) return 1;
    return (double)(count_along(w, 0, o0, by) * count_along(w, 1, o1, by) * count_along(w, 2, o2, by));
}

static int64_t by_columns(const nck_window *w, int64_t at) {
    int64_t i2 = at % w->in[2], i1 = at / w->in[2] % w->in[1], i0 = at / w->in[2] / w->in[1];
    return (i2 * w->in[1] + i1) * w->in[0] + i0;
}

#define DEFINE_MAX(S, T, LOWEST)                                                             \
    static void max_##S(void *ctx, int64_t plane) {                                          \
        const job *j = ctx;                                                                  \
        const nck_window *w = &j->a->w;                                                      \
        int64_t n_out = nck_window_n_out(w), base = plane * nck_window_n_in(w);              \
        const T *x = (const T *)j->a->x + base;                                              \
        for (int64_t o = 0; o < n_out; o++) {                                                \
            taps t;                                                                          \
            T top = LOWEST;                                                                  \
            int64_t where = -1;                                                              \
            taps_at(w, o, &t);                                                               \
            FOR_TAPS(w, &t, at) {                                                            \
                T v = x[at];                                                                 \
                if (where >= 0 && (top != top || !(v > top || v != v))) continue;            \
                top = v;                                                                     \
                where = at;                                                                  \
            }                                                                                \
            ((T *)j->a->y)[plane * n_out + o] = top;                                         \
            if (j->index == NULL) continue;                                                  \
            if (where >= 0) where = base + (j->column_major ? by_columns(w, where) : where); \
            j->index[plane * n_out + o] = where;                                             \
        }                                                                                    \
    }
DEFINE_MAX(f32, float, -INFINITY)
DEFINE_MAX(f64, double, -INFINITY)
DEFINE_MAX(i8, int8_t, INT8_MIN)
DEFINE_MAX(u8, uint8_t, 0)

/* ---- lines ----
 * Without indices a line of places is pooled together, tap after tap, in pieces that stay in the first cache. */

enum { PIECE = 128, STEP = 8 };

#define JOIN_MAX(acc, v) ((v) > (acc) ? (v) : (acc))
#define JOIN_SUM(acc, v) ((acc) + (double)(v))

/* acc (A) joins the taps of the n places from `first` on of line (o0, o1). */
#define DEFINE_LINE(name, T, A, JOIN)                                                                          \
    static void name##_tap(A *restrict acc, const T *restrict x, int64_t step, int64_t n) {                    \
        int64_t i = 0;                                                                                         \
        for (; step == 1 && i + STEP <= n; i += STEP)                                                          \
            for (int k = 0; k < STEP; k++) acc[i + k] = JOIN(acc[i + k], x[i + k]);                            \
        for (; step == 2 && i + STEP <= n; i += STEP)                                                          \
            for (int k = 0; k < STEP; k++) acc[i + k] = JOIN(acc[i + k], x[2 * (i + k)]);                      \
        for (; i < n; i++) acc[i] = JOIN(acc[i], x[i * step]);                                                 \
    }                                                                                                          \
    static void name##_line(const nck_window *w, const T *x, int64_t o0, int64_t o1, int64_t first, int64_t n, \
                            A *acc) {                                                                          \
        int64_t f0, l0, h0, f1, l1, h1, low, high;                                                             \
        nck_window_taps(w, 0, o0, &f0, &l0, &h0);                                                              \
        nck_window_taps(w, 1, o1, &f1, &l1, &h1);                                                              \
        for (int64_t a = l0; a < h0; a++)                                                                      \
            for (int64_t b = l1; b < h1; b++)                                                                  \
                for (int64_t t = 0; t < w->k[2]; t++) {                                                        \
                    nck_window_places(w, 2, t, &low, &high);                                                   \
                    low = nc_max64(low, first);                                                                \
                    high = nc_min64(high, first + n);                                                          \
                    if (low >= high) continue;                                                                 \
                    int64_t row = (f0 + a * w->dil[0]) * w->in[1] + f1 + b * w->dil[1];                        \
                    int64_t at = row * w->in[2] + low * w->stride[2] - w->pad[2] + t * w->dil[2];              \
                    name##_tap(acc + (low - first), x + at, w->stride[2], high - low);                         \
                }                                                                                              \
    }
DEFINE_LINE(line_max_i8, int8_t, int8_t, JOIN_MAX)
DEFINE_LINE(line_max_u8, uint8_t, uint8_t, JOIN_MAX)
DEFINE_LINE(line_sum_f32, float, double, JOIN_SUM)
DEFINE_LINE(line_sum_f64, double, double, JOIN_SUM)

/* Floats: first down the rows of the window, where elements lie side by side, then along the line. */
enum { SPAN = 1024 };

#define DEFINE_LINE_MAX(S, T)                                                                                          \
    static void line_max_##S##_line(const nck_window *w, const T *x, int64_t o0, int64_t o1, int64_t first, int64_t n, \
                                    T *acc) {                                                                          \
        const nck_window_##S *v = &nck_isa_get()->window->S;                                                           \
        int64_t f0, l0, h0, f1, l1, h1, low, high, left = first * w->stride[2] - w->pad[2];                            \
        int64_t right = left + (n - 1) * w->stride[2] + (w->k[2] - 1) * w->dil[2] + 1;                                 \
        T down[SPAN], along[PIECE];                                                                                    \
        left = nc_max64(left, 0);                                                                                      \
        right = nc_min64(right, w->in[2]);                                                                             \
        nck_window_taps(w, 0, o0, &f0, &l0, &h0);                                                                      \
        nck_window_taps(w, 1, o1, &f1, &l1, &h1);                                                                      \
        for (int64_t i = 0; i < right - left; i++) down[i] = -INFINITY;                                                \
        for (int64_t a = l0; a < h0; a++)                                                                              \
            for (int64_t b = l1; b < h1; b++) {                                                                        \
                int64_t row = (f0 + a * w->dil[0]) * w->in[1] + f1 + b * w->dil[1];                                    \
                if (right > left) v->max(down, x + row * w->in[2] + left, right - left);                               \
            }                                                                                                          \
        for (int64_t t = 0; t < w->k[2]; t++) {                                                                        \
            nck_window_places(w, 2, t, &low, &high);                                                                   \
            low = nc_max64(low, first);                                                                                \
            high = nc_min64(high, first + n);                                                                          \
            const T *from = down + (low * w->stride[2] - w->pad[2] + t * w->dil[2] - left);                            \
            if (low >= high) continue;                                                                                 \
            if (w->stride[2] == 1) {                                                                                   \
                v->max(acc + (low - first), from, high - low);                                                         \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t i = 0; i < high - low; i++) along[i] = from[i * w->stride[2]];                                \
            v->max(acc + (low - first), along, high - low);                                                            \
        }                                                                                                              \
    }
DEFINE_LINE_MAX(f32, float)
DEFINE_LINE_MAX(f64, double)

/* Runs BODY for each piece of each line: places o.. of them start at `first`, n long, in acc, begun with START. */
#define FOR_PIECES(line_fn, A, START, BODY)                                               \
    for (int64_t line = 0; line < w->out[0] * w->out[1]; line++)                          \
        for (int64_t first = 0; first < w->out[2]; first += PIECE) {                      \
            A acc[PIECE];                                                                 \
            int64_t n = nc_min64(PIECE, w->out[2] - first), o = line * w->out[2] + first; \
            for (int64_t i = 0; i < n; i++) acc[i] = START;                               \
            line_fn##_line(w, x, line / w->out[1], line % w->out[1], first, n, acc);      \
            for (int64_t i = 0; i < n; i++) BODY;                                         \
        }

#define DEFINE_MAX_LINES(S, T, LOWEST)                                \
    static void max_lines_##S(void *ctx, int64_t plane) {             \
        const job *j = ctx;                                           \
        const nck_window *w = &j->a->w;                               \
        const T *x = (const T *)j->a->x + plane * nck_window_n_in(w); \
        T *y = (T *)j->a->y + plane * nck_window_n_out(w);            \
        FOR_PIECES(line_max_##S, T, LOWEST, y[o + i] = acc[i])        \
    }
DEFINE_MAX_LINES(f32, float, -INFINITY)
DEFINE_MAX_LINES(f64, double, -INFINITY)
DEFINE_MAX_LINES(i8, int8_t, INT8_MIN)
DEFINE_MAX_LINES(u8, uint8_t, 0)

#define DEFINE_SUMS(S, T)                                                                                       \
    static void average_##S(void *ctx, int64_t plane) {                                                         \
        const job *j = ctx;                                                                                     \
        const nck_window *w = &j->a->w;                                                                         \
        const T *x = (const T *)j->a->x + plane * nck_window_n_in(w);                                           \
        T *y = (T *)j->a->y + plane * nck_window_n_out(w);                                                      \
        FOR_PIECES(line_sum_##S, double, 0,                                                                     \
                   y[o + i] = (T)(acc[i] / count_at(w, line / w->out[1], line % w->out[1], first + i, j->by)))  \
    }                                                                                                           \
    static void average_grad_##S(void *ctx, int64_t plane) {                                                    \
        const job *j = ctx;                                                                                     \
        const nck_window *w = &j->a->w;                                                                         \
        int64_t n_out = nck_window_n_out(w), n_in = nck_window_n_in(w);                                         \
        T *dx = (T *)j->a->y + plane * n_in;                                                                    \
        memset(dx, 0, (size_t)n_in * sizeof *dx);                                                               \
        for (int64_t o = 0; o < n_out; o++) {                                                                   \
            taps t;                                                                                             \
            taps_at(w, o, &t);                                                                                  \
            double n = count_at(w, o / w->out[2] / w->out[1], o / w->out[2] % w->out[1], o % w->out[2], j->by); \
            T part = (T)((double)((const T *)j->a->x)[plane * n_out + o] / n);                                  \
            FOR_TAPS(w, &t, at) dx[at] += part;                                                                 \
        }                                                                                                       \
    }                                                                                                           \
    static void lp_##S(void *ctx, int64_t plane) {                                                              \
        const job *j = ctx;                                                                                     \
        const nck_window *w = &j->a->w;                                                                         \
        int64_t n_out = nck_window_n_out(w);                                                                    \
        const T *x = (const T *)j->a->x + plane * nck_window_n_in(w);                                           \
        for (int64_t o = 0; o < n_out; o++) {                                                                   \
            taps t;                                                                                             \
            double sum = 0;                                                                                     \
            taps_at(w, o, &t);                                                                                  \
            FOR_TAPS(w, &t, at) {                                                                               \
                double v = fabs((double)x[at]);                                                                 \
                sum += j->p == 2 ? v * v : j->p == 1 ? v : pow(v, j->p);                                        \
            }                                                                                                   \
            double root = j->p == 2 ? sqrt(sum) : j->p == 1 ? sum : pow(sum, 1 / j->p);                         \
            ((T *)j->a->y)[plane * n_out + o] = (T)root;                                                        \
        }                                                                                                       \
    }
DEFINE_SUMS(f32, float)
DEFINE_SUMS(f64, double)

void nck_pool_max(const nck_pool_args *a, int64_t *index, bool column_major, nc_pool *pool) {
    job j = {.a = a, .index = index, .column_major = column_major};
    bool f32 = a->type == NC_FLOAT, f64 = a->type == NC_DOUBLE, i8 = a->type == NC_INT8;
    if (index == NULL && PIECE * a->w.stride[2] + a->w.k[2] * a->w.dil[2] <= SPAN)
        nc_parallel(pool, a->planes, f32 ? max_lines_f32 : f64 ? max_lines_f64 : i8 ? max_lines_i8 : max_lines_u8, &j);
    else
        nc_parallel(pool, a->planes, f32 ? max_f32 : f64 ? max_f64 : i8 ? max_i8 : max_u8, &j);
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

#define DEFINE_PLACE(S, T)                                             \
    static void place_##S(void *ctx, int64_t plane) {                  \
        const placing *p = ctx;                                        \
        const T *x = (const T *)p->x + plane * p->m;                   \
        const int64_t *index = p->index + plane * p->m;                \
        T *y = p->y;                                                   \
        memset(y + plane * p->share, 0, (size_t)p->share * sizeof *y); \
        for (int64_t i = 0; i < p->m; i++) {                           \
            if (index[i] < 0) continue;                                \
            if (p->add)                                                \
                y[index[i]] += x[i];                                   \
            else                                                       \
                y[index[i]] = x[i];                                    \
        }                                                              \
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
