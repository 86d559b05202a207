/* cuda/nbits.h: Y (M,N) = A (M,K) W' + bias on the GPU, W (N,K) stored as codes of few bits in blocks with a scale
 * each; see nbits.cu. Few rows of A: 4-bit codes are read as they lie. Else rows of W are made numbers of A's type in
 * the workspace, as many as stay in the L2 at a time, and multiplied there (gemm.h). A in f32, f16 or bf16. */
#ifndef NCK_CUDA_NBITS_H
#define NCK_CUDA_NBITS_H

#include "kernels/cuda/gemm.h"

/* Mirrors nbits_args in nbits.cu, where the operands are described; blocks, shift and vectors are the launcher's. */
typedef struct nck_cuda_nbits_args {
    int64_t M, N, K, block, bits;
    int64_t blocks, shift;
    const void *codes, *scales, *zeros, *group_of, *bias, *a;
    void *y;
    float numbers[16];
    int vectors, constant; /* constant: codes, scales and zeros are */
} nck_cuda_nbits_args;

typedef struct nck_cuda_nbits_how {
    nc_dtype type, zeros; /* of A and scales; of zero points, UNDEFINED: there are none */
    int64_t block;
    bool table; /* codes stand for numbers of a table */
} nck_cuda_nbits_how;

typedef struct nck_cuda_nbits {
    nck_cuda_nbits_how how;
    nc_function *one, *few, *decode;
    nc_function *fixed; /* NULL: not of this type */
    nck_cuda_gemm gemm;
} nck_cuda_nbits;

/* Text that stands in front of the kernel's. */
void nck_cuda_nbits_define(const nck_cuda_nbits_how *how, char *out, size_t bytes);

/* cache: as for nck_cuda_gemm_prepare. */
NC_MUST nc_code nck_cuda_nbits_prepare(nc_device *d, const nck_cuda_nbits_how *how, nck_cuda_gemm_cache *cache,
                                       nck_cuda_nbits *out, nc_diag *diag);
size_t nck_cuda_nbits_workspace(nc_dtype t, int64_t M, int64_t N, int64_t K);
NC_MUST nc_code nck_cuda_nbits_run(const nck_cuda_nbits *k, const nc_call *c, const nck_cuda_nbits_args *a);

#endif
