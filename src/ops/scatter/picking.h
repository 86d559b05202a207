/* ops/scatter/picking.h: how a node that picks or puts by indices is read and checked, for the bindings of every
 * device. */
#ifndef NC_OPS_SCATTER_PICKING_H
#define NC_OPS_SCATTER_PICKING_H

#include "kernels/cpu/index/index.h"
#include "ops/binding.h"

typedef struct nc_picking {
    int64_t axis, batch;
    nck_combine how;
} nc_picking;

NC_MUST nc_code nc_picking_read(nc_prep *p, nc_picking *out);
int nc_picking_axis(const nc_picking *s, const nc_tensor *x);
/* Updates take the place of data; for rows that only move. */
bool nc_picking_only_puts(const nc_node *n, const char **why);

/* Dims of indices (input 1), and of updates (input 2) where there are any, against those of data (input 0). */
NC_MUST nc_code nc_picking_check_elements(const nc_call *c, int axis);
/* Input 2 holds the rows of x that the index tuples of input 1 name. */
NC_MUST nc_code nc_picking_check_rows(const nc_call *c, const nc_tensor *x, int64_t batch);
NC_MUST nc_code nc_picking_check_batch(const nc_call *c, const nc_tensor *x, const nc_tensor *at, int64_t batch);

#endif
