/* ops/matmul/gelu.c: nacre.MatMulGelu: a product plus a bias, and the tanh form of GELU of that, where both are read
 * later (plan/lower_gelu.c): training keeps what GELU was taken of. Elsewhere it is taken apart. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/matmul/matmul.h"

static nc_code gelu_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, 0);
    if (a == NULL) return NC_OK;
    NC_TRY(nc_matmul_infer_as(c, a->elem));
    if (c->node->n_out > 1) c->out[1] = c->out[0];
    return NC_OK;
}

static nc_code gelu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *product = nc_build1(b, "MatMul", 2, n->in[0], n->in[1]);
    nc_value *x = nc_build1(b, "Add", 2, product, n->in[2]);
    out[0] = nc_build_attr1(b, "nacre", "GeluTanh", &x, 1, NULL, 0);
    if (n->n_out > 1) out[1] = x;
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"A", NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16)}, {"B", SAME(0)}, {"bias", SAME(0)}),
     OUT({"Y", SAME(0)}, {"X", SAME(0)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_matmul_gelu = {.name = "MatMulGelu",
                                     .domain = "nacre",
                                     .no_grad = NC_LOWERED_NO_GRAD,
                                     .doc = "X, the matrix product A B plus a bias for each column, and GELU of it.",
                                     .versions = versions,
                                     .infer = gelu_infer,
                                     .decompose = gelu_decompose,
                                     .cost = nc_matmul_cost};
