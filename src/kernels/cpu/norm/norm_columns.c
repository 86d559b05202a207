/* kernels/cpu/norm/norm_columns.c: see norm_columns.h. An item is a strip of neighbouring columns, walked row by
 * row. Sums run down a column in order, in double. */
#include "kernels/cpu/norm/norm_columns.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#include <math.h>

enum { STRIP = 64 };

typedef struct columns_job {
    int64_t N, C, strips;
    const nck_norm_channels_back *back; /* of the gradients */
    const void *x;                      /* of the statistics, as those below */
    void *mean, *var;
} columns_job;

#define TEXT "kernels/cpu/norm/norm_columns.inc"
#include "kernels/cpu/per_float.inc"

static columns_job job_of(int64_t N, int64_t C) {
    return (columns_job){.N = N, .C = C, .strips = nc_ceil_div(C, STRIP)};
}

void nck_column_stats(nc_dtype type, int64_t N, int64_t C, const void *x, void *mean, void *var, nc_pool *pool) {
    columns_job j = job_of(N, C);
    j.x = x, j.mean = mean, j.var = var;
    nc_parallel(nc_pool_for(pool, N * C), j.strips, type == NC_FLOAT ? columns_stats_f32 : columns_stats_f64, &j);
}

void nck_norm_columns_grad(const nck_norm_channels_back *a, nc_pool *pool) {
    columns_job j = job_of(a->N, a->C);
    j.back = a;
    nc_parallel(nc_pool_for(pool, a->N * a->C), j.strips, a->type == NC_FLOAT ? columns_grad_f32 : columns_grad_f64,
                &j);
}
