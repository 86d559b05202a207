/* ops/random/random.h: what kernels of random ops and their gradients share. */
#ifndef NC_OPS_RANDOM_H
#define NC_OPS_RANDOM_H

#include "ops/binding.h"

/* Dropout's ratio: input i_ratio (a float scalar; absent: 0.5), or 0 when input i_training is absent or false. Both
 * are host arguments. DATA when it is not in [0, 1]. */
NC_MUST nc_code nc_dropout_ratio(const nc_call *c, int i_ratio, int i_training, double *ratio);

#endif
