/* ops/lane_cuda.c: the one CUDA binding of all element formulas: the tile program of a node (lane_prog.c) as a
 * generated kernel, compiled when the node is prepared, so that a run can be captured. */
#include "ops/lane.h"

#include "kernels/cuda/chain.h"
#include "ops/lane_prog.h"

int nc_lane_cuda_rank(const nc_type *t) {
    int n = 0;
    int64_t size;
    for (int i = 0; i < t->rank; i++) n += !nc_dim_is_const(t->dims[i], &size) || size != 1;
    return t->rank < 0 ? NC_MAX_RANK : n == 0 ? 1 : n;
}

bool nc_lane_cuda_fits(const nc_node *n, const char **why) {
    nc_lane_prog p;
    if (!nc_lane_prog_make(&p, n)) {
        *why = p.why;
        return false;
    }
    *why = "more operands and dims than one launch carries";
    return nck_cuda_chain_holds(n->n_in + n->n_out, nc_lane_cuda_rank(n->out[0]->type));
}

nc_code nc_lane_cuda_prepare(nc_prep *prep) {
    const nc_node *n = prep->node;
    nc_lane_prog p;
    nc_dtype types[NCK_CUDA_CHAIN_MAX_ARGS];
    nck_cuda_chain *chain = nc_arena_alloc(prep->arena, sizeof *chain);
    NC_NEED(prep->w, chain);
    if (!nc_lane_prog_make(&p, n)) NC_FAIL(prep->w, NC_E_UNSUPPORTED, "no tile program: %s", p.why);
    for (int i = 0; i < n->n_in; i++) types[i] = n->in[i]->type->elem;
    for (int i = 0; i < n->n_out; i++) types[n->n_in + i] = n->out[i]->type->elem;
    nck_tile_prog prog = nc_lane_prog_tile(&p);
    NC_TRY(
        nck_cuda_chain_prepare(prep->device, &prog, types, nc_lane_cuda_rank(n->out[0]->type), chain, &prep->w->diag));
    prep->state = chain;
    prep->strided_in = prep->strided_out = UINT32_MAX;
    prep->over[0] = UINT32_MAX;
    return NC_OK;
}

nc_code nc_lane_cuda_run(const nc_call *c) {
    NC_TRY(nc_lane_check(c));
    return nck_cuda_chain_run(c->state, nck_cuda_at_call(c), c->in, c->out);
}

const nc_binding nc_lane_cuda = {.op = "lane",
                                 .kind = NC_K_STATIC,
                                 .fits = nc_lane_cuda_fits,
                                 .prepare = nc_lane_cuda_prepare,
                                 .run = nc_lane_cuda_run};
