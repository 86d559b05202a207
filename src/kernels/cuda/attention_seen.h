/* cuda/attention_seen.h: who sees whom, as cuDNN's graphs take it, and queries that see nobody: attention_seen.cu. */
#ifndef NCK_CUDA_ATTENTION_SEEN_H
#define NCK_CUDA_ATTENTION_SEEN_H

#include "kernels/cuda/attention.h"

/* Mirrors seen_args in attention_seen.cu. */
typedef struct nck_cuda_attn_seen {
    nck_cuda_attn_args a;
    int32_t *n_queries, *n_keys; /* NULL: all */
    void *bias;                  /* NULL: no mask of bools */
    int32_t *first;
    int64_t dims[3];
} nck_cuda_attn_seen;

/* Bytes for lengths and for a mask of bools with that many rows. */
size_t nck_cuda_attn_seen_room(const nck_cuda_attn *k, const nck_cuda_attn_args *a, int64_t mask_rows);
/* Where they will lie: in `room`. */
nck_cuda_attn_seen nck_cuda_attn_seen_of(const nck_cuda_attn *k, const nck_cuda_attn_args *a, void *room);
/* Launches what fills them. */
NC_MUST nc_code nck_cuda_attn_seen_fill(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_seen *s);
/* Behind the graph: rows of zeros, and statistics of queries without keys. Nothing where each sees one. */
NC_MUST nc_code nck_cuda_attn_seen_mend(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_seen *s);

#endif
