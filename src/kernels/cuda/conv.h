/* cuda/conv.h: convolution of up to three spatial dims and any groups on the GPU as matrix products over columns, with
 * both gradients, of which the one by x is the transposed convolution; one channel per group goes directly. Where cuDNN
 * is there and has an engine, it does all of that instead (conv_dnn.h).
 *
 * Columns are what the window sees at each place (kernels/cpu/conv/conv_cols.h has an example); images go in pieces
 * whose columns fill NCK_CUDA_COLUMNS bytes at most, or one by one. Small planes, and those whose rows are not aligned
 * for tensor cores, go side by side, all images of a piece as one product; others as a product for each image, where
 * windows of one tap at every element need no columns.
 * Sums are those of nck_cuda_gemm_run; pieces are added in order. Tensors are dense: x (N,C,in...), w (K,C/group,k...),
 * y (N,K,out...). */
#ifndef NCK_CUDA_CONV_H
#define NCK_CUDA_CONV_H

#include "kernels/cpu/conv/conv.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/reduce.h"

#define NCK_CUDA_COLUMNS ((int64_t)256 << 20)

typedef struct nck_cuda_conv {
    nck_cuda_gemm gemm;
    nck_cuda_reduce sum;
    nc_function *columns, *back, *depthwise, *biases, *add_biases, *side_by_side, *apart;
} nck_cuda_conv;

/* f16, bf16, f32, f64; cache as in nck_cuda_gemm_prepare. */
NC_MUST nc_code nck_cuda_conv_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_conv *out,
                                      nc_diag *diag);

/* Grow with every size. The second is enough for the gradients too. */
size_t nck_cuda_conv_workspace(const nck_conv_shape *s);
size_t nck_cuda_conv_grad_workspace(const nck_conv_shape *s);

/* y = x under w, plus bias (K) or NULL. */
NC_MUST nc_code nck_cuda_conv_run(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const void *x,
                                  const void *w, const void *bias, void *y, void *workspace);
/* dx from dy, plus bias (C) or NULL. */
NC_MUST nc_code nck_cuda_conv_dx(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const void *dy,
                                 const void *w, const void *bias, void *dx, void *workspace);
NC_MUST nc_code nck_cuda_conv_dw(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const void *x,
                                 const void *dy, void *dw, void *workspace);
/* db (channels) = the sum over images and places of y (N, channels, places). */
NC_MUST nc_code nck_cuda_conv_db(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, int64_t channels,
                                 int64_t places, const void *y, void *db, void *workspace);

/* x (planes, in...) from columns (planes, taps, places): each tap of each place added to where it was seen. */
NC_MUST nc_code nck_cuda_image_prepare(nc_device *d, nc_dtype t, nc_function **out, nc_diag *diag);
NC_MUST nc_code nck_cuda_image_run(nc_function *back, nck_cuda_at at, const nck_window *window, int64_t planes,
                                   const void *cols, void *x);

#endif
