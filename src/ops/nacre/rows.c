/* ops/nacre/rows.c: nacre.ChainRows: element formulas, and a softmax, a normalization or a reduction of the rows that
 * they make, in one pass: rows are all dims from `axis` on. The subgraph `body` holds the formulas, as that of
 * nacre.Chain does, `then` names what is done to the rows; the node's inputs behind the body's are scale and bias.
 * Made by plan/lower_rows.c. */
#include "ops/nacre/rows.h"

static nc_code rows_infer(nc_infer *c) {
    const nc_graph *body = c->node->n_subs == 1 ? c->node->subs[0].graph : NULL;
    const nc_type *x;
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1);
    int axis = (int)nc_attr_int(c->node, "axis"), n = 0;
    if (body == NULL || body->outputs.n != 1 || body->inputs.n > c->node->n_in)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs a body of one output, with no more inputs than the node");
    NC_TRY(nc_chain_infer_body(c, body, &x));
    NC_NEED(c->w, one);
    if (x == NULL || x->rank < 0) return NC_OK;
    if (nc_attr_int(c->node, "op") < NC_ROWS_SUM) {
        c->out[0].type = x;
        return NC_OK;
    }
    for (; n < x->rank && n < axis; n++) dims[n] = x->dims[n];
    for (int i = n; nc_attr_int(c->node, "keepdims") && i < x->rank; i++) dims[n++] = one;
    return nc_out(c, 0, x->elem, n, dims);
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"inputs", T_NUMBER_ALL | T_BOOL, MIXED}),
     OUT({"output", T_FLOAT}),
     ATTR(A_GRAPH_REQ("body"), A_STR_OPT("then"), A_INT("op", 0), A_INT("axis", 0), A_INT("keepdims", 1),
          A_FLOAT("epsilon", 1e-5f))},
    {0}};

const nc_card nc_card_chain_rows = {.name = "ChainRows",
                                    .domain = "nacre",
                                    .no_grad = NC_LOWERED_NO_GRAD,
                                    .doc = "Element formulas, and what is done to the rows they make, in one pass.",
                                    .versions = versions,
                                    .infer = rows_infer,
                                    .cost = nc_chain_cost};
