/* kernels/cpu/conv/conv_grad.c: gradients of the plain convolution, see conv_grad.h. Each gathers: an element of dx
 * asks which outputs it went into, one of dw which pairs met in it. Items: dx an image and channel, dw a pair of
 * channels, db a channel. */
#include "kernels/cpu/conv/conv_grad.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

/* The output whose tap t reads input position `in`; false: none. */
static bool output_of(int64_t in, int64_t t, int64_t stride, int64_t dil, int64_t pad, int64_t n_out, int64_t *out) {
    int64_t at = in + pad - t * dil;
    *out = at / stride;
    return at >= 0 && at % stride == 0 && *out < n_out;
}

/* Outputs [*low, *high) whose tap t falls inside the input. */
static void outputs_inside(int64_t t, int64_t in, int64_t stride, int64_t dil, int64_t pad, int64_t n_out, int64_t *low,
                           int64_t *high) {
    int64_t first = t * dil - pad, last = in - 1 - first;
    *low = first >= 0 ? 0 : nc_ceil_div(-first, stride);
    *high = last < 0 ? 0 : last / stride + 1;
    if (*high > n_out) *high = n_out;
    if (*low > *high) *low = *high;
}

#define TEXT "kernels/cpu/conv/conv_grad.inc"
#include "kernels/cpu/per_float.inc"

void nck_conv_grad(const nck_conv_grad_args *a, nc_pool *pool) {
    nck_conv_grad_args copy = *a;
    const nck_conv_shape *s = &a->shape;
    bool f32 = a->type == NC_FLOAT;
    if (a->dx) nc_parallel(pool, s->N * s->C, f32 ? conv_dx_f32 : conv_dx_f64, &copy);
    if (a->dw) nc_parallel(pool, s->K * (s->C / s->group), f32 ? conv_dw_f32 : conv_dw_f64, &copy);
    if (a->db) nc_parallel(pool, s->K, f32 ? conv_db_f32 : conv_db_f64, &copy);
}
