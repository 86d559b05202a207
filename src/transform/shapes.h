/* transform/shapes.h: shapes that passes write into the graph: a Reshape to a type that is known, axes as the opset
 * wants them. */
#ifndef NC_TRANSFORM_SHAPES_H
#define NC_TRANSFORM_SHAPES_H

#include "transform/rewrite.h"

/* Symbols that have a value whatever nodes go: those of inputs, captures and variables. A dim that only some node's
 * output gives a value must not outlive that node. */
typedef struct nc_shapes_bound {
    bool *known;
    int64_t *ones;
} nc_shapes_bound;
NC_MUST nc_code nc_shapes_find_bound(nc_work *w, const nc_graph *g, nc_shapes_bound *out);
bool nc_shapes_are_bound(const nc_shapes_bound *b, const nc_value *x, const nc_type *t); /* by x's own dims too */

/* The constant that reshapes x to the dims of `to`: sizes, 0 for a dim of x at the same place, -1 for one other dim
 * that is open. -1 beside copied dims only if `mixes`: other runtimes refuse that for empty tensors. zeros: a 0 is a
 * size (allowzero). */
bool nc_shapes_target(const nc_value *x, const nc_type *to, bool mixes, int64_t *shape, bool *zeros);
bool nc_shapes_mixes(const nc_node *n); /* a Reshape whose constant shape has both 0 and -1 */
/* n becomes a Reshape of x with a constant shape; *done is false where its output's type does not give one. */
NC_MUST nc_code nc_shapes_reshape(nc_work *w, nc_node *n, nc_value *x, bool mixes, bool *done);
/* n becomes Squeeze or Unsqueeze of x. */
NC_MUST nc_code nc_shapes_with_axes(nc_work *w, nc_node *n, const char *op, nc_value *x, const int64_t *axes,
                                    int n_axes, bool *done);

#endif
