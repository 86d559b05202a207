/* ops/nacre/stop.c: nacre.StopGradient: X, through which no gradient passes. autodiff/stop.c puts it behind values that
 * are to be held and takes it away again; in a graph that has it of its own it runs as Identity. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code stop_infer(nc_infer *c) {
    c->out[0] = c->in[0];
    c->out[0].lit = NULL;
    return NC_OK;
}

static nc_code stop_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build1(b, "Identity", 1, n->in[0]);
    return b->code;
}

static const nc_op_version versions[] = {{.since = 1, IN({"X", T_ANYTHING}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_stop_gradient = {.name = "StopGradient",
                                       .domain = "nacre",
                                       .doc = "X, through which no gradient passes.",
                                       .versions = versions,
                                       .infer = stop_infer,
                                       .zero_grad = true,
                                       .decompose = stop_decompose};
