/* ops/attention/rotary.c: the card of RotaryEmbedding: pairs of columns turned by the angles of their row's position.
 * A rotation's gradient is the rotation back. The kernel is in rotary_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code rotary_infer(nc_infer *c) {
    int rank, cache;
    bool ids = c->node->n_in > 3 && c->node->in[3] != NULL;
    if (nc_in_rank(c, 0, &rank) && rank != 3 && rank != 4)
        NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected 3 or 4", rank);
    if (nc_in_rank(c, 0, &rank) && rank == 3 &&
        (!nc_attr_has(c->node, "num_heads") || nc_attr_int(c->node, "num_heads") < 1))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "X has 3 dims: num_heads is needed");
    for (int i = 1; i < 3; i++)
        if (nc_in_rank(c, i, &cache) && cache != (ids ? 2 : 3))
            NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %d", i == 1 ? "cos_cache" : "sin_cache", cache,
                    ids ? 2 : 3);
    if (nc_in_rank(c, 3, &rank) && rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "position_ids has %d dims, expected 2", rank);
    return nc_out_like(c, 0, 0);
}

static nc_code rotary_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_node *n = g->node;
    if (dy == NULL) return NC_OK;
    if (g->wants[1] || g->wants[2])
        NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "there is no gradient by the caches of cosines and sines");
    if (!g->wants[0]) return NC_OK;
    nc_value *in[4] = {dy, nc_grad_x(g, 1), nc_build1(g->b, "Neg", 1, nc_grad_x(g, 2)), NULL};
    int n_in = n->n_in > 3 && n->in[3] != NULL ? 4 : 3;
    if (n_in == 4) in[3] = nc_grad_x(g, 3);
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "RotaryEmbedding", in, n_in, n->attrs, n->n_attrs));
    return nc_grad_end(g);
}

#define T_ROTARY (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version versions[] = {
    {.since = 23,
     IN({"X", T_ROTARY}, {"cos_cache", SAME(0)}, {"sin_cache", SAME(0)}, {"position_ids", T_I64, OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("interleaved", 0), A_INT_OPT("num_heads"), A_INT("rotary_embedding_dim", 0))},
    {0}};

const nc_card nc_card_rotary_embedding = {.name = "RotaryEmbedding",
                                          .doc = "Turns pairs of columns by the angles of their position.",
                                          .versions = versions,
                                          .no_grad_in = 1u << 3,
                                          .infer = rotary_infer,
                                          .grad = rotary_grad};
