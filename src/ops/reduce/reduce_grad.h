/* ops/reduce/reduce_grad.h: gradients of the reductions. */
#ifndef NC_OPS_REDUCE_GRAD_H
#define NC_OPS_REDUCE_GRAD_H

#include "ir/card.h"

NC_MUST nc_code nc_reduce_grad_sum(nc_grad *g);
NC_MUST nc_code nc_reduce_grad_mean(nc_grad *g);
/* ReduceMax and ReduceMin: equal extremes share the gradient evenly. */
NC_MUST nc_code nc_reduce_grad_extreme(nc_grad *g);
/* The axes must be known: along each, an element's share is the product of the others. */
NC_MUST nc_code nc_reduce_grad_prod(nc_grad *g);
NC_MUST nc_code nc_reduce_grad_log_sum_exp(nc_grad *g);
/* x/y, and 0 where y is 0. */
NC_MUST nc_code nc_reduce_grad_l2(nc_grad *g);

#endif
