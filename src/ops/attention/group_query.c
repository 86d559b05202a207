/* ops/attention/group_query.c: the card of GroupQueryAttention (com.microsoft): what decoders of language models are
 * exported with. Queries and keys are normalized and turned on demand, then group_query_cache.c does the rest. */
#include "ops/attention/group_query.h"

enum {
    QUERY = NC_GQ_QUERY,
    KEY = NC_GQ_KEY,
    VALUE = NC_GQ_VALUE,
    PAST_K = NC_GQ_PAST_K,
    PAST_V = NC_GQ_PAST_V,
    LENGTHS = NC_GQ_LENGTHS,
    TOTAL = NC_GQ_TOTAL,
    COS = NC_GQ_COS,
    SIN = NC_GQ_SIN,
    POSITIONS = NC_GQ_POSITIONS,
    BIAS = NC_GQ_BIAS,
    SINK = NC_GQ_SINK,
    Q_NORM = NC_GQ_Q_NORM,
    K_NORM = NC_GQ_K_NORM
};

/* ---- inference ---- */

static bool has(const nc_infer *c, int i) { return i < c->node->n_in && c->node->in[i] != NULL; }

static nc_code check_options(nc_infer *c) {
    const nc_node *n = c->node;
    int64_t heads = nc_attr_int(n, "num_heads"), kv = nc_attr_int(n, "kv_num_heads"), qk = nc_attr_int(n, "qk_output");
    if (heads < 1 || kv < 1 || heads % kv != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "num_heads %lld do not share kv_num_heads %lld evenly", (long long)heads,
                (long long)kv);
    if (qk < 0 || qk > 2) NC_FAIL(c->w, NC_E_BAD_GRAPH, "qk_output is %lld, expected 0 to 2", (long long)qk);
    if (has(c, KEY) != has(c, VALUE)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "key and value must come together");
    if (has(c, PAST_K) != has(c, PAST_V)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_key and past_value must come together");
    if (has(c, Q_NORM) != has(c, K_NORM))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "q_norm_weight and k_norm_weight must come together");
    if (nc_contrib_int(n, "do_rotary", 0) != 0 && (!has(c, COS) || !has(c, SIN)))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "do_rotary is 1: cos_cache and sin_cache are needed");
    return nc_gq_check_cache(c);
}

/* The size of a head, from the columns of the query; NULL: not known. */
static nc_code head_size(nc_infer *c, const nc_dim **D) {
    int64_t heads = nc_attr_int(c->node, "num_heads"), kv = nc_attr_int(c->node, "kv_num_heads"), columns;
    int64_t parts = has(c, KEY) ? heads : heads + 2 * kv;
    const nc_dim *all = nc_in_dim(c, QUERY, 2);
    *D = NULL;
    if (all == NULL) return NC_OK;
    if (nc_dim_is_const(all, &columns) && columns % parts != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "query has %lld columns, which %lld heads do not divide", (long long)columns,
                (long long)parts);
    *D = nc_dim_floordiv(c->dims, all, nc_dim_const(c->dims, parts));
    return NC_OK;
}

/* Elements of the caches that a head of D numbers takes; NULL: not known. */
static const nc_dim *cache_columns(nc_infer *c, const nc_dim *D) {
    const nc_type *q = nc_in(c, QUERY);
    if (D == NULL || q == NULL) return NULL;
    int64_t part = nc_gq_cache_part(c->node, nc_gq_cache_type(c->node, q->elem));
    return nc_dim_floordiv(c->dims, D, nc_dim_const(c->dims, part));
}

static nc_code check_operands(nc_infer *c, const nc_dim *D) {
    const nc_dim *B = nc_in_dim(c, QUERY, 0), *S = nc_in_dim(c, QUERY, 1);
    const nc_dim *kv = nc_dim_const(c->dims, nc_attr_int(c->node, "kv_num_heads"));
    int rank;
    int64_t size;
    if (cache_columns(c, D) != D && D != NULL && nc_dim_is_const(D, &size) && size % 2 != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "heads have %lld columns, expected an even number: two codes share a byte",
                (long long)size);
    for (int i = KEY; i <= VALUE; i++) {
        if (!has(c, i)) continue;
        NC_TRY(nc_contrib_rank(c, i, 3));
        NC_TRY(nc_in_expect(c, i, 0, B));
        NC_TRY(nc_in_expect(c, i, 1, S));
        if (D != NULL) NC_TRY(nc_in_expect(c, i, 2, nc_dim_mul(c->dims, kv, D)));
    }
    for (int i = PAST_K; i <= PAST_V; i++) {
        const nc_dim *want[4] = {B, kv, nc_in_dim(c, PAST_K, 2), cache_columns(c, D)};
        if (!has(c, i)) continue;
        NC_TRY(nc_contrib_rank(c, i, 4));
        for (int k = 0; k < 4; k++) NC_TRY(nc_in_expect(c, i, k, want[k]));
    }
    if (nc_in_rank(c, LENGTHS, &rank) && rank > 0) NC_TRY(nc_in_expect(c, LENGTHS, 0, B));
    for (int i = COS; i <= SIN; i++)
        if (has(c, i)) NC_TRY(nc_contrib_rank(c, i, 2));
    if (has(c, POSITIONS)) NC_TRY(nc_contrib_rank(c, POSITIONS, 2));
    if (has(c, BIAS)) NC_TRY(nc_msattn_check_bias(c, BIAS, B, nc_attr_int(c->node, "num_heads"), S, NULL));
    if (has(c, SINK)) NC_TRY(nc_contrib_vector(c, SINK, nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"))));
    for (int i = Q_NORM; i <= K_NORM; i++)
        if (has(c, i)) NC_TRY(nc_contrib_vector(c, i, D));
    return NC_OK;
}

/* Rows of the caches afterwards. */
static const nc_dim *keys_of(nc_infer *c) {
    int n;
    const nc_dim *const *total = nc_in_elems(c, TOTAL, &n), *past = nc_in_dim(c, PAST_K, 2);
    bool known = total != NULL && n == 1 && total[0] != NULL;
    if (nc_gq_is_windowed(c->node)) return past != NULL ? past : nc_fresh(c, "rows");
    if (!known) return nc_fresh(c, "keys"); /* a symbol inside a formula could not be bound */
    return past != NULL ? nc_dim_max(c->dims, past, total[0]) : total[0];
}

static nc_code group_query_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, QUERY);
    const nc_dim *D;
    NC_TRY(check_options(c));
    NC_TRY(nc_contrib_rank(c, QUERY, 3));
    NC_TRY(head_size(c, &D));
    NC_TRY(check_operands(c, D));
    if (q == NULL) return NC_OK;
    nc_dtype cache = nc_gq_cache_type(c->node, q->elem);
    if (D == NULL) {
        for (int i = 0; i < 4; i++) NC_TRY(nc_out_unknown(c, i, i == 1 || i == 2 ? cache : q->elem, i == 0 ? 3 : 4));
        return NC_OK;
    }
    const nc_dim *heads = nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"));
    const nc_dim *kv = nc_dim_const(c->dims, nc_attr_int(c->node, "kv_num_heads")), *T = keys_of(c);
    const nc_dim *columns = cache_columns(c, D);
    NC_TRY(nc_out(c, 0, q->elem, 3, (const nc_dim *[]){q->dims[0], q->dims[1], nc_dim_mul(c->dims, heads, D)}));
    for (int i = 1; i < 3; i++) NC_TRY(nc_out(c, i, cache, 4, (const nc_dim *[]){q->dims[0], kv, T, columns}));
    return nc_out(c, 3, q->elem, 4, (const nc_dim *[]){q->dims[0], heads, q->dims[1], T});
}

/* ---- decomposition ---- */

/* Each head of x (B,S,heads*D) with mean square 1, times a weight (D). */
static nc_value *normalized(nc_builder *b, const nc_node *n, nc_value *x, nc_value *weight, int64_t heads) {
    int64_t tail[2] = {heads, -1};
    if (weight == NULL || b->code != NC_OK) return x;
    nc_value *shape[2] = {nc_attn_dims(b, x, 0, 2), nc_build_ints(b, tail, 2)};
    nc_value *in[2] = {nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, 2, 0)), weight};
    nc_attr eps = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "qk_norm_epsilon")};
    return nc_build_reshape_like(b, nc_build_attr1(b, "", "SimplifiedLayerNormalization", in, 2, &eps, 1), x);
}

/* Rows before the new ones in each batch: none in a prompt, whose rows are all there are. */
static nc_value *starts_of(nc_builder *b, const nc_node *n, nc_value *total) {
    int64_t all = -1;
    nc_value *lengths = nc_build1(b, "Reshape", 2, n->in[LENGTHS], nc_build_ints(b, &all, 1));
    nc_value *S = nc_contrib_size(b, n->in[QUERY], 1);
    nc_value *before = nc_build1(b, "Add", 2, nc_build_cast(b, lengths, NC_INT64), nc_build_int(b, 1));
    before = nc_build1(b, "Sub", 2, before, S);
    return nc_build1(b, "Where", 3, nc_build1(b, "Equal", 2, total, S), nc_build_int(b, 0), before);
}

/* Positions (B,S) that the node gives, or those behind the starts. */
static nc_value *positions(nc_builder *b, const nc_node *n, nc_value *starts) {
    int64_t zero = 0, one = 1;
    if (nc_contrib_in(n, POSITIONS) != NULL) return n->in[POSITIONS];
    nc_value *S = nc_build1(b, "Squeeze", 2, nc_contrib_size(b, n->in[QUERY], 1), nc_build_ints(b, &zero, 1));
    nc_value *row = nc_build1(b, "Range", 3, nc_build_int(b, 0), S, nc_build_int(b, 1));
    return nc_build1(b, "Add", 2, nc_build1(b, "Unsqueeze", 2, starts, nc_build_ints(b, &one, 1)), row);
}

static nc_code group_query_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t heads = nc_attr_int(n, "num_heads"), kv = nc_attr_int(n, "kv_num_heads");
    nc_value *qkv[3];
    if (n->in[QUERY]->type == NULL || n->in[QUERY]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    for (int i = 0; i < 3; i++) qkv[i] = nc_contrib_in(n, QUERY + i);
    if (qkv[1] == NULL) NC_TRY(nc_msattn_apart(b, n->in[QUERY], heads, kv, qkv));
    nc_value *total = nc_build_cast(b, nc_build1(b, "Reshape", 2, n->in[TOTAL], nc_build_ints(b, NULL, 0)), NC_INT64);
    nc_value *starts = starts_of(b, n, total);
    qkv[0] = normalized(b, n, qkv[0], nc_contrib_in(n, Q_NORM), heads);
    qkv[1] = normalized(b, n, qkv[1], nc_contrib_in(n, K_NORM), kv);
    if (nc_contrib_int(n, "do_rotary", 0) != 0) {
        nc_value *ids = positions(b, n, starts);
        int64_t in_turn = nc_contrib_int(n, "rotary_interleaved", 0);
        qkv[0] = nc_msattn_turned(b, qkv[0], n->in[COS], n->in[SIN], ids, heads, in_turn);
        qkv[1] = nc_msattn_turned(b, qkv[1], n->in[COS], n->in[SIN], ids, kv, in_turn);
    }
    if (b->code != NC_OK) return b->code;
    return nc_gq_attend(b, n, qkv, &(nc_gq_rows){.starts = starts, .total = total}, out);
}

#define T_CACHE (T_FLOAT_ALL | NC_BIT(NC_UINT8) | NC_BIT(NC_INT8) | NC_BIT(NC_FLOAT8E4M3FN))
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0), OPTIONAL}, {"value", SAME(0), OPTIONAL},
        {"past_key", T_CACHE, OPTIONAL}, {"past_value", T_CACHE, OPTIONAL}, {"seqlens_k", T_I32},
        {"total_sequence_length", T_I32}, {"cos_cache", SAME(0), OPTIONAL}, {"sin_cache", SAME(0), OPTIONAL},
        {"position_ids", T_I64, OPTIONAL}, {"attention_bias", SAME(0), OPTIONAL}, {"head_sink", SAME(0), OPTIONAL},
        {"k_scale", T_F32, OPTIONAL}, {"v_scale", T_F32, OPTIONAL}, {"q_norm_weight", SAME(0), OPTIONAL},
        {"k_norm_weight", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_key", T_CACHE, OPTIONAL}, {"present_value", T_CACHE, OPTIONAL},
         {"output_qk", SAME(0), OPTIONAL}),
     ATTR(A_INT_REQ("num_heads"), A_INT_REQ("kv_num_heads"), A_INT("causal", 1), A_FLOAT_OPT("scale"),
          A_FLOAT_OPT("softcap"), A_INT("local_window_size", -1), A_INT("sliding_window_cache", 0),
          A_INT_OPT("do_rotary"), A_INT_OPT("rotary_interleaved"), A_INT("smooth_softmax", -1), A_INT("qk_output", 0),
          A_STR("k_quant_type", "NONE"), A_STR("v_quant_type", "NONE"), A_INT_OPT("kv_cache_bit_width"),
          A_FLOAT("qk_norm_epsilon", 1e-6f))},
    {0}};

const nc_card nc_card_group_query_attention = {
    .name = "GroupQueryAttention",
    .domain = NC_MICROSOFT,
    .doc = "Attention over a cache of keys and values that several queries share, turned and normalized on demand.",
    .versions = versions,
    .host_in = 1u << TOTAL,
    .no_grad_in = 1u << LENGTHS | 1u << TOTAL | 1u << POSITIONS | 1u << NC_GQ_K_SCALE | 1u << NC_GQ_V_SCALE,
    .infer = group_query_infer,
    .decompose = group_query_decompose};
