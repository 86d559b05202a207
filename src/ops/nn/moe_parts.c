/* ops/nn/moe_parts.c: what mixtures of experts are made of: layers of all experts, and gates that are 0 for those that
 * a token does not take. */
#include "ops/nn/moe.h"

#include <math.h>
#include <string.h>

enum { INTERLEAVED = 1 }; /* swiglu_fusion */

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_value *layer_weights(nc_builder *b, const nc_node *n, int i) {
    const nc_moe_kind *kind = n->card->own;
    return kind->coded ? nc_moe_weights(b, n, i) : nc_contrib_wide(b, n->in[kind->weights[i]]);
}

/* x (T,C) or (E,T,C) through layer i of each expert: (E,T,D). */
static nc_value *layer(nc_builder *b, const nc_node *n, nc_value *x, int i) {
    const nc_moe_kind *kind = n->card->own;
    nc_value *w = layer_weights(b, n, i), *bias = nc_contrib_in(n, kind->bias[i]);
    nc_value *y = nc_build1(b, "MatMul", 2, x, nc_build_transpose(b, w, (int64_t[]){0, 2, 1}, 3));
    if (bias == NULL || b->code != NC_OK) return y;
    bias = nc_build_cast(b, bias, y->type->elem);
    return nc_build1(b, "Add", 2, y, nc_build1(b, "Unsqueeze", 2, bias, ints(b, 1)));
}

/* gate * sigmoid(alpha gate) * (value + beta), within limits. */
static nc_value *swiglu(nc_builder *b, const nc_node *n, nc_value *gate, nc_value *value) {
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

/* swiglu of h (E,T,2I), gates and values in turn or one half each. */
static nc_value *fused_swiglu(nc_builder *b, const nc_node *n, nc_value *h) {
    const nc_moe_kind *kind = n->card->own;
    nc_attr split[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    bool in_turn = nc_attr_int(n, "swiglu_fusion") == INTERLEAVED;
    if (in_turn) {
        nc_value *half = nc_build1(b, "Div", 2, nc_contrib_size(b, n->in[kind->weights[0]], 1), ints(b, 2));
        nc_value *shape[3] = {nc_build_ints(b, (int64_t[]){0, 0}, 2), half, ints(b, 2)};
        h = nc_build1(b, "Reshape", 2, h, nc_build_attr1(b, "", "Concat", shape, 3, &first, 1));
    }
    nc_node *parts = nc_build(b, "", "Split", &h, 1, 2, split, 2);
    if (parts == NULL) return NULL;
    nc_value *gate = parts->out[0], *value = parts->out[1];
    if (in_turn)
        gate = nc_build1(b, "Squeeze", 2, gate, ints(b, -1)), value = nc_build1(b, "Squeeze", 2, value, ints(b, -1));
    return swiglu(b, n, gate, value);
}

static nc_value *activated(nc_builder *b, const nc_node *n, nc_value *h) {
    const char *name = nc_attr_str(n, "activation_type");
    if (strcmp(name, "relu") == 0) return nc_build1(b, "Relu", 1, h);
    if (strcmp(name, "gelu") == 0) return nc_build_attr1(b, "nacre", "GeluTanh", &h, 1, NULL, 0);
    return strcmp(name, "silu") == 0 ? nc_build1(b, "Mul", 2, h, nc_build1(b, "Sigmoid", 1, h)) : h;
}

/* The first layer, or the first and the third. */
static nc_value *hidden(nc_builder *b, const nc_node *n, nc_value *x) {
    const nc_moe_kind *kind = n->card->own;
    bool third = nc_contrib_in(n, kind->weights[2]) != NULL;
    nc_value *h = layer(b, n, x, 0);
    if (nc_moe_is_swiglu(n)) return third ? swiglu(b, n, h, layer(b, n, x, 2)) : fused_swiglu(b, n, h);
    h = activated(b, n, h);
    return third ? nc_build1(b, "Mul", 2, h, layer(b, n, x, 2)) : h;
}

/* ---- gates ---- */

static nc_value *softmax(nc_builder *b, nc_value *x) {
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    return nc_build_attr1(b, "", "Softmax", &x, 1, &last, 1);
}

/* Weights (T,k) put where `at` (T,k) says into zeros like `like` (T,E). */
static nc_value *spread(nc_builder *b, nc_value *like, nc_value *at, nc_value *weights) {
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *put[3] = {nc_build_zeros_like(b, like), at, weights};
    return nc_build_attr1(b, "", "ScatterElements", put, 3, &last, 1);
}

/* One choice of the sparse mixer among scores s (T,E): which, and its weight among those that are nearly as good. */
static nc_value *mixer_choice(nc_builder *b, nc_value *s, nc_value **at) {
    enum { JITTER_PERCENT = 2 }; /* twice the jitter of 0.01 that the router was trained with */
    nc_attr one = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *in[2] = {s, ints(b, 1)};
    nc_node *top = nc_build(b, "", "TopK", in, 2, 2, &one, 1);
    if (top == NULL) return NULL;
    *at = top->out[1];
    nc_dtype t = s->type->elem;
    nc_value *most = top->out[0], *size = nc_build1(b, "Max", 2, nc_build1(b, "Abs", 1, s), most);
    nc_value *apart = nc_build1(b, "Div", 2, nc_build1(b, "Sub", 2, most, s), size);
    nc_value *far = nc_build1(b, "Greater", 2, apart, nc_build_scalar(b, t, JITTER_PERCENT / 100.0));
    s = nc_build1(b, "Where", 3, far, nc_build_scalar(b, t, -(double)INFINITY), s);
    nc_value *pick[2] = {softmax(b, s), *at};
    return nc_build_attr1(b, "", "GatherElements", pick, 2, &one, 1);
}

static nc_value *mixer_gates(nc_builder *b, nc_value *s) {
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *at[2], *weights[2];
    weights[0] = mixer_choice(b, s, &at[0]);
    if (b->code != NC_OK) return NULL;
    nc_value *none = nc_build_expand_like(b, nc_build_scalar(b, s->type->elem, -(double)INFINITY), weights[0]);
    nc_value *put[3] = {s, at[0], none};
    weights[1] = mixer_choice(b, nc_build_attr1(b, "", "ScatterElements", put, 3, &last, 1), &at[1]);
    if (b->code != NC_OK) return NULL;
    return spread(b, s, nc_build_attr1(b, "", "Concat", at, 2, &last, 1),
                  nc_build_attr1(b, "", "Concat", weights, 2, &last, 1));
}

/* Weights of the k experts that `s` (T,E) prefers: of MoE their part in all experts' softmax, of QMoE their softmax or
 * what `mixing` says. */
static nc_value *top_gates(nc_builder *b, const nc_node *n, nc_value *s) {
    const nc_moe_kind *kind = n->card->own;
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *scores = kind->coded ? s : softmax(b, s), *mixing = nc_contrib_in(n, kind->mixing);
    nc_value *in[2] = {scores, ints(b, nc_attr_int(n, "k"))};
    nc_node *top = nc_build(b, "", "TopK", in, 2, 2, &last, 1);
    if (top == NULL) return NULL;
    nc_value *weights = top->out[0];
    if (kind->coded && kind->mixing > 0 && mixing != NULL) {
        nc_value *pick[2] = {nc_contrib_wide(b, mixing), top->out[1]};
        weights = nc_build_attr1(b, "", "GatherElements", pick, 2, &last, 1);
    } else if (kind->coded) {
        weights = softmax(b, weights);
    }
    if (nc_attr_int(n, "normalize_routing_weights") != 0)
        weights = nc_build1(b, "Div", 2, weights, nc_build_reduce_sum(b, weights, (int64_t[]){1}, 1, true));
    return spread(b, s, top->out[1], weights);
}

/* The weight of each expert for each token, (E,T,1): 0 for those that are not chosen. */
static nc_value *gates(nc_builder *b, const nc_node *n) {
    nc_value *s = nc_contrib_wide(b, n->in[NC_MOE_ROUTER]);
    if (b->code != NC_OK) return NULL;
    nc_value *all = nc_attr_int(n, "use_sparse_mixer") != 0 ? mixer_gates(b, s) : top_gates(b, n, s);
    return nc_build1(b, "Unsqueeze", 2, nc_build_transpose(b, all, (int64_t[]){1, 0}, 2), ints(b, 2));
}

nc_code nc_moe_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *t = n->in[NC_MOE_X]->type;
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (t == NULL || t->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *width[2] = {ints(b, -1), nc_contrib_size(b, n->in[NC_MOE_X], t->rank - 1)};
    nc_value *x = nc_contrib_wide(b, n->in[NC_MOE_X]);
    if (t->rank != 2) x = nc_build1(b, "Reshape", 2, x, nc_build_attr1(b, "", "Concat", width, 2, &first, 1));
    nc_value *y = nc_build1(b, "Mul", 2, layer(b, n, hidden(b, n, x), 1), gates(b, n));
    y = nc_build_cast(b, nc_build_reduce_sum(b, y, (int64_t[]){0}, 1, false), t->elem);
    out[0] = t->rank != 2 ? nc_build_reshape_like(b, y, n->in[NC_MOE_X]) : y;
    return b->code;
}
