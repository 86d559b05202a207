/* ops/host_eval.h: one node on the host, by its own CPU binding, outside any session: for constant folding. */
#ifndef NC_OPS_HOST_EVAL_H
#define NC_OPS_HOST_EVAL_H

#include "base/buffer.h"
#include "ir/graph.h"

enum { NC_HOST_EVAL_MAX = 16 }; /* operands */

/* Runs n on dense host tensors, at any address. out: dtype, rank and dims are given; data is filled in, dense. held[i]
 * becomes what holds the bytes of out[i], a reference of the caller's: memory of their own, or, where the result is a
 * dense view, a further reference to held_in, which holds input 0 (NULL: nothing counted does; then such a result is
 * copied).
 * *done is false, and nothing else is said, where the node cannot be run so: no kernel, a dynamic or bounded one,
 * objects. A kernel's error on the data (an index out of range) also gives *done = false: the run will tell it, with
 * the node's name. */
NC_MUST nc_code nc_host_eval(nc_work *w, const nc_node *n, nc_tensor *in, nc_buffer *held_in, nc_tensor *out,
                             nc_buffer **held, bool *done);

#endif
