/* ops/control/deferred.c: nacre.Deferred: what cannot be planned before the run, because a rank in it is not known.
 * The body is planned when the node is reached and the ranks (or, exact, the dims) of its inputs are there:
 * run/deferred.c. Made by plan/lower_deferred.c and by nothing else. */
#include "ops/control/control.h"

static const nc_op_version versions[] = {{.since = 1,
                                          IN({"inputs", T_ANYTHING, MIXED_OR_NONE}),
                                          OUT({"outputs", T_ANYTHING, MIXED_OR_NONE}),
                                          ATTR(A_GRAPH_REQ("body"), A_INT("exact", 0))},
                                         {0}};

static nc_code deferred_infer(nc_infer *c) {
    for (int i = 0; i < c->node->n_out; i++)
        if (c->node->out[i]) c->out[i].type = c->node->out[i]->type;
    return NC_OK;
}

const nc_card nc_card_deferred = {
    .name = "Deferred",
    .domain = "nacre",
    .doc = "Its body, planned when the ranks or dims of its inputs are known.",
    .versions = versions,
    .traits = NC_HOST_OBJECTS | NC_TYPES_GIVEN | NC_LOWERED,
    .infer = deferred_infer,
    .zero_grad = true,
};
