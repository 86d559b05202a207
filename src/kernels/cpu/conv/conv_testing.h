/* kernels/cpu/conv/conv_testing.h: convolutions of two dims written as one row of numbers, for tests. */
#ifndef NCK_CONV_TESTING_H
#define NCK_CONV_TESTING_H

#include "kernels/cpu/conv/conv.h"

typedef struct conv_2d {
    int64_t N, C, H, W, K, kh, kw, group, stride_h, stride_w, dil_h, dil_w, pad_top, pad_left, pad_bottom, pad_right;
} conv_2d;

static inline int64_t conv_2d_out_h(const conv_2d *s) {
    return nck_window_out(s->H, s->kh, s->stride_h, s->dil_h, s->pad_top + s->pad_bottom);
}
static inline int64_t conv_2d_out_w(const conv_2d *s) {
    return nck_window_out(s->W, s->kw, s->stride_w, s->dil_w, s->pad_left + s->pad_right);
}

static inline nck_conv_shape conv_2d_shape(nc_dtype type, const conv_2d *s) {
    return (nck_conv_shape){.type = type,
                            .N = s->N,
                            .C = s->C,
                            .K = s->K,
                            .group = s->group,
                            .w = {.in = {1, s->H, s->W},
                                  .k = {1, s->kh, s->kw},
                                  .out = {1, conv_2d_out_h(s), conv_2d_out_w(s)},
                                  .stride = {1, s->stride_h, s->stride_w},
                                  .dil = {1, s->dil_h, s->dil_w},
                                  .pad = {0, s->pad_top, s->pad_left},
                                  .pad_end = {0, s->pad_bottom, s->pad_right}}};
}

#endif
