/* ops/nacre/rows.h: what the card, the kernel and the pass of nacre.ChainRows share. */
#ifndef NC_OPS_NACRE_ROWS_H
#define NC_OPS_NACRE_ROWS_H

#include "ops/card.h"

/* What is done to the rows, the attribute `op`. From NC_ROWS_SUM on they are reduced, in the order of nck_reduce_op. */
typedef enum nc_rows_op {
    NC_ROWS_SOFTMAX,
    NC_ROWS_LOG_SOFTMAX,
    NC_ROWS_NORM,     /* LayerNormalization; the inputs behind the formulas' own are scale and bias, or scale */
    NC_ROWS_RMS_NORM, /* RMSNormalization */
    NC_ROWS_SUM,
    NC_ROWS_MEAN,
    NC_ROWS_MAX,
    NC_ROWS_MIN,
    NC_ROWS_PROD
} nc_rows_op;

extern const nc_card nc_card_chain_rows;

/* Of chain.c: the cost of a node with a body; the types of what a body of element formulas gives, out[0..outputs-1],
 * where its inputs are those of the node. */
double nc_chain_cost(const nc_node *n, const int64_t *const *in_dims);
NC_MUST nc_code nc_chain_infer_body(nc_infer *c, const nc_graph *body, const nc_type **out);

#endif
