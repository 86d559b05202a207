/* kernels/cpu/conv/conv_grad.c: gradients of the plain convolution, see conv_grad.h. Each gathers: an element of dx
 * asks which outputs it went into, one of dw which pairs met in it. Items: dx an image and channel, dw a pair of
 * channels, db a channel. */
#include "kernels/cpu/conv/conv_grad.h"

#include "base/intmath.h"

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

#define DEFINE(S, T)                                                                                                 \
    static T dx_##S##_at(const nck_conv_grad_args *a, int64_t n, int64_t c, int64_t ih, int64_t iw) {                \
        const nck_conv_shape *s = &a->shape;                                                                         \
        int64_t OH = nck_conv_out_h(s), OW = nck_conv_out_w(s), Cg = s->C / s->group, Kg = s->K / s->group;          \
        int64_t k0 = c / Cg * Kg, oh, ow;                                                                            \
        double acc = 0;                                                                                              \
        for (int64_t i = 0; i < s->kh; i++) {                                                                        \
            if (!output_of(ih, i, s->stride_h, s->dil_h, s->pad_top, OH, &oh)) continue;                             \
            for (int64_t j = 0; j < s->kw; j++) {                                                                    \
                if (!output_of(iw, j, s->stride_w, s->dil_w, s->pad_left, OW, &ow)) continue;                        \
                for (int64_t k = k0; k < k0 + Kg; k++)                                                               \
                    acc += (double)((const T *)a->dy)[((n * s->K + k) * OH + oh) * OW + ow] *                        \
                           (double)((const T *)a->w)[((k * Cg + c % Cg) * s->kh + i) * s->kw + j];                   \
            }                                                                                                        \
        }                                                                                                            \
        return (T)acc;                                                                                               \
    }                                                                                                                \
    static void dx_##S(void *ctx, int64_t item) {                                                                    \
        const nck_conv_grad_args *a = ctx;                                                                           \
        const nck_conv_shape *s = &a->shape;                                                                         \
        T *dx = (T *)a->dx + item * s->H * s->W;                                                                     \
        for (int64_t i = 0; i < s->H * s->W; i++)                                                                    \
            dx[i] = dx_##S##_at(a, item / s->C, item % s->C, i / s->W, i % s->W);                                    \
    }                                                                                                                \
    static T dw_##S##_at(const nck_conv_grad_args *a, int64_t k, int64_t c, int64_t i, int64_t j) {                  \
        const nck_conv_shape *s = &a->shape;                                                                         \
        int64_t OH = nck_conv_out_h(s), OW = nck_conv_out_w(s), h0, h1, w0, w1;                                      \
        double acc = 0;                                                                                              \
        outputs_inside(i, s->H, s->stride_h, s->dil_h, s->pad_top, OH, &h0, &h1);                                    \
        outputs_inside(j, s->W, s->stride_w, s->dil_w, s->pad_left, OW, &w0, &w1);                                   \
        for (int64_t n = 0; n < s->N; n++)                                                                           \
            for (int64_t oh = h0; oh < h1; oh++) {                                                                   \
                const T *dy = (const T *)a->dy + ((n * s->K + k) * OH + oh) * OW;                                    \
                const T *x =                                                                                         \
                    (const T *)a->x + ((n * s->C + c) * s->H + oh * s->stride_h - s->pad_top + i * s->dil_h) * s->W; \
                for (int64_t ow = w0; ow < w1; ow++)                                                                 \
                    acc += (double)dy[ow] * (double)x[ow * s->stride_w - s->pad_left + j * s->dil_w];                \
            }                                                                                                        \
        return (T)acc;                                                                                               \
    }                                                                                                                \
    static void dw_##S(void *ctx, int64_t item) {                                                                    \
        const nck_conv_grad_args *a = ctx;                                                                           \
        const nck_conv_shape *s = &a->shape;                                                                         \
        int64_t Cg = s->C / s->group, k = item / Cg, c = k / (s->K / s->group) * Cg + item % Cg;                     \
        T *dw = (T *)a->dw + item * s->kh * s->kw;                                                                   \
        for (int64_t i = 0; i < s->kh * s->kw; i++) dw[i] = dw_##S##_at(a, k, c, i / s->kw, i % s->kw);              \
    }                                                                                                                \
    static void db_##S(void *ctx, int64_t k) {                                                                       \
        const nck_conv_grad_args *a = ctx;                                                                           \
        const nck_conv_shape *s = &a->shape;                                                                         \
        int64_t size = nck_conv_out_h(s) * nck_conv_out_w(s);                                                        \
        double acc = 0;                                                                                              \
        for (int64_t n = 0; n < s->N; n++)                                                                           \
            for (int64_t i = 0; i < size; i++) acc += (double)((const T *)a->dy)[(n * s->K + k) * size + i];         \
        ((T *)a->db)[k] = (T)acc;                                                                                    \
    }
DEFINE(f32, float)
DEFINE(f64, double)

void nck_conv_grad(const nck_conv_grad_args *a, nc_pool *pool) {
    nck_conv_grad_args copy = *a;
    const nck_conv_shape *s = &a->shape;
    bool f32 = a->type == NC_FLOAT;
    if (a->dx) nc_parallel(pool, s->N * s->C, f32 ? dx_f32 : dx_f64, &copy);
    if (a->dw) nc_parallel(pool, s->K * (s->C / s->group), f32 ? dw_f32 : dw_f64, &copy);
    if (a->db) nc_parallel(pool, s->K, f32 ? db_f32 : db_f64, &copy);
}
