/* ops/nacre/nacre_cpu.c: CPU bindings of the ops that passes and gradients make: Chain as a tile program, SumTo as a
 * reduction. The ops nacre.XGrad are lanes and need no row here. */
#include "kernels/cpu/reduce/reduce.h"
#include "ops/card.h"
#include "ops/lane.h"
#include "ops/reduce/reduce.h"
#include "ops/widen.h"

<<<<<<< HEAD
/* The axes of x that are summed; false when `to` does not broadcast to x. */
static bool summed_axes(const nc_tensor *x, const nc_tensor *to, uint32_t *axes) {
    int lead = x->rank - to->rank;
    *axes = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i >= lead && to->dims[i - lead] == x->dims[i]) continue;
        if (i >= lead && to->dims[i - lead] != 1) return false;
        *axes |= 1u << i;
    }
    return lead >= 0;
}

static nc_code sum_to_prepare(nc_prep *p) {
    p->strided_in = 1;
    return NC_OK;
}

static size_t sum_to_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)n_out;
    int64_t kept = nc_tensor_numel(&out[0]), all = nc_tensor_numel(&in[0]);
    return nck_reduce_workspace(kept, kept > 0 ? (all + kept - 1) / kept : 0);
}

static nc_code sum_to_run(const nc_call *c) {
    uint32_t axes;
    if (!summed_axes(&c->in[0], &c->out[0], &axes))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the shape does not broadcast to that of X");
    return nck_reduce(NCK_REDUCE_SUM, &c->in[0], axes, c->out[0].data, c->workspace, c->pool);
}

const nc_binding nc_nacre_cpu[] = {{.op = "Chain",
                                    .domain = "nacre",
                                    .kind = NC_K_STATIC,
                                    .fits = nc_lane_cpu_fits,
                                    .prepare = nc_lane_cpu_prepare,
                                    .run = nc_lane_cpu_run},
                                   {.op = "SumTo",
                                    .domain = "nacre",
                                    .kind = NC_K_STATIC,
                                    .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | T_INDEX,
                                    .prepare = sum_to_prepare,
                                    .workspace = sum_to_workspace,
                                    .run = sum_to_run},
                                   {0}};
=======
const nc_binding nc_nacre_cpu[] = {
    {.op = "Chain", .domain = "nacre", .kind = NC_K_STATIC, .fits = nc_lane_cpu_fits, .prepare = nc_lane_cpu_prepare,
     .run = nc_lane_cpu_run},
    {.op = "SumTo", .domain = "nacre", .types = NC_WIDEN_HALF | NC_WIDEN_INTS, .prepare = nc_reduce_sum_to_prepare,
     .workspace = nc_reduce_narrow_workspace, .run = nc_reduce_sum_to_narrow_run},
    {.op = "SumTo", .domain = "nacre", .prepare = nc_reduce_sum_to_prepare, .workspace = nc_reduce_workspace,
     .run = nc_reduce_sum_to_run},
    {0}};
>>>>>>> ops1
