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

/* What becomes of shares before they meet the values: share e, in the order of (batch, head, query, key), stays where
 * word e % 4 of Philox's block e / 4 is as large as the limit, and is then multiplied; see dropout.cu. */
typedef struct nck_cuda_attn_drop {
    const int64_t *state; /* {seed, step} in device memory; NULL: nothing is dropped */
    const void *keep;     /* of attention_dnn.c: a number per share, 1: it stays; */
    const int64_t *pair;  /* or what cuDNN draws from, a seed, and two numbers behind it an offset */
    double ratio, by;     /* by: 1 / (1 - ratio) */
    uint32_t node, limit; /* limit: of the word's upper 24 bits */
} nck_cuda_attn_drop;

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
    nck_cuda_attn_drop drop;
} nck_cuda_attn_args;

typedef struct nck_cuda_attn {
    nc_dtype type, mask;
    int64_t most_cols, queries; /* columns that the kernel has room for; queries of a block */
    uint32_t threads;
    nc_function *attend;
    nc_function *draw; /* of dropout.cu, for attention_dnn.c; NULL: nothing is dropped, or no half type */
    bool dnn_draws;    /* draw gives a pair */
    bool lens;         /* there may be lengths of keys, of half types */
    nc_function *seen_lens, *seen_bias, *seen_mend; /* of attention_seen.cu; NULL: no need of them */
} nck_cuda_attn;

/* Has type t a kernel for rows of that many columns? */
bool nck_cuda_attn_takes(nc_dtype t, int64_t cols);
/* What a kernel is made for besides its type: the larger one of the columns of q and of v; the mask's type: bool (true:
 * seen), or one of numbers that are added, UNDEFINED: none; are scores capped, shares dropped, keys
 * hidden by their places? */
typedef struct nck_cuda_attn_form {
    int64_t cols;
    nc_dtype mask;
    bool softcap, drops, dnn_draws; /* dnn_draws: cuDNN's own numbers where it computes it */
    bool lens, left;                /* lengths of keys, a window's begin */
} nck_cuda_attn_form;
/* Text that stands in front of the kernel's. */
void nck_cuda_attn_define_form(const nck_cuda_attn_form *f, char *out, size_t bytes); /* all but the columns */
void nck_cuda_attn_define(nc_dtype t, const nck_cuda_attn_form *f, char *out, size_t bytes);

NC_MUST nc_code nck_cuda_attn_prepare(nc_device *d, nc_dtype t, const nck_cuda_attn_form *f, nck_cuda_attn *out,
                                      nc_diag *diag);
NC_MUST nc_code nck_cuda_attn_run(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_args *a);

#endif
