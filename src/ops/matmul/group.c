/* ops/matmul/group.c: nacre.MatMulGroup: products of one A with several matrices, so that a kernel may do them in one
 * go (plan/lower_group.c). With a scale the rows of A are first divided by the root of their mean square plus epsilon,
 * and scaled. With the subgraph `body`, of element formulas, there are two products, its inputs, and its output is the
 * only one. */
#include "ops/card.h"
#include "ops/matmul/matmul.h"

enum { FIRST_B = 2 };

extern const nc_card nc_card_rms_normalization, nc_card_simplified_layer_normalization;

bool nc_matmul_group_takes(const nc_node *n) {
    if (n->card != &nc_card_rms_normalization && n->card != &nc_card_simplified_layer_normalization) return false;
    if (n->n_in != 2 || n->n_out != 1) return false;
    const nc_type *x = n->in[0]->type, *scale = n->in[1]->type;
    int64_t axis = nc_attr_int(n, "axis");
    return x->rank >= 1 && (axis == -1 || axis == x->rank - 1) && x->elem == scale->elem && scale->rank == 1 &&
           scale->dims[0] == x->dims[x->rank - 1] && nc_type_equal(x, n->out[0]->type);
}

static nc_code group_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int rank, rank_b;
    if (a == NULL) return NC_OK;
    for (int i = 0; i < c->node->n_out; i++) {
        if (!nc_in_rank(c, 0, &rank) || !nc_in_rank(c, FIRST_B + i, &rank_b)) {
            NC_TRY(nc_out_unknown(c, i, a->elem, -1));
            continue;
        }
        if (rank < 1 || rank_b != 2) NC_FAIL(c->w, NC_E_SHAPE, "B has %d dims, 2 are expected", rank_b);
        for (int d = 0; d < rank - 1; d++) dims[d] = nc_in_dim(c, 0, d);
        dims[rank - 1] = nc_in_dim(c, FIRST_B + i, 1);
        NC_TRY(nc_out(c, i, a->elem, rank, dims));
    }
    return NC_OK;
}

#define T_GROUP (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))

static const nc_op_version versions[] = {{.since = 1,
                                          IN({"A", T_GROUP}, {"scale", SAME(0), OPTIONAL}, {"B", SAME(0), VARIADIC}),
                                          OUT({"Y", SAME(0), VARIADIC}),
                                          ATTR(A_FLOAT("epsilon", 1e-5f), {.name = "body", .kind = NC_A_GRAPH})},
                                         {0}};

const nc_card nc_card_matmul_group = {.name = "MatMulGroup",
                                      .domain = "nacre",
                                      .no_grad = NC_LOWERED_NO_GRAD,
                                      .doc = "MatMul of A, normed or as it is, with each of several matrices.",
                                      .versions = versions,
                                      .infer = group_infer};
