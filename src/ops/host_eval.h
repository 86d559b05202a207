/* ops/host_eval.h: one node on the host, by its own CPU binding, outside any session: for constant folding. */
#ifndef NC_OPS_HOST_EVAL_H
#define NC_OPS_HOST_EVAL_H

#include "ir/graph.h"

/* Runs n on dense host tensors. out: dtype, rank and dims are given; data is allocated in `arena`, dense. *done is
 * false, and nothing else is said, where the node cannot be run so: no kernel, a dynamic or bounded one, objects. A
 * kernel's error on the data (an index out of range) also gives *done = false: the run will tell it, with the node's
 * name. */
NC_MUST nc_code nc_host_eval(nc_work *w, nc_arena *arena, const nc_node *n, nc_tensor *in, nc_tensor *out, bool *done);

#endif
