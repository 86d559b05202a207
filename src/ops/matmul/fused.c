/* ops/matmul/fused.c: cards of com.microsoft that are products with something around them: FusedMatMul and
 * TransposeMatMul (transposed operands, a factor), SparseToDenseMatMul; FusedMatMulActivation, FusedGemm and
 * GemmFastGelu (an activation).
 * They run, and are differentiated, as MatMul or Gemm. */
#include "ops/contrib.h"
#include "ops/matmul/matmul.h"

#include <stdio.h>

/* ---- products with transposed operands ---- */

/* How operand i is laid: rank dims of it in the order perm. Vectors stay as they are. */
static bool layout_of(const nc_node *n, int i, int rank, int64_t *perm) {
    const char *trans = i == 0 ? "transA" : "transB", *batch = i == 0 ? "transBatchA" : "transBatchB";
    bool moves = false;
    for (int k = 0; k < rank; k++) perm[k] = k;
    if (rank < 2) return false;
    if (n->card->own == NULL && nc_attr_int(n, batch) != 0 && rank > 2) { /* (M,...,K) as (...,M,K) */
        for (int k = 0; k < rank - 2; k++) perm[k] = k + 1;
        perm[rank - 2] = 0;
        moves = true;
    }
    if (nc_attr_int(n, trans) == 0) return moves;
    int64_t last = perm[rank - 1];
    perm[rank - 1] = perm[rank - 2];
    perm[rank - 2] = last;
    return true;
}

static nc_code product_infer(nc_infer *c) {
    nc_infer_val in[2] = {c->in[0], c->in[1]};
    nc_infer product = *c;
    product.in = in;
    for (int i = 0; i < 2; i++) {
        const nc_type *t = c->in[i].type;
        int64_t perm[NC_MAX_RANK];
        const nc_dim *dims[NC_MAX_RANK];
        if (t == NULL || t->rank < 0) continue;
        layout_of(c->node, i, t->rank, perm);
        for (int k = 0; k < t->rank; k++) dims[k] = t->dims[perm[k]];
        in[i].type = nc_type_tensor(c->arena, t->elem, t->rank, dims);
        NC_NEED(c->w, in[i].type);
    }
    const nc_type *a = nc_in(c, 0);
    return a != NULL ? nc_matmul_infer_as(&product, a->elem) : NC_OK;
}

/* A constant matrix B is packed by Gemm as it lies: the rows of all batches of A make one product. */
static bool is_one_product(const nc_node *n, int64_t *K) {
    const nc_type *a = n->in[0]->type, *w = n->in[1]->type;
    int64_t perm[NC_MAX_RANK], N;
    int tb = nc_attr_int(n, "transB") != 0;
    if (a->rank < 2 || w->rank != 2 || n->in[1]->origin != NC_FROM_CONST) return false;
    if (a->rank > 2 && layout_of(n, 0, a->rank, perm)) return false;
    return nc_dim_is_const(w->dims[tb], K) && nc_dim_is_const(w->dims[!tb], &N) && *K > 0 && N > 0;
}

static nc_value *one_product(nc_builder *b, const nc_node *n, int64_t K) {
    nc_value *a = n->in[0];
    int rank = a->type->rank;
    nc_value *flat = rank == 2 ? a : nc_build1(b, "Reshape", 2, a, nc_build_ints(b, (int64_t[]){-1, K}, 2));
    nc_value *in[2] = {flat, n->in[1]};
    int64_t ta = rank == 2 ? nc_attr_int(n, "transA") : 0;
    nc_attr attrs[3] = {{.name = "alpha", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "alpha")},
                        {.name = "transA", .kind = NC_A_INT, .i = ta != 0},
                        {.name = "transB", .kind = NC_A_INT, .i = nc_attr_int(n, "transB") != 0}};
    nc_value *y = nc_build_attr1(b, "", "Gemm", in, 2, attrs, 3);
    if (rank == 2 || b->code != NC_OK) return y;
    nc_attr ends[2] = {{.name = "start", .kind = NC_A_INT, .i = 0}, {.name = "end", .kind = NC_A_INT, .i = -1}};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0}, zero = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    nc_value *dims[2] = {nc_build_attr1(b, "", "Shape", &a, 1, ends, 2), nc_contrib_size(b, y, 1)};
    nc_value *shape[2] = {y, nc_build_attr1(b, "", "Concat", dims, 2, &axis, 1)};
    return nc_build_attr1(b, "", "Reshape", shape, 2, &zero, 1);
}

static nc_value *any_product(nc_builder *b, const nc_node *n) {
    nc_value *in[2];
    for (int i = 0; i < 2; i++) {
        int64_t perm[NC_MAX_RANK];
        int rank = n->in[i]->type->rank;
        in[i] = layout_of(n, i, rank, perm) ? nc_build_transpose(b, n->in[i], perm, rank) : n->in[i];
    }
    nc_value *y = nc_build1(b, "MatMul", 2, in[0], in[1]);
    double alpha = nc_attr_float(n, "alpha");
    if (alpha == 1 || b->code != NC_OK) return y;
    return nc_build1(b, "Mul", 2, y, nc_build_scalar(b, y->type->elem, alpha));
}

static nc_code product_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t K;
    for (int i = 0; i < 2; i++)
        if (n->in[i]->type == NULL || n->in[i]->type->rank < 0)
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    out[0] = is_one_product(n, &K) ? one_product(b, n, K) : any_product(b, n);
    return b->code;
}

/* ---- products with an activation ---- */

/* Number i of the activation, from the node's attribute activation_<name of it>; false: there is none. */
static bool activation_number(const nc_node *n, int i, float *out) {
    const char *of = nc_contrib_activation_attr(nc_attr_str(n, "activation"), i);
    char name[40];
    if (of == NULL) return false;
    snprintf(name, sizeof name, "activation_%s", of);
    if (!nc_attr_has(n, name)) return false;
    *out = (float)nc_attr_float(n, name);
    return true;
}

static nc_code fused_gemm_infer(nc_infer *c) {
    float number;
    int n = 0;
    while (n < 2 && activation_number(c->node, n, &number)) n++;
    NC_TRY(nc_contrib_check_activation(c, nc_attr_str(c->node, "activation"), n));
    return nc_gemm_infer(c);
}

static nc_code fused_gemm_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    float numbers[2] = {0};
    nc_attr attrs[4] = {{.name = "alpha", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "alpha")},
                        {.name = "beta", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "beta")},
                        {.name = "transA", .kind = NC_A_INT, .i = nc_attr_int(n, "transA") != 0},
                        {.name = "transB", .kind = NC_A_INT, .i = nc_attr_int(n, "transB") != 0}};
    for (int i = 0; i < 2; i++) (void)activation_number(n, i, &numbers[i]);
    nc_value *y = nc_build_attr1(b, "", "Gemm", n->in, n->n_in, attrs, 4);
    out[0] = nc_contrib_activation(b, nc_attr_str(n, "activation"), numbers, y);
    return b->code;
}

static nc_code fused_matmul_infer(nc_infer *c) {
    float number;
    int n = 0;
    while (n < 2 && activation_number(c->node, n, &number)) n++;
    NC_TRY(nc_contrib_check_activation(c, nc_attr_str(c->node, "activation"), n));
    return product_infer(c);
}

static nc_code fused_matmul_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    float numbers[2] = {0};
    for (int i = 0; i < 2; i++) (void)activation_number(n, i, &numbers[i]);
    NC_TRY(product_decompose(b, n, out));
    out[0] = nc_contrib_activation(b, nc_attr_str(n, "activation"), numbers, out[0]);
    return b->code;
}

static nc_code matmul_gelu_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *w = nc_in(c, 1);
    if (w != NULL && w->rank > 0) NC_TRY(nc_contrib_vector(c, 2, w->dims[w->rank - 1]));
    return x != NULL ? nc_matmul_infer_as(c, x->elem) : NC_OK;
}

static nc_code matmul_gelu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *y = nc_contrib_add(b, nc_build1(b, "MatMul", 2, n->in[0], n->in[1]), nc_contrib_in(n, 2));
    out[0] = nc_build_attr1(b, "nacre", "GeluTanh", &y, 1, NULL, 0);
    return b->code;
}

/* ---- cards ---- */

#define AB IN({"A", T_FLOAT_ALL}, {"B", SAME(0)}), OUT({"Y", SAME(0)})
#define TRANS A_FLOAT("alpha", 1), A_INT("transA", 0), A_INT("transB", 0)
#define BATCH A_INT("transBatchA", 0), A_INT("transBatchB", 0)
#define SPARSE_NUMBER (T_BIG_NUMBER & ~NC_BIT(NC_FLOAT16))
static const nc_op_version fused_versions[] = {{.since = 1, AB, ATTR(TRANS, BATCH)}, {0}};
static const nc_op_version activated_versions[] = {
    {.since = 1,
     AB,
     ATTR(TRANS, BATCH, A_STR_REQ("activation"), A_FLOAT_OPT("activation_alpha"), A_FLOAT_OPT("activation_beta"),
          A_FLOAT_OPT("activation_gamma"), A_INT_OPT("activation_axis"))},
    {0}};
static const nc_op_version transpose_versions[] = {{.since = 1, AB, ATTR(TRANS)}, {0}};
static const nc_op_version sparse_versions[] = {
    {.since = 1, IN({"A", SPARSE_NUMBER}, {"B", SAME(0)}), OUT({"Y", SAME(0)}), ATTR(TRANS)}, {0}};
static const nc_op_version gemm_versions[] = {
    {.since = 1,
     IN({"A", T_BIG_NUMBER_ALL}, {"B", SAME(0)}, {"C", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(TRANS, A_FLOAT("beta", 1), A_STR_OPT("activation"), A_FLOAT_OPT("activation_alpha"),
          A_FLOAT_OPT("activation_beta"), A_FLOAT_OPT("activation_gamma"))},
    {0}};
static const nc_op_version gelu_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL}, {"W", SAME(0)}, {"bias", SAME(0), OPTIONAL}), OUT({"Y", SAME(0)}), NO_ATTR},
    {0}};

const nc_card nc_card_fused_matmul = {.name = "FusedMatMul",
                                      .domain = NC_MICROSOFT,
                                      .doc = "alpha times the product of A and B, transposed on demand.",
                                      .versions = fused_versions,
                                      .infer = product_infer,
                                      .decompose = product_decompose};
const nc_card nc_card_fused_matmul_activation = {.name = "FusedMatMulActivation",
                                                 .domain = NC_MICROSOFT,
                                                 .doc = "FusedMatMul and an activation.",
                                                 .versions = activated_versions,
                                                 .infer = fused_matmul_infer,
                                                 .decompose = fused_matmul_decompose};
const nc_card nc_card_transpose_matmul = {.name = "TransposeMatMul",
                                          .domain = NC_MICROSOFT,
                                          .doc = "FusedMatMul by its older name.",
                                          .versions = transpose_versions,
                                          .own = "without batch flags",
                                          .infer = product_infer,
                                          .decompose = product_decompose};
const nc_card nc_card_sparse_to_dense_matmul = {.name = "SparseToDenseMatMul",
                                                .domain = NC_MICROSOFT,
                                                .doc = "alpha times the product of a sparse A, here in its dense form, "
                                                       "and B.",
                                                .versions = sparse_versions,
                                                .own = "without batch flags",
                                                .infer = product_infer,
                                                .decompose = product_decompose};
const nc_card nc_card_fused_gemm = {.name = "FusedGemm",
                                    .domain = NC_MICROSOFT,
                                    .doc = "Gemm and an activation.",
                                    .versions = gemm_versions,
                                    .infer = fused_gemm_infer,
                                    .decompose = fused_gemm_decompose};
const nc_card nc_card_gemm_fast_gelu = {.name = "GemmFastGelu",
                                        .domain = NC_MICROSOFT,
                                        .doc = "FastGelu of the product of X and W plus a bias.",
                                        .versions = gelu_versions,
                                        .infer = matmul_gelu_infer,
                                        .decompose = matmul_gelu_decompose};
