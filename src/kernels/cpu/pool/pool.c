/* kernels/cpu/pool/pool.c: pools by direct loops over the taps of every place, or of a line of places, see pool.h.
 * The transposes scatter within their plane. */
#include "kernels/cpu/pool/pool.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/window_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/pool/pool_lanes.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct pool_job {
    const nck_pool_args *a;
    int64_t *index;
    bool column_major;
    nck_pool_divide by;
    double p;
} pool_job;

/* The taps of one place. */
typedef struct taps {
    int64_t first[NCK_WINDOW_DIMS], low[NCK_WINDOW_DIMS], high[NCK_WINDOW_DIMS];
} taps;

static void taps_at(const nck_window *w, int64_t place, taps *t) {
    for (int d = NCK_WINDOW_DIMS - 1; d >= 0; place /= w->out[d], d--)
        nck_window_taps(w, d, place % w->out[d], &t->first[d], &t->low[d], &t->high[d]);
}

/* Where tap (i0, i1, 0) of a place lies in its plane. */
static int64_t row_at(const nck_window *w, const taps *t, int64_t i0, int64_t i1) {
    return ((t->first[0] + i0 * w->dil[0]) * w->in[1] + t->first[1] + i1 * w->dil[1]) * w->in[2] + t->first[2];
}

/* Goes over the taps of one place that lie inside the input; `at` is where each lies in the plane. */
#define FOR_TAPS(w, t, at)                                                                                  \
    for (int64_t i0 = (t)->low[0]; i0 < (t)->high[0]; i0++)                                                 \
        for (int64_t i1 = (t)->low[1]; i1 < (t)->high[1]; i1++)                                             \
            for (int64_t i2 = (t)->low[2], at = row_at(w, t, i0, i1) + i2 * (w)->dil[2]; i2 < (t)->high[2]; \
                 i2++, at += (w)->dil[2])

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

double nck_pool_count(const nck_window *w, int64_t o0, int64_t o1, int64_t o2, nck_pool_divide by) {
    if (by == NCK_POOL_SUM) return 1;
    return (double)(count_along(w, 0, o0, by) * count_along(w, 1, o1, by) * count_along(w, 2, o2, by));
}

static int64_t by_columns(const nck_window *w, int64_t at) {
    int64_t i2 = at % w->in[2], i1 = at / w->in[2] % w->in[1], i0 = at / w->in[2] / w->in[1];
    return (i2 * w->in[1] + i1) * w->in[0] + i0;
}

/* ---- lines ----
 * Without indices a line of places is pooled together, tap after tap, in pieces that stay in the first cache: places
 * beside each other see elements beside each other, so a tap is one run over memory. Doubles are not.
 *
 * The greatest and the mean of floats go in two steps. An example: a window of 2 by 3 with stride 1. First the rows of
 * the window are joined, d[i] = max(x0[i], x1[i]) for every element of the line, then the columns, y[o] = max(d[o],
 * d[o+1], d[o+2]): one comparison and two for each place instead of five. */

enum { PIECE = 128, STEP = 8 };

#define JOIN_MAX(acc, v) ((v) > (acc) ? (v) : (acc))

/* Every second of eight neighbours. */
typedef float four_v __attribute__((vector_size(16)));
static inline four_v every_second(const float *x) {
    four_v a, b;
    memcpy(&a, x, sizeof a), memcpy(&b, x + 4, sizeof b);
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
}

/* y[i] = x[i * step] */
static void pick_f32(const float *x, int64_t step, int64_t n, float *y) {
    int64_t i = 0;
    for (; step == 2 && i + 4 < n; i += 4) { /* the last four would read past the end of x */
        four_v v = every_second(x + 2 * i);
        memcpy(y + i, &v, sizeof v);
    }
    for (; i < n; i++) y[i] = x[i * step];
}

#define SUFFIX max_i8
#define ELEM int8_t
#define LOWEST INT8_MIN
#include "kernels/cpu/pool/pool_line.inc"

#define SUFFIX max_u8
#define ELEM uint8_t
#define LOWEST 0
#include "kernels/cpu/pool/pool_line.inc"

/* Elements of a row that a piece of a line of floats can see. */
enum { SPAN = 1024 };
static bool lines_fit(const nck_window *w) { return PIECE * w->stride[2] + w->k[2] * w->dil[2] <= SPAN; }

#define SUFFIX f32
#define ELEM float
#include "kernels/cpu/pool/pool_line_max.inc"

#define SUFFIX f32
#define ELEM float
#include "kernels/cpu/pool/pool_line_average.inc"

#define SUFFIX f32
#define ELEM float
#define LOWEST -INFINITY
#define IS_NAN IS_NAN_FLOAT
#include "kernels/cpu/pool/pool_max.inc"

#define SUFFIX f64
#define ELEM double
#define LOWEST -INFINITY
#define NO_LINES
#define IS_NAN IS_NAN_FLOAT
#include "kernels/cpu/pool/pool_max.inc"

#define SUFFIX i8
#define ELEM int8_t
#define LOWEST INT8_MIN
#define IS_NAN IS_NAN_INT
#include "kernels/cpu/pool/pool_max.inc"

#define SUFFIX u8
#define ELEM uint8_t
#define LOWEST 0
#define IS_NAN IS_NAN_INT
#include "kernels/cpu/pool/pool_max.inc"

#define TEXT "kernels/cpu/pool/pool_average.inc"
#include "kernels/cpu/per_float.inc"

static nc_pool *pool_for(const nck_pool_args *a, nc_pool *pool) {
    return nc_pool_for(pool, a->planes * nck_window_n_out(&a->w) * nck_window_n_k(&a->w));
}

void nck_pool_max(const nck_pool_args *a, int64_t *index, bool column_major, nc_pool *pool) {
    pool_job j = {.a = a, .index = index, .column_major = column_major};
    bool f32 = a->type == NC_FLOAT, f64 = a->type == NC_DOUBLE, i8 = a->type == NC_INT8;
    if (index == NULL && nck_pool_has_lanes(a))
        nck_pool_max_lanes(a, pool);
    else if (index == NULL && !f64 && lines_fit(&a->w))
        nc_parallel(pool_for(a, pool), a->planes,
                    f32  ? pool_max_lines_f32
                    : i8 ? pool_max_lines_i8
                         : pool_max_lines_u8,
                    &j);
    else
        nc_parallel(pool_for(a, pool), a->planes,
                    f32   ? pool_max_f32
                    : f64 ? pool_max_f64
                    : i8  ? pool_max_i8
                          : pool_max_u8,
                    &j);
}

void nck_pool_average(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool) {
    pool_job j = {.a = a, .by = by};
    bool f32 = a->type == NC_FLOAT;
    if (nck_pool_has_lanes(a))
        nck_pool_average_lanes(a, by, pool);
    else if (f32 && lines_fit(&a->w))
        nc_parallel(pool_for(a, pool), a->planes, pool_average_lines_f32, &j);
    else
        nc_parallel(pool_for(a, pool), a->planes, f32 ? pool_average_f32 : pool_average_f64, &j);
}

void nck_pool_average_grad(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool) {
    pool_job j = {.a = a, .by = by};
    nc_parallel(pool_for(a, pool), a->planes, a->type == NC_FLOAT ? pool_average_grad_f32 : pool_average_grad_f64, &j);
}

void nck_pool_lp(const nck_pool_args *a, double p, nc_pool *pool) {
    pool_job j = {.a = a, .p = p};
    nc_parallel(pool_for(a, pool), a->planes, a->type == NC_FLOAT ? pool_lp_f32 : pool_lp_f64, &j);
}

/* ---- placing ---- */

typedef struct placing {
    int64_t m, share;
    const void *x;
    const int64_t *index;
    bool add;
    void *y;
} placing;

#define TEXT "kernels/cpu/pool/pool_place.inc"
#include "kernels/cpu/per_float.inc"

nc_code nck_pool_place(nc_dtype type, int64_t planes, int64_t m, int64_t n, const void *x, const int64_t *index,
                       bool add, void *y, int64_t *bad, nc_pool *pool) {
    placing p = {.m = m, .share = planes > 0 ? n / planes : 0, .x = x, .index = index, .add = add, .y = y};
    for (int64_t i = 0; i < planes * m; i++) {
        int64_t plane = i / m, at = index[i];
        if ((add && at == -1) || (at >= plane * p.share && at < (plane + 1) * p.share)) continue;
        *bad = at;
        return NC_E_DATA;
    }
    nc_parallel(nc_pool_for(pool, planes * m), planes, type == NC_FLOAT ? pool_place_f32 : pool_place_f64, &p);
    return NC_OK;
}
