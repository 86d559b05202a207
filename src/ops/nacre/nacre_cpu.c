/* ops/nacre/nacre_cpu.c: CPU bindings of the ops that passes and gradients make. The ops nacre.XGrad are lanes and need no
 * row here. */
#include "ops/lane.h"

const nc_binding nc_nacre_cpu[] = {
    {.op = "Chain", .domain = "nacre", .kind = NC_K_STATIC, .fits = nc_lane_cpu_fits, .prepare = nc_lane_cpu_prepare,
     .run = nc_lane_cpu_run},
    {0}};
