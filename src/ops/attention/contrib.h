/* ops/attention/contrib.h: what attentions of com.microsoft share: masks of numbers, and Attention of ai.onnx, which
 * they end in. */
#ifndef NC_OPS_ATTENTION_CONTRIB_H
#define NC_OPS_ATTENTION_CONTRIB_H

#include "ops/attention/attention.h"
#include "ops/contrib.h"

/* Operands of one attention; NULL: none. */
typedef struct nc_msattn {
    nc_value *q, *k, *v; /* all (B,T,heads*D), or all (B,heads,T,D) */
    nc_value *past_k, *past_v;
    nc_value *bias; /* added to scores, broadcast to (B,heads,S,T) */
    nc_value *lens; /* (B): how many of the keys count */
    int64_t heads;
    bool causal;
    const nc_node *node; /* its `scale` counts unless it is absent or 0 */
} nc_msattn;

/* Attention with outputs Y, present_key, present_value, scores as wanted says; scores are those before softmax. */
nc_node *nc_msattn_build(nc_builder *b, const nc_msattn *a, const bool *wanted);

/* The type that the model declares for the scores, output 3 of n, or t; those of `keys` (rank 1) keys as that type. */
nc_dtype nc_msattn_scores_type(const nc_node *n, nc_dtype t);
nc_value *nc_msattn_scores(nc_builder *b, const nc_node *n, nc_value *scores, nc_value *keys);

/* Writes a's keys and values (B,heads,L,D) into the caches past_k and past_v, which become *present: behind their rows,
 * or from row `length` (one element) on where that is not NULL. a then attends to the first *keys (rank 1) rows, a
 * single query's past ones taken from the beams that `from` (groups,beams,most) names, where it is not NULL. */
NC_MUST nc_code nc_msattn_cached(nc_builder *b, nc_msattn *a, nc_value *length, nc_value *from, nc_value **keys,
                                 nc_value **present);

/* Queries of `heads` heads, keys and values of `kv` each, that stand side by side in the columns of `all` (B,S,...). */
NC_MUST nc_code nc_msattn_apart(nc_builder *b, nc_value *all, int64_t heads, int64_t kv, nc_value **qkv);
/* x (B,S,heads*D) turned by the angles of positions ids (B,S); in_turn: pairs are neighbours. */
nc_value *nc_msattn_turned(nc_builder *b, nc_value *x, nc_value *cos, nc_value *sin, nc_value *ids, int64_t heads,
                           int64_t in_turn);

/* How many keys there are: rows of k, and of past (B,heads,P,D) or NULL. Rank 1. */
nc_value *nc_msattn_keys(nc_builder *b, nc_value *k, nc_value *past);

/* What a mask of 0 and 1 adds to scores: 0 where a key is seen, else the node's mask_filter_value. mask (B), (2B) or
 * (3B+2): ends, or ends and starts; (B,T); (B,S,T); (B,1,M,M): rows of the last S places. like (B,S,...): a query. */
nc_value *nc_msattn_mask(nc_builder *b, const nc_node *n, nc_value *mask, nc_value *like, nc_value *keys);

/* Heads that divide `size` where that is known. */
NC_MUST nc_code nc_msattn_check_heads(nc_infer *c, const char *attr, const nc_dim *size, const char *what);
/* input i, where it is there, broadcasts to (B,heads,S,T). NULL: not known. */
NC_MUST nc_code nc_msattn_check_bias(nc_infer *c, int i, const nc_dim *B, int64_t heads, const nc_dim *S,
                                     const nc_dim *T);
/* A mask of numbers has 1 to 4 dims that fit. */
NC_MUST nc_code nc_msattn_check_mask(nc_infer *c, int i, const nc_dim *B, const nc_dim *S, const nc_dim *T);

#endif
