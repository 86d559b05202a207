/* kernels/cpu/conv/conv_direct.c: convolution with one channel per group, and sums over places, see conv_cols.h.
 * A line of the output is summed in pieces that stay in registers and the first cache. */
#include "kernels/cpu/conv/conv_cols.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/window_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"

enum { PIECE = 128, STEP = 8 };

typedef struct depthwise_job {
    const nck_conv_shape *s;
    const void *x, *w, *bias;
    const int64_t *strides;
    void *y;
    const nck_window_table *table;
    int64_t low, high; /* places along a line that see all taps in it; none where elements do not lie side by side */
} depthwise_job;

#define TEXT "kernels/cpu/conv/conv_depthwise.inc"
#include "kernels/cpu/per_float.inc"

void nck_conv_depthwise(const nck_conv_shape *s, const void *x, const int64_t x_strides[5], const void *w,
                        const void *bias, void *y, nc_pool *pool) {
    depthwise_job j = {
        .s = s, .x = x, .w = w, .bias = bias, .strides = x_strides, .y = y, .table = nck_isa_get()->window};
    int64_t end;
    if (s->w.stride[2] == 1 && x_strides[4] == 1) {
        nck_window_places(&s->w, 2, 0, &j.low, &end);
        nck_window_places(&s->w, 2, s->w.k[2] - 1, &end, &j.high);
    }
    pool = nc_pool_for(pool, s->N * s->K * nck_window_n_out(&s->w) * nck_window_n_k(&s->w));
    nc_parallel(pool, s->N * s->K, s->type == NC_FLOAT ? depthwise_plane_f32 : depthwise_plane_f64, &j);
}

typedef struct sums {
    int64_t N, K, places;
    const void *y;
    void *db;
} sums;

#define TEXT "kernels/cpu/conv/conv_sum_places.inc"
#include "kernels/cpu/per_float.inc"

void nck_conv_sum_places(nc_dtype type, int64_t N, int64_t K, int64_t places, const void *y, void *db, nc_pool *pool) {
    sums s = {.N = N, .K = K, .places = places, .y = y, .db = db};
    nc_parallel(nc_pool_for(pool, N * K * places), K, type == NC_FLOAT ? sum_places_f32 : sum_places_f64, &s);
}
