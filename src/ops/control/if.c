/* ops/control/if.c: If. One of two subgraphs runs; what it gives are the node's outputs. Gradient: if_grad.c. */
#include "ops/control/control.h"

static const nc_op_version versions[] = {
#define ROW(n, types)                \
    {.since = n,                     \
     IN({"cond", T_BOOL, SINGLE}),   \
     OUT({"outputs", types, MIXED}), \
     ATTR(A_GRAPH_REQ("then_branch"), A_GRAPH_REQ("else_branch"))},
    ROW(25, T_FLOW_16 | T_NARROW_25) ROW(24, T_FLOW_16 | T_NARROW_24) ROW(23, T_FLOW_16 | T_NARROW_23)
        ROW(21, T_FLOW_16 | T_NARROW_21) ROW(19, T_FLOW_16 | T_NARROW_19) ROW(16, T_FLOW_16) ROW(13, T_FLOW_13)
            ROW(11, T_FLOW_1) ROW(1, T_FLOW_1)
#undef ROW
                {0}};

/* The branch that a constant condition takes, or -1. The other one may then have any shape, even none that is valid:
 * exporters write such for Squeeze. */
static int known_branch(nc_infer *c) {
    int64_t cond = 0;
    int n_cond = 0;
    if (!nc_in_ints(c, 0, &cond, 1, &n_cond) || n_cond != 1) return -1;
    return (cond != 0) == (nc_node_attr(c->node, "then_branch")->sub == 0) ? 0 : 1;
}

static nc_code if_infer(nc_infer *c) {
    const nc_node *n = c->node;
    nc_scope scope;
    NC_TRY(nc_scope_init(&scope, c));
    if (n->n_subs != 2) NC_FAIL(c->w, NC_E_BAD_GRAPH, "has %d subgraphs, expected 2", n->n_subs);
    int taken = known_branch(c);
    for (int s = 0; s < 2; s++) {
        nc_code code = c->infer_sub(c, s, NULL, 0);
        if (code != NC_OK && (taken < 0 || taken == s || code == NC_E_MEMORY)) return code;
        if (code != NC_OK) c->w->diag = (nc_diag){.code = NC_OK};
        if (n->subs[s].graph->outputs.n != n->n_out)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s gives %d outputs, the node has %d", n->subs[s].attr,
                    n->subs[s].graph->outputs.n, n->n_out);
    }
    int a = taken < 0 ? 0 : taken, b = taken < 0 ? 1 : taken;
    for (int i = 0; i < n->n_out; i++) {
        const nc_value *ya = n->subs[a].graph->outputs.v[i], *yb = n->subs[b].graph->outputs.v[i];
        NC_TRY(nc_scope_join(&scope, ya->type, yb->type, ya->name, &c->out[i].type));
    }
    return NC_OK;
}

const nc_card nc_card_if = {
    .name = "If",
    .doc = "Runs then_branch when cond is true, else_branch otherwise.",
    .versions = versions,
    .traits = NC_CONTROL | NC_BRANCHES | NC_FREE_RANK,
    .host_in = 1,
    .no_grad_in = 1,
    .infer = if_infer,
    .grad = nc_if_grad,
};
