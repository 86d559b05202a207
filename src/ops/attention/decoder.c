/* ops/attention/decoder.c: card of com.microsoft's DecoderAttention, of old decoders with an encoder: queries (S,B,H)
 * with the time in front, keys and values of the same (static_kv false) or of an encoder's output, a cache of both.
 * Flags are operands; they must be constants here. It runs, and is differentiated, as Attention of ai.onnx. */
#include "ops/attention/contrib.h"

enum {
    QUERY,
    KEY,
    Q_WEIGHT,
    KV_WEIGHT,
    BIAS,
    PADDED,
    KEY_CACHE,
    VALUE_CACHE,
    STATIC_KV,
    USE_PAST,
    HAS_STATE,
    HAS_MASK
};

static nc_code infer(nc_infer *c) {
    const nc_dim *H = nc_in_dim(c, QUERY, 2), *heads = nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"));
    const nc_type *t = nc_in(c, QUERY);
    NC_TRY(nc_contrib_rank(c, QUERY, 3));
    NC_TRY(nc_contrib_rank(c, KEY, 3));
    NC_TRY(nc_in_expect(c, KEY, 1, nc_in_dim(c, QUERY, 1)));
    NC_TRY(nc_msattn_check_heads(c, "num_heads", H, "query"));
    for (int i = Q_WEIGHT; i <= KV_WEIGHT; i++) {
        NC_TRY(nc_contrib_rank(c, i, 2));
        NC_TRY(nc_in_expect(c, i, 0, H));
        if (H != NULL) NC_TRY(nc_in_expect(c, i, 1, nc_dim_mul(c->dims, H, nc_dim_const(c->dims, i - 1))));
    }
    if (H != NULL) NC_TRY(nc_contrib_vector(c, BIAS, nc_dim_mul(c->dims, H, nc_dim_const(c->dims, 3))));
    NC_TRY(nc_out_like(c, 0, QUERY));
    if (t == NULL || H == NULL) return NC_OK;
    const nc_dim *cache[4] = {nc_in_dim(c, QUERY, 1), heads, nc_fresh(c, "keys"), nc_dim_floordiv(c->dims, H, heads)};
    NC_NEED(c->w, cache[2]);
    NC_TRY(nc_out(c, 1, t->elem, 4, cache));
    return nc_out(c, 2, t->elem, 4, cache);
}

static nc_code flag(nc_builder *b, const nc_node *n, int i, bool *out) {
    const nc_literal *l = n->in[i]->lit;
    if (l == NULL || l->n != 1 || l->dtype != NC_BOOL)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "%s must be a constant", n->version->in[i].name);
    *out = *(const bool *)l->data;
    return NC_OK;
}

/* Columns `from` to `to` times H of x. */
static nc_value *part(nc_builder *b, const nc_node *n, nc_value *x, int from, int to) {
    int64_t last = -1;
    nc_value *H = nc_contrib_size(b, n->in[QUERY], 2);
    return nc_build1(b, "Slice", 4, x, nc_build1(b, "Mul", 2, H, nc_build_int(b, from)),
                     nc_build1(b, "Mul", 2, H, nc_build_int(b, to)), nc_build_ints(b, &last, 1));
}

/* x (S,B,columns) times w plus biases, as (B,heads,S,size). */
static nc_value *projected(nc_builder *b, const nc_node *n, nc_value *x, nc_value *w, int bias) {
    static const int64_t to_heads[4] = {1, 2, 0, 3};
    int64_t sizes[4] = {0, 0, nc_attr_int(n, "num_heads"), -1};
    nc_value *y = nc_build1(b, "Add", 2, nc_build1(b, "MatMul", 2, x, w), part(b, n, n->in[BIAS], bias, bias + 1));
    return nc_build_transpose(b, nc_build1(b, "Reshape", 2, y, nc_build_ints(b, sizes, 4)), to_heads, 4);
}

static nc_code decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t columns[2] = {1, 2}, to_time[4] = {2, 0, 1, 3}, flat[3] = {0, 0, -1};
    bool is_static, use_past, has_state, has_mask;
    NC_TRY(flag(b, n, STATIC_KV, &is_static));
    NC_TRY(flag(b, n, USE_PAST, &use_past));
    NC_TRY(flag(b, n, HAS_STATE, &has_state));
    NC_TRY(flag(b, n, HAS_MASK, &has_mask));
    bool past = has_state && use_past;
    if ((past && (!nc_contrib_in(n, KEY_CACHE) || !nc_contrib_in(n, VALUE_CACHE))) ||
        (has_mask && !nc_contrib_in(n, PADDED)))
        NC_FAIL(b->w, NC_E_BAD_GRAPH, "a flag says that a cache or a mask is there, and it is not");
    nc_value *kv[2], *from = is_static ? n->in[KEY] : n->in[QUERY];
    for (int i = 0; i < 2; i++) {
        nc_value *cache = past ? n->in[KEY_CACHE + i] : NULL;
        kv[i] = past && is_static ? cache : projected(b, n, from, part(b, n, n->in[KV_WEIGHT], i, i + 1), 1 + i);
        if (past && !is_static) kv[i] = nc_attn_join(b, (nc_value *[]){cache, kv[i]}, 2, 2);
        if (nc_contrib_wants(n, 1 + i)) out[1 + i] = kv[i];
    }
    nc_msattn a = {.q = projected(b, n, n->in[QUERY], n->in[Q_WEIGHT], 0), .k = kv[0], .v = kv[1], .node = n};
    a.heads = nc_attr_int(n, "num_heads");
    NC_TRY(b->code);
    if (has_mask) {
        nc_dtype t = a.q->type->elem;
        a.bias = nc_build1(b, "Where", 3, nc_build1(b, "Unsqueeze", 2, n->in[PADDED], nc_build_ints(b, columns, 2)),
                           nc_build_scalar(b, t, nc_contrib_float(n, "mask_filter_value", -10000)),
                           nc_build_scalar(b, t, 0));
    }
    nc_node *attention = nc_msattn_build(b, &a, (const bool[4]){true});
    if (attention == NULL) return b->code;
    out[0] =
        nc_build1(b, "Reshape", 2, nc_build_transpose(b, attention->out[0], to_time, 4), nc_build_ints(b, flat, 3));
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0)}, {"q_weight", SAME(0)}, {"kv_weight", SAME(0)}, {"bias", SAME(0)},
        {"key_padding_mask", T_BOOL, OPTIONAL}, {"key_cache", SAME(0), OPTIONAL}, {"value_cache", SAME(0), OPTIONAL},
        {"static_kv", T_BOOL}, {"use_past", T_BOOL}, {"has_layer_state", T_BOOL}, {"has_key_padding_mask", T_BOOL}),
     OUT({"output", SAME(0)}, {"new_key_cache", SAME(0), OPTIONAL}, {"new_value_cache", SAME(0), OPTIONAL}),
     ATTR(A_INT_REQ("num_heads"), A_FLOAT_OPT("mask_filter_value"))},
    {0}};
const nc_card nc_card_decoder_attention = {.name = "DecoderAttention",
                                           .domain = NC_MICROSOFT,
                                           .doc = "Attention of a decoder over itself or an encoder, with a cache.",
                                           .versions = versions,
                                           .infer = infer,
                                           .decompose = decompose};
