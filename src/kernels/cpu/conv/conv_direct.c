/* kernels/cpu/conv/conv_direct.c: convolution with one channel per group, and sums over places, see conv_cols.h.
 * A line of the output is summed in pieces that stay in registers and the first cache. */
#include "kernels/cpu/conv/conv_cols.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/window_kernel.h"
#include "kernels/cpu/isa.h"

enum { PIECE = 128, STEP = 8 };

typedef struct job {
    const nck_cols_shape *s;
    const void *x, *w, *bias;
    const int64_t *strides;
    void *y;
    const nck_window_table *table;
    int64_t low, high; /* places along a line that see all taps in it; none where elements do not lie side by side */
} job;

#define DEFINE(S, T)                                                                                                  \
    static void add_##S(T *restrict acc, const T *restrict x, int64_t step, T w, int64_t n) {                         \
        int64_t i = 0;                                                                                                \
        for (; step == 1 && i + STEP <= n; i += STEP)                                                                 \
            for (int k = 0; k < STEP; k++) acc[i + k] += w * x[i + k];                                                \
        for (; step == 2 && i + STEP <= n; i += STEP)                                                                 \
            for (int k = 0; k < STEP; k++) acc[i + k] += w * x[2 * (i + k)];                                          \
        for (; i < n; i++) acc[i] += w * x[i * step];                                                                 \
    }                                                                                                                 \
    /* some of a line's places see only some taps of each row */                                                      \
    static void edge_##S(const job *j, const T *row, const T *w, int64_t first, int64_t end, T *acc) {                \
        const nck_window *v = &j->s->w;                                                                               \
        for (int64_t t = 0; t < v->k[2]; t++) {                                                                       \
            int64_t low, high;                                                                                        \
            nck_window_places(v, 2, t, &low, &high);                                                                  \
            low = nc_max64(low, first);                                                                               \
            high = nc_min64(high, end);                                                                               \
            if (low >= high) continue;                                                                                \
            int64_t from = low * v->stride[2] - v->pad[2] + t * v->dil[2];                                            \
            add_##S(acc + (low - first), row + from * j->strides[4], v->stride[2] * j->strides[4], w[t], high - low); \
        }                                                                                                             \
    }                                                                                                                 \
    /* one place beside those that see all taps: rows of taps from `top` on */                                        \
    static void spot_##S(const job *j, const T *top, const T *w, int64_t rows, int64_t o, T *acc) {                   \
        const nck_window *v = &j->s->w;                                                                               \
        int64_t f, low, high, row = v->dil[1] * j->strides[3];                                                        \
        T sum = *acc;                                                                                                 \
        nck_window_taps(v, 2, o, &f, &low, &high);                                                                    \
        for (int64_t b = 0; b < rows; b++)                                                                            \
            for (int64_t t = low; t < high; t++) sum += w[b * v->k[2] + t] * top[b * row + f + t * v->dil[2]];        \
        *acc = sum;                                                                                                   \
    }                                                                                                                 \
    /* places [first, end) of one line */                                                                             \
    static void piece_##S(const job *j, const T *x, const T *w, int64_t o0, int64_t o1, int64_t first, int64_t end,   \
                          T *acc) {                                                                                   \
        const nck_window *v = &j->s->w;                                                                               \
        int64_t f0, l0, h0, f1, l1, h1, low = nc_max64(j->low, first), high = nc_min64(j->high, end);                 \
        nck_window_taps(v, 0, o0, &f0, &l0, &h0);                                                                     \
        nck_window_taps(v, 1, o1, &f1, &l1, &h1);                                                                     \
        for (int64_t a = l0; a < h0; a++) {                                                                           \
            const T *plane = x + (f0 + a * v->dil[0]) * j->strides[2];                                                \
            const T *top = plane + (f1 + l1 * v->dil[1]) * j->strides[3], *k = w + (a * v->k[1] + l1) * v->k[2];      \
            if (low < high) {                                                                                         \
                j->table->S.taps(acc + (low - first), top + low - v->pad[2], v->dil[1] * j->strides[3], v->dil[2], k, \
                                 h1 - l1, v->k[2], high - low);                                                       \
                for (int64_t o = first; o < low; o++) spot_##S(j, top, k, h1 - l1, o, acc + (o - first));             \
                for (int64_t o = high; o < end; o++) spot_##S(j, top, k, h1 - l1, o, acc + (o - first));              \
                continue;                                                                                             \
            }                                                                                                         \
            for (int64_t b = l1; b < h1; b++)                                                                         \
                edge_##S(j, top + (b - l1) * v->dil[1] * j->strides[3], k + (b - l1) * v->k[2], first, end, acc);     \
        }                                                                                                             \
    }                                                                                                                 \
    static void plane_##S(void *ctx, int64_t item) {                                                                  \
        const job *j = ctx;                                                                                           \
        const nck_window *v = &j->s->w;                                                                               \
        int64_t n = item / j->s->K, k = item % j->s->K, c = k / (j->s->K / j->s->C);                                  \
        const T *x = (const T *)j->x + n * j->strides[0] + c * j->strides[1];                                         \
        const T *w = (const T *)j->w + k * nck_window_n_k(v);                                                         \
        T *y = (T *)j->y + item * nck_window_n_out(v), bias = j->bias ? ((const T *)j->bias)[k] : 0;                  \
        for (int64_t line = 0; line < v->out[0] * v->out[1]; line++)                                                  \
            for (int64_t first = 0; first < v->out[2]; first += PIECE) {                                              \
                T acc[PIECE];                                                                                         \
                int64_t m = nc_min64(PIECE, v->out[2] - first);                                                       \
                for (int64_t i = 0; i < m; i++) acc[i] = bias;                                                        \
                piece_##S(j, x, w, line / v->out[1], line % v->out[1], first, first + m, acc);                        \
                for (int64_t i = 0; i < m; i++) y[line * v->out[2] + first + i] = acc[i];                             \
            }                                                                                                         \
    }
DEFINE(f32, float)
DEFINE(f64, double)

void nck_conv_depthwise(const nck_cols_shape *s, const void *x, const int64_t x_strides[5], const void *w,
                        const void *bias, void *y, nc_pool *pool) {
    job j = {.s = s, .x = x, .w = w, .bias = bias, .strides = x_strides, .y = y, .table = nck_isa_get()->window};
    int64_t end;
    if (s->w.stride[2] == 1 && x_strides[4] == 1) {
        nck_window_places(&s->w, 2, 0, &j.low, &end);
        nck_window_places(&s->w, 2, s->w.k[2] - 1, &end, &j.high);
    }
    nc_parallel(pool, s->N * s->K, s->type == NC_FLOAT ? plane_f32 : plane_f64, &j);
}

typedef struct sums {
    int64_t N, K, places;
    const void *y;
    void *db;
} sums;

#define DEFINE_SUMS(S, T)                                                                                             \
    static void sum_##S(void *ctx, int64_t k) {                                                                       \
        const sums *s = ctx;                                                                                          \
        double acc = 0;                                                                                               \
        for (int64_t n = 0; n < s->N; n++)                                                                            \
            for (int64_t i = 0; i < s->places; i++) acc += (double)((const T *)s->y)[(n * s->K + k) * s->places + i]; \
        ((T *)s->db)[k] = (T)acc;                                                                                     \
    }
DEFINE_SUMS(f32, float)
DEFINE_SUMS(f64, double)

void nck_conv_sum_places(nc_dtype type, int64_t N, int64_t K, int64_t places, const void *y, void *db, nc_pool *pool) {
    sums s = {.N = N, .K = K, .places = places, .y = y, .db = db};
    nc_parallel(pool, K, type == NC_FLOAT ? sum_f32 : sum_f64, &s);
}
