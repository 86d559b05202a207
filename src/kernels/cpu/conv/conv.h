/* kernels/cpu/conv/conv.h: the sizes of a convolution of up to three spatial dims, and the plain kernel for every case,
 * which is the reference of the fast ones: conv_cols.h (any case, over columns), conv_blocked.h (f32, channels in
 * blocks), and their gradients' (conv_grad.h).
 * Letters: N images, C input channels, K output channels; what is seen of the spatial dims is the window's. */
#ifndef NCK_CONV_H
#define NCK_CONV_H

#include "base/dtype.h"
#include "base/threads.h"
#include "kernels/cpu/conv/window.h"

typedef struct nck_conv_shape {
    nc_dtype type; /* NC_FLOAT or NC_DOUBLE */
    int64_t N, C, K;
    int64_t group; /* divides C and K */
    nck_window w;
} nck_conv_shape;

/* Strides are those of N, C or K, and the three spatial dims. */
typedef struct nck_conv_args {
    nck_conv_shape shape;
    const void *x; /* (N,C,in...) */
    int64_t x_strides[2 + NCK_WINDOW_DIMS];
    const void *w;    /* (K, C/group, k...), dense */
    const void *bias; /* (K) or NULL */
    void *y;          /* (N,K,out...) */
    int64_t y_strides[2 + NCK_WINDOW_DIMS];
} nck_conv_args;

/* Direct convolution, accumulating in double. Taps in the padding are left out, not multiplied by zero, so padding
 * never meets an infinite weight. */
void nck_conv_plain(const nck_conv_args *a, nc_pool *pool);

#endif
