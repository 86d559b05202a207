/* ops/index/index.h: what the bindings of the index operators share. */
#ifndef NC_OPS_INDEX_INDEX_H
#define NC_OPS_INDEX_INDEX_H

#include "ops/binding.h"

/* dY of GatherGrad: the dims of dX, those of the indices in the place of the axis. */
static inline nc_code nc_gather_grad_check(const nc_call *c, int axis) {
    const nc_tensor *at = c->in[1], *dx = c->out[0];
    int64_t dims[2 * NC_MAX_RANK];
    int n = 0;
    for (int k = 0; k < axis; k++) dims[n++] = dx->dims[k];
    for (int k = 0; k < at->rank; k++) dims[n++] = at->dims[k];
    for (int k = axis + 1; k < dx->rank; k++) dims[n++] = dx->dims[k];
    return nc_call_expect(c, 2, dims, n);
}

#endif
