/* ops/nn/moe.c: the card of MoE (com.microsoft): every token goes through the k experts that a router prefers, two
 * layers each, and the results are added with the router's weights. x (..., H), router (T, E), weights (E, I, H) and
 * (E, H, I), T the product of x's other dims. It runs as products over all experts, of which a token takes its k:
 * exact, differentiable, and E/k times the work that is needed. */
#include <string.h>

#include "ops/contrib.h"

enum { X, ROUTER, W1, B1, W2, B2, W3, B3 };
enum { SEPARATE, INTERLEAVED, HALVES }; /* swiglu_fusion */

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static bool is_swiglu(const nc_node *n) { return strcmp(nc_attr_str(n, "activation_type"), "swiglu") == 0; }

static nc_code check_attrs(nc_infer *c) {
    static const char *const known[] = {"relu", "gelu", "silu", "identity", "swiglu"};
    const char *name = nc_attr_str(c->node, "activation_type");
    int64_t fusion = nc_attr_int(c->node, "swiglu_fusion");
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) found |= strcmp(known[i], name) == 0;
    if (!found) NC_FAIL(c->w, NC_E_UNSUPPORTED, "activation_type is '%.60s', which is not known", name);
    if (nc_attr_int(c->node, "use_sparse_mixer") != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "use_sparse_mixer is %lld, expected 0",
                (long long)nc_attr_int(c->node, "use_sparse_mixer"));
    if (is_swiglu(c->node) ? fusion != INTERLEAVED && fusion != HALVES : fusion != SEPARATE)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "swiglu_fusion is %lld with activation_type %s, expected %s", (long long)fusion,
                name, is_swiglu(c->node) ? "1 or 2" : "0");
    if (nc_attr_int(c->node, "k") < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "k is %lld, expected at least 1", (long long)nc_attr_int(c->node, "k"));
    return NC_OK;
}

static nc_code moe_infer(nc_infer *c) {
    static const int ranks[] = {-1, 2, 3, 2, 3, 2, 3, 2};
    const nc_type *x = nc_in(c, X), *first = nc_in(c, W1);
    int64_t experts;
    NC_TRY(check_attrs(c));
    for (int i = ROUTER; i < c->node->n_in; i++) NC_TRY(nc_contrib_rank(c, i, ranks[i]));
    if (x != NULL && x->rank >= 0 && x->rank != 2 && x->rank != 3)
        NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 2 or 3", x->rank);
    if (x != NULL && x->rank > 0) NC_TRY(nc_in_expect(c, W1, 2, x->dims[x->rank - 1]));
    if (first != NULL && first->rank == 3) {
        NC_TRY(nc_in_expect(c, ROUTER, 1, first->dims[0]));
        NC_TRY(nc_in_expect(c, W2, 0, first->dims[0]));
        if (nc_dim_is_const(first->dims[0], &experts) && nc_attr_int(c->node, "k") > experts)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "k is %lld of %lld experts", (long long)nc_attr_int(c->node, "k"),
                    (long long)experts);
    }
    return nc_out_like(c, 0, X);
}

/* ---- decomposition ---- */

/* x (T,C) or (E,T,C) through a layer of each expert: (E,T,D). bias may be NULL. */
static nc_value *layer(nc_builder *b, nc_value *x, nc_value *w, nc_value *bias) {
    nc_value *y = nc_build1(b, "MatMul", 2, x, nc_build_transpose(b, nc_contrib_wide(b, w), (int64_t[]){0, 2, 1}, 3));
    if (bias == NULL) return y;
    return nc_build1(b, "Add", 2, y, nc_build1(b, "Unsqueeze", 2, nc_contrib_wide(b, bias), ints(b, 1)));
}

/* h (E,T,2I), gates and values in turn or one half each: gate * sigmoid(alpha gate) * (value + beta). */
static nc_value *swiglu(nc_builder *b, const nc_node *n, nc_value *h) {
    nc_attr split[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    bool in_turn = nc_attr_int(n, "swiglu_fusion") == INTERLEAVED;
    if (in_turn) {
        nc_value *half = nc_build1(b, "Div", 2, nc_contrib_size(b, n->in[W1], 1), ints(b, 2));
        nc_value *shape[3] = {nc_build_ints(b, (int64_t[]){0, 0}, 2), half, ints(b, 2)};
        h = nc_build1(b, "Reshape", 2, h, nc_build_attr1(b, "", "Concat", shape, 3, &first, 1));
    }
    nc_node *parts = nc_build(b, "", "Split", &h, 1, 2, split, 2);
    if (parts == NULL) return NULL;
    nc_value *gate = parts->out[0], *value = parts->out[1];
    if (in_turn)
        gate = nc_build1(b, "Squeeze", 2, gate, ints(b, -1)), value = nc_build1(b, "Squeeze", 2, value, ints(b, -1));
    if (b->code != NC_OK) return NULL;
    nc_dtype t = gate->type->elem;
    if (nc_attr_has(n, "swiglu_limit")) {
        double limit = nc_attr_float(n, "swiglu_limit");
        nc_value *most = nc_build_scalar(b, t, limit), *least = nc_build_scalar(b, t, -limit);
        gate = nc_build1(b, "Min", 2, gate, most);
        value = nc_build1(b, "Clip", 3, value, least, most);
    }
    nc_value *alpha = nc_build_scalar(b, t, nc_attr_float(n, "activation_alpha"));
    nc_value *open = nc_build1(b, "Sigmoid", 1, nc_build1(b, "Mul", 2, gate, alpha));
    nc_value *shifted = nc_build1(b, "Add", 2, value, nc_build_scalar(b, t, nc_attr_float(n, "activation_beta")));
    return nc_build1(b, "Mul", 2, nc_build1(b, "Mul", 2, gate, open), shifted);
}

static nc_value *activated(nc_builder *b, const nc_node *n, nc_value *h) {
    const char *name = nc_attr_str(n, "activation_type");
    if (is_swiglu(n)) return swiglu(b, n, h);
    if (strcmp(name, "relu") == 0) return nc_build1(b, "Relu", 1, h);
    if (strcmp(name, "gelu") == 0) return nc_build_attr1(b, "nacre", "GeluTanh", &h, 1, NULL, 0);
    return strcmp(name, "silu") == 0 ? nc_build1(b, "Mul", 2, h, nc_build1(b, "Sigmoid", 1, h)) : h;
}

/* The weight of each expert for each token, (E,T,1): 0 for those that are not chosen. */
static nc_value *gates(nc_builder *b, const nc_node *n) {
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *router = nc_contrib_wide(b, n->in[ROUTER]);
    nc_value *chances = nc_build_attr1(b, "", "Softmax", &router, 1, &last, 1);
    nc_value *in[2] = {chances, ints(b, nc_attr_int(n, "k"))};
    nc_node *top = nc_build(b, "", "TopK", in, 2, 2, &last, 1);
    if (top == NULL) return NULL;
    nc_value *weights = top->out[0];
    if (nc_attr_int(n, "normalize_routing_weights") != 0)
        weights = nc_build1(b, "Div", 2, weights, nc_build_reduce_sum(b, weights, (int64_t[]){1}, 1, true));
    nc_value *put[3] = {nc_build_zeros_like(b, chances), top->out[1], weights};
    nc_value *all = nc_build_attr1(b, "", "ScatterElements", put, 3, &last, 1);
    return nc_build1(b, "Unsqueeze", 2, nc_build_transpose(b, all, (int64_t[]){1, 0}, 2), ints(b, 2));
}

static nc_code moe_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *t = n->in[X]->type;
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (t == NULL || t->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *width[2] = {ints(b, -1), nc_contrib_size(b, n->in[X], t->rank - 1)};
    nc_value *x = nc_contrib_wide(b, n->in[X]);
    if (t->rank != 2) x = nc_build1(b, "Reshape", 2, x, nc_build_attr1(b, "", "Concat", width, 2, &first, 1));
    nc_value *h = activated(b, n, layer(b, x, n->in[W1], nc_contrib_in(n, B1)));
    if (nc_contrib_in(n, W3) != NULL) h = nc_build1(b, "Mul", 2, h, layer(b, x, n->in[W3], nc_contrib_in(n, B3)));
    nc_value *y = nc_build1(b, "Mul", 2, layer(b, h, n->in[W2], nc_contrib_in(n, B2)), gates(b, n));
    y = nc_build_cast(b, nc_build_reduce_sum(b, y, (int64_t[]){0}, 1, false), t->elem);
    out[0] = t->rank != 2 ? nc_build_reshape_like(b, y, n->in[X]) : y;
    return b->code;
}

static const nc_op_version moe_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"router_probs", SAME(0)}, {"fc1_experts_weights", SAME(0)},
        {"fc1_experts_bias", SAME(0), OPTIONAL}, {"fc2_experts_weights", SAME(0)},
        {"fc2_experts_bias", SAME(0), OPTIONAL}, {"fc3_experts_weights", SAME(0), OPTIONAL},
        {"fc3_experts_bias", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}),
     ATTR(A_STR("activation_type", "relu"), A_INT("swiglu_fusion", 0), A_FLOAT_OPT("swiglu_limit"),
          A_FLOAT("activation_alpha", 1.0f), A_FLOAT("activation_beta", 0.0f), A_INT("k", 1),
          A_INT("normalize_routing_weights", 0), A_INT("use_sparse_mixer", 0))},
    {0}};

const nc_card nc_card_moe = {.name = "MoE",
                             .domain = NC_MICROSOFT,
                             .doc = "Each token through the experts that a router prefers for it.",
                             .versions = moe_versions,
                             .infer = moe_infer,
                             .decompose = moe_decompose};
