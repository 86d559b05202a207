/* kernels/cpu/conv/conv_grad.h: gradients of the convolution of conv.h by input, weights and bias, for every case:
 * the reference of those in conv_cols.h.
 * Accumulation: double, one sum per element, in a fixed order: the same bits for any threads. */
#ifndef NCK_CONV_GRAD_H
#define NCK_CONV_GRAD_H

#include "kernels/cpu/conv/conv.h"

typedef struct nck_conv_grad_args {
    nck_conv_shape shape;
    const void *dy; /* (N,K,out...), dense like all below */
    const void *x;  /* (N,C,in...) */
    const void *w;  /* (K, C/group, k...) */
    void *dx;       /* (N,C,in...); NULL: not wanted, as with dw and db */
    void *dw;       /* (K, C/group, k...) */
    void *db;       /* (K) */
} nck_conv_grad_args;

void nck_conv_grad(const nck_conv_grad_args *a, nc_pool *pool);

#endif
