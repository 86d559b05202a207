/* ops/attention/paged.c: the card of PagedAttention (com.microsoft): tokens of several sequences one behind the other,
 * and caches whose rows lie in blocks that a table gives to sequences. New rows are written where the table, or a list
 * of places, says; then the rows of each sequence are put side by side, its tokens too, and nacre.CachedAttention does
 * the rest. Letters: T tokens, B sequences, S tokens of the longest, L rows that the table has for a sequence. */
#include "ops/attention/contrib.h"

#include <math.h>
#include <string.h>

enum {
    QUERY,
    KEY,
    VALUE,
    KEY_CACHE,
    VALUE_CACHE,
    ENDS,
    PAST,
    TABLE,
    COS,
    SIN,
    SLOTS,
    SINK,
    Q_NORM,
    K_NORM,
    K_SCALE,
    V_SCALE,
    METADATA
};

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static bool has(const nc_infer *c, int i) { return i < c->node->n_in && c->node->in[i] != NULL; }

/* ---- inference ---- */

/* Kinds of caches that are not known here: codes, and keys that hold the values too. */
static nc_code check_kind(nc_infer *c) {
    static const char *const attrs[2] = {"k_quant_type", "v_quant_type"};
    const nc_node *n = c->node;
    for (int i = 0; i < 2; i++)
        if (strcmp(nc_attr_str(n, attrs[i]), "NONE") != 0 || has(c, K_SCALE + i))
            NC_FAIL(c->w, NC_E_UNSUPPORTED, "%s is %.20s, expected NONE and no scales", attrs[i],
                    nc_attr_str(n, attrs[i]));
    if (strcmp(nc_attr_str(n, "kv_cache_layout"), "SEPARATE") != 0 || !has(c, VALUE_CACHE))
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "kv_cache_layout is %.20s, expected SEPARATE and a value_cache",
                nc_attr_str(n, "kv_cache_layout"));
    if (nc_contrib_int(n, "rotary_offset", 0) != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "rotary_offset is %lld, expected 0",
                (long long)nc_contrib_int(n, "rotary_offset", 0));
    return NC_OK;
}

static nc_code check_operands(nc_infer *c) {
    static const struct {
        int i, rank;
    } want[] = {{QUERY, 2}, {KEY, 2},   {VALUE, 2}, {KEY_CACHE, 4}, {VALUE_CACHE, 4}, {ENDS, 1},
                {PAST, 1},  {TABLE, 2}, {COS, 2},   {SIN, 2},       {SLOTS, 1}};
    const nc_dim *T = nc_in_dim(c, QUERY, 0), *B = nc_in_dim(c, TABLE, 0);
    for (size_t k = 0; k < sizeof want / sizeof want[0]; k++) NC_TRY(nc_contrib_rank(c, want[k].i, want[k].rank));
    for (int i = KEY; i <= VALUE; i++)
        if (has(c, i)) NC_TRY(nc_in_expect(c, i, 0, T));
    for (int i = KEY_CACHE; i <= VALUE_CACHE; i++)
        NC_TRY(nc_in_expect(c, i, 2, nc_dim_const(c->dims, nc_attr_int(c->node, "kv_num_heads"))));
    NC_TRY(nc_in_expect(c, PAST, 0, B));
    if (has(c, SLOTS)) NC_TRY(nc_in_expect(c, SLOTS, 0, T));
    return nc_contrib_vector(c, SINK, nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads")));
}

static nc_code paged_infer(nc_infer *c) {
    const nc_node *n = c->node;
    const nc_type *q = nc_in(c, QUERY);
    int64_t heads = nc_attr_int(n, "num_heads"), kv = nc_attr_int(n, "kv_num_heads"), columns;
    int64_t parts = has(c, KEY) ? heads : heads + 2 * kv;
    if (heads < 1 || kv < 1 || heads % kv != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "num_heads %lld do not share kv_num_heads %lld evenly", (long long)heads,
                (long long)kv);
    if (has(c, KEY) != has(c, VALUE)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "key and value must come together");
    if (has(c, Q_NORM) != has(c, K_NORM))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "q_norm_weight and k_norm_weight must come together");
    if (nc_contrib_int(n, "do_rotary", 0) != 0 && (!has(c, COS) || !has(c, SIN)))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "do_rotary is 1: cos_cache and sin_cache are needed");
    NC_TRY(check_kind(c));
    NC_TRY(check_operands(c));
    if (q == NULL) return NC_OK;
    NC_TRY(nc_out_like(c, 1, KEY_CACHE));
    NC_TRY(nc_out_like(c, 2, VALUE_CACHE));
    if (q->rank < 0) return nc_out_unknown(c, 0, q->elem, 2);
    if (nc_dim_is_const(q->dims[1], &columns) && columns % parts != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "query has %lld columns, which %lld heads do not divide", (long long)columns,
                (long long)parts);
    const nc_dim *D = nc_dim_floordiv(c->dims, q->dims[1], nc_dim_const(c->dims, parts));
    return nc_out(c, 0, q->elem, 2,
                  (const nc_dim *[]){q->dims[0], nc_dim_mul(c->dims, nc_dim_const(c->dims, heads), D)});
}

/* ---- where tokens and rows are ---- */

typedef struct places {
    nc_value *first, *lengths, *past; /* (B): the first token, how many there are, rows before them */
    nc_value *sequence, *position;    /* (T): whose a token is, and at which position */
    nc_value *size;                   /* rank 1: rows in a block */
} places;

static nc_value *counted(nc_builder *b, nc_value *n) {
    nc_value *scalar = nc_build1(b, "Reshape", 2, n, nc_build_ints(b, NULL, 0));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

static places places_of(nc_builder *b, const nc_node *n) {
    nc_value *ends = nc_build_cast(b, n->in[ENDS], NC_INT64), *zero = one(b, 0);
    nc_value *last = nc_build1(b, "Slice", 4, ends, one(b, 1), nc_contrib_size(b, ends, 0), zero);
    places p = {.first = nc_build1(b, "Slice", 4, ends, zero, one(b, -1), zero),
                .past = nc_build_cast(b, n->in[PAST], NC_INT64),
                .size = nc_contrib_size(b, n->in[KEY_CACHE], 1)};
    p.lengths = nc_build1(b, "Sub", 2, last, p.first);
    nc_value *token = counted(b, nc_contrib_size(b, n->in[QUERY], 0));
    nc_value *over = nc_build1(b, "LessOrEqual", 2, last, nc_build1(b, "Unsqueeze", 2, token, one(b, 1)));
    p.sequence = nc_build_reduce_sum(b, nc_build_cast(b, over, NC_INT64), (int64_t[]){1}, 1, false);
    nc_value *shift = nc_build1(b, "Gather", 2, nc_build1(b, "Sub", 2, p.past, p.first), p.sequence);
    p.position = nc_build1(b, "Add", 2, token, shift);
    return p;
}

/* Which row of a cache the table has for each new token, (T,1). */
static nc_value *slots_of(nc_builder *b, const nc_node *n, const places *p) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    nc_value *block = nc_build1(b, "Div", 2, p->position, p->size);
    nc_value *in[2] = {nc_build1(b, "Unsqueeze", 2, p->sequence, one(b, 1)),
                       nc_build1(b, "Unsqueeze", 2, block, one(b, 1))};
    nc_value *which = nc_build_cast(b, n->in[TABLE], NC_INT64);
    which = nc_build1(b, "GatherND", 2, which, nc_build_attr1(b, "", "Concat", in, 2, &axis, 1));
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, which, p->size),
                             nc_build1(b, "Sub", 2, p->position, nc_build1(b, "Mul", 2, block, p->size)));
    return nc_build1(b, "Unsqueeze", 2, at, one(b, 1));
}

/* Slots that are given, (T,1); what is not to be written gets the row behind the last. */
static nc_value *given_slots(nc_builder *b, const nc_node *n, const places *p) {
    nc_value *at = nc_build_cast(b, n->in[SLOTS], NC_INT64), *all = nc_contrib_size(b, n->in[KEY_CACHE], 0);
    nc_value *skip = nc_build1(b, "Less", 2, at, nc_build_int(b, 0));
    at = nc_build1(b, "Where", 3, skip, nc_build1(b, "Mul", 2, all, p->size), at);
    return nc_build1(b, "Unsqueeze", 2, at, one(b, 1));
}

/* Rows (T,kv*D) of a cache at slots (T,1), of the shape of x. */
static nc_value *rows_at(nc_builder *b, nc_value *cache, nc_value *slots, nc_value *x) {
    nc_value *shape[2] = {one(b, -1), nc_attn_dims(b, cache, 2, 4)};
    nc_value *flat = nc_build1(b, "Reshape", 2, cache, nc_attn_join(b, shape, 2, 0));
    return nc_build_reshape_like(b, nc_build1(b, "GatherND", 2, flat, slots), x);
}

/* The cache (blocks,size,kv,D) with rows x (T,kv*D) at slots (T,1). */
static nc_value *written(nc_builder *b, nc_value *cache, nc_value *x, nc_value *slots) {
    nc_value *row = nc_attn_dims(b, cache, 2, 4);
    nc_value *shape[2] = {one(b, -1), row};
    nc_value *flat = nc_build1(b, "Reshape", 2, cache, nc_attn_join(b, shape, 2, 0));
    nc_value *more[2] = {one(b, 1), row};
    nc_value *none = nc_build1(b, "Expand", 2, nc_build_scalar(b, cache->type->elem, 0), nc_attn_join(b, more, 2, 0));
    nc_value *room = nc_attn_join(b, (nc_value *[]){flat, none}, 2, 0);
    nc_value *rows[2] = {nc_contrib_size(b, x, 0), row};
    nc_value *in[3] = {room, slots, nc_build1(b, "Reshape", 2, x, nc_attn_join(b, rows, 2, 0))};
    nc_value *all = nc_build_attr1(b, "", "ScatterND", in, 3, NULL, 0);
    all = nc_build1(b, "Slice", 4, all, one(b, 0), nc_contrib_size(b, flat, 0), one(b, 0));
    return nc_build_reshape_like(b, all, cache);
}

/* The rows of each sequence side by side, (B,kv,L,D). */
static nc_value *gathered(nc_builder *b, const nc_node *n, nc_value *cache) {
    nc_value *blocks = nc_build1(b, "Gather", 2, cache, n->in[TABLE]); /* (B,blocks,size,kv,D) */
    nc_value *shape[3] = {nc_contrib_size(b, blocks, 0), one(b, -1), nc_attn_dims(b, cache, 2, 4)};
    nc_value *rows = nc_build1(b, "Reshape", 2, blocks, nc_attn_join(b, shape, 3, 0));
    return nc_build_transpose(b, rows, (int64_t[]){0, 2, 1, 3}, 4);
}

/* ---- attention ---- */

/* Each head of x (T,heads*D) with mean square 1, times a weight (D). */
static nc_value *normalized(nc_builder *b, const nc_node *n, nc_value *x, nc_value *weight, int64_t heads) {
    if (weight == NULL || b->code != NC_OK) return x;
    nc_value *shape[2] = {nc_contrib_size(b, x, 0), nc_build_ints(b, (int64_t[]){heads, -1}, 2)};
    nc_value *in[2] = {nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, 2, 0)), weight};
    nc_attr eps = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_contrib_float(n, "qk_norm_epsilon", 1e-6)};
    return nc_build_reshape_like(b, nc_build_attr1(b, "", "SimplifiedLayerNormalization", in, 2, &eps, 1), x);
}

static nc_value *turned(nc_builder *b, const nc_node *n, nc_value *x, const places *p, int64_t heads) {
    nc_value *zero = one(b, 0), *ids = nc_build1(b, "Unsqueeze", 2, p->position, zero);
    nc_value *y = nc_msattn_turned(b, nc_build1(b, "Unsqueeze", 2, x, zero), n->in[COS], n->in[SIN], ids, heads,
                                   nc_contrib_int(n, "rotary_interleaved", 0));
    return nc_build1(b, "Squeeze", 2, y, zero);
}

/* Keys that are there, of each sequence, where no order hides those behind: (B,1,S,rows). */
static nc_value *there(nc_builder *b, const places *p, nc_value *S, nc_value *rows, nc_dtype t) {
    nc_value *end = nc_build1(b, "Add", 2, p->past, p->lengths);
    end = nc_build1(b, "Reshape", 2, end, nc_build_ints(b, (int64_t[]){-1, 1, 1, 1}, 4));
    nc_value *bias = nc_build1(b, "Where", 3, nc_build1(b, "Less", 2, counted(b, rows), end), nc_build_scalar(b, t, 0),
                               nc_build_scalar(b, t, -(double)INFINITY));
    nc_value *shape[3] = {nc_contrib_size(b, p->past, 0), one(b, 1), nc_attn_join(b, (nc_value *[]){S, rows}, 2, 0)};
    return nc_build1(b, "Expand", 2, bias, nc_attn_join(b, shape, 3, 0));
}

static nc_value *attended(nc_builder *b, const nc_node *n, nc_value *const *qkv, nc_value *const *caches,
                          const places *p) {
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    int64_t window = nc_attr_int(n, "local_window_size"), causal = nc_attr_int(n, "is_causal");
    nc_value *S = nc_build_attr1(b, "", "ReduceMax", (nc_value *[]){p->lengths}, 1, &keep, 1), *zero = one(b, 0);
    nc_value *last = nc_build1(b, "Sub", 2, nc_contrib_size(b, n->in[QUERY], 0), nc_build_int(b, 1));
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Unsqueeze", 2, p->first, one(b, 1)), counted(b, S));
    at = nc_build1(b, "Min", 2, at, last);
    nc_value *in[9] = {NULL};
    for (int i = 0; i < 3; i++) in[i] = nc_build1(b, "Gather", 2, qkv[i], at);
    for (int i = 0; i < 2; i++) in[5 + i] = gathered(b, n, caches[i]);
    if (b->code != NC_OK) return NULL;
    nc_value *most = nc_build_attr1(b, "", "ReduceMax", (nc_value *[]){p->past}, 1, &keep, 1);
    nc_value *rows = nc_build1(b, "Max", 2, nc_build1(b, "Add", 2, most, S), nc_contrib_size(b, in[5], 2));
    in[3] = p->past, in[4] = nc_build1(b, "Squeeze", 2, rows, zero);
    in[7] = causal ? NULL : there(b, p, S, rows, qkv[0]->type->elem);
    in[8] = nc_contrib_in(n, SINK);
    nc_attr attrs[6] = {{.name = "q_num_heads", .kind = NC_A_INT, .i = nc_attr_int(n, "num_heads")},
                        {.name = "kv_num_heads", .kind = NC_A_INT, .i = nc_attr_int(n, "kv_num_heads")},
                        {.name = "left_window_size", .kind = NC_A_INT, .i = window > 0 ? window - 1 : -1},
                        {.name = "is_causal", .kind = NC_A_INT, .i = causal != 0},
                        {.name = "scale", .kind = NC_A_FLOAT, .f = (float)nc_contrib_float(n, "scale", 0)},
                        {.name = "softcap", .kind = NC_A_FLOAT, .f = (float)nc_contrib_float(n, "softcap", 0)}};
    nc_node *done =
        nc_build_wanted(b, "nacre", "CachedAttention", in, 9, (const bool[]){true, true, true}, 3, attrs, 6);
    if (done == NULL) return NULL;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    nc_value *row = nc_build1(b, "Sub", 2, p->position, nc_build1(b, "Gather", 2, p->past, p->sequence));
    nc_value *pair[2] = {nc_build1(b, "Unsqueeze", 2, p->sequence, one(b, 1)),
                         nc_build1(b, "Unsqueeze", 2, row, one(b, 1))};
    return nc_build1(b, "GatherND", 2, done->out[0], nc_build_attr1(b, "", "Concat", pair, 2, &axis, 1));
}

static nc_code paged_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t heads = nc_attr_int(n, "num_heads"), kv = nc_attr_int(n, "kv_num_heads");
    nc_value *qkv[3], *caches[2];
    if (n->in[QUERY]->type == NULL || n->in[QUERY]->type->rank < 0 || n->in[KEY_CACHE]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    for (int i = 0; i < 3; i++) qkv[i] = nc_contrib_in(n, QUERY + i);
    if (qkv[1] == NULL) NC_TRY(nc_msattn_apart(b, n->in[QUERY], heads, kv, qkv));
    places p = places_of(b, n);
    qkv[0] = normalized(b, n, qkv[0], nc_contrib_in(n, Q_NORM), heads);
    qkv[1] = normalized(b, n, qkv[1], nc_contrib_in(n, K_NORM), kv);
    if (nc_contrib_int(n, "do_rotary", 0) != 0) {
        qkv[0] = turned(b, n, qkv[0], &p, heads);
        qkv[1] = turned(b, n, qkv[1], &p, kv);
    }
    nc_value *slots = slots_of(b, n, &p);
    bool given = nc_contrib_in(n, SLOTS) != NULL;
    for (int i = 0; i < 2; i++) {
        caches[i] = written(b, n->in[KEY_CACHE + i], qkv[1 + i], given ? given_slots(b, n, &p) : slots);
        if (given) qkv[1 + i] = rows_at(b, caches[i], slots, qkv[1 + i]); /* of a token that is skipped, the cache's */
    }
    out[0] = attended(b, n, qkv, caches, &p);
    for (int i = 0; i < 2; i++)
        if (nc_contrib_wants(n, 1 + i)) out[1 + i] = caches[i];
    return b->code;
}

#define T_CACHE (T_FLOAT_ALL | NC_BIT(NC_UINT8) | NC_BIT(NC_INT8) | NC_BIT(NC_FLOAT8E4M3FN))
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0), OPTIONAL}, {"value", SAME(0), OPTIONAL}, {"key_cache", T_CACHE},
        {"value_cache", SAME(3), OPTIONAL}, {"cumulative_sequence_length", T_I32}, {"past_seqlens", T_I32},
        {"block_table", T_I32}, {"cos_cache", SAME(0), OPTIONAL}, {"sin_cache", SAME(0), OPTIONAL},
        {"slot_mapping", T_I32, OPTIONAL}, {"head_sink", SAME(0), OPTIONAL}, {"q_norm_weight", SAME(0), OPTIONAL},
        {"k_norm_weight", SAME(0), OPTIONAL}, {"k_scale", T_F32, OPTIONAL}, {"v_scale", T_F32, OPTIONAL},
        {"attention_metadata", T_I32, OPTIONAL}),
     OUT({"output", SAME(0)}, {"key_cache_out", SAME(3), OPTIONAL}, {"value_cache_out", SAME(3), OPTIONAL}),
     ATTR(A_INT_REQ("num_heads"), A_INT_REQ("kv_num_heads"), A_FLOAT_OPT("scale"), A_FLOAT_OPT("softcap"),
          A_INT("local_window_size", -1), A_INT("is_causal", 1), A_INT_OPT("do_rotary"),
          A_INT_OPT("rotary_interleaved"), A_INT_OPT("rotary_offset"), A_INT_OPT("v_head_size"),
          A_FLOAT_OPT("qk_norm_epsilon"), A_STR("kv_cache_layout", "SEPARATE"), A_STR("k_quant_type", "NONE"),
          A_STR("v_quant_type", "NONE"), A_STR("k_cache_dtype", ""), A_STR("v_cache_dtype", ""))},
    {0}};

const nc_card nc_card_paged_attention = {
    .name = "PagedAttention",
    .domain = NC_MICROSOFT,
    .doc = "Attention of sequences one behind the other, over caches in blocks that a table gives to them.",
    .versions = versions,
    .no_grad_in = 1u << ENDS | 1u << PAST | 1u << TABLE | 1u << SLOTS | 1u << METADATA,
    .infer = paged_infer,
    .decompose = paged_decompose};
