/* ops/attention/decoder_masked.c: the cards of DecoderMaskedSelfAttention and DecoderMaskedMultiHeadAttention
 * (com.microsoft): one new token, over caches that may have room beyond it and whose rows may have come from other
 * beams. They are TensorScatter and Attention of ai.onnx. */
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

/* The type that the model declares for the scores, or the query's. */
static nc_dtype scores_type(const nc_node *n, nc_dtype t) {
    const nc_value *v = n->n_out > 3 ? n->out[3] : NULL;
    return v != NULL && v->type != NULL && v->type->elem != NC_UNDEFINED ? v->type->elem : t;
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
    nc_dtype t = scores_type(c->node, x->elem);
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

typedef struct caches {
    nc_value *k, *v;           /* (B,heads,rows,D), with the new token */
    nc_value *keys;            /* rank 1: how many of the rows there are */
    nc_value *k_seen, *v_seen; /* those rows, each from its beam */
} caches;

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

static nc_value *counted(nc_builder *b, nc_value *n) {
    nc_value *scalar = nc_build1(b, "Squeeze", 2, n, one(b, 0));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

/* Rows of x (B*beams,heads,T,D), row k of each beam taken from the beam that `from` (B,beams,most) names; the last row,
 * which is new, from its own. */
static nc_value *from_beams(nc_builder *b, nc_value *x, nc_value *from) {
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (from == NULL || b->code != NC_OK) return x;
    nc_value *beams = nc_contrib_size(b, from, 1), *T = nc_contrib_size(b, x, 2);
    nc_value *group = counted(b, nc_contrib_size(b, from, 0));
    group = nc_build1(b, "Unsqueeze", 2, nc_build1(b, "Mul", 2, group, beams), nc_build_ints(b, (int64_t[]){1, 2}, 2));
    from = nc_build1(b, "Slice", 4, nc_build_cast(b, from, NC_INT64), one(b, 0), T, one(b, 2));
    nc_value *old = nc_build1(b, "Less", 2, counted(b, T), nc_build1(b, "Sub", 2, T, one(b, 1)));
    nc_value *self = nc_build1(b, "Unsqueeze", 2, counted(b, beams), one(b, 1));
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Where", 3, old, from, self), group);
    nc_value *rows[2] = {nc_contrib_size(b, x, 0), T};
    at = nc_build1(b, "Reshape", 2, at, nc_attn_join(b, rows, 2, 0));
    at = nc_build1(b, "Unsqueeze", 2, at, nc_build_ints(b, (int64_t[]){1, 3}, 2));
    nc_value *in[2] = {x, nc_build1(b, "Expand", 2, at, nc_build_shape(b, x))};
    return nc_build_attr1(b, "", "GatherElements", in, 2, &first, 1);
}

/* past, or past with one row more, and x (B,heads,1,D) in its row `at` (rank 1). */
static nc_value *written(nc_builder *b, const nc_node *n, nc_value *past, nc_value *x, nc_value *at) {
    if (!shares(n)) return nc_attn_join(b, (nc_value *[]){past, x}, 2, 2);
    nc_value *in[3] = {past, x, nc_build1(b, "Expand", 2, at, nc_contrib_size(b, x, 0))};
    return nc_build_newest1(b, "TensorScatter", in, 3, NULL, 0);
}

static nc_code caches_of(nc_builder *b, const nc_node *n, const masked_kind *kind, nc_value *const *past,
                         nc_value *const *qkv, caches *c) {
    nc_value *length = nc_contrib_in(n, kind->length), *from = nc_contrib_in(n, kind->indirection);
    int64_t heads = nc_attr_int(n, "num_heads");
    c->k = nc_attn_to_heads(b, qkv[1], heads), c->v = nc_attn_to_heads(b, qkv[2], heads);
    if (b->code != NC_OK) return b->code;
    c->keys = nc_contrib_size(b, c->k, 2);
    c->k_seen = c->k, c->v_seen = c->v;
    if (past[0] == NULL) return b->code;
    nc_value *at = shares(n) ? nc_build_cast(b, nc_build1(b, "Reshape", 2, length, one(b, 1)), NC_INT64)
                             : nc_contrib_size(b, past[0], 2);
    c->keys = nc_build1(b, "Add", 2, at, nc_build_int(b, 1));
    c->k = written(b, n, past[0], c->k, at), c->v = written(b, n, past[1], c->v, at);
    c->k_seen = from_beams(b, nc_build1(b, "Slice", 4, c->k, one(b, 0), c->keys, one(b, 2)), from);
    c->v_seen = from_beams(b, nc_build1(b, "Slice", 4, c->v, one(b, 0), c->keys, one(b, 2)), from);
    return b->code;
}

static nc_code masked_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const masked_kind *kind = n->card->own;
    nc_value *qkv[3], *past[2], *whole = nc_contrib_in(n, kind->past_k);
    caches c = {0};
    if (n->in[X]->type == NULL || n->in[X]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    NC_TRY(operands(b, n, kind, qkv));
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    for (int i = 0; i < 2; i++) {
        nc_value *half[2] = {whole, nc_build_int(b, i)};
        past[i] = kind->past_v > 0 ? nc_contrib_in(n, i == 0 ? kind->past_k : kind->past_v)
                                   : nc_build_attr1(b, "", "Gather", half, 2, &first, 1);
    }
    NC_TRY(caches_of(b, n, kind, past, qkv, &c));
    nc_msattn a = {.k = c.k_seen, .v = c.v_seen, .heads = nc_attr_int(n, "num_heads"), .node = n};
    a.q = nc_attn_to_heads(b, qkv[0], a.heads);
    nc_value *mask = nc_contrib_in(n, kind->mask), *bias = nc_contrib_in(n, kind->attention_bias);
    if (mask != NULL) a.bias = nc_msattn_mask(b, n, mask, qkv[0], c.keys);
    if (bias != NULL) a.bias = nc_contrib_add(b, bias, a.bias);
    nc_node *attention = nc_msattn_build(b, &a, (const bool[]){true, false, false, nc_contrib_wants(n, 3)});
    if (attention == NULL) return b->code;
    out[0] = nc_attn_from_heads(b, attention->out[0]);
    if (kind->past_v == 0) {
        nc_value *both[2] = {nc_build1(b, "Unsqueeze", 2, c.k, one(b, 0)),
                             nc_build1(b, "Unsqueeze", 2, c.v, one(b, 0))};
        out[1] = nc_attn_join(b, both, 2, 0);
        return b->code;
    }
    if (nc_contrib_wants(n, 1)) out[1] = c.k;
    if (nc_contrib_wants(n, 2)) out[2] = c.v;
    if (nc_contrib_wants(n, 3)) out[3] = nc_build_cast(b, attention->out[3], scores_type(n, a.q->type->elem));
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
