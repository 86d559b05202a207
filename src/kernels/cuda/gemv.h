/* cuda/gemv.h: products of one row on the GPU, for gemm.c: what they cost is the reading of B, which a library's tiles
 * of many rows do at half the rate. f16, bf16 and f32. */
#ifndef NCK_CUDA_GEMV_H
#define NCK_CUDA_GEMV_H

#include "kernels/cuda/gemm.h"

NC_MUST nc_code nck_cuda_gemv_prepare(nc_device *d, nc_dtype t, nck_cuda_gemv *out, nc_diag *diag);
/* One row, and B and A lie so that it is read in vectors? gelu and an old value of C are not taken. */
bool nck_cuda_gemv_takes(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g);
NC_MUST nc_code nck_cuda_gemv_run(const nck_cuda_gemv *k, nck_cuda_at at, const nck_cuda_gemm_args *g);

#endif
