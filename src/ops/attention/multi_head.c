/* ops/attention/multi_head.c: the card of MultiHeadAttention (com.microsoft): queries, keys and values that are ready,
 * apart or packed (B,S,heads,3,D) and (B,T,heads,2,D), keys and values with heads first (B,heads,T,D) too; caches that
 * grow, or that have room (contrib_cache.c). It runs, and is differentiated, as Attention of ai.onnx. */
#include "ops/attention/contrib.h"

enum { QUERY, KEY, VALUE, BIAS, MASK, ATTENTION_BIAS, PAST_K, PAST_V, PAST_LENGTH, INDIRECTION };

/* What the operands say of sizes; NULL: not known. */
typedef struct sizes {
    const nc_dim *B, *S, *L, *Dq, *Dv; /* L: new keys; Dq, Dv: columns of all heads */
} sizes;

/* ---- inference ---- */

static bool has(const nc_infer *c, int i) { return i < c->node->n_in && c->node->in[i] != NULL; }

/* Packed input i (B,T,heads,n,D): its columns of all heads. */
static nc_code packed_columns(nc_infer *c, int i, int n, const nc_dim **columns) {
    NC_TRY(nc_in_expect(c, i, 2, nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"))));
    NC_TRY(nc_in_expect(c, i, 3, nc_dim_const(c->dims, n)));
    *columns = nc_dim_mul(c->dims, nc_in_dim(c, i, 2), nc_in_dim(c, i, 4));
    return NC_OK;
}

static nc_code key_sizes(nc_infer *c, int rank, sizes *s) {
    int rank_v;
    if (rank == 5) {
        s->L = nc_in_dim(c, KEY, 1);
        return packed_columns(c, KEY, 2, &s->Dv);
    }
    if (!nc_in_rank(c, VALUE, &rank_v)) return NC_OK;
    if (rank != rank_v || (rank != 3 && rank != 4))
        NC_FAIL(c->w, NC_E_SHAPE, "key has %d dims and value %d, expected 3 or 4 of both", rank, rank_v);
    s->L = nc_in_dim(c, KEY, rank - 2);
    NC_TRY(nc_in_expect(c, VALUE, rank - 2, s->L));
    NC_TRY(nc_in_expect(c, KEY, 0, s->B));
    NC_TRY(nc_in_expect(c, VALUE, 0, s->B));
    s->Dv = nc_in_dim(c, VALUE, rank - 1);
    if (rank == 3) return nc_in_expect(c, KEY, 2, s->Dq);
    const nc_dim *heads = nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"));
    NC_TRY(nc_in_expect(c, KEY, 1, heads));
    NC_TRY(nc_in_expect(c, VALUE, 1, heads));
    if (s->Dq != NULL) NC_TRY(nc_in_expect(c, KEY, 3, nc_dim_floordiv(c->dims, s->Dq, heads)));
    s->Dv = nc_dim_mul(c->dims, heads, s->Dv);
    return NC_OK;
}

static nc_code read_sizes(nc_infer *c, sizes *s) {
    int rank, rank_k;
    if (!nc_in_rank(c, QUERY, &rank)) return NC_OK;
    s->B = nc_in_dim(c, QUERY, 0);
    s->S = nc_in_dim(c, QUERY, 1);
    if (rank == 5) {
        if (has(c, KEY) || has(c, VALUE))
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "query is packed, key and value must be absent");
        s->L = s->S;
        NC_TRY(packed_columns(c, QUERY, 3, &s->Dq));
        s->Dv = s->Dq;
        return NC_OK;
    }
    if (rank != 3) NC_FAIL(c->w, NC_E_SHAPE, "query has %d dims, expected 3 or 5", rank);
    s->Dq = nc_in_dim(c, QUERY, 2);
    if (!has(c, KEY)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "key is absent, expected one beside a query of 3 dims");
    if (!nc_in_rank(c, KEY, &rank_k)) return NC_OK;
    if ((rank_k == 5) == has(c, VALUE))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "key has %d dims and value is %s", rank_k, rank_k == 5 ? "there" : "absent");
    return key_sizes(c, rank_k, s);
}

/* Caches with room behind the past: past_sequence_length says how much of them is one. */
static bool shares(const nc_node *n) {
    return nc_contrib_in(n, PAST_K) != NULL && nc_contrib_in(n, PAST_LENGTH) != NULL;
}

static nc_code check_options(nc_infer *c, const sizes *s) {
    if (shares(c->node)) NC_TRY(nc_in_single(c, PAST_LENGTH));
    if (has(c, PAST_K) != has(c, PAST_V)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "past_key and past_value must come together");
    NC_TRY(nc_msattn_check_heads(c, "num_heads", s->Dq, "query"));
    NC_TRY(nc_msattn_check_heads(c, "num_heads", s->Dv, "value"));
    if (s->Dq == NULL || s->Dv == NULL) return NC_OK;
    return nc_contrib_vector(c, BIAS, nc_dim_add(c->dims, nc_dim_add(c->dims, s->Dq, s->Dq), s->Dv));
}

static nc_code check_past(nc_infer *c, int i, const nc_dim *const *want) {
    NC_TRY(nc_contrib_rank(c, i, 4));
    for (int k = 0; k < 4; k++)
        if (k != 2) NC_TRY(nc_in_expect(c, i, k, want[k]));
    return nc_in_expect(c, i, 2, nc_in_dim(c, PAST_K, 2));
}

static nc_code multi_head_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, QUERY);
    int64_t heads = nc_attr_int(c->node, "num_heads");
    sizes s = {0};
    NC_TRY(nc_msattn_check_heads(c, "num_heads", NULL, ""));
    NC_TRY(read_sizes(c, &s));
    NC_TRY(check_options(c, &s));
    if (q == NULL) return NC_OK;
    nc_dtype t = nc_msattn_scores_type(c->node, q->elem);
    if (s.B == NULL || s.L == NULL || s.Dv == NULL) {
        for (int i = 0; i < 4; i++) NC_TRY(nc_out_unknown(c, i, i == 3 ? t : q->elem, i == 0 ? 3 : 4));
        return NC_OK;
    }
    const nc_dim *H = nc_dim_const(c->dims, heads);
    const nc_dim *P = has(c, PAST_K) ? nc_in_dim(c, PAST_K, 2) : nc_dim_const(c->dims, 0);
    const nc_dim *T = P != NULL && !shares(c->node) ? nc_dim_add(c->dims, P, s.L) : nc_fresh(c, "keys");
    const nc_dim *rows = !shares(c->node) ? T : P != NULL ? P : nc_fresh(c, "rows");
    const nc_dim *present_k[4] = {s.B, H, rows, nc_dim_floordiv(c->dims, s.Dq, H)};
    const nc_dim *present_v[4] = {s.B, H, rows, nc_dim_floordiv(c->dims, s.Dv, H)};
    if (has(c, PAST_K)) NC_TRY(check_past(c, PAST_K, present_k));
    if (has(c, PAST_V)) NC_TRY(check_past(c, PAST_V, present_v));
    NC_TRY(nc_msattn_check_mask(c, MASK, s.B, s.S, T));
    NC_TRY(nc_msattn_check_bias(c, ATTENTION_BIAS, s.B, heads, s.S, T));
    NC_TRY(nc_out(c, 0, q->elem, 3, (const nc_dim *[]){s.B, s.S, s.Dv}));
    NC_TRY(nc_out(c, 1, q->elem, 4, present_k));
    NC_TRY(nc_out(c, 2, q->elem, 4, present_v));
    return nc_out(c, 3, t, 4, (const nc_dim *[]){s.B, H, s.S, T});
}

/* ---- decomposition ---- */

/* Part i of packed x (B,T,heads,n,D), as (B,T,heads*D). */
static nc_value *unpack(nc_builder *b, nc_value *x, int i) {
    int64_t size, tail = -1;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 3};
    nc_value *in[2] = {x, nc_build_int(b, i)};
    nc_value *y = nc_build_attr1(b, "", "Gather", in, 2, &axis, 1);
    if (b->code != NC_OK) return NULL;
    if (nc_dim_is_const(x->type->dims[4], &size) && nc_dim_is_const(x->type->dims[2], &tail)) tail *= size;
    nc_value *shape[2] = {nc_attn_dims(b, y, 0, 2), nc_build_ints(b, &tail, 1)};
    return nc_build1(b, "Reshape", 2, y, nc_attn_join(b, shape, 2, 0));
}

/* Adds to each of q, k and v its part of the bias; keys and values with heads first have theirs already. */
static void add_bias(nc_builder *b, nc_value *bias, nc_msattn *a) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (bias == NULL || b->code != NC_OK) return;
    bool apart = a->k->type->rank == 3;
    nc_value *Dq = nc_contrib_size(b, a->q, 2), *all = nc_contrib_size(b, bias, 0);
    nc_value *rest = nc_build1(b, "Sub", 2, all, nc_build1(b, "Add", 2, Dq, Dq));
    nc_value *in[2] = {bias, nc_attn_join(b, (nc_value *[]){Dq, Dq, rest}, 3, 0)};
    nc_node *parts = nc_build(b, "", "Split", in, 2, 3, &axis, 1);
    if (parts == NULL) return;
    a->q = nc_contrib_add(b, a->q, parts->out[0]);
    if (apart) a->k = nc_contrib_add(b, a->k, parts->out[1]);
    if (apart) a->v = nc_contrib_add(b, a->v, parts->out[2]);
}

static nc_code operands(nc_builder *b, const nc_node *n, nc_msattn *a) {
    nc_value *q = n->in[QUERY], *k = nc_contrib_in(n, KEY);
    if (q->type == NULL || q->type->rank < 0 || (k != NULL && (k->type == NULL || k->type->rank < 0)))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    bool packed = q->type->rank == 5, packed_kv = k != NULL && k->type->rank == 5;
    a->q = packed ? unpack(b, q, 0) : q;
    a->k = packed ? unpack(b, q, 1) : packed_kv ? unpack(b, k, 0) : k;
    a->v = packed ? unpack(b, q, 2) : packed_kv ? unpack(b, k, 1) : nc_contrib_in(n, VALUE);
    add_bias(b, nc_contrib_in(n, BIAS), a);
    if (b->code == NC_OK && a->k->type->rank == 4) a->q = nc_attn_to_heads(b, a->q, a->heads);
    return b->code;
}

static nc_code multi_head_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_msattn a = {.past_k = nc_contrib_in(n, PAST_K),
                   .past_v = nc_contrib_in(n, PAST_V),
                   .heads = nc_attr_int(n, "num_heads"),
                   .causal = nc_attr_int(n, "unidirectional") != 0,
                   .node = n};
    NC_TRY(operands(b, n, &a));
    nc_value *mask = nc_contrib_in(n, MASK), *keys = nc_msattn_keys(b, a.k, a.past_k), *present[2];
    bool wanted[4] = {true}, shared = shares(n);
    if (shared) {
        a.q = nc_attn_to_heads(b, a.q, a.heads);
        a.k = nc_attn_to_heads(b, a.k, a.heads), a.v = nc_attn_to_heads(b, a.v, a.heads);
        NC_TRY(nc_msattn_cached(b, &a, n->in[PAST_LENGTH], nc_contrib_in(n, INDIRECTION), &keys, present));
    }
    if (mask != NULL) a.bias = nc_msattn_mask(b, n, mask, n->in[QUERY], keys);
    if (nc_contrib_in(n, ATTENTION_BIAS) != NULL) a.bias = nc_contrib_add(b, n->in[ATTENTION_BIAS], a.bias);
    for (int i = 1; i < 4; i++) wanted[i] = nc_contrib_wants(n, i) && !(shared && i < 3);
    nc_node *attention = nc_msattn_build(b, &a, wanted);
    if (attention == NULL) return b->code;
    out[0] = a.q->type->rank == 4 ? nc_attn_from_heads(b, attention->out[0]) : attention->out[0];
    for (int i = 1; i < 3 && i < n->n_out; i++) out[i] = shared ? present[i - 1] : attention->out[i];
    if (wanted[3]) out[3] = nc_msattn_scores(b, n, attention->out[3], keys);
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0), OPTIONAL}, {"value", SAME(0), OPTIONAL}, {"bias", SAME(0), OPTIONAL},
        {"key_padding_mask", T_I32, OPTIONAL}, {"attention_bias", SAME(0), OPTIONAL}, {"past_key", SAME(0), OPTIONAL},
        {"past_value", SAME(0), OPTIONAL}, {"past_sequence_length", T_I32, OPTIONAL},
        {"cache_indirection", T_I32, OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_key", SAME(0), OPTIONAL}, {"present_value", SAME(0), OPTIONAL},
         {"qk", T_FLOAT_ALL, OPTIONAL}),
     ATTR(A_INT_REQ("num_heads"), A_FLOAT_OPT("mask_filter_value"), A_FLOAT_OPT("scale"), A_INT("unidirectional", 0))},
    {0}};

const nc_card nc_card_multi_head_attention = {.name = "MultiHeadAttention",
                                              .domain = NC_MICROSOFT,
                                              .doc = "Attention of queries, keys and values, apart or packed.",
                                              .versions = versions,
                                              .host_in = 1u << PAST_LENGTH,
                                              .no_grad_in = 1u << MASK | 1u << PAST_LENGTH | 1u << INDIRECTION,
                                              .infer = multi_head_infer,
                                              .decompose = multi_head_decompose};
