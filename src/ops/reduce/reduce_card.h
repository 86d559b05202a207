/* ops/reduce/reduce_card.h: what the cards of the reduce family share. */
#ifndef NC_OPS_REDUCE_CARD_H
#define NC_OPS_REDUCE_CARD_H

#include "ops/card.h"

#define KEEP A_INT("keepdims", 1)
#define BY_INPUT(types)                                                        \
    IN({"data", types}, {"axes", T_I64, OPTIONAL}), OUT({"reduced", SAME(0)}), \
        ATTR(KEEP, A_INT("noop_with_empty_axes", 0))
#define BY_ATTR(types) IN({"data", types}), OUT({"reduced", SAME(0)}), ATTR(KEEP, A_INTS_OPT("axes"))

NC_MUST nc_code nc_reduce_infer(nc_infer *c);
double nc_reduce_cost(const nc_node *n, const int64_t *const *in_dims);

#endif
