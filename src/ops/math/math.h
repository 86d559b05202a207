/* ops/math/math.h: what the cards of the math family share. */
#ifndef NC_OPS_MATH_MATH_H
#define NC_OPS_MATH_MATH_H

#include "ops/lane.h"

/* Lanes of two inputs whose old versions broadcast along an axis (nc_lane_trailing): such a node becomes the newest
 * version with input 1 reshaped. */
NC_MUST nc_code nc_math_decompose_old(nc_builder *b, const nc_node *n, nc_value **out);
NC_MUST nc_code nc_math_grad_binary(nc_grad *g);

/* What is known of the elements of small integer tensors, element by element. f may be NULL-valued: not known. */
typedef const nc_dim *(*nc_math_dim2)(nc_dims *t, const nc_dim *a, const nc_dim *b);
NC_MUST nc_code nc_math_fold2(nc_infer *c, nc_math_dim2 f);

NC_MUST nc_code nc_math_fold_add(nc_infer *c);
NC_MUST nc_code nc_math_fold_sub(nc_infer *c);
NC_MUST nc_code nc_math_fold_mul(nc_infer *c);
NC_MUST nc_code nc_math_fold_div(nc_infer *c);
NC_MUST nc_code nc_math_fold_min(nc_infer *c);
NC_MUST nc_code nc_math_fold_max(nc_infer *c);
NC_MUST nc_code nc_math_fold_neg(nc_infer *c);
NC_MUST nc_code nc_math_fold_equal(nc_infer *c);
NC_MUST nc_code nc_math_fold_less(nc_infer *c);
NC_MUST nc_code nc_math_fold_greater(nc_infer *c);
NC_MUST nc_code nc_math_fold_where(nc_infer *c);
NC_MUST nc_code nc_math_fold_mod(nc_infer *c);
NC_MUST nc_code nc_math_fold_clip(nc_infer *c);

#endif
