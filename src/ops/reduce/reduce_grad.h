/* ops/reduce/reduce_grad.h: gradients of the reductions. */
#ifndef NC_OPS_REDUCE_GRAD_H
#define NC_OPS_REDUCE_GRAD_H

#include "ir/card.h"

NC_MUST nc_code nc_reduce_grad_sum(nc_grad *g);
NC_MUST nc_code nc_reduce_grad_mean(nc_grad *g);
/* ReduceMax and ReduceMin: equal extremes share the gradient evenly. */
NC_MUST nc_code nc_reduce_grad_extreme(nc_grad *g);

#endif
