/* ops/shape/shape_cuda.c: CUDA bindings of the shape family. Views are the same on every device; Cast is a chain of one
 * formula between two storage types. Casts that a chain would do otherwise than the CPU are refused: a float beyond a
 * narrow integer stops at its ends there, and wraps in a chain. */
#include "kernels/cuda/chain.h"
#include "ops/lane.h"
#include "ops/shape/shape.h"

static bool cast_fits(const nc_node *n, const char **why) {
    nc_dtype x = n->in[0]->type->elem, y = n->out[0]->type != NULL ? n->out[0]->type->elem : NC_UNDEFINED;
    *why = "a type that GPU kernels cannot hold";
    if (nck_tile_compute(x) == NC_UNDEFINED || nck_tile_compute(y) == NC_UNDEFINED) return false;
    *why = "floats become int64 or bool only, the ends of other integers are the CPU's";
    return !nc_dtype_is_float(x) || nc_dtype_is_float(y) || y == NC_INT64 || y == NC_BOOL;
}

static nc_code cast_prepare(nc_prep *p) {
    static const nck_tile_op identity = {.lane = NCK_LANE_identity, .dst = 1};
    static const uint16_t out_reg[] = {1};
    const nc_type *x = p->node->in[0]->type, *y = p->node->out[0]->type;
    nck_cuda_chain *chain = nc_arena_alloc(p->arena, sizeof *chain);
    NC_NEED(p->w, chain);
    nck_tile_prog prog = {.compute = nck_tile_compute(x->elem),
                          .n_in = 1,
                          .n_out = 1,
                          .n_reg = 2,
                          .n_op = 1,
                          .op = &identity,
                          .out_reg = out_reg};
    nc_dtype types[] = {x->elem, y->elem};
    NC_TRY(nck_cuda_chain_prepare(p->device, &prog, types, nc_lane_cuda_rank(y), chain, &p->w->diag));
    p->state = chain;
    p->strided_in = p->strided_out = 1;
    return NC_OK;
}

static nc_code cast_run(const nc_call *c) { return nck_cuda_chain_run(c->state, nck_cuda_at_call(c), c->in, c->out); }

const nc_binding nc_shape_cuda[] = {
    NC_SHAPE_VIEWS,
    {.op = "Cast", .types = T_WHOLE, .fits = cast_fits, .prepare = cast_prepare, .run = cast_run},
    {.op = "CastLike", .types = T_WHOLE, .fits = cast_fits, .prepare = cast_prepare, .run = cast_run},
    {0}};
