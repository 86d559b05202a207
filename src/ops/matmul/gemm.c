/* ops/matmul/gemm.c: the card of Gemm: alpha * A' B' + beta * C with A' and B' transposed on demand. Its gradients
 * by A and B are Gemms again. Kernels are in gemm_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/matmul/matmul.h"

nc_code nc_gemm_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, 0);
    int rank;
    if (a == NULL) return NC_OK;
    for (int i = 0; i < 2; i++)
        if (nc_in_rank(c, i, &rank) && rank != 2)
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, 2 are expected", i, rank);
    int ta = nc_attr_int(c->node, "transA") != 0, tb = nc_attr_int(c->node, "transB") != 0;
    const nc_dim *dims[2] = {nc_in_dim(c, 0, ta), nc_in_dim(c, 1, !tb)},
                 *k[2] = {nc_in_dim(c, 0, !ta), nc_in_dim(c, 1, tb)};
    int64_t size[2];
    if (k[0] != NULL && k[1] != NULL && nc_dim_is_const(k[0], &size[0]) && nc_dim_is_const(k[1], &size[1]) &&
        size[0] != size[1])
        NC_FAIL(c->w, NC_E_SHAPE, "A' has %lld columns, B' has %lld rows", (long long)size[0], (long long)size[1]);
    for (int i = 0; i < 2; i++)
        if (dims[i] == NULL) {
            dims[i] = nc_fresh(c, "d");
            NC_NEED(c->w, dims[i]);
        }
    int lead = nc_in_rank(c, 2, &rank) ? 2 - rank : 2;
    if (lead < 0) NC_FAIL(c->w, NC_E_SHAPE, "C has %d dims, at most 2 are expected", rank);
    for (int i = lead; i < 2; i++) {
        const nc_dim *d = nc_in_dim(c, 2, i - lead);
        if (nc_dim_is_const(d, &size[0]) && nc_dim_is_const(dims[i], &size[1]) && size[0] != size[1] && size[0] != 1)
            NC_FAIL(c->w, NC_E_SHAPE, "C has a dim of %lld where %lld or 1 is expected", (long long)size[0],
                    (long long)size[1]);
    }
    return nc_out(c, 0, a->elem, 2, dims);
}

static nc_value *product(nc_builder *b, nc_value *x, int64_t trans_x, nc_value *y, int64_t trans_y, float alpha) {
    nc_value *in[2] = {x, y};
    nc_attr attrs[3] = {{.name = "alpha", .kind = NC_A_FLOAT, .f = alpha},
                        {.name = "transA", .kind = NC_A_INT, .i = trans_x},
                        {.name = "transB", .kind = NC_A_INT, .i = trans_y}};
    return nc_build_attr1(b, "", "Gemm", in, 2, attrs, 3);
}

static nc_code gemm_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    bool ta = nc_attr_int(g->node, "transA") != 0, tb = nc_attr_int(g->node, "transB") != 0;
    float alpha = (float)nc_attr_float(g->node, "alpha");
    double beta = nc_attr_float(g->node, "beta");
    if (g->wants[0]) {
        nc_value *b = nc_grad_x(g, 1);
        nc_grad_set(g, 0, ta ? product(g->b, b, tb, dy, 1, alpha) : product(g->b, dy, 0, b, !tb, alpha));
    }
    if (g->wants[1]) {
        nc_value *a = nc_grad_x(g, 0);
        nc_grad_set(g, 1, tb ? product(g->b, dy, 1, a, ta, alpha) : product(g->b, a, !ta, dy, 0, alpha));
    }
    if (g->node->n_in > 2 && g->node->in[2] != NULL && g->wants[2]) {
        nc_value *dc = nc_grad_sum_to(g, dy, 2);
        if (beta != 1 && dc != NULL) dc = nc_build1(g->b, "Mul", 2, dc, nc_build_scalar(g->b, dc->type->elem, beta));
        nc_grad_set(g, 2, dc);
    }
    return nc_grad_end(g);
}

extern const nc_card nc_card_gemm, nc_card_matmul;

bool nc_matmul_of_two(const nc_node *n, bool turned[2]) {
    bool gemm = n->card == &nc_card_gemm;
    if ((!gemm && n->card != &nc_card_matmul) || n->n_in != 2) return false;
    for (int i = 0; i < 2; i++) {
        if (n->in[i]->type == NULL || n->in[i]->type->rank != 2) return false;
        turned[i] = gemm && nc_attr_int(n, i ? "transB" : "transA") != 0;
    }
    return true;
}

double nc_gemm_cost(const nc_node *n, const int64_t *const *in_dims) {
    int tb = nc_attr_int(n, "transB") != 0;
    return 2.0 * (double)in_dims[0][0] * (double)in_dims[0][1] * (double)in_dims[1][!tb];
}

#define ABC(types) IN({"A", types}, {"B", SAME(0)}, {"C", SAME(0)}), OUT({"Y", SAME(0)})
#define AB_C(types) IN({"A", types}, {"B", SAME(0)}, {"C", SAME(0), OPTIONAL}), OUT({"Y", SAME(0)})
static const nc_op_version versions[] = {{.since = 13, AB_C(T_BIG_NUMBER_ALL), ATTR(NC_GEMM_ATTRS)},
                                         {.since = 11, AB_C(T_BIG_NUMBER), ATTR(NC_GEMM_ATTRS)},
                                         {.since = 9, ABC(T_BIG_NUMBER), ATTR(NC_GEMM_ATTRS)},
                                         {.since = 7, ABC(T_FLOAT), ATTR(NC_GEMM_ATTRS)},
                                         {.since = 6, ABC(T_FLOAT), ATTR(NC_GEMM_ATTRS, A_INT("broadcast", 0))},
                                         {.since = 1, ABC(T_FLOAT), ATTR(NC_GEMM_ATTRS, A_INT("broadcast", 0))},
                                         {0}};

const nc_card nc_card_gemm = {.name = "Gemm",
                              .doc = "alpha * A' B' + beta * C, C broadcast, A' and B' transposed on demand.",
                              .versions = versions,
                              .traits = NC_NARROWS,
                              .infer = nc_gemm_infer,
                              .grad = gemm_grad,
                              .with_body = &nc_card_gemm_chain,
                              .cost = nc_gemm_cost};
