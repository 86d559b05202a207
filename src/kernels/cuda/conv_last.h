/* cuda/conv_last.h: convolution with channels last, x (N,in...,C), w (K,k...,C/group), y (N,out...,K), all dense, and
 * the turn between that layout and the plain one.
 *
 * By cuDNN where it is there and has an engine, with what follows the sum in the same kernel if it can. Else a product:
 * x itself where the window sees one element, columns (places, taps x C/group) where not, in pieces of images whose
 * columns fill NCK_CUDA_COLUMNS bytes at most; one channel per group goes directly. Sums are f32. */
#ifndef NCK_CUDA_CONV_LAST_H
#define NCK_CUDA_CONV_LAST_H

#include "kernels/cpu/conv/conv.h"
#include "kernels/cuda/gemm.h"

typedef struct nck_cuda_conv_last {
    nck_cuda_gemm gemm;
    nc_function *columns, *columns_wide, *depthwise;
} nck_cuda_conv_last;

typedef struct nck_cuda_conv_last_args {
    nck_conv_shape shape;
    const void *x, *w, *bias; /* bias (K) or NULL */
    const void *add;          /* as y, added to the sum; or NULL */
    bool relu;                /* behind all that */
    void *y;
} nck_cuda_conv_last_args;

/* f16, bf16, f32; cache as in nck_cuda_gemm_prepare. */
NC_MUST nc_code nck_cuda_conv_last_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache,
                                           nck_cuda_conv_last *out, nc_diag *diag);
size_t nck_cuda_conv_last_workspace(const nck_conv_shape *s); /* grows with every size */

/* *whole: add and relu are done; else y is the sum with its bias, and they are left to the caller. */
NC_MUST nc_code nck_cuda_conv_last_run(const nck_cuda_conv_last *k, nck_cuda_at at, const nck_cuda_conv_last_args *a,
                                       void *workspace, bool *whole);

#endif
