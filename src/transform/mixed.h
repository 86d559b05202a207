/* transform/mixed.h: a model of f32 that computes in half precision: casts are put in, nothing else changes. Not a pass
 * of passes.list: it does not keep the meaning to the bit. Before gradients, so that they are mixed too. */
#ifndef NC_TRANSFORM_MIXED_H
#define NC_TRANSFORM_MIXED_H

#include "ir/graph.h"

/* compute: FLOAT16 or BFLOAT16. The model is inferred, and stays so. Sums of products (trait NC_NARROWS) take narrow
 * operands, but for those that the card sets apart (attention's mask); a view in front of them is one of the narrow
 * form. Formulas and views follow where all their operands are narrow or constants that fit; all others, and those of
 * trait NC_WIDE, see f32, as do inputs, outputs, constants and subgraphs. A model that only infers is mixed as a file
 * of that type: norms take and give narrow values too, and so do sums of a residual that a norm has narrow.
 * UNSUPPORTED: the model's opset has no Cast to that type. */
NC_MUST nc_code nc_transform_mixed(nc_work *w, nc_model *m, nc_dtype compute);

#endif
