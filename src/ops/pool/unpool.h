/* ops/pool/unpool.h: the size that MaxUnpool undoes a pool to, for its card and its kernel. */
#ifndef NC_OPS_POOL_UNPOOL_H
#define NC_OPS_POOL_UNPOOL_H

#include "ops/window.h"

typedef struct nc_unpool {
    int n_spatial;
    int64_t strides[NC_WINDOW_MAX_SPATIAL];
    int64_t more[NC_WINDOW_MAX_SPATIAL]; /* the window less the pads: undone = (size - 1) * stride + more */
} nc_unpool;

NC_MUST nc_code nc_unpool_read(nc_work *w, const nc_node *n, int n_spatial, nc_unpool *a);

#endif
