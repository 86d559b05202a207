/* cuda/attention_dnn_graph.h: what a graph of attention for cuDNN depends on, and the graph. */
#ifndef NCK_CUDA_ATTENTION_DNN_GRAPH_H
#define NCK_CUDA_ATTENTION_DNN_GRAPH_H

#include "device/cuda_dnn.h"

/* Tensors of a call. */
enum {
    NCK_ATTN_Q = 1,
    NCK_ATTN_K,
    NCK_ATTN_V,
    NCK_ATTN_Y,
    NCK_ATTN_STATS,
    NCK_ATTN_BIAS,
    NCK_ATTN_SCALE,
    NCK_ATTN_CAP,
    NCK_ATTN_LOWEST,
    NCK_ATTN_N_QUERIES, /* by value, or of every batch */
    NCK_ATTN_N_KEYS,
    NCK_ATTN_LEFT,
    NCK_ATTN_RIGHT,
    NCK_ATTN_DY,
    NCK_ATTN_DQ,
    NCK_ATTN_DK,
    NCK_ATTN_DV,
    NCK_ATTN_SUMS,
    NCK_ATTN_ONE,
    NCK_ATTN_KEEP,
    NCK_ATTN_KEPT_BY,
    NCK_ATTN_SEED,
    NCK_ATTN_OFFSET,
    NCK_ATTN_IDS
};

/* What a plan is kept by: whole numbers only, so that its bytes can be compared. Strides: batch, head, row, column. */
typedef struct nck_attn_key {
    int64_t back, type, mask, stats, capped;
    int64_t lens;         /* each batch has a number of keys of its own */
    int64_t left, right;  /* is there a bound; right 1: the query's own place, 2: one that is given */
    int64_t at_end;       /* the last query's place is the last key */
    int64_t drops, ratio; /* 1: by a mask that is given, 2: by cuDNN's own; the bits of a double */
    int64_t B, Hq, Hkv, S, T, D, Dv;
    int64_t q[4], k[4], v[4], y[4], dy[4], dq[4], dk[4], dv[4], mask_dims[4], mask_strides[4];
} nck_attn_key;

/* For nc_cuda_dnn_call; key is a nck_attn_key. */
cudnnBackendDescriptor nck_attn_describe_forward(nc_cuda_graph *g, const void *key);
cudnnBackendDescriptor nck_attn_describe_back(nc_cuda_graph *g, const void *key);

#endif
