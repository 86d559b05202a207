/* kernels/cpu/norm/norm_grad.c: gradients of rows normalized by norm.c; mean and variance are computed anew, which is
 * cheaper than keeping them. With g = dy * scale and h the normalized x,
 *   dx = (g - mean(g) - h * mean(g * h)) / std      (without mean(g) where x is not centred)
 *   dscale = sum over rows of dy * h,  dbias = sum over rows of dy
 * Sums along a row: runs of NCK_REDUCE_RUN in the element type, joined in double. Sums over rows: FEW of them in the
 * element type, those in double, in blocks of rows each with a part of the workspace, joined in order; blocks depend on
 * the sizes alone. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>
#include <string.h>

enum { BLOCKS = 32, FEW = 32, RUN = NCK_REDUCE_RUN };

typedef struct norm_grad_job {
    const nck_norm_args *a;
    const nck_reduce_table *table;
    const void *dy;
    void *dx, *dscale, *dbias;
    double *parts; /* (blocks, 2, cols), then the same room for sums of few rows */
    int64_t per_block, blocks;
} norm_grad_job;

static int64_t block_rows(int64_t rows) { return nc_ceil_div(rows, BLOCKS); }

size_t nck_norm_grad_workspace(int64_t rows, int64_t cols) {
    int64_t blocks = nc_min64(rows, BLOCKS);
    return (size_t)blocks * 4 * (size_t)cols * sizeof(double);
}

#define TEXT "kernels/cpu/norm/norm_grad.inc"
#include "kernels/cpu/per_float.inc"

void nck_norm_grad(const nck_norm_args *a, const void *dy, void *dx, void *dscale, void *dbias, void *workspace,
                   nc_pool *pool) {
    norm_grad_job j = {.a = a,
                       .table = nck_isa_get()->reduce,
                       .dy = dy,
                       .dx = dx,
                       .dscale = dscale,
                       .dbias = dbias,
                       .parts = workspace};
    bool f32 = a->type == NC_FLOAT;
    if (a->rows > 0) {
        j.per_block = block_rows(a->rows);
        j.blocks = nc_ceil_div(a->rows, j.per_block);
        nc_parallel(nc_pool_for(pool, a->rows * a->cols), j.blocks, f32 ? norm_grad_block_f32 : norm_grad_block_f64,
                    &j);
    }
    if (dscale || dbias) (f32 ? norm_grad_join_f32 : norm_grad_join_f64)(&j);
}
