/* ops/attention/recurrent.c: the cards of com.microsoft's LinearAttention, LinearAttentionGate and CausalConvWithState.
 * The first and the last are ai.onnx's with more: fewer heads of queries than of keys; taps that lie apart, channels
 * last. They run, and are differentiated, as what they are made of. */
#include "ops/attention/contrib.h"

#include <string.h>

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_code check_state_window(nc_infer *c) {
    int64_t n = nc_attr_int(c->node, "state_window");
    if (n != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "state_window is %lld, expected 0: the state after the last token",
                (long long)n);
    return NC_OK;
}

/* ---- LinearAttentionGate: decay = scale softplus(a + bias), beta = sigmoid(b) ---- */

enum { A, DT_BIAS, DECAY_SCALE, B };

static nc_code gate_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, A);
    bool given = c->node->n_in > B && c->node->in[B] != NULL;
    NC_TRY(nc_contrib_rank(c, A, 3));
    for (int i = DT_BIAS; i <= DECAY_SCALE; i++) NC_TRY(nc_contrib_vector(c, i, nc_in_dim(c, A, 2)));
    if (nc_contrib_wants(c->node, 1) && !given)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "b is absent, expected one: beta is wanted");
    if (a == NULL) return NC_OK;
    NC_TRY(nc_out_like(c, 0, A));
    return given ? nc_out_like(c, 1, B) : NC_OK;
}

static nc_code gate_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *a = nc_contrib_wide(b, n->in[A]);
    if (b->code != NC_OK) return b->code;
    nc_dtype t = a->type->elem;
    nc_value *soft = nc_build1(b, "Softplus", 1, nc_build1(b, "Add", 2, a, nc_build_cast(b, n->in[DT_BIAS], t)));
    soft = nc_build1(b, "Mul", 2, soft, nc_build_cast(b, n->in[DECAY_SCALE], t));
    out[0] = nc_build_cast(b, soft, n->in[A]->type->elem);
    if (nc_contrib_wants(n, 1))
        out[1] = nc_build_cast(b, nc_build1(b, "Sigmoid", 1, nc_contrib_wide(b, n->in[B])), n->in[A]->type->elem);
    return b->code;
}

/* ---- LinearAttention ---- */

enum { Q, K, V, PAST, DECAY, BETA };

static nc_code linear_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, Q), *past = nc_in(c, PAST);
    int64_t hq = nc_attr_int(c->node, "q_num_heads"), hk = nc_attr_int(c->node, "kv_num_heads");
    NC_TRY(check_state_window(c));
    if (hq < 1 || hk < 1 || (hq % hk != 0 && hk % hq != 0))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%lld query heads and %lld key heads do not share evenly", (long long)hq,
                (long long)hk);
    for (int i = 0; i < 6; i++) NC_TRY(nc_contrib_rank(c, i, i == PAST ? 4 : 3));
    if (q == NULL) return NC_OK;
    nc_dtype state = past != NULL ? past->elem : q->elem;
    const nc_dim *columns = nc_in_dim(c, Q, 2), *values = nc_in_dim(c, V, 2);
    if (columns == NULL || values == NULL) {
        NC_TRY(nc_out_unknown(c, 0, q->elem, 3));
        return nc_out_unknown(c, 1, state, 4);
    }
    const nc_dim *most = nc_dim_const(c->dims, hq > hk ? hq : hk), *keys = nc_dim_const(c->dims, hk);
    const nc_dim *dv = nc_dim_floordiv(c->dims, values, keys);
    const nc_dim *dk = nc_dim_floordiv(c->dims, columns, nc_dim_const(c->dims, hq));
    NC_TRY(nc_out(c, 0, q->elem, 3, (const nc_dim *[]){q->dims[0], q->dims[1], nc_dim_mul(c->dims, most, dv)}));
    return nc_out(c, 1, state, 4, (const nc_dim *[]){q->dims[0], keys, dk, dv});
}

/* x (B,T,heads*D) with every head n times in a row. */
static nc_value *repeated(nc_builder *b, nc_value *x, int64_t heads, int64_t n) {
    return nc_attn_from_heads(b, nc_attn_repeat_heads(b, nc_attn_to_heads(b, x, heads), n));
}

static nc_code linear_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t hq = nc_attr_int(n, "q_num_heads"), hk = nc_attr_int(n, "kv_num_heads"), width;
    nc_value *in[6];
    for (int i = 0; i < 6; i++) in[i] = nc_contrib_in(n, i);
    if (in[Q]->type == NULL || in[Q]->type->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    if (hk > hq) in[Q] = repeated(b, in[Q], hq, hk / hq);
    if (in[BETA] != NULL && hk > 1 && in[BETA]->type != NULL && nc_dim_is_const(in[BETA]->type->dims[2], &width) &&
        width == 1)
        in[BETA] = repeated(b, in[BETA], 1, hk);
    nc_attr attrs[5] = {{.name = "q_num_heads", .kind = NC_A_INT, .i = hq > hk ? hq : hk},
                        {.name = "kv_num_heads", .kind = NC_A_INT, .i = hk},
                        {.name = "chunk_size", .kind = NC_A_INT, .i = nc_attr_int(n, "chunk_size")},
                        {.name = "scale", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "scale")}};
    const nc_attr *rule = nc_node_attr(n, "update_rule"); /* absent: the same as there */
    if (rule != NULL) attrs[4] = *rule;
    nc_node *done = nc_build_newest(b, "LinearAttention", in, 6, NULL, 2, attrs, rule != NULL ? 5 : 4);
    for (int i = 0; done != NULL && i < n->n_out; i++) out[i] = done->out[i];
    return b->code;
}

/* ---- CausalConvWithState ---- */

enum { X, W, BIAS, STATE };

static nc_code conv_infer(nc_infer *c) {
    const nc_node *n = c->node;
    const nc_type *x = nc_in(c, X);
    const char *act = nc_attr_str(n, "activation");
    bool last = nc_attr_int(n, "channels_last") != 0;
    int64_t apart = nc_attr_int(n, "dilation");
    const nc_dim *dims[NC_MAX_RANK];
    NC_TRY(check_state_window(c));
    if (strcmp(act, "none") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "activation is '%.20s', expected none, silu or swish", act);
    if (nc_attr_int(n, "ndim") != 1)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "ndim is %lld, expected 1", (long long)nc_attr_int(n, "ndim"));
    if (apart < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "dilation is %lld, expected at least 1", (long long)apart);
    NC_TRY(nc_contrib_rank(c, W, 3));
    NC_TRY(nc_contrib_vector(c, BIAS, nc_in_dim(c, W, 0)));
    if (x == NULL) return NC_OK;
    if (x->rank >= 0 && (last ? x->rank < 3 : x->rank != 3))
        NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected %s", x->rank, last ? "at least 3" : "3");
    NC_TRY(nc_out_like(c, 0, X));
    const nc_dim *k = nc_in_dim(c, W, 2);
    if (x->rank < 0 || k == NULL) return nc_out_unknown(c, 1, x->elem, x->rank);
    const nc_dim *before = nc_dim_sub(c->dims, k, nc_dim_const(c->dims, 1));
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    dims[last ? 1 : 2] = nc_dim_mul(c->dims, before, nc_dim_const(c->dims, apart));
    return nc_out(c, 1, x->elem, x->rank, dims);
}

/* x (B,S,...) as (B,C,S). */
static nc_value *channels_first(nc_builder *b, nc_value *x, nc_value *C) {
    nc_value *shape[2] = {nc_attn_dims(b, x, 0, 2), C};
    return nc_build_transpose(b, nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, 2, 0)), (int64_t[]){0, 2, 1}, 3);
}

/* y (B,C,S) with channels last, those of `like` (B,S,...). */
static nc_value *channels_back(nc_builder *b, nc_value *y, nc_value *like) {
    nc_value *t = nc_build_transpose(b, y, (int64_t[]){0, 2, 1}, 3);
    nc_value *shape[2] = {nc_attn_dims(b, t, 0, 2), nc_attn_dims(b, like, 2, like->type->rank)};
    return nc_build1(b, "Reshape", 2, t, nc_attn_join(b, shape, 2, 0));
}

static nc_code conv_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[X], *past = nc_contrib_in(n, STATE), *w = n->in[W], *C = nc_contrib_size(b, w, 0);
    int64_t channels, apart = nc_attr_int(n, "dilation"), far = INT64_MAX;
    bool last = nc_attr_int(n, "channels_last") != 0;
    if (x->type == NULL || x->type->rank < 0 || w->type == NULL || w->type->rank < 0 ||
        !nc_dim_is_const(w->type->dims[0], &channels))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "the number of channels is not known before the run");
    if (last) x = channels_first(b, x, C);
    if (last && past != NULL) past = channels_first(b, past, C);
    if (b->code != NC_OK) return b->code;
    if (past == NULL) {
        nc_value *before = nc_build1(b, "Sub", 2, nc_contrib_size(b, w, 2), one(b, 1));
        nc_value *shape[2] = {nc_attn_dims(b, x, 0, 2), nc_build1(b, "Mul", 2, before, one(b, apart))};
        past = nc_build1(b, "Expand", 2, nc_build_scalar(b, x->type->elem, 0), nc_attn_join(b, shape, 2, 0));
    }
    nc_value *all = nc_attn_join(b, (nc_value *[]){past, x}, 2, 2), *in[3] = {all, w, nc_contrib_in(n, BIAS)};
    nc_attr attrs[2] = {{.name = "group", .kind = NC_A_INT, .i = channels},
                        {.name = "dilations", .kind = NC_A_INTS, .ints = &apart, .n = 1}};
    nc_value *y = nc_build_attr1(b, "", "Conv", in, in[2] != NULL ? 3 : 2, attrs, 2);
    if (strcmp(nc_attr_str(n, "activation"), "none") != 0) y = nc_build1(b, "Mul", 2, y, nc_build1(b, "Sigmoid", 1, y));
    nc_value *state = nc_build1(b, "Slice", 4, all, nc_contrib_size(b, x, 2), nc_build_ints(b, &far, 1), one(b, 2));
    out[0] = last ? channels_back(b, y, n->in[X]) : y;
    if (nc_contrib_wants(n, 1)) out[1] = last ? channels_back(b, state, n->in[X]) : state;
    return b->code;
}

/* ---- cards ---- */

#define T_NARROW (T_F32 | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version gate_versions[] = {{.since = 1,
                                               IN({"a", T_FLOAT_ALL}, {"dt_bias", T_F32 | NC_BIT(NC_DOUBLE)},
                                                  {"decay_scale", T_F32 | NC_BIT(NC_DOUBLE)}, {"b", SAME(0), OPTIONAL}),
                                               OUT({"decay", SAME(0)}, {"beta", SAME(0), OPTIONAL}),
                                               NO_ATTR},
                                              {0}};
static const nc_op_version linear_versions[] = {
    {.since = 1,
     IN({"query", T_NARROW}, {"key", SAME(0)}, {"value", SAME(0)}, {"past_state", T_NARROW, OPTIONAL},
        {"decay", SAME(0), OPTIONAL}, {"beta", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_state", T_NARROW}),
     ATTR(A_INT("chunk_size", 64), A_INT_REQ("kv_num_heads"), A_INT_REQ("q_num_heads"), A_FLOAT("scale", 0),
          A_STR("update_rule", "gated_delta"), A_INT("state_window", 0))},
    {0}};
static const nc_op_version conv_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"weight", SAME(0)}, {"bias", SAME(0), OPTIONAL}, {"past_state", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_state", SAME(0)}),
     ATTR(A_STR("activation", "none"), A_INT("ndim", 1), A_INT("state_window", 0), A_INT("dilation", 1),
          A_INT("channels_last", 0))},
    {0}};

const nc_card nc_card_linear_attention_gate = {.name = "LinearAttentionGate",
                                               .domain = NC_MICROSOFT,
                                               .doc = "How fast linear attention forgets, and how much it learns.",
                                               .versions = gate_versions,
                                               .infer = gate_infer,
                                               .decompose = gate_decompose};
const nc_card nc_card_ms_linear_attention = {.name = "LinearAttention",
                                             .domain = NC_MICROSOFT,
                                             .doc = "Attention through a recurrent matrix per head.",
                                             .versions = linear_versions,
                                             .infer = linear_infer,
                                             .decompose = linear_decompose};
const nc_card nc_card_ms_causal_conv_with_state = {.name = "CausalConvWithState",
                                                   .domain = NC_MICROSOFT,
                                                   .doc = "A depthwise convolution that looks back over a kept past.",
                                                   .versions = conv_versions,
                                                   .infer = conv_infer,
                                                   .decompose = conv_decompose};
