/* autodiff/autodiff.h: gradients of values of a graph by values of the same graph, as further nodes of that graph.
 *
 * The walk asks every card for its gradient and names no op. A graph that holds gradients already is a graph like any
 * other: differentiate again for second derivatives. */
#ifndef NC_AUTODIFF_AUTODIFF_H
#define NC_AUTODIFF_AUTODIFF_H

#include "ops/build.h"

/* What to differentiate by what, and where the gradients go. */
typedef struct nc_autodiff_ask {
    nc_value *const *ys, *const *dys; /* dys[i]: the gradient that arrives at ys[i], of the same type; NULL, or a NULL
                                       * array: ones */
    nc_value *const *xs;
    int n_y, n_x;
    nc_node *before; /* new nodes go before this one, which ys do not depend on; NULL: to the end of the graph */
    nc_stage stage;  /* of the new nodes */
} nc_autodiff_ask;

/* dxs[i]: the gradient of the sum of all ys (weighted by dys) by xs[i]; NULL where xs[i] does not influence any y.
 * The graph must have been inferred. Nodes whose card has a decomposition but no gradient are replaced by their pieces:
 * a value that such a node made is replaced too, where it is used and where it is a graph output (ys and xs may be
 * such). UNSUPPORTED names the node on the way that has no gradient, and a way through it. After a failure the graph
 * may be half done: give it up. */
NC_MUST nc_code nc_autodiff_at(nc_work *w, nc_graph *g, const nc_autodiff_ask *ask, nc_value **dxs);

/* The same at the end of the graph, with stage BACKWARD. */
NC_MUST nc_code nc_autodiff(nc_work *w, nc_graph *g, nc_value *const *ys, nc_value *const *dys, int n_y,
                            nc_value *const *xs, int n_x, nc_value **dxs);

/* The same where b emits, as a hook of it (ops/build.h): ys and xs are values of b's graph, and dys gives every
 * gradient that arrives, NULL: none. */
NC_MUST nc_code nc_autodiff_emit(nc_builder *b, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs,
                                 int n_x, nc_value **dxs);

/* Marks in out[i] which xs[i] influence any y on a differentiable way; adds nothing to the graph. */
NC_MUST nc_code nc_autodiff_influence(nc_work *w, nc_graph *g, nc_value *const *ys, int n_y, nc_value *const *xs,
                                      int n_x, bool *out);

/* ---- gradient.c ---- */

/* Every node of the inferred model that NC_DIFFERENTIATES gives its place to the gradients that it asks for. */
NC_MUST nc_code nc_autodiff_expand(nc_work *w, nc_model *m);

/* ---- stop.c: values that are held: what was made of them does not depend on what they were made of ---- */

/* Puts a node that no gradient passes between v and all its uses. made, if it is not NULL: that node, or NULL where
 * there was one already. */
NC_MUST nc_code nc_autodiff_stop(nc_work *w, nc_value *v, nc_node **made);
nc_value *nc_autodiff_stopped(nc_value *v); /* as its uses see it: v, or v behind such a node */
void nc_autodiff_unstop(nc_node *stop);     /* takes the node away again */
void nc_autodiff_unstop_all(nc_graph *g);   /* all of them */
/* A message where a gradient that was asked for is zeros, because y does not depend on x. */
void nc_autodiff_warn_zeros(const char *y, const char *x);

#endif
