/* infer/infer.h: types, shapes and small integer values over the graph, by asking the cards. Names no op.
 *
 * Writes only what inference finds: types and elems of values. A type the model declared is merged with the inferred
 * one: symbols give way to what was inferred, constants stay, contradictions are errors. */
#ifndef NC_INFER_INFER_H
#define NC_INFER_INFER_H

#include "ir/card.h"

/* One node: its operands have been inferred before. Checks their types against the version's parameters. */
NC_MUST nc_code nc_infer_node(nc_work *w, nc_node *n);

/* The whole graph in order, subgraphs through their nodes. */
NC_MUST nc_code nc_infer_model(nc_work *w, nc_model *m);

/* While running: the actual dims of n's outputs from those of its inputs and from the contents of integer inputs
 * that the host can read (host_readable[i]). Fills dtype, rank and dims of out[]; a size that only the kernel finds
 * is given as its upper bound. The graph is not changed; what is needed on the way goes to `scratch` and `arena`,
 * both the caller's. */
NC_MUST nc_code nc_infer_run(nc_work *w, const nc_node *n, nc_dims *scratch, nc_arena *arena, const nc_tensor *in,
                             const bool *host_readable, int n_in, nc_tensor *out, int n_out);

/* While running: do operands of these sizes fit n, and do results of those sizes follow from them? For a node that is
 * open. readable: inputs whose contents the host can read; sizes that others tell are not looked at. */
NC_MUST nc_code nc_infer_again(nc_work *w, const nc_node *n, nc_dims *scratch, nc_arena *arena, nc_tensor *const *in,
                               uint32_t readable, nc_tensor *const *out);

#endif
