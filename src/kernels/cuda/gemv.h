/* cuda/gemv.h: products of one row on the GPU, for gemm.c: what they cost is the reading of B, which a library's tiles
 * of many rows do at half the rate. f16, bf16 and f32. */
#ifndef NCK_CUDA_GEMV_H
#define NCK_CUDA_GEMV_H

#include "kernels/cuda/chain.h"
#include "kernels/cuda/gemm.h"

enum { NCK_CUDA_GEMV_PARTS = 3 }; /* products of one launch */

/* What is done to x before the products, and to the two sums of a column behind them. */
typedef struct nck_cuda_gemv_how {
    const void *scale; /* (K): x over the root of its mean square plus epsilon, times it; NULL: x as it is */
    float epsilon;
    bool paired; /* two products of one N become one result, that of the first */
} nck_cuda_gemv_how;

/* Text that stands in front of the kernel's; formulas: of a pair (chain.h), else NULL. */
void nck_cuda_gemv_define(nc_text *out, bool normed, const nck_tile_prog *formulas);

/* define: NULL for products alone. */
NC_MUST nc_code nck_cuda_gemv_prepare(nc_device *d, nc_dtype t, const char *define, nck_cuda_gemv *out, nc_diag *diag);
/* One row, and B and A lie so that it is read in vectors? gelu and an old value of C are not taken. */
bool nck_cuda_gemv_takes(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g);
/* Can these n products of one A, each of which is taken, be one launch? */
bool nck_cuda_gemv_together(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g, int n);
/* how must be what k was prepared for; NULL: products alone. */
NC_MUST nc_code nck_cuda_gemv_run(const nck_cuda_gemv *k, nck_cuda_at at, const nck_cuda_gemm_args *g, int n,
                                  const nck_cuda_gemv_how *how);

#endif
