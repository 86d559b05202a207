/* kernels/cpu/conv/conv.h: the sizes of a 2-D convolution, and the plain kernel for every case.
 * Letters: N batch, C input channels, H W input, K output channels, OH OW output, kh kw window. A 1-D convolution has
 * H == kh == 1. The blocked kernel for group == 1 in f32 is conv_blocked.h. */
#ifndef NCK_CONV_H
#define NCK_CONV_H

#include "base/dtype.h"
#include "base/intmath.h"
#include "base/threads.h"

typedef struct nck_conv_shape {
    int64_t N, C, H, W, K, kh, kw;
    int64_t group; /* divides C and K */
    int64_t stride_h, stride_w, dil_h, dil_w;
    int64_t pad_top, pad_left, pad_bottom, pad_right;
} nck_conv_shape;

/* Output size along one dim; 0 when the window does not fit. */
static inline int64_t nck_conv_out(int64_t in, int64_t k, int64_t stride, int64_t dil, int64_t pads) {
    int64_t room = in + pads - (dil * (k - 1) + 1);
    return room < 0 ? 0 : room / stride + 1;
}
static inline int64_t nck_conv_out_h(const nck_conv_shape *s) {
    return nck_conv_out(s->H, s->kh, s->stride_h, s->dil_h, s->pad_top + s->pad_bottom);
}
static inline int64_t nck_conv_out_w(const nck_conv_shape *s) {
    return nck_conv_out(s->W, s->kw, s->stride_w, s->dil_w, s->pad_left + s->pad_right);
}

/* The taps [*low, *high) of a window at output `out` that fall inside the input; taps in the padding are left out, not
 * multiplied by zero, so padding never meets an infinite weight. */
static inline void nck_conv_taps(int64_t out, int64_t in, int64_t k, int64_t stride, int64_t dil, int64_t pad,
                                 int64_t *low, int64_t *high) {
    int64_t first = out * stride - pad;
    *low = first >= 0 ? 0 : nc_ceil_div(-first, dil);
    *high = first >= in ? 0 : nc_ceil_div(in - first, dil);
    if (*high > k) *high = k;
    if (*low > *high) *low = *high;
}

typedef struct nck_conv_args {
    nc_dtype type; /* NC_FLOAT or NC_DOUBLE */
    nck_conv_shape shape;
    const void *x; /* (N,C,H,W) */
    int64_t x_strides[4];
    const void *w;    /* (K, C/group, kh, kw), dense */
    const void *bias; /* (K) or NULL */
    void *y;          /* (N,K,OH,OW) */
    int64_t y_strides[4];
} nck_conv_args;

/* Direct convolution, accumulating in double: the reference, and the kernel where no fast one fits. */
void nck_conv_plain(const nck_conv_args *a, nc_pool *pool);

#endif
