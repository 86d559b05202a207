/* ops/attention/group_query.h: where the operands of GroupQueryAttention stand, and how its caches are kept: as they
 * are, as codes with scales (8 bits, or two of 4 bits in a byte), or as the last rows of a window. */
#ifndef NC_OPS_ATTENTION_GROUP_QUERY_H
#define NC_OPS_ATTENTION_GROUP_QUERY_H

#include "ops/attention/contrib.h"

enum {
    NC_GQ_QUERY,
    NC_GQ_KEY,
    NC_GQ_VALUE,
    NC_GQ_PAST_K,
    NC_GQ_PAST_V,
    NC_GQ_LENGTHS,
    NC_GQ_TOTAL,
    NC_GQ_COS,
    NC_GQ_SIN,
    NC_GQ_POSITIONS,
    NC_GQ_BIAS,
    NC_GQ_SINK,
    NC_GQ_K_SCALE,
    NC_GQ_V_SCALE,
    NC_GQ_Q_NORM,
    NC_GQ_K_NORM
};

/* What new rows are put behind. Vectors are of one number per batch. */
typedef struct nc_gq_rows {
    nc_value *starts; /* positions before the new ones */
    nc_value *total;  /* scalar: positions in all */
} nc_gq_rows;

bool nc_gq_is_coded(const nc_node *n);
bool nc_gq_is_windowed(const nc_node *n);
/* Elements of the caches, and how many of them a head of D numbers takes. query: the type of the query. */
nc_dtype nc_gq_cache_type(const nc_node *n, nc_dtype query);
int64_t nc_gq_cache_part(const nc_node *n, nc_dtype cache); /* numbers in an element: 1 or 2 */
NC_MUST nc_code nc_gq_check_cache(nc_infer *c);

/* Attention of qkv, each (B,S,heads*D), over n's caches: fills the outputs that n has. */
NC_MUST nc_code nc_gq_attend(nc_builder *b, const nc_node *n, nc_value *const *qkv, const nc_gq_rows *rows,
                             nc_value **out);

#endif
