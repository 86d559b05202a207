/* ops/attention/self.c: cards of com.microsoft's Attention and QAttention: queries, keys and values are columns of one
 * product of the input with packed weights, which QAttention computes of 8-bit elements. They run, and are
 * differentiated, as that product and Attention of ai.onnx. */
#include "ops/attention/contrib.h"

/* Where the operands stand; 0: there is none. */
typedef struct self_kind {
    int mask, past, bias, past_length;
    bool quantized;
} self_kind;

enum { X, WEIGHTS, PROJECTION_BIAS };
enum { X_SCALE = 3, W_SCALE = 4, X_ZERO = 6, W_ZERO = 7 }; /* of QAttention */

/* Columns of Q, K and V; false: not known yet. Fails where they do not fit the heads or the weights. */
static nc_code hidden_sizes(nc_work *w, const nc_node *n, const nc_dim *columns, int64_t sizes[3], bool *known) {
    int count = 0;
    const nc_attr *own = nc_node_attr(n, "qkv_hidden_sizes");
    int64_t all = -1, heads = nc_attr_int(n, "num_heads");
    *known = columns != NULL && nc_dim_is_const(columns, &all);
    if (own != NULL) {
        const int64_t *v = nc_attr_ints(n, "qkv_hidden_sizes", &count);
        if (count != 3) NC_FAIL(w, NC_E_BAD_GRAPH, "qkv_hidden_sizes has %d numbers, expected 3", count);
        for (int i = 0; i < 3; i++) sizes[i] = v[i];
        if (sizes[0] != sizes[1])
            NC_FAIL(w, NC_E_BAD_GRAPH, "qkv_hidden_sizes of Q and K are %lld and %lld, expected the same",
                    (long long)sizes[0], (long long)sizes[1]);
    } else if (*known) {
        if (all % 3 != 0) NC_FAIL(w, NC_E_SHAPE, "weights have %lld columns, 3 do not divide them", (long long)all);
        for (int i = 0; i < 3; i++) sizes[i] = all / 3;
    }
    if (own == NULL && !*known) return NC_OK;
    if (*known && sizes[0] + sizes[1] + sizes[2] != all)
        NC_FAIL(w, NC_E_SHAPE, "weights have %lld columns, expected %lld", (long long)all,
                (long long)(sizes[0] + sizes[1] + sizes[2]));
    for (int i = 0; i < 3; i++)
        if (sizes[i] % heads != 0)
            NC_FAIL(w, NC_E_SHAPE, "%lld columns of Q, K or V, which %lld heads do not divide", (long long)sizes[i],
                    (long long)heads);
    *known = true;
    return NC_OK;
}

/* Is the past a buffer with room, of which past_sequence_length says how much is filled? The present is that buffer. */
static bool shares(const nc_node *n, const self_kind *kind) {
    return nc_contrib_in(n, kind->past) != NULL && nc_contrib_int(n, "past_present_share_buffer", 0) != 0;
}

static nc_value *past_length(const nc_node *n, const self_kind *kind) {
    return kind->past_length > 0 ? nc_contrib_in(n, kind->past_length) : NULL;
}

static nc_code check_options(nc_infer *c, const self_kind *kind) {
    if (nc_contrib_int(c->node, "do_rotary", 0) != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "do_rotary is 1, expected 0 and a RotaryEmbedding of its own");
    bool shared = shares(c->node, kind), told = past_length(c->node, kind) != NULL;
    if (shared && !told)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_present_share_buffer is 1: past_sequence_length is needed");
    if (told && !shared)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "past_sequence_length is given, expected a past of its true length");
    return NC_OK;
}

static nc_code self_infer(nc_infer *c) {
    const self_kind *kind = c->node->card->own;
    const nc_type *t = nc_in(c, kind->quantized ? PROJECTION_BIAS : X);
    int64_t sizes[3] = {0}, heads = nc_attr_int(c->node, "num_heads");
    bool known;
    NC_TRY(check_options(c, kind));
    NC_TRY(nc_msattn_check_heads(c, "num_heads", NULL, ""));
    NC_TRY(nc_contrib_rank(c, X, 3));
    NC_TRY(nc_contrib_rank(c, WEIGHTS, 2));
    NC_TRY(nc_in_expect(c, WEIGHTS, 0, nc_in_dim(c, X, 2)));
    NC_TRY(nc_contrib_vector(c, PROJECTION_BIAS, nc_in_dim(c, WEIGHTS, 1)));
    NC_TRY(hidden_sizes(c->w, c->node, nc_in_dim(c, WEIGHTS, 1), sizes, &known));
    const nc_dim *B = nc_in_dim(c, X, 0), *S = nc_in_dim(c, X, 1);
    if (t == NULL) return NC_OK;
    if (B == NULL || nc_in_dim(c, WEIGHTS, 1) == NULL) {
        NC_TRY(nc_out_unknown(c, 0, t->elem, 3));
        return nc_out_unknown(c, 1, t->elem, 5);
    }
    const nc_dim *third = nc_dim_floordiv(c->dims, nc_in_dim(c, WEIGHTS, 1), nc_dim_const(c->dims, 3));
    const nc_dim *Dk = known ? nc_dim_const(c->dims, sizes[1]) : third;
    const nc_dim *Dv = known ? nc_dim_const(c->dims, sizes[2]) : third;
    bool past = kind->past < c->node->n_in && c->node->in[kind->past] != NULL;
    const nc_dim *P = past ? nc_in_dim(c, kind->past, 3) : nc_dim_const(c->dims, 0);
    const nc_dim *T = shares(c->node, kind) ? NULL : P != NULL ? nc_dim_add(c->dims, P, S) : nc_fresh(c, "keys");
    const nc_dim *rows = T != NULL ? T : P != NULL ? P : nc_fresh(c, "room");
    const nc_dim *present[5] = {nc_dim_const(c->dims, 2), B, nc_dim_const(c->dims, heads), rows,
                                nc_dim_floordiv(c->dims, Dk, nc_dim_const(c->dims, heads))};
    if (past && sizes[2] != sizes[0])
        NC_FAIL(c->w, NC_E_SHAPE, "a past needs values as wide as keys: %lld and %lld columns", (long long)sizes[2],
                (long long)sizes[0]);
    if (past) NC_TRY(nc_contrib_rank(c, kind->past, 5));
    for (int i = 0; past && i < 5; i++)
        if (i != 3) NC_TRY(nc_in_expect(c, kind->past, i, present[i]));
    NC_TRY(nc_msattn_check_mask(c, kind->mask, B, S, T));
    if (kind->bias > 0) NC_TRY(nc_msattn_check_bias(c, kind->bias, B, heads, S, T));
    NC_TRY(nc_out(c, 0, t->elem, 3, (const nc_dim *[]){B, S, Dv}));
    return nc_out(c, 1, t->elem, 5, present);
}

/* ---- decomposition ---- */

static nc_value *projection(nc_builder *b, const nc_node *n) {
    nc_value *y = nc_build1(b, "MatMul", 2, n->in[X], n->in[WEIGHTS]);
    return nc_contrib_add(b, y, nc_contrib_in(n, PROJECTION_BIAS));
}

/* The same of 8-bit elements: exact sums, then scales. */
static nc_value *quantized_projection(nc_builder *b, const nc_node *n) {
    nc_value *in[4] = {n->in[X], n->in[WEIGHTS], nc_contrib_in(n, X_ZERO), nc_contrib_in(n, W_ZERO)};
    nc_value *sums = nc_build_attr1(b, "", "MatMulInteger", in, in[3] != NULL ? 4 : in[2] != NULL ? 3 : 2, NULL, 0);
    nc_value *scale = nc_build1(b, "Mul", 2, n->in[X_SCALE], n->in[W_SCALE]);
    if (b->code != NC_OK) return NULL;
    nc_value *y = nc_build1(b, "Mul", 2, nc_build_cast(b, sums, NC_FLOAT), nc_contrib_wide(b, scale));
    return nc_build_cast(b, nc_contrib_add(b, y, nc_contrib_wide(b, n->in[PROJECTION_BIAS])),
                         n->in[PROJECTION_BIAS]->type->elem);
}

static nc_value *half_of_past(nc_builder *b, nc_value *past, int which) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *in[2] = {past, nc_build_int(b, which)};
    return past != NULL ? nc_build_attr1(b, "", "Gather", in, 2, &axis, 1) : NULL;
}

static nc_value *join_present(nc_builder *b, nc_value *k, nc_value *v) {
    int64_t zero = 0;
    nc_value *parts[2] = {nc_build1(b, "Unsqueeze", 2, k, nc_build_ints(b, &zero, 1)),
                          nc_build1(b, "Unsqueeze", 2, v, nc_build_ints(b, &zero, 1))};
    return nc_attn_join(b, parts, 2, 0);
}

/* The first `n` rows (rank 1) of a past (B,heads,room,D); a run in which there are fewer fails. */
static nc_value *filled(nc_builder *b, nc_value *past, nc_value *n) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 2};
    nc_value *sizes[2] = {n, nc_build1(b, "Sub", 2, nc_contrib_size(b, past, 2), n)};
    nc_value *in[2] = {past, nc_attn_join(b, sizes, 2, 0)};
    nc_node *parts = nc_build(b, "", "Split", in, 2, 2, &axis, 1);
    return parts != NULL ? parts->out[0] : NULL;
}

/* The past with x (B,S,heads*D) in its rows from `at` (rank 1) on. */
static nc_value *written(nc_builder *b, nc_value *past, nc_value *x, nc_value *at, int64_t heads) {
    nc_value *in[3] = {past, nc_attn_to_heads(b, x, heads), nc_build1(b, "Expand", 2, at, nc_contrib_size(b, x, 0))};
    return nc_build_newest1(b, "TensorScatter", in, 3, NULL, 0);
}

static nc_code self_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const self_kind *kind = n->card->own;
    int64_t sizes[3] = {0};
    bool known = false;
    if (n->in[WEIGHTS]->type == NULL || n->in[WEIGHTS]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known weights");
    NC_TRY(hidden_sizes(b->w, n, n->in[WEIGHTS]->type->dims[1], sizes, &known));
    nc_value *qkv = kind->quantized ? quantized_projection(b, n) : projection(b, n);
    nc_attr how[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 3}};
    nc_value *cut[2] = {qkv, known ? nc_build_ints(b, sizes, 3) : NULL};
    nc_node *parts = nc_build(b, "", "Split", cut, known ? 2 : 1, 3, how, known ? 1 : 2);
    if (parts == NULL) return b->code;
    nc_value *past = nc_contrib_in(n, kind->past), *mask = nc_contrib_in(n, kind->mask), *at = NULL;
    nc_value *halves[2] = {half_of_past(b, past, 0), half_of_past(b, past, 1)};
    if (shares(n, kind)) {
        int64_t one = 1;
        at = nc_build1(b, "Reshape", 2, past_length(n, kind), nc_build_ints(b, &one, 1));
        at = nc_build_cast(b, at, NC_INT64);
    }
    nc_msattn a = {.q = parts->out[0],
                   .k = parts->out[1],
                   .v = parts->out[2],
                   .past_k = at != NULL ? filled(b, halves[0], at) : halves[0],
                   .past_v = at != NULL ? filled(b, halves[1], at) : halves[1],
                   .heads = nc_attr_int(n, "num_heads"),
                   .causal = nc_attr_int(n, "unidirectional") != 0,
                   .node = n};
    if (mask != NULL) a.bias = nc_msattn_mask(b, n, mask, a.q, nc_msattn_keys(b, a.k, a.past_k));
    nc_value *bias = kind->bias > 0 ? nc_contrib_in(n, kind->bias) : NULL;
    if (bias != NULL) a.bias = nc_contrib_add(b, bias, a.bias);
    bool present = nc_contrib_wants(n, 1), wanted[4] = {true, present && at == NULL, present && at == NULL, false};
    nc_node *attention = nc_msattn_build(b, &a, wanted);
    if (attention == NULL) return b->code;
    out[0] = attention->out[0];
    if (present && at == NULL) out[1] = join_present(b, attention->out[1], attention->out[2]);
    if (present && at != NULL)
        out[1] = join_present(b, written(b, halves[0], a.k, at, a.heads), written(b, halves[1], a.v, at, a.heads));
    return b->code;
}

/* ---- cards ---- */

#define T_BYTE (NC_BIT(NC_INT8) | NC_BIT(NC_UINT8))
#define OPTIONS                                                                                 \
    A_INT_REQ("num_heads"), A_INT("unidirectional", 0), A_INT_OPT("past_present_share_buffer"), \
        A_INT_OPT("do_rotary"), A_FLOAT_OPT("mask_filter_value"), A_FLOAT_OPT("scale")
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"weights", SAME(0)}, {"bias", SAME(0), OPTIONAL}, {"mask_index", T_I32, OPTIONAL},
        {"past", SAME(0), OPTIONAL}, {"attention_bias", SAME(0), OPTIONAL}, {"past_sequence_length", T_I32, OPTIONAL}),
     OUT({"output", SAME(0)}, {"present", SAME(0), OPTIONAL}),
     ATTR(OPTIONS, A_INTS_OPT("qkv_hidden_sizes"), A_INT_OPT("rotary_embedding_dim"))},
    {0}};
static const nc_op_version quantized_versions[] = {
    {.since = 1,
     IN({"input", T_BYTE}, {"weight", T_BYTE}, {"bias", T_FLOAT_ALL}, {"input_scale", SAME(2)},
        {"weight_scale", SAME(2)}, {"mask_index", T_I32, OPTIONAL}, {"input_zero_point", SAME(0), OPTIONAL},
        {"weight_zero_point", SAME(1), OPTIONAL}, {"past", SAME(2), OPTIONAL}),
     OUT({"output", SAME(2)}, {"present", SAME(2), OPTIONAL}),
     ATTR(OPTIONS)},
    {0}};

const nc_card nc_card_ms_attention = {.name = "Attention",
                                      .domain = NC_MICROSOFT,
                                      .doc = "Self-attention of the input's product with packed weights.",
                                      .versions = versions,
                                      .own = &(const self_kind){.mask = 3, .past = 4, .bias = 5, .past_length = 6},
                                      .no_grad_in = 1u << 3 | 1u << 6,
                                      .infer = self_infer,
                                      .decompose = self_decompose};
const nc_card nc_card_qattention = {.name = "QAttention",
                                    .domain = NC_MICROSOFT,
                                    .doc = "Self-attention of 8-bit input and weights.",
                                    .versions = quantized_versions,
                                    .own = &(const self_kind){.mask = 5, .past = 8, .quantized = true},
                                    .zero_grad = true,
                                    .infer = self_infer,
                                    .decompose = self_decompose};
