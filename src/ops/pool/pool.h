/* ops/pool/pool.h: inference of pools, for those with codes for elements or channels last. */
#ifndef NC_OPS_POOL_POOL_H
#define NC_OPS_POOL_POOL_H

#include "ir/card.h"

/* Output 0, and the indices where there are any, as a pool of input 0 by the node's attributes. */
NC_MUST nc_code nc_pool_infer(nc_infer *c);
/* One element for each plane of input 0. */
NC_MUST nc_code nc_pool_global_infer(nc_infer *c);

#endif
