/* kernels/cpu/conv/conv_ref.c: direct convolution over any strides and groups, see conv.h.
 * One item per image and output channel; each output is one sum in double, in the order channel, row, column. */
#include "kernels/cpu/conv/conv.h"

#define DEFINE_PLAIN(name, T)                                                                                        \
    static T name##_at(const nck_conv_args *a, const T *x, const T *w, double bias, int64_t oh, int64_t ow) {        \
        const nck_conv_shape *s = &a->shape;                                                                         \
        int64_t h0, h1, w0, w1, C = s->C / s->group;                                                                 \
        double acc = 0;                                                                                              \
        nck_conv_taps(oh, s->H, s->kh, s->stride_h, s->dil_h, s->pad_top, &h0, &h1);                                 \
        nck_conv_taps(ow, s->W, s->kw, s->stride_w, s->dil_w, s->pad_left, &w0, &w1);                                \
        for (int64_t c = 0; c < C; c++)                                                                              \
            for (int64_t i = h0; i < h1; i++)                                                                        \
                for (int64_t j = w0; j < w1; j++) {                                                                  \
                    int64_t ih = oh * s->stride_h - s->pad_top + i * s->dil_h;                                       \
                    int64_t iw = ow * s->stride_w - s->pad_left + j * s->dil_w;                                      \
                    T v = x[c * a->x_strides[1] + ih * a->x_strides[2] + iw * a->x_strides[3]];                      \
                    acc += (double)v * (double)w[(c * s->kh + i) * s->kw + j];                                       \
                }                                                                                                    \
        return (T)(acc + bias);                                                                                      \
    }                                                                                                                \
    static void name##_item(void *ctx, int64_t item) {                                                               \
        const nck_conv_args *a = ctx;                                                                                \
        const nck_conv_shape *s = &a->shape;                                                                         \
        int64_t n = item / s->K, k = item % s->K, C = s->C / s->group, g = k / (s->K / s->group);                    \
        int64_t OH = nck_conv_out_h(s), OW = nck_conv_out_w(s);                                                      \
        const T *x = (const T *)a->x + n * a->x_strides[0] + g * C * a->x_strides[1];                                \
        const T *w = (const T *)a->w + k * C * s->kh * s->kw;                                                        \
        T *y = (T *)a->y + n * a->y_strides[0] + k * a->y_strides[1];                                                \
        double bias = a->bias ? (double)((const T *)a->bias)[k] : 0;                                                 \
        for (int64_t oh = 0; oh < OH; oh++)                                                                          \
            for (int64_t ow = 0; ow < OW; ow++)                                                                      \
                y[oh * a->y_strides[2] + ow * a->y_strides[3]] = name##_at(a, x, w, bias, oh, ow);                   \
    }
DEFINE_PLAIN(plain_f32, float)
DEFINE_PLAIN(plain_f64, double)

void nck_conv_plain(const nck_conv_args *a, nc_pool *pool) {
    nck_conv_args copy = *a;
    nc_parallel(pool, a->shape.N * a->shape.K, a->type == NC_FLOAT ? plain_f32_item : plain_f64_item, &copy);
}
