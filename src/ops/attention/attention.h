/* ops/attention/attention.h: what an Attention node says in attributes, and its decomposition. */
#ifndef NC_OPS_ATTENTION_H
#define NC_OPS_ATTENTION_H

#include "ir/card.h"

typedef struct nc_attention {
    bool causal, has_scale;
    double scale, softcap;     /* softcap 0: none */
    int64_t left, right;       /* windows; -1: no bound */
    int64_t mode;              /* what qk_matmul_output shows */
    int64_t q_heads, kv_heads; /* of packed operands; 0: not said */
    double ratio;              /* of the shares that are dropped; 0: none are */
} nc_attention;

/* Fails with the node's fault in w. */
NC_MUST nc_code nc_attention_read(nc_work *w, const nc_node *n, nc_attention *a);
NC_MUST nc_code nc_attention_decompose(nc_builder *b, const nc_node *n, nc_value **out);
/* The same with `in` for the inputs, see ops/build.h. */
NC_MUST nc_code nc_attention_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out);
NC_MUST nc_code nc_attention_grad(nc_grad *g);

/* nacre.AttentionGrad `n`, where kernels of that name make use of it, gets what the Attention of the same operands
 * computes on its way: Y and the logarithm of each query's sum, a further output of it. Part of lowering. */
NC_MUST nc_code nc_attention_keep(nc_work *w, nc_node *n, const char *kernels);

/* nacre.AttentionPut in the place of Attention n and of the two TensorScatters that alone make its K and V, where
 * kernels of that name take it. Part of lowering. */
NC_MUST nc_code nc_attention_put(nc_work *w, nc_node *n, const char *kernels);

enum { NC_ATTN_INPUTS = 7 };

extern const nc_card nc_card_attention_chain; /* Attention with a body: element formulas done to its result */

extern const nc_attr_spec nc_attention_attrs[]; /* of nacre's forms of it; ratio: of those that drop */

/* AttentionDropout and its gradient take the random state as the last of their inputs: lowering gives it. */
nc_value *nc_attention_state(const nc_node *n); /* NULL: not yet */
bool nc_attention_draws(const nc_node *n);      /* it has none yet */
/* The node that drops shares: what is left of them, and a mask of those that stay. NULL after a failure of b. */
nc_node *nc_attn_drop(nc_builder *b, const nc_node *n, const nc_attention *a, nc_value *shares);

/* What Attention is made of, heads apart: (B,H,rows,columns). */
typedef struct nc_attn_pieces {
    nc_value *q, *k, *v, *scale; /* with the past */
    nc_value *keys, *values;     /* of every query head, in q's type */
    nc_value *stage[4];          /* what qk_matmul_output may show */
    int64_t group;               /* query heads that share a key head */
} nc_attn_pieces;
/* All of it, or without the stages. */
NC_MUST nc_code nc_attn_pieces_of(nc_builder *b, const nc_node *n, nc_value *const *in, const nc_attention *a,
                                  nc_attn_pieces *p);
NC_MUST nc_code nc_attn_operands_of(nc_builder *b, nc_value *const *in, const nc_attention *a, nc_attn_pieces *p);

/* Pieces that attention's relatives are put together from; each is NULL after a failure of b. */
nc_value *nc_attn_dims(nc_builder *b, nc_value *x, int64_t lo, int64_t hi); /* dims lo..hi-1 of x, rank 1 */
nc_value *nc_attn_join(nc_builder *b, nc_value *const *parts, int n, int64_t axis);
/* Every head of x (B,H,T,D) n times in a row. */
nc_value *nc_attn_repeat_heads(nc_builder *b, nc_value *x, int64_t n);
/* x (B,T,heads*D) as (B,heads,T,D), and back; what has 4 dims already stays. */
nc_value *nc_attn_to_heads(nc_builder *b, nc_value *x, int64_t heads);
nc_value *nc_attn_from_heads(nc_builder *b, nc_value *y);
/* 1/sqrt of the last dim of x, of x's type. */
nc_value *nc_attn_scale(nc_builder *b, nc_value *x);
/* How many query heads share a key head; fails where that is not known. */
NC_MUST nc_code nc_attn_group(nc_builder *b, const nc_value *q, const nc_value *k, int64_t *n);

/* LinearAttention as a Loop of simple ops, see ops/build.h. */
NC_MUST nc_code nc_linear_attention_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out);

#endif
