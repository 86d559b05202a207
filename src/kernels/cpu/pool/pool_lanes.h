/* kernels/cpu/pool/pool_lanes.h: pools of float planes with lanes: channels in blocks. Those of a plane (rows, columns,
 * lanes) may also be its last dim, under a window of one. Parts of pool.h's, with the same bits. An item is a line of
 * places. */
#ifndef NCK_POOL_LANES_H
#define NCK_POOL_LANES_H

#include "kernels/cpu/pool/pool.h"

bool nck_pool_has_lanes(const nck_pool_args *a);
void nck_pool_max_lanes(const nck_pool_args *a, nc_pool *pool);
void nck_pool_average_lanes(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool);
/* What the sum at a place is divided by; of pool.c. */
double nck_pool_count(const nck_window *w, int64_t o0, int64_t o1, int64_t o2, nck_pool_divide by);

#endif
