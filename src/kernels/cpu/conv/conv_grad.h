/* kernels/cpu/conv/conv_grad.h: gradients of the 2-D convolution of conv.h by input, weights and bias, for every case.
 * Accumulation: double, one sum per element, in a fixed order: the same bits for any threads. */
#ifndef NCK_CONV_GRAD_H
#define NCK_CONV_GRAD_H

#include "kernels/cpu/conv/conv.h"

typedef struct nck_conv_grad_args {
    nc_dtype type; /* NC_FLOAT or NC_DOUBLE */
    nck_conv_shape shape;
    const void *dy; /* (N,K,OH,OW), dense like all below */
    const void *x;  /* (N,C,H,W) */
    const void *w;  /* (K, C/group, kh, kw) */
    void *dx;       /* (N,C,H,W); NULL: not wanted, as with dw and db */
    void *dw;       /* (K, C/group, kh, kw) */
    void *db;       /* (K) */
} nck_conv_grad_args;

void nck_conv_grad(const nck_conv_grad_args *a, nc_pool *pool);

#endif
