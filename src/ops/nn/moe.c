/* ops/nn/moe.c: the cards of MoE and QMoE (com.microsoft): every token goes through the k experts that a router
 * prefers, two layers each, and the results are added with the router's weights. x (..., H), router (T, E), weights
 * (E, I, H) and (E, H, I), T the product of x's other dims; QMoE has codes with scales for weights. They run as
 * products over all experts, of which a token takes its k (moe_parts.c): exact, differentiable, and E/k times the work
 * that is needed. */
#include "ops/nn/moe.h"

#include <string.h>

enum { X = NC_MOE_X, ROUTER = NC_MOE_ROUTER };
enum { SEPARATE, INTERLEAVED, HALVES }; /* swiglu_fusion */

bool nc_moe_is_swiglu(const nc_node *n) { return strcmp(nc_attr_str(n, "activation_type"), "swiglu") == 0; }

static bool has(const nc_infer *c, int i) { return i > 0 && i < c->node->n_in && c->node->in[i] != NULL; }

static nc_code check_attrs(nc_infer *c, const nc_moe_kind *kind) {
    static const char *const known[] = {"relu", "gelu", "silu", "identity", "swiglu"};
    const nc_node *n = c->node;
    const char *name = nc_attr_str(n, "activation_type");
    int64_t fusion = nc_attr_int(n, "swiglu_fusion"), k = nc_attr_int(n, "k");
    bool found = false, third = has(c, kind->weights[2]), swiglu = nc_moe_is_swiglu(n);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) found |= strcmp(known[i], name) == 0;
    if (!found) NC_FAIL(c->w, NC_E_UNSUPPORTED, "activation_type is '%.60s', which is not known", name);
    if (fusion < SEPARATE || fusion > HALVES || (fusion != SEPARATE && !swiglu))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "swiglu_fusion is %lld with activation_type %s, expected %s", (long long)fusion,
                name, swiglu ? "0, 1 or 2" : "0");
    if (swiglu && third != (fusion == SEPARATE))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "swiglu_fusion is %lld and fc3_experts_weights are %s", (long long)fusion,
                third ? "given" : "absent");
    if (k < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "k is %lld, expected at least 1", (long long)k);
    if (nc_attr_int(n, "use_sparse_mixer") != 0 && k != 2)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "k is %lld, expected 2: use_sparse_mixer is 1", (long long)k);
    return NC_OK;
}

static nc_code check_ranks(nc_infer *c, const nc_moe_kind *kind) {
    for (int i = 0; i < 3; i++) {
        NC_TRY(nc_contrib_rank(c, kind->weights[i], 3));
        NC_TRY(nc_contrib_rank(c, kind->bias[i], 2));
        if (has(c, kind->weights[i])) NC_TRY(nc_in_expect(c, kind->weights[i], 0, nc_in_dim(c, kind->weights[0], 0)));
        if (has(c, kind->bias[i])) NC_TRY(nc_in_expect(c, kind->bias[i], 1, nc_in_dim(c, kind->weights[i], 1)));
    }
    return nc_contrib_rank(c, ROUTER, 2);
}

static nc_code moe_infer(nc_infer *c) {
    const nc_moe_kind *kind = c->node->card->own;
    const nc_type *x = nc_in(c, X), *first = nc_in(c, kind->weights[0]);
    int64_t experts;
    NC_TRY(check_attrs(c, kind));
    NC_TRY(check_ranks(c, kind));
    if (x != NULL && x->rank >= 0 && x->rank != 2 && x->rank != 3)
        NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 2 or 3", x->rank);
    if (x != NULL && x->rank > 0) {
        const nc_dim *width = x->dims[x->rank - 1];
        if (!kind->coded) NC_TRY(nc_in_expect(c, kind->weights[0], 2, width));
        NC_TRY(nc_in_expect(c, kind->weights[1], 1, width));
    }
    if (first != NULL && first->rank == 3) {
        NC_TRY(nc_in_expect(c, ROUTER, 1, first->dims[0]));
        if (nc_dim_is_const(first->dims[0], &experts) && nc_attr_int(c->node, "k") > experts)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "k is %lld of %lld experts", (long long)nc_attr_int(c->node, "k"),
                    (long long)experts);
    }
    return nc_out_like(c, 0, X);
}

/* ---- QMoE ---- */

nc_moe_codes nc_moe_codes_of(const nc_node *n) {
    static const char *const names[] = {"int", "fp4", "nvfp4", "fp8"};
    for (int i = 0; i < NC_MOE_UNKNOWN; i++)
        if (strcmp(nc_attr_str(n, "quant_type"), names[i]) == 0) return (nc_moe_codes)i;
    return NC_MOE_UNKNOWN;
}

int64_t nc_moe_bits(const nc_node *n, int i) {
    static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
    nc_moe_codes codes = nc_moe_codes_of(n);
    if (codes == NC_MOE_FP8) return 8;
    return codes == NC_MOE_INT ? nc_contrib_int(n, own[i], nc_attr_int(n, "expert_weight_bits")) : 4;
}

int64_t nc_moe_block(const nc_node *n) {
    nc_moe_codes codes = nc_moe_codes_of(n);
    return codes == NC_MOE_FP4 ? 32 : codes == NC_MOE_NVFP4 ? 16 : nc_contrib_int(n, "block_size", 0);
}

/* Operands of coded layer i that its codes need. */
static nc_code check_layer(nc_infer *c, const nc_moe_kind *kind, int i) {
    const nc_node *n = c->node;
    nc_moe_codes codes = nc_moe_codes_of(n);
    const nc_type *w = nc_in(c, kind->weights[i]);
    nc_dtype want = codes == NC_MOE_FP8 ? NC_FLOAT8E4M3FN : NC_UINT8;
    int64_t bits = nc_moe_bits(n, i), block = nc_moe_block(n);
    bool global = codes != NC_MOE_INT && (codes != NC_MOE_FP8 || block <= 0);
    if (!has(c, kind->weights[i])) return NC_OK;
    if (bits != 2 && bits != 4 && bits != 8)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "weights of layer %d have %lld bits, expected 2, 4 or 8", i + 1, (long long)bits);
    if (w != NULL && w->elem != want)
        NC_FAIL(c->w, NC_E_TYPE, "%s has elements %s, expected %s: quant_type is %s",
                n->version->in[kind->weights[i]].name, nc_dtype_name(w->elem), nc_dtype_name(want),
                nc_attr_str(n, "quant_type"));
    if (global && !has(c, kind->global[i]))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "layer %d has no global scale, expected one: quant_type is %s", i + 1,
                nc_attr_str(n, "quant_type"));
    if ((codes != NC_MOE_FP8 || block > 0) && !has(c, kind->scales[i]))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s are absent, expected some", n->version->in[kind->scales[i]].name);
    int rank = block > 0 ? 3 : 2;
    if (has(c, kind->scales[i])) NC_TRY(nc_contrib_rank(c, kind->scales[i], rank));
    if (has(c, kind->zeros[i])) NC_TRY(nc_contrib_rank(c, kind->zeros[i], rank));
    return NC_OK;
}

static nc_code qmoe_infer(nc_infer *c) {
    const nc_node *n = c->node;
    int64_t block = nc_contrib_int(n, "block_size", 0);
    if (nc_moe_codes_of(n) == NC_MOE_UNKNOWN)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "quant_type is '%.20s', expected int, fp4, nvfp4 or fp8",
                nc_attr_str(n, "quant_type"));
    if (nc_attr_int(n, "weights_prepacked") == 1)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "weights_prepacked is 1, expected 0 or -1: the layout is that of one machine");
    if (nc_moe_codes_of(n) == NC_MOE_INT && block != 0 && (block < 16 || (block & (block - 1)) != 0))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "block_size is %lld, expected a power of 2 from 16 on", (long long)block);
    for (int i = 0; i < 3; i++) NC_TRY(check_layer(c, n->card->own, i));
    return moe_infer(c);
}

/* ---- cards ---- */

#define OPTIONS                                                                               \
    A_STR("activation_type", "relu"), A_INT("swiglu_fusion", 0), A_FLOAT_OPT("swiglu_limit"), \
        A_FLOAT("activation_alpha", 1.0f), A_FLOAT("activation_beta", 0.0f), A_INT("k", 1),   \
        A_INT("normalize_routing_weights", 0), A_INT("use_sparse_mixer", 0)
static const nc_op_version moe_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"router_probs", SAME(0)}, {"fc1_experts_weights", SAME(0)},
        {"fc1_experts_bias", SAME(0), OPTIONAL}, {"fc2_experts_weights", SAME(0)},
        {"fc2_experts_bias", SAME(0), OPTIONAL}, {"fc3_experts_weights", SAME(0), OPTIONAL},
        {"fc3_experts_bias", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}),
     ATTR(OPTIONS)},
    {0}};

const nc_card nc_card_moe = {.name = "MoE",
                             .domain = NC_MICROSOFT,
                             .doc = "Each token through the experts that a router prefers for it.",
                             .versions = moe_versions,
                             .own = &(const nc_moe_kind){.weights = {2, 4, 6}, .bias = {3, 5, 7}},
                             .infer = moe_infer,
                             .decompose = nc_moe_decompose};

#define T_CODES (NC_BIT(NC_UINT8) | NC_BIT(NC_FLOAT8E4M3FN))
#define T_SCALES (T_FLOAT_ALL | NC_BIT(NC_FLOAT8E4M3FN) | NC_BIT(NC_FLOAT8E8M0))
static const nc_op_version qmoe_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"router_probs", SAME(0)}, {"fc1_experts_weights", T_CODES},
        {"fc1_scales", T_SCALES, OPTIONAL}, {"fc1_experts_bias", SAME(0), OPTIONAL}, {"fc2_experts_weights", SAME(2)},
        {"fc2_scales", T_SCALES, OPTIONAL}, {"fc2_experts_bias", SAME(0), OPTIONAL},
        {"fc3_experts_weights", SAME(2), OPTIONAL}, {"fc3_scales", T_SCALES, OPTIONAL},
        {"fc3_experts_bias", SAME(0), OPTIONAL}, {"fc1_zero_points", SAME(2), OPTIONAL},
        {"fc2_zero_points", SAME(2), OPTIONAL}, {"fc3_zero_points", SAME(2), OPTIONAL},
        {"router_weights", SAME(0), OPTIONAL}, {"fc1_global_scale", T_F32, OPTIONAL},
        {"fc2_global_scale", T_F32, OPTIONAL}, {"fc1_act_scale", T_F32, OPTIONAL}, {"fc2_act_scale", T_F32, OPTIONAL},
        {"fc1_act_block_scale", T_SCALES, OPTIONAL}, {"fc2_act_block_scale", T_SCALES, OPTIONAL}),
     OUT({"output", SAME(0)}),
     ATTR(OPTIONS, A_INT("expert_weight_bits", 4), A_INT_OPT("fc1_expert_weight_bits"),
          A_INT_OPT("fc2_expert_weight_bits"), A_INT_OPT("fc3_expert_weight_bits"), A_INT_OPT("block_size"),
          A_STR("quant_type", "int"), A_INT("weights_prepacked", -1), A_INT("accuracy_level", 0))},
    {0}};

const nc_card nc_card_qmoe = {.name = "QMoE",
                              .domain = NC_MICROSOFT,
                              .doc = "Each token through the experts that a router prefers, whose weights are codes.",
                              .versions = qmoe_versions,
                              .own = &(const nc_moe_kind){.weights = {2, 5, 8},
                                                          .scales = {3, 6, 9},
                                                          .bias = {4, 7, 10},
                                                          .zeros = {11, 12, 13},
                                                          .mixing = 14,
                                                          .global = {15, 16, 0},
                                                          .coded = true},
                              .infer = qmoe_infer,
                              .decompose = nc_moe_decompose};
