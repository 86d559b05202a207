/* ops/arrange/arrange.h: what cards of the arrange family share. */
#ifndef NC_OPS_ARRANGE_ARRANGE_H
#define NC_OPS_ARRANGE_ARRANGE_H

#include "ops/build.h"
#include "ops/card.h"

/* Forward input i as a shape to be like; kept for backward only when its dims are not known before the run. */
nc_value *nc_arrange_like(nc_grad *g, int i);

#endif
