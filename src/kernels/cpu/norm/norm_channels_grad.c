/* kernels/cpu/norm/norm_channels_grad.c: gradients of channels normalized over a batch, see norm.h. An item is a
 * channel, whose planes are read five times while they are in the second cache: mean, squares, both sums, result. With
 * h = (x - mean) / std and n elements in a channel,
 *   dbias = sum(dy),  dscale = sum(dy * h),  dx = (dy - dbias / n - h * dscale / n) * scale / std. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/norm/norm_columns.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>

enum { RUN = NCK_REDUCE_RUN };

typedef struct channels_job {
    const nck_norm_channels_back *a;
    const nck_reduce_table *table;
} channels_job;

#define TEXT "kernels/cpu/norm/norm_channels_grad.inc"
#include "kernels/cpu/per_float.inc"

void nck_norm_channels_grad(const nck_norm_channels_back *a, nc_pool *pool) {
    if (a->size == 1) {
        nck_norm_columns_grad(a, pool);
        return;
    }
    channels_job j = {.a = a, .table = nck_isa_get()->reduce};
    nc_parallel(nc_pool_for(pool, a->N * a->C * a->size), a->C,
                a->type == NC_FLOAT ? channel_grad_f32 : channel_grad_f64, &j);
}
