/* ops/nacre/sum_to.c: nacre.SumTo: X summed over the dims that broadcasting `shape` to X's shape added or widened.
 * Gradients emit it where which dims those are is known only in the run (nc_build_sum_to). */
#include "ops/build.h"
#include "ops/card.h"

static nc_code sum_to_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    return x != NULL ? nc_out_of_shape(c, x->elem, 1, -1) : NC_OK;
}

static nc_code sum_to_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy != NULL && g->wants[0]) nc_grad_set(g, 0, nc_build_expand_like(g->b, dy, nc_grad_x(g, 0)));
    return nc_grad_end(g);
}

static const nc_op_version versions[] = {
    {.since = 1, IN({"X", T_NUMBER_ALL}, {"shape", T_I64}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_sum_to = {.name = "SumTo",
                                .domain = "nacre",
                                .doc = "X summed to a shape that broadcasts to X's.",
                                .versions = versions,
                                .infer = sum_to_infer,
                                .grad = sum_to_grad,
                                .host_in = 1u << 1,
                                .no_grad_in = 1u << 1};
