/* kernels/cpu/norm/norm.c: normalization of rows and of channels, see norm.h. Rows are read three times: mean, squares,
 * result; runs of a row stay in the first cache. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/isa_narrow.h"
#include "kernels/cpu/norm/norm_columns.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>

/* STEP: inner loops of a fixed length, which compilers turn into vectors. ITEM, LEAST: elements of an item
 * of rows, and of the smallest; STRIP, ROWS: columns and rows of one by columns. */
enum { RUN = NCK_REDUCE_RUN, ITEM = 16384, LEAST = 2048, STEP = 16, STRIP = 512, ROWS = 256 };

typedef struct norm_job {
    const nck_norm_args *a;
    const nck_reduce_table *table;
    int64_t per_item;
} norm_job;

#define TEXT "kernels/cpu/norm/norm_rows.inc"
#include "kernels/cpu/per_float.inc"

void nck_norm_rows(const nck_norm_args *a, nc_pool *pool) {
    norm_job j = {.a = a, .per_item = a->rows};
    j.table = a->cols <= NCK_NARROW_ROW ? nck_narrow_reduce() : nck_isa_get()->reduce;
    int64_t items = a->rows > 0;
    if (a->rows > ITEM || a->cols >= ITEM || a->rows * a->cols > ITEM) {
        j.per_item = nc_max64(1, nc_pool_item(pool, a->rows * a->cols, LEAST, ITEM) / (a->cols + 1));
        items = nc_ceil_div(a->rows, j.per_item);
    }
    nc_parallel(pool, items, a->type == NC_FLOAT ? norm_item_f32 : norm_item_f64, &j);
}

void nck_norm_by_channel(const nck_norm_channels *a, nc_pool *pool) {
    nck_norm_channels copy = *a;
    if (a->size == 1)
        nc_parallel(nc_pool_for(pool, a->N * a->C), nc_ceil_div(a->C, STRIP) * nc_ceil_div(a->N, ROWS),
                    a->type == NC_FLOAT ? norm_columns_item_f32 : norm_columns_item_f64, &copy);
    else
        nc_parallel(nc_pool_for(pool, a->N * a->C * a->size), a->N * a->C,
                    a->type == NC_FLOAT ? norm_channel_item_f32 : norm_channel_item_f64, &copy);
}

/* ---- statistics ---- */

typedef struct norm_stats {
    const nck_reduce_table *table;
    int64_t N, C, S;
    const void *x;
    void *mean, *var;
} norm_stats;

#define TEXT "kernels/cpu/norm/norm_stats.inc"
#include "kernels/cpu/per_float.inc"

void nck_channel_stats(nc_dtype type, int64_t N, int64_t C, int64_t S, const void *x, void *mean, void *var,
                       nc_pool *pool) {
    if (S == 1) {
        nck_column_stats(type, N, C, x, mean, var, pool);
        return;
    }
    norm_stats s = {.table = nck_isa_get()->reduce, .N = N, .C = C, .S = S, .x = x, .mean = mean, .var = var};
    nc_parallel(nc_pool_for(pool, N * C * S), C, type == NC_FLOAT ? norm_stats_f32 : norm_stats_f64, &s);
}
