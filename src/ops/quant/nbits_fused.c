/* ops/quant/nbits_fused.c: the cards of MatMulNBitsQkv and MatMulNBitsMlp (com.microsoft): several MatMulNBits of one
 * input, which is normalized before, with a residual added on demand. The first gives queries, keys and values, the
 * second a gate, activated, times a layer. They run, and are differentiated, as those ops. */
#include "ops/contrib.h"

#include <string.h>

enum { A, SKIP, NORM, FIRST }; /* from FIRST on, for each product: codes, scales, bias */

typedef struct fused_kind {
    int products, sum; /* sum: the output that has A + skip */
    const char *columns[3];
} fused_kind;

static bool has(const nc_infer *c, int i) { return i < c->node->n_in && c->node->in[i] != NULL; }

static nc_code fused_infer(nc_infer *c) {
    const fused_kind *kind = c->node->card->own;
    const nc_type *a = nc_in(c, A);
    const nc_dim *dims[NC_MAX_RANK], *K = nc_dim_const(c->dims, nc_attr_int(c->node, "K"));
    NC_TRY(nc_contrib_vector(c, NORM, K));
    if (has(c, SKIP) && !has(c, NORM)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "norm_scale is absent, expected one beside skip");
    if (nc_contrib_wants(c->node, kind->sum) && !has(c, SKIP))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "skip is absent, expected one: input_skip_bias_sum is wanted");
    for (int i = 0; i < kind->products; i++)
        NC_TRY(nc_contrib_vector(c, FIRST + 3 * i + 2, nc_dim_const(c->dims, nc_attr_int(c->node, kind->columns[i]))));
    if (a == NULL) return NC_OK;
    NC_TRY(nc_out_like(c, kind->sum, A));
    if (a->rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "A is a scalar, at least 1 dim is expected");
    if (a->rank > 0) NC_TRY(nc_in_expect(c, A, a->rank - 1, K));
    for (int i = 0; i < kind->sum; i++) {
        if (a->rank < 0) {
            NC_TRY(nc_out_unknown(c, i, a->elem, -1));
            continue;
        }
        for (int k = 0; k < a->rank; k++) dims[k] = a->dims[k];
        dims[a->rank - 1] = nc_dim_const(c->dims, nc_attr_int(c->node, kind->columns[i]));
        NC_TRY(nc_out(c, i, a->elem, a->rank, dims));
    }
    return NC_OK;
}

/* A, or A + skip, normalized; the sum goes to out. */
static nc_value *normalized(nc_builder *b, const nc_node *n, nc_value **sum) {
    nc_attr eps = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")};
    nc_value *skip = nc_contrib_in(n, SKIP), *scale = nc_contrib_in(n, NORM), *in[3] = {n->in[A], skip, scale};
    if (scale == NULL) return n->in[A];
    if (skip == NULL)
        return nc_build_attr1(b, "", "SimplifiedLayerNormalization", (nc_value *[]){n->in[A], scale}, 2, &eps, 1);
    nc_node *both = nc_build_wanted(b, NC_MICROSOFT, "SkipSimplifiedLayerNormalization", in, 3,
                                    (const bool[]){true, false, false, sum != NULL}, 4, &eps, 1);
    if (both == NULL) return NULL;
    if (sum != NULL) *sum = both->out[3];
    return both->out[0];
}

static nc_value *product(nc_builder *b, const nc_node *n, nc_value *x, int i) {
    const fused_kind *kind = n->card->own;
    nc_value *in[6] = {
        x, n->in[FIRST + 3 * i], n->in[FIRST + 3 * i + 1], NULL, NULL, nc_contrib_in(n, FIRST + 3 * i + 2)};
    nc_attr attrs[5] = {{.name = "K", .kind = NC_A_INT, .i = nc_attr_int(n, "K")},
                        {.name = "N", .kind = NC_A_INT, .i = nc_attr_int(n, kind->columns[i])},
                        {.name = "bits", .kind = NC_A_INT, .i = nc_attr_int(n, "bits")},
                        {.name = "block_size", .kind = NC_A_INT, .i = nc_attr_int(n, "block_size")},
                        {.name = "accuracy_level", .kind = NC_A_INT, .i = nc_attr_int(n, "accuracy_level")}};
    return nc_build_attr1(b, NC_MICROSOFT, "MatMulNBits", in, in[5] != NULL ? 6 : 3, attrs, 5);
}

static nc_code qkv_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = normalized(b, n, nc_contrib_wants(n, 3) ? &out[3] : NULL);
    for (int i = 0; i < 3; i++)
        if (nc_contrib_wants(n, i)) out[i] = product(b, n, x, i);
    return b->code;
}

static nc_code mlp_infer(nc_infer *c) {
    const char *act = nc_attr_str(c->node, "activation");
    if (strcmp(act, "silu") != 0) NC_FAIL(c->w, NC_E_UNSUPPORTED, "activation is '%.20s', expected silu", act);
    return fused_infer(c);
}

static nc_code mlp_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = normalized(b, n, nc_contrib_wants(n, 1) ? &out[1] : NULL);
    nc_value *gate = product(b, n, x, 0), *up = product(b, n, x, 1);
    gate = nc_build1(b, "Mul", 2, gate, nc_build1(b, "Sigmoid", 1, gate));
    out[0] = nc_build1(b, "Mul", 2, gate, up);
    return b->code;
}

/* ---- cards ---- */

#define PRODUCT(name) \
    {name "_B", NC_BIT(NC_UINT8)}, {name "_scales", SAME(0)}, { name "_bias", SAME(0), OPTIONAL }
#define CODES A_INT_REQ("K"), A_INT("bits", 4), A_INT_REQ("block_size"), A_INT("accuracy_level", 0)
static const nc_op_version qkv_versions[] = {
    {.since = 1,
     IN({"A", T_FLOAT_ALL}, {"skip", SAME(0), OPTIONAL}, {"norm_scale", SAME(0)}, PRODUCT("q"), PRODUCT("k"),
        PRODUCT("v")),
     OUT({"Q", SAME(0)}, {"K", SAME(0)}, {"V", SAME(0)}, {"input_skip_bias_sum", SAME(0), OPTIONAL}),
     ATTR(CODES, A_INT_REQ("Nq"), A_INT_REQ("Nkv"), A_FLOAT("epsilon", 1e-6f))},
    {0}};
static const nc_op_version mlp_versions[] = {
    {.since = 1,
     IN({"A", T_FLOAT_ALL}, {"skip", SAME(0), OPTIONAL}, {"norm_scale", SAME(0), OPTIONAL}, PRODUCT("gate"),
        PRODUCT("up")),
     OUT({"Y", SAME(0)}, {"input_skip_bias_sum", SAME(0), OPTIONAL}),
     ATTR(CODES, A_INT_REQ("N"), A_FLOAT("epsilon", 1e-5f), A_STR_REQ("activation"))},
    {0}};

const nc_card nc_card_matmul_nbits_qkv = {
    .name = "MatMulNBitsQkv",
    .domain = NC_MICROSOFT,
    .doc = "Queries, keys and values of a normalized input, by weights of few bits.",
    .versions = qkv_versions,
    .own = &(const fused_kind){.products = 3, .sum = 3, .columns = {"Nq", "Nkv", "Nkv"}},
    .infer = fused_infer,
    .decompose = qkv_decompose};
const nc_card nc_card_matmul_nbits_mlp = {.name = "MatMulNBitsMlp",
                                          .domain = NC_MICROSOFT,
                                          .doc = "A gate times a layer of a normalized input, by weights of few bits.",
                                          .versions = mlp_versions,
                                          .own = &(const fused_kind){.products = 2, .sum = 1, .columns = {"N", "N"}},
                                          .infer = mlp_infer,
                                          .decompose = mlp_decompose};
