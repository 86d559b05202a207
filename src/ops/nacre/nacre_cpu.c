/* ops/nacre/nacre_cpu.c: CPU bindings of the ops that passes and gradients make. The ops nacre.XGrad are lanes and need no
 * row here. */
#include "ops/lane.h"
#include "ops/reduce/reduce.h"
#include "ops/widen.h"

const nc_binding nc_nacre_cpu[] = {
    {.op = "Chain", .domain = "nacre", .kind = NC_K_STATIC, .fits = nc_lane_cpu_fits, .prepare = nc_lane_cpu_prepare,
     .run = nc_lane_cpu_run},
    {.op = "SumTo", .domain = "nacre", .types = NC_WIDEN_HALF | NC_WIDEN_INTS, .prepare = nc_reduce_sum_to_prepare,
     .workspace = nc_reduce_narrow_workspace, .run = nc_reduce_sum_to_narrow_run},
    {.op = "SumTo", .domain = "nacre", .prepare = nc_reduce_sum_to_prepare, .workspace = nc_reduce_workspace,
     .run = nc_reduce_sum_to_run},
    {0}};
