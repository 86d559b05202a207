/* kernels/cpu/conv/conv_grad.c: gradients of the plain convolution, see conv_grad.h. Each gathers: an element of dx
 * asks which outputs it went into, one of dw which pairs met in it. Items: dx an image and channel, dw a pair of
 * channels, db a channel. */
#include "kernels/cpu/conv/conv_grad.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#define TEXT "kernels/cpu/conv/conv_grad.inc"
#include "kernels/cpu/per_float.inc"

void nck_conv_grad(const nck_conv_grad_args *a, nc_pool *pool) {
    nck_conv_grad_args copy = *a;
    const nck_conv_shape *s = &a->shape;
    bool f32 = s->type == NC_FLOAT;
    pool = nc_pool_for(pool, s->N * s->K * (s->C / s->group) * nck_window_n_out(&s->w) * nck_window_n_k(&s->w));
    if (a->dx) nc_parallel(pool, s->N * s->C, f32 ? conv_dx_f32 : conv_dx_f64, &copy);
    if (a->dw) nc_parallel(pool, s->K * (s->C / s->group), f32 ? conv_dw_f32 : conv_dw_f64, &copy);
    if (a->db) nc_parallel(pool, s->K, f32 ? conv_db_f32 : conv_db_f64, &copy);
}
