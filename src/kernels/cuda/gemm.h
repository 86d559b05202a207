/* cuda/gemm.h: C = alpha * A * B + beta * C (+ bias) on the GPU, batched, over strides; and, where cuBLASLt does it,
 * C = gelu(alpha * A * B + other + bias), or alpha * A * B times gelu's derivative at another tensor's elements.
 *
 * One row of floats takes a kernel of its own (gemv.cu). cuBLASLt where it fits: floats, and one stride of A and of B
 * is 1, columns of C lie side by side. A plain tiled kernel (gemm.cu) for the rest: integers, odd strides, what
 * cuBLASLt refuses. Accumulation: f16, bf16 and f32 in f32 (in TF32 where that is asked for, but for one row), f64 in
 * f64, integers in int64. */
#ifndef NCK_CUDA_GEMM_H
#define NCK_CUDA_GEMM_H

#include "device/cuda_api.h"
#include "kernels/cuda/launch.h"

#include <pthread.h>

#define NCK_CUDA_GEMM_CACHE 16

typedef struct nck_cuda_gemm_key {
    int64_t M, N, K, n_batch, ld[3], batch[3];
    int64_t transposed[2], aligned[4], epilogue;
} nck_cuda_gemm_key;

/* How cuBLASLt does a product. */
typedef struct nck_cuda_gemm_way {
    cublasLtMatmulAlgo algo;
    size_t bytes; /* of its workspace */
    bool usable;  /* false: it has no algorithm for this */
} nck_cuda_gemm_way;

/* Ways found for shapes; shared by the threads that run a program. */
typedef struct nck_cuda_gemm_cache {
    pthread_mutex_t mutex;
    int n, next;
    struct {
        nck_cuda_gemm_key key;
        nck_cuda_gemm_way way;
    } row[NCK_CUDA_GEMM_CACHE];
} nck_cuda_gemm_cache;

/* Products of one row, see gemv.h. */
typedef struct nck_cuda_gemv {
    int64_t vector;                       /* elements of 16 bytes */
    nc_function *columns, *narrow, *rows; /* narrow: columns of fewer lanes */
    nc_function *bulk;                    /* NULL: the GPU has no copies of boxes, or the type is no half */
} nck_cuda_gemv;

typedef struct nck_cuda_gemm {
    nc_dtype type; /* f16, bf16, f32, f64, i32, i64 */
    bool tf32;     /* f32: operands may be rounded to TF32; set behind prepare */
    bool tune;     /* cuBLASLt's algorithms are tried once, and the fastest is kept; likewise */
    nck_cuda_gemv one_row;
    nc_function *multiply, *spread;
    nc_device *device;
    nck_cuda_gemm_cache *cache;
} nck_cuda_gemm;

typedef struct nck_cuda_matrix {
    void *data;
    int64_t rs, cs, batch; /* strides in elements: rows, columns, matrices */
} nck_cuda_matrix;

typedef struct nck_cuda_gemm_args {
    int64_t n_batch, M, N, K;
    double alpha, beta;      /* beta 0 does not read c */
    nck_cuda_matrix a, b, c; /* (M,K), (K,N), (M,N); read only but for c */
    const void *bias;        /* (N) dense, added to every row; NULL: none. Floats but f64 only */
    const void *other;       /* strides of c, added to the product; NULL: none. With it beta is 0 */
    bool gelu;               /* the tanh form of GELU, last; of half types only */
    void *kept;              /* strides of c: what GELU is taken of; NULL: it is not kept. With a bias, one batch */
    const void *gelu_at;     /* strides of c: the product is multiplied by GELU's derivative there; NULL: it is not.
                                Half types only, one batch, and nothing else is done to the product */
    bool b_constant;         /* b holds the same in every run: it may be read before earlier kernels have ended */
} nck_cuda_gemm_args;

/* cache: lives as long as the kernel, zeroed memory of the caller. */
NC_MUST nc_code nck_cuda_gemm_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_gemm *out,
                                      nc_diag *diag);
NC_MUST nc_code nck_cuda_gemm_run(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g);

/* The same in one launch, with `other`, `gelu`, `kept` and `gelu_at`, which run refuses; *done false: there is none for
 * this. */
NC_MUST nc_code nck_cuda_gemm_fused(const nck_cuda_gemm *k, nck_cuda_at at, const nck_cuda_gemm_args *g, bool *done);

/* The bytes of room that cuBLASLt's kernel for g needs, and of its alignment; false: it has none, or that is to be
 * tried. Addresses of g count by their alignment and by being there alone. What a plan books for its largest sizes need
 * not do for smaller ones, for which another kernel is chosen: that takes its room from the stream then
 * (nc_cuda_scratch), so the choice, and the bits, are those of the sizes alone. */
bool nck_cuda_gemm_room(const nck_cuda_gemm *k, const nck_cuda_gemm_args *g, size_t *bytes);
/* Every address in such arguments. */
#define NCK_CUDA_SOMEWHERE ((void *)(uintptr_t)256)

/* y (M,N) = c, strides of c may be 0. */
NC_MUST nc_code nck_cuda_gemm_spread(const nck_cuda_gemm *k, nck_cuda_at at, int64_t M, int64_t N, nck_cuda_matrix c,
                                     nck_cuda_matrix y);

#endif
