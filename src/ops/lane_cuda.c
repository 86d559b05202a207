/* ops/lane_cuda.c: the CUDA binding of lane ops. There is none yet to bind: the row is empty, so element formulas are
 * refused on CUDA with a reason and placed on the host. */
#include "ops/lane.h"

const nc_binding nc_lane_cuda = {0};
