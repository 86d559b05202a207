/* ops/attention/decoder_masked.c: the cards of DecoderMaskedSelfAttention and DecoderMaskedMultiHeadAttention
 * (com.microsoft): one new token, over caches that may have room beyond it and whose rows may have come from other
 * beams (contrib_cache.c). They are Attention of ai.onnx. */
#include "ops/attention/contrib.h"

/* Where the operands stand; 0: there is none. past_v 0: past_k holds keys, then values. */
typedef struct masked_kind {
    int weights, key, value, bias, mask, past_k, past_v, attention_bias, length, beams, indirection;
} masked_kind;

enum { X };

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static bool has(const nc_infer *c, int i) { return i > 0 && i < c->node->n_in && c->node->in[i] != NULL; }

static bool shares(const nc_node *n) { return nc_contrib_int(n, "past_present_share_buffer", 0) != 0; }

/* ---- inference ---- */

static nc_code check_options(nc_infer *c, const masked_kind *kind) {
    NC_TRY(nc_msattn_check_heads(c, "num_heads", NULL, ""));
    NC_TRY(nc_contrib_rank(c, X, 3));
    NC_TRY(nc_in_expect(c, X, 1, nc_dim_const(c->dims, 1)));
    if (kind->weights > 0 && nc_contrib_int(c->node, "do_rotary", 0) != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "do_rotary is 1, expected 0 and a RotaryEmbedding of its own");
    if (has(c, kind->past_k) && shares(c->node) && !has(c, kind->length))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_present_share_buffer is 1: past_sequence_length is needed");
    if (has(c, kind->indirection) != has(c, kind->beams))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "beam_width and cache_indirection must come together");
    NC_TRY(nc_contrib_rank(c, kind->mask, 2));
    return nc_contrib_rank(c, kind->indirection, 3);
}

/* Rows of the caches afterwards; NULL: not known. */
static const nc_dim *rows_of(nc_infer *c, const nc_dim *past) {
    if (past == NULL || shares(c->node)) return past;
    return nc_dim_add(c->dims, past, nc_dim_const(c->dims, 1));
}

static nc_code self_infer(nc_infer *c) {
    const masked_kind *kind = c->node->card->own;
    const nc_type *x = nc_in(c, X), *past = nc_in(c, kind->past_k);
    NC_TRY(check_options(c, kind));
    NC_TRY(nc_contrib_rank(c, kind->weights, 2));
    NC_TRY(nc_contrib_rank(c, kind->past_k, 5));
    const nc_dim *all = nc_in_dim(c, kind->weights, 1);
    NC_TRY(nc_in_expect(c, kind->weights, 0, nc_in_dim(c, X, 2)));
    NC_TRY(nc_contrib_vector(c, kind->bias, all));
    if (x == NULL) return NC_OK;
    if (x->rank < 0 || all == NULL || past == NULL || past->rank < 0) {
        NC_TRY(nc_out_unknown(c, 0, x->elem, 3));
        return nc_out_unknown(c, 1, x->elem, 5);
    }
    const nc_dim *columns = nc_dim_floordiv(c->dims, all, nc_dim_const(c->dims, 3));
    NC_TRY(nc_msattn_check_heads(c, "num_heads", columns, "a third of weights"));
    NC_TRY(nc_out(c, 0, x->elem, 3, (const nc_dim *[]){x->dims[0], x->dims[1], columns}));
    const nc_dim *T = rows_of(c, past->dims[3]);
    return nc_out(c, 1, x->elem, 5, (const nc_dim *[]){past->dims[0], past->dims[1], past->dims[2], T, past->dims[4]});
}

/* Columns of queries and of values; NULL: not known. */
static nc_code columns_of(nc_infer *c, const masked_kind *kind, const nc_dim **Dq, const nc_dim **Dv) {
    int rank;
    *Dq = nc_in_dim(c, X, 2), *Dv = NULL;
    const nc_dim *heads = nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"));
    if (has(c, kind->key) != has(c, kind->value)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "key and value must come together");
    if (!has(c, kind->key)) {
        if (*Dq != NULL) *Dv = *Dq = nc_dim_floordiv(c->dims, *Dq, nc_dim_const(c->dims, 3));
        return NC_OK;
    }
    if (!nc_in_rank(c, kind->value, &rank)) return NC_OK;
    if (rank != 3 && rank != 4) NC_FAIL(c->w, NC_E_SHAPE, "value has %d dims, expected 3 or 4", rank);
    if (rank == 4 && has(c, kind->past_k))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_key is given, expected none: key has heads first and holds all keys");
    *Dv = rank == 3 ? nc_in_dim(c, kind->value, 2) : nc_dim_mul(c->dims, heads, nc_in_dim(c, kind->value, 3));
    return NC_OK;
}

static nc_code multi_infer(nc_infer *c) {
    const masked_kind *kind = c->node->card->own;
    const nc_type *x = nc_in(c, X);
    const nc_dim *Dq, *Dv, *H = nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"));
    int rank = 0;
    NC_TRY(check_options(c, kind));
    NC_TRY(columns_of(c, kind, &Dq, &Dv));
    if (has(c, kind->past_k) != has(c, kind->past_v))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_key and past_value must come together");
    if (x == NULL) return NC_OK;
    nc_dtype t = nc_msattn_scores_type(c->node, x->elem);
    const nc_dim *B = nc_in_dim(c, X, 0), *rows = NULL, *keys = NULL;
    if (nc_in_rank(c, kind->key, &rank) && rank == 4) keys = rows = nc_in_dim(c, kind->key, 2);
    if (has(c, kind->past_k)) rows = rows_of(c, nc_in_dim(c, kind->past_k, 2)), keys = shares(c->node) ? NULL : rows;
    if (rank != 4 && !has(c, kind->past_k)) keys = rows = nc_dim_const(c->dims, 1);
    if (B == NULL || Dv == NULL || rows == NULL) {
        for (int i = 0; i < 4; i++) NC_TRY(nc_out_unknown(c, i, i == 3 ? t : x->elem, i == 0 ? 3 : 4));
        return NC_OK;
    }
    if (keys == NULL) keys = nc_fresh(c, "keys");
    NC_TRY(nc_out(c, 0, x->elem, 3, (const nc_dim *[]){B, nc_dim_const(c->dims, 1), Dv}));
    for (int i = 1; i < 3; i++) {
        const nc_dim *D = nc_dim_floordiv(c->dims, i == 1 ? Dq : Dv, H);
        NC_TRY(nc_out(c, i, x->elem, 4, (const nc_dim *[]){B, H, rows, D}));
    }
    return nc_out(c, 3, t, 4, (const nc_dim *[]){B, H, nc_dim_const(c->dims, 1), keys});
}

/* ---- decomposition ---- */

/* q, k and v (B,1,columns), biased; keys and values with heads first stay as they are. */
static nc_code operands(nc_builder *b, const nc_node *n, const masked_kind *kind, nc_value **qkv) {
    nc_value *x = n->in[X], *bias = nc_contrib_in(n, kind->bias);
    nc_attr how[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 3}};
    if (kind->weights > 0) x = nc_contrib_add(b, nc_build1(b, "MatMul", 2, x, n->in[kind->weights]), bias);
    if (kind->weights > 0) bias = NULL;
    if (kind->weights > 0 || nc_contrib_in(n, kind->key) == NULL) {
        nc_node *parts = nc_build(b, "", "Split", &x, 1, 3, how, 2);
        for (int i = 0; parts != NULL && i < 3; i++) qkv[i] = parts->out[i];
    } else {
        qkv[0] = x, qkv[1] = n->in[kind->key], qkv[2] = n->in[kind->value];
    }
    if (bias == NULL || b->code != NC_OK) return b->code;
    nc_value *Dq = nc_contrib_size(b, qkv[0], 2), *two = nc_build1(b, "Add", 2, Dq, Dq);
    nc_value *rest = nc_build1(b, "Sub", 2, nc_contrib_size(b, bias, 0), two);
    nc_value *in[2] = {bias, nc_attn_join(b, (nc_value *[]){Dq, Dq, rest}, 3, 0)};
    how[0].i = 0;
    nc_node *parts = nc_build(b, "", "Split", in, 2, 3, how, 1);
    for (int i = 0; parts != NULL && i < 3; i++)
        if (qkv[i]->type->rank == 3) qkv[i] = nc_build1(b, "Add", 2, qkv[i], parts->out[i]);
    return b->code;
}

static nc_code masked_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const masked_kind *kind = n->card->own;
    nc_value *qkv[3], *past[2], *present[2], *whole = nc_contrib_in(n, kind->past_k);
    if (n->in[X]->type == NULL || n->in[X]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    NC_TRY(operands(b, n, kind, qkv));
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    for (int i = 0; i < 2; i++) {
        nc_value *half[2] = {whole, nc_build_int(b, i)};
        past[i] = kind->past_v > 0 ? nc_contrib_in(n, i == 0 ? kind->past_k : kind->past_v)
                                   : nc_build_attr1(b, "", "Gather", half, 2, &first, 1);
    }
    nc_msattn a = {.past_k = past[0], .past_v = past[1], .heads = nc_attr_int(n, "num_heads"), .node = n};
    a.q = nc_attn_to_heads(b, qkv[0], a.heads);
    present[0] = a.k = nc_attn_to_heads(b, qkv[1], a.heads), present[1] = a.v = nc_attn_to_heads(b, qkv[2], a.heads);
    NC_TRY(b->code);
    nc_value *keys = nc_contrib_size(b, a.k, 2), *length = shares(n) ? nc_contrib_in(n, kind->length) : NULL;
    if (past[0] != NULL)
        NC_TRY(nc_msattn_cached(b, &a, length, nc_contrib_in(n, kind->indirection), &keys, present));
    nc_value *mask = nc_contrib_in(n, kind->mask), *bias = nc_contrib_in(n, kind->attention_bias);
    if (mask != NULL) a.bias = nc_msattn_mask(b, n, mask, qkv[0], keys);
    if (bias != NULL) a.bias = nc_contrib_add(b, bias, a.bias);
    nc_node *attention = nc_msattn_build(b, &a, (const bool[]){true, false, false, nc_contrib_wants(n, 3)});
    if (attention == NULL) return b->code;
    out[0] = nc_attn_from_heads(b, attention->out[0]);
    if (kind->past_v == 0) {
        nc_value *both[2] = {nc_build1(b, "Unsqueeze", 2, present[0], one(b, 0)),
                             nc_build1(b, "Unsqueeze", 2, present[1], one(b, 0))};
        out[1] = nc_attn_join(b, both, 2, 0);
        return b->code;
    }
    for (int i = 1; i < 3; i++)
        if (nc_contrib_wants(n, i)) out[i] = present[i - 1];
    if (nc_contrib_wants(n, 3)) out[3] = nc_msattn_scores(b, n, attention->out[3], keys);
    return b->code;
}

/* ---- cards ---- */

#define BEAMS \
    {"beam_width", T_I32, OPTIONAL}, { "cache_indirection", T_I32, OPTIONAL }
#define OPTIONS                                                                                       \
    A_INT_REQ("num_heads"), A_INT_OPT("past_present_share_buffer"), A_FLOAT_OPT("mask_filter_value"), \
        A_FLOAT_OPT("scale")
static const nc_op_version self_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"weights", SAME(0)}, {"bias", SAME(0)}, {"mask_index", T_I32, OPTIONAL},
        {"past", SAME(0)}, {"attention_bias", SAME(0), OPTIONAL}, {"past_sequence_length", T_I32}, BEAMS),
     OUT({"output", SAME(0)}, {"present", SAME(0)}),
     ATTR(OPTIONS, A_INT_OPT("do_rotary"))},
    {0}};
static const nc_op_version multi_versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0), OPTIONAL}, {"value", SAME(0), OPTIONAL},
        {"mask_index", T_I32, OPTIONAL}, {"attention_bias", SAME(0), OPTIONAL}, {"past_key", SAME(0), OPTIONAL},
        {"past_value", SAME(0), OPTIONAL}, {"past_sequence_length", T_I32, OPTIONAL}, BEAMS,
        {"bias", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_key", SAME(0), OPTIONAL}, {"present_value", SAME(0), OPTIONAL},
         {"qk", T_FLOAT_ALL, OPTIONAL}),
     ATTR(OPTIONS, A_INT_OPT("output_qk"))},
    {0}};

const nc_card nc_card_decoder_masked_self_attention = {.name = "DecoderMaskedSelfAttention",
                                                       .domain = NC_MICROSOFT,
                                                       .doc = "Self-attention of one new token, over a cache.",
                                                       .versions = self_versions,
                                                       .own = &(const masked_kind){.weights = 1,
                                                                                   .bias = 2,
                                                                                   .mask = 3,
                                                                                   .past_k = 4,
                                                                                   .attention_bias = 5,
                                                                                   .length = 6,
                                                                                   .beams = 7,
                                                                                   .indirection = 8},
                                                       .host_in = 1u << 6,
                                                       .no_grad_in = 1u << 3 | 7u << 6,
                                                       .infer = self_infer,
                                                       .decompose = masked_decompose};
const nc_card nc_card_decoder_masked_multi_head_attention = {
    .name = "DecoderMaskedMultiHeadAttention",
    .domain = NC_MICROSOFT,
    .doc = "Attention of one new token, over a cache or over given keys.",
    .versions = multi_versions,
    .own = &(const masked_kind){.key = 1,
                                .value = 2,
                                .mask = 3,
                                .attention_bias = 4,
                                .past_k = 5,
                                .past_v = 6,
                                .length = 7,
                                .beams = 8,
                                .indirection = 9,
                                .bias = 10},
    .host_in = 1u << 7,
    .no_grad_in = 1u << 3 | 7u << 7,
    .infer = multi_infer,
    .decompose = masked_decompose};
