/* kernels/cpu/attn/attn.h: Y = softmax(softcap(scale * Q K') + bias) V per batch and head, in f32 or f64.
 *
 * B batches, Hq query heads sharing Hkv key heads in order, S queries, T keys, D and Dv columns. The bias is -inf
 * where a key may not be seen, else the mask's element; a query that sees no key gives a row of zeros. Scores of
 * NCK_ATTN_ROWS queries of one head with a block of keys are held at a time. Accumulation: in the element type by
 * kernels/cpu/gemm and kernels/cpu/reduce, joined block by block; bits depend on S (a few queries or more), T and, of
 * few queries, the ISA, not on threads. */
#ifndef NCK_ATTN_H
#define NCK_ATTN_H

#include "base/shape.h"
#include "base/threads.h"
#include "kernels/cpu/tile.h"

#define NCK_ATTN_ROWS 128
#define NCK_ATTN_GROUPS 16 /* that work is dealt to */
#define NCK_ATTN_FEW 64    /* of few heads, or where a block sees what its last query does */

/* A matrix per batch and head. */
typedef struct nck_attn_operand {
    void *data;
    int64_t batch, head, row, column; /* strides; y's columns lie side by side */
} nck_attn_operand;

/* Element formulas done to rows of Y when they are complete, while they are in the cache: f32. */
#define NCK_ATTN_AFTER_IN 12
typedef struct nck_attn_after {
    const nck_tile_prog *prog; /* as nck_tile_run_flat takes it; input 0 is Y */
    nck_attn_operand
        in[NCK_ATTN_AFTER_IN]; /* of floats; strides of 0 spread; columns lie side by side or are one number */
} nck_attn_after;

/* What qk gets: scaled products, after softcap, after the bias, probabilities. */
typedef enum nck_attn_stage { NCK_ATTN_PRODUCT, NCK_ATTN_CAPPED, NCK_ATTN_BIASED, NCK_ATTN_SOFTMAX } nck_attn_stage;

typedef struct nck_attn_args {
    nc_dtype type;
    int64_t B, Hq, Hkv, S, T, D, Dv;
    nck_attn_operand q, k, v, y; /* q (S,D), k (T,D), v (T,Dv), y (S,Dv) */
    double scale, softcap;       /* softcap 0: none */
    const void *mask;            /* NULL: none; else bool (true: seen) or of type (added) */
    bool mask_bool;
    int64_t mask_strides[4], mask_cols; /* of (B,Hq,S,T); keys from mask_cols on are not seen */
    const int64_t *kv_lens;             /* (B): keys from there on are not seen; NULL: all are */
    bool causal;
    int64_t left, right; /* window around the query's own place; -1: no bound */
    int64_t offset;      /* place of the first query among the keys; with kv_lens it is kv_lens[b] - S instead */
    bool offset_by_lens;
    bool joined; /* by nck_attn_join_heads: rows are heads, all at the place of one query */
    const void
        *sink; /* (Hq) of type: the score of one more key that all queries of a head see, its value 0; NULL: none */
    void *qk;  /* (B,Hq,S,T) dense; NULL: not wanted */
    nck_attn_stage qk_stage;
    nck_attn_after *after; /* NULL: none */
    /* NULL, or puts the keys and values [from, to) of a head into their places just before they are read, at last those
     * behind that nobody reads (to INT64_MAX); of one query or of joined heads, whose keys are read once. Returns how
     * many of a head's first keys past_k and past_v have as well, 0: none. Read there they are in the processor's
     * caches, which writing may pass by. */
    int64_t (*bring)(void *ctx, int64_t b, int64_t kv, int64_t from, int64_t to);
    void *ctx;
    nck_attn_operand past_k, past_v;
} nck_attn_args;

/* Heads that share keys as the queries of one head, where there is one query: keys and values are gone through once. */
void nck_attn_join_heads(nck_attn_args *a);
/* Grows with each size. Of joined heads: those sizes, too. */
size_t nck_attn_workspace(nc_dtype type, int64_t B, int64_t Hq, int64_t S, int64_t T, int64_t D, int64_t Dv);
void nck_attn(const nck_attn_args *a, void *workspace, nc_pool *pool);

/* One query at a time in double; row is scratch of T. */
void nck_attn_ref(const nck_attn_args *a, double *row);

#endif
