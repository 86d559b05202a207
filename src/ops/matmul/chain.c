/* ops/matmul/chain.c: nacre.MatMulChain and nacre.GemmChain: products with element formulas done to their results
 * (plan/lower_epilogue.c). The subgraph `body` holds the formulas: its input 0 is the product, the others are the
 * node's inputs behind the product's own. */
#include "ops/card.h"
#include "ops/matmul/matmul.h"

static nc_code matmul_chain_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, 0);
    return a != NULL ? nc_matmul_infer_as(c, a->elem) : NC_OK;
}

#define T_CHAIN (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))

#define MORE \
    { "more", SAME(0), .flags = NC_P_OPTIONAL | NC_P_VARIADIC }
#define BODY \
    { .name = "body", .kind = NC_A_GRAPH }

static const nc_op_version matmul_versions[] = {
    {.since = 1, IN({"A", T_CHAIN}, {"B", SAME(0)}, MORE), OUT({"Y", SAME(0)}), ATTR(BODY)}, {0}};

const nc_card nc_card_matmul_chain = {.name = "MatMulChain",
                                      .domain = "nacre",
                                      .no_grad = NC_LOWERED_NO_GRAD,
                                      .doc = "MatMul, and element formulas done to its result.",
                                      .versions = matmul_versions,
                                      .infer = matmul_chain_infer,
                                      .epilogue_in = 2,
                                      .cost = nc_matmul_cost};

static const nc_op_version gemm_versions[] = {{.since = 1,
                                               IN({"A", T_CHAIN}, {"B", SAME(0)}, {"C", SAME(0), OPTIONAL}, MORE),
                                               OUT({"Y", SAME(0)}),
                                               ATTR(NC_GEMM_ATTRS, A_INT("broadcast", 0), BODY)},
                                              {0}};

const nc_card nc_card_gemm_chain = {.name = "GemmChain",
                                    .domain = "nacre",
                                    .no_grad = NC_LOWERED_NO_GRAD,
                                    .doc = "Gemm, and element formulas done to its result.",
                                    .versions = gemm_versions,
                                    .infer = nc_gemm_infer,
                                    .epilogue_in = 3,
                                    .cost = nc_gemm_cost};

/* ---- GemmOnto ---- */

static const nc_op_version onto_versions[] = {
    {.since = 1,
     IN({"A", NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE)}, {"B", SAME(0)}, {"sum", SAME(0)},
        {"overwrite", T_BOOL, SINGLE_OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("transA", 0), A_INT("transB", 0))},
    {0}};

const nc_card nc_card_gemm_onto = {.name = "GemmOnto",
                                   .domain = "nacre",
                                   .no_grad = NC_LOWERED_NO_GRAD,
                                   .doc = "A' B', added to a sum unless that is to be overwritten.",
                                   .versions = onto_versions,
                                   .host_in = 1u << 3,
                                   .infer = nc_gemm_infer,
                                   .cost = nc_gemm_cost};
