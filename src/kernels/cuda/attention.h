/* cuda/attention.h: attention on the GPU, tile by tile, so that scores are never all in memory: half types on tensor
 * cores, f32 and f64 without. See attention.cuh for what is computed. */
#ifndef NCK_CUDA_ATTENTION_H
#define NCK_CUDA_ATTENTION_H

#include "kernels/cuda/launch.h"

/* A matrix per batch and head: strides in elements. */
typedef struct nck_cuda_attn_operand {
    void *data;
    int64_t batch, head, row, column;
} nck_cuda_attn_operand;

/* Mirrors attn_args in attention.cuh; vectors and the rest are the launcher's. */
typedef struct nck_cuda_attn_args {
    int64_t n_batch, q_heads, kv_heads, n_queries, n_keys, cols, cols_v;
    nck_cuda_attn_operand q, k, v, y;
    const void *mask; /* of the type that prepare was told; NULL: none */
    int64_t mask_strides[4], mask_cols;
    const int64_t *kv_lens; /* device memory */
    int64_t left, right, offset;
    double scale, softcap;
    int causal, offset_by_lens;
    int vectors, pairs, mask_pairs, q_pairs;
    void *stats; /* (batch, head, query) of the type of sums, for the gradient; NULL: not wanted */
} nck_cuda_attn_args;

typedef struct nck_cuda_attn {
    nc_dtype type, mask;
    int64_t most_cols, queries; /* columns that the kernel has room for; queries of a block */
    uint32_t threads;
    nc_function *attend;
} nck_cuda_attn;

/* Has type t a kernel for rows of that many columns? */
bool nck_cuda_attn_takes(nc_dtype t, int64_t cols);
/* Text that stands in front of the kernel's: sizes, the mask's type (UNDEFINED: none), whether scores are capped. */
void nck_cuda_attn_define(nc_dtype t, int64_t cols, nc_dtype mask, bool softcap, char *out, size_t bytes);

/* cols: the larger one of the columns of q and of v; mask: bool (true: seen), or a type of numbers that are added;
 * UNDEFINED: there is none. */
NC_MUST nc_code nck_cuda_attn_prepare(nc_device *d, nc_dtype t, int64_t cols, nc_dtype mask, bool softcap,
                                      nck_cuda_attn *out, nc_diag *diag);
NC_MUST nc_code nck_cuda_attn_run(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_args *a);

#endif
