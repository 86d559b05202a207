/* kernels/cpu/vision/grid_sample.c: GridSample and its gradient, see sample.h. All channels of a place read
 * the same pixels with the same weights (grid_taps.h). */
#include "kernels/cpu/vision/grid_taps.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/simd/unroll.h"

enum { PLACES = 256, CHANNELS = 16, POINT = 8 /* elements of work that a result costs */ };

typedef struct grid_job {
    const nck_grid_sample *s;
    int64_t places, pixels, channels, cuts;
} grid_job;

/* Two channels side by side, or one, of f32; channels is a constant where inlined. */
__attribute__((always_inline)) static inline void grid_few(int channels, const grid_job *j, const nck_grid_few *t,
                                                           int64_t places, const float *x, float *y) {
    const float *x1 = x + j->pixels;
    float *y1 = y + j->places;
    for (int64_t p = 0; p < places; p++) {
        double sum = 0, sum1 = 0;
        if (t[p].n == 4) {
            UNROLL
            for (int k = 0; k < 4; k++) {
                sum += t[p].weight[k] * (double)x[t[p].at[k]];
                if (channels > 1) sum1 += t[p].weight[k] * (double)x1[t[p].at[k]];
            }
        } else {
            for (int k = 0; k < t[p].n; k++) {
                sum += t[p].weight[k] * (double)x[t[p].at[k]];
                if (channels > 1) sum1 += t[p].weight[k] * (double)x1[t[p].at[k]];
            }
        }
        y[p] = (float)sum;
        if (channels > 1) y1[p] = (float)sum1;
    }
}

/* Channel after channel, so that neighbouring places find their pixels and results side by side. */
static void grid_few_f32(const grid_job *j, const nck_grid_few *t, int64_t places, const float *x, float *y) {
    int64_t c = 0;
    for (; c + 2 <= j->channels; c += 2) grid_few(2, j, t, places, x + c * j->pixels, y + c * j->places);
    if (c < j->channels) grid_few(1, j, t, places, x + c * j->pixels, y + c * j->places);
}

static void grid_channels(const grid_job *j, const nck_grid_taps *t, int64_t from, int64_t to) {
    for (int64_t c = 0; c < j->channels; c++) {
        double sum = 0;
        for (int k = 0; k < t->n; k++) sum += t->weight[k] * nc_tensor_get(j->s->x, from + c * j->pixels + t->at[k]);
        nc_tensor_put(j->s->y, to + c * j->places, sum);
    }
}

static void grid_item(void *ctx, int64_t i) {
    const grid_job *j = ctx;
    int64_t n = i / j->cuts, lo = i % j->cuts * PLACES, hi = lo + PLACES < j->places ? lo + PLACES : j->places;
    int64_t from = n * j->channels * j->pixels, to = n * j->channels * j->places;
    bool floats = j->s->x->dtype == NC_FLOAT && j->s->y->dtype == NC_FLOAT && j->pixels <= INT32_MAX;
    nck_grid_few few[PLACES];
    int64_t kept = 0;
    for (int64_t p = lo; p < hi; p++) {
        bool is_few = floats && nck_grid_place_few(j->s, n * j->places + p, &few[kept]);
        if (is_few) {
            kept++;
        } else {
            nck_grid_taps t;
            nck_grid_place_taps(j->s, n * j->places + p, false, &t);
            grid_channels(j, &t, from, to + p);
        }
        if (kept == 0 || (is_few && p + 1 < hi)) continue;
        int64_t end = is_few ? p + 1 : p;
        grid_few_f32(j, few, kept, (const float *)j->s->x->data + from, (float *)j->s->y->data + to + end - kept);
        kept = 0;
    }
}

static grid_job grid_job_of(const nck_grid_sample *s) {
    grid_job j = {.s = s, .places = 1, .pixels = 1, .channels = s->x->dims[1]};
    for (int k = 2; k < s->x->rank; k++) {
        j.pixels *= s->x->dims[k];
        j.places *= s->y->dims[k];
    }
    j.cuts = nc_ceil_div(j.places, PLACES);
    return j;
}

void nck_grid_sample_run(const nck_grid_sample *s, nc_pool *pool) {
    grid_job j = grid_job_of(s);
    nc_parallel(nc_pool_for(pool, nc_tensor_numel(s->y) * POINT), s->x->dims[0] * j.cuts, grid_item, &j);
}

/* ---- gradient ---- */

/* dX of some channels of one image: place after place, so that the order of sums is fixed. */
static void grid_dx_item(void *ctx, int64_t i) {
    const grid_job *j = ctx;
    const nck_grid_sample *s = j->s;
    int64_t cuts = nc_ceil_div(j->channels, CHANNELS), n = i / cuts, lo = i % cuts * CHANNELS;
    int64_t hi = lo + CHANNELS < j->channels ? lo + CHANNELS : j->channels;
    for (int64_t at = (n * j->channels + lo) * j->pixels; at < (n * j->channels + hi) * j->pixels; at++)
        nc_tensor_put(s->dx, at, 0);
    for (int64_t p = 0; p < j->places; p++) {
        nck_grid_taps t;
        nck_grid_place_taps(s, n * j->places + p, false, &t);
        for (int64_t c = lo; c < hi; c++) {
            int64_t to = (n * j->channels + c) * j->pixels;
            double d = nc_tensor_get(s->y, (n * j->channels + c) * j->places + p);
            for (int k = 0; k < t.n; k++)
                nc_tensor_put(s->dx, to + t.at[k], nc_tensor_get(s->dx, to + t.at[k]) + t.weight[k] * d);
        }
    }
}

static void grid_dgrid_item(void *ctx, int64_t i) {
    const grid_job *j = ctx;
    const nck_grid_sample *s = j->s;
    int dims = s->x->rank - 2;
    int64_t n = i / j->cuts, lo = i % j->cuts * PLACES, hi = lo + PLACES < j->places ? lo + PLACES : j->places;
    for (int64_t p = lo; p < hi; p++) {
        nck_grid_taps t;
        double sum[NCK_SAMPLE_MAX_DIMS] = {0};
        nck_grid_place_taps(s, n * j->places + p, true, &t);
        for (int64_t c = 0; c < j->channels; c++) {
            int64_t from = (n * j->channels + c) * j->pixels;
            double d = nc_tensor_get(s->y, (n * j->channels + c) * j->places + p);
            for (int k = 0; k < t.n; k++) {
                double v = d * nc_tensor_get(s->x, from + t.at[k]);
                for (int e = 0; e < dims; e++) sum[e] += t.slope[e][k] * v;
            }
        }
        for (int e = 0; e < dims; e++) nc_tensor_put(s->dgrid, (n * j->places + p) * dims + e, sum[e]);
    }
}

void nck_grid_sample_grad(const nck_grid_sample *s, nc_pool *pool) {
    grid_job j = grid_job_of(s);
    int64_t n = s->x->dims[0];
    pool = nc_pool_for(pool, nc_tensor_numel(s->y) * POINT);
    if (s->dx != NULL) nc_parallel(pool, n * nc_ceil_div(j.channels, CHANNELS), grid_dx_item, &j);
    if (s->dgrid != NULL) nc_parallel(pool, n * j.cuts, grid_dgrid_item, &j);
}
