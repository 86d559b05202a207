/* autodiff/autodiff.h: gradients of values of a graph by values of the same graph, as further nodes of that graph.
 *
 * The walk asks every card for its gradient and names no op. New nodes have stage BACKWARD and stand at the end. A
 * graph that holds gradients already is a graph like any other: differentiate again for second derivatives. */
#ifndef NC_AUTODIFF_AUTODIFF_H
#define NC_AUTODIFF_AUTODIFF_H

#include "ops/build.h"

/* dxs[i]: the gradient of the sum of all ys (weighted by dys) by xs[i]; NULL where xs[i] does not influence any y.
 * dys[i]: the gradient that arrives at ys[i], of the same type; NULL, or a NULL array: ones. The graph must have been
 * inferred. Nodes whose card has a decomposition but no gradient are replaced by their pieces: a value that such a
 * node made is replaced too, where it is used and where it is a graph output (ys and xs may be such). UNSUPPORTED
 * names the node on the way that has no gradient. After a failure the graph may be half done: give it up. */
NC_MUST nc_code nc_autodiff(nc_work *w, nc_graph *g, nc_value *const *ys, nc_value *const *dys, int n_y,
                            nc_value *const *xs, int n_x, nc_value **dxs);

/* The same where b emits, as a hook of it (ops/build.h): ys and xs are values of b's graph, and dys gives every
 * gradient that arrives, NULL: none. */
NC_MUST nc_code nc_autodiff_emit(nc_builder *b, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs,
                                 int n_x, nc_value **dxs);

/* Marks in out[i] which xs[i] influence any y on a differentiable way; adds nothing to the graph. */
NC_MUST nc_code nc_autodiff_influence(nc_work *w, nc_graph *g, nc_value *const *ys, int n_y, nc_value *const *xs,
                                      int n_x, bool *out);

#endif
