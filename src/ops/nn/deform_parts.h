/* ops/nn/deform_parts.h: DeformConv in simple ops, for gradients of its gradient. */
#ifndef NC_OPS_DEFORM_PARTS_H
#define NC_OPS_DEFORM_PARTS_H

#include "ops/build.h"

/* in: X, W, offset, B, mask, the last two may be NULL; n has DeformConv's attributes. */
NC_MUST nc_code nc_deform_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out);

#endif
