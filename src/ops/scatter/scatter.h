/* ops/scatter/scatter.h: what cards of the scatter family share. */
#ifndef NC_OPS_SCATTER_SCATTER_H
#define NC_OPS_SCATTER_SCATTER_H

#include "ops/build.h"
#include "ops/card.h"

/* Forward input i as a shape to be like; kept for backward only when its dims are not known before the run. */
nc_value *nc_scatter_like(nc_grad *g, int i);

#endif
