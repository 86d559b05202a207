/* ops/attention/cached.h: where the operands of nacre.CachedAttention stand, and what its attributes say. */
#ifndef NC_OPS_ATTENTION_CACHED_H
#define NC_OPS_ATTENTION_CACHED_H

#include "ir/card.h"

enum {
    NC_CACHED_Q,      /* (B,S,q_heads*D) */
    NC_CACHED_K,      /* (B,S,kv_heads*D) */
    NC_CACHED_V,      /* likewise */
    NC_CACHED_STARTS, /* (B): which row of the cache the first new one becomes */
    NC_CACHED_TOTAL,  /* scalar: rows that the cache has at least, afterwards */
    NC_CACHED_PAST_K, /* (B,kv_heads,P,D); absent: P is 0 */
    NC_CACHED_PAST_V,
    NC_CACHED_BIAS, /* added to scores, (B or 1, q_heads or 1, S, columns) */
    NC_CACHED_SINK, /* (q_heads): the score of one more key, whose value is 0 */
    NC_CACHED_INPUTS
};

typedef struct nc_cached {
    int64_t q_heads, kv_heads, left; /* left: window of keys before the query's own; -1: no bound */
    bool causal;
    double scale, softcap; /* scale 0: 1/sqrt(D) */
    int64_t mode;          /* output 3: 0 none, 1 scores, 0 where a key is not seen, 2 probabilities */
} nc_cached;

nc_cached nc_cached_read(const nc_node *n);

#endif
