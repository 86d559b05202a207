/* kernels/cpu/conv/conv_ref.c: direct convolution over any strides and groups, see conv.h.
 * One item per image and output channel; each output is one sum in double, in the order channel, row, column. */
#include "kernels/cpu/conv/conv.h"

#include "kernels/cpu/per_type.h"

#define TEXT "kernels/cpu/conv/conv_ref.inc"
#include "kernels/cpu/per_float.inc"

void nck_conv_plain(const nck_conv_args *a, nc_pool *pool) {
    nck_conv_args copy = *a;
    const nck_conv_shape *s = &a->shape;
    pool = nc_pool_for(pool, s->N * s->K * (s->C / s->group) * nck_window_n_out(&s->w) * nck_window_n_k(&s->w));
    nc_parallel(pool, s->N * s->K, s->type == NC_FLOAT ? conv_plain_item_f32 : conv_plain_item_f64, &copy);
}
