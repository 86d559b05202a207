/* ops/attention/packed.c: the cards of PackedAttention and PackedMultiHeadAttention (com.microsoft): tokens of several
 * sequences without what fills them up, and where each stood in the batch. They run, and are differentiated, as
 * Attention of ai.onnx over the batch put together again. */
#include "ops/attention/contrib.h"

/* Where the operands stand; 0: there is none. */
typedef struct packed_kind {
    int key, value, weights, bias, offsets, ends, attention_bias;
} packed_kind;

enum { X };

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static bool has(const nc_infer *c, int i) { return i > 0 && i < c->node->n_in && c->node->in[i] != NULL; }

/* ---- inference ---- */

/* What both have: offsets (B,S), ends (B+1), a bias of scores. */
static nc_code check_batch(nc_infer *c, const packed_kind *kind) {
    int64_t sequences, ends;
    NC_TRY(nc_contrib_rank(c, kind->offsets, 2));
    NC_TRY(nc_contrib_rank(c, kind->ends, 1));
    const nc_dim *B = nc_in_dim(c, kind->offsets, 0), *S = nc_in_dim(c, kind->offsets, 1);
    const nc_dim *n = nc_in_dim(c, kind->ends, 0);
    if (B != NULL && n != NULL && nc_dim_is_const(B, &sequences) && nc_dim_is_const(n, &ends) && ends != sequences + 1)
        NC_FAIL(c->w, NC_E_SHAPE, "cumulative_sequence_length has %lld elements, expected %lld for %lld sequences",
                (long long)ends, (long long)(sequences + 1), (long long)sequences);
    return nc_msattn_check_bias(c, kind->attention_bias, B, nc_attr_int(c->node, "num_heads"), S, S);
}

/* Columns of the values, of PackedAttention. */
static nc_code projected_columns(nc_infer *c, const packed_kind *kind, const nc_dim **columns) {
    int n = 0;
    const int64_t *sizes =
        nc_node_attr(c->node, "qkv_hidden_sizes") != NULL ? nc_attr_ints(c->node, "qkv_hidden_sizes", &n) : NULL;
    NC_TRY(nc_contrib_rank(c, kind->weights, 2));
    NC_TRY(nc_in_expect(c, kind->weights, 0, nc_in_dim(c, X, 1)));
    const nc_dim *all = nc_in_dim(c, kind->weights, 1);
    NC_TRY(nc_contrib_vector(c, kind->bias, all));
    if (sizes != NULL && n != 3) NC_FAIL(c->w, NC_E_BAD_GRAPH, "qkv_hidden_sizes has %d numbers, expected 3", n);
    if (sizes != NULL) NC_TRY(nc_in_expect(c, kind->weights, 1, nc_dim_const(c->dims, sizes[0] + sizes[1] + sizes[2])));
    *columns = sizes != NULL ? nc_dim_const(c->dims, sizes[2])
               : all != NULL ? nc_dim_floordiv(c->dims, all, nc_dim_const(c->dims, 3))
                             : NULL;
    return NC_OK;
}

static nc_code given_columns(nc_infer *c, const packed_kind *kind, int rank, const nc_dim **columns) {
    const nc_dim *heads = nc_dim_const(c->dims, nc_attr_int(c->node, "num_heads"));
    if (has(c, kind->key) != has(c, kind->value) || has(c, kind->key) != (rank == 2))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "query has %d dims, key is %s and value %s", rank,
                has(c, kind->key) ? "given" : "absent", has(c, kind->value) ? "given" : "absent");
    if (rank == 4) {
        NC_TRY(nc_in_expect(c, X, 1, heads));
        NC_TRY(nc_in_expect(c, X, 2, nc_dim_const(c->dims, 3)));
        *columns = nc_dim_mul(c->dims, heads, nc_in_dim(c, X, 3));
        return NC_OK;
    }
    for (int i = kind->key; i <= kind->value; i++) {
        NC_TRY(nc_contrib_rank(c, i, 2));
        NC_TRY(nc_in_expect(c, i, 0, nc_in_dim(c, X, 0)));
    }
    NC_TRY(nc_in_expect(c, kind->key, 1, nc_in_dim(c, X, 1)));
    *columns = nc_in_dim(c, kind->value, 1);
    return NC_OK;
}

static nc_code packed_infer(nc_infer *c) {
    const packed_kind *kind = c->node->card->own;
    const nc_type *x = nc_in(c, X);
    const nc_dim *columns = NULL;
    NC_TRY(nc_msattn_check_heads(c, "num_heads", NULL, ""));
    NC_TRY(check_batch(c, kind));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, 2);
    if (x->rank != 2 && (kind->weights > 0 || x->rank != 4))
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %s", c->node->version->in[X].name, x->rank,
                kind->weights > 0 ? "2" : "2 or 4");
    NC_TRY(kind->weights > 0 ? projected_columns(c, kind, &columns) : given_columns(c, kind, x->rank, &columns));
    NC_TRY(nc_msattn_check_heads(c, "num_heads", columns, "value"));
    if (columns == NULL) return nc_out_unknown(c, 0, x->elem, 2);
    return nc_out(c, 0, x->elem, 2, (const nc_dim *[]){x->dims[0], columns});
}

/* ---- decomposition ---- */

/* x, with the bias, cut along its columns into q, k and v. */
static nc_code cut(nc_builder *b, const nc_node *n, nc_value *x, nc_value **qkv) {
    int count = 0;
    const nc_attr *own = nc_node_attr(n, "qkv_hidden_sizes");
    const int64_t *sizes = own != NULL ? nc_attr_ints(n, "qkv_hidden_sizes", &count) : NULL;
    nc_attr how[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 3}};
    nc_value *in[2] = {x, sizes != NULL ? nc_build_ints(b, sizes, 3) : NULL};
    nc_node *parts = nc_build(b, "", "Split", in, sizes != NULL ? 2 : 1, 3, how, sizes != NULL ? 1 : 2);
    for (int i = 0; parts != NULL && i < 3; i++) qkv[i] = parts->out[i];
    return b->code;
}

/* Each of q, k and v (T,columns) with its part of the bias. */
static nc_code add_bias(nc_builder *b, nc_value *bias, nc_value **qkv) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (bias == NULL || b->code != NC_OK) return b->code;
    nc_value *sizes[3];
    for (int i = 0; i < 3; i++) sizes[i] = nc_contrib_size(b, qkv[i], 1);
    nc_value *in[2] = {bias, nc_attn_join(b, sizes, 3, 0)};
    nc_node *parts = nc_build(b, "", "Split", in, 2, 3, &axis, 1);
    for (int i = 0; parts != NULL && i < 3; i++) qkv[i] = nc_build1(b, "Add", 2, qkv[i], parts->out[i]);
    return b->code;
}

static nc_code operands(nc_builder *b, const nc_node *n, const packed_kind *kind, nc_value **qkv) {
    nc_value *x = n->in[X], *bias = nc_contrib_in(n, kind->bias);
    if (kind->weights > 0)
        return cut(b, n, nc_contrib_add(b, nc_build1(b, "MatMul", 2, x, n->in[kind->weights]), bias), qkv);
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 2};
    for (int i = 0; i < 3; i++) {
        nc_value *in[2] = {x, nc_build_int(b, i)};
        if (x->type->rank == 2) {
            qkv[i] = i == 0 ? x : n->in[i == 1 ? kind->key : kind->value];
            continue;
        }
        nc_value *part = nc_build_attr1(b, "", "Gather", in, 2, &axis, 1);
        nc_value *columns = nc_build1(b, "Mul", 2, nc_contrib_size(b, x, 1), nc_contrib_size(b, x, 3));
        nc_value *shape[2] = {nc_contrib_size(b, x, 0), columns};
        qkv[i] = nc_build1(b, "Reshape", 2, part, nc_attn_join(b, shape, 2, 0));
    }
    return add_bias(b, bias, qkv);
}

/* The lengths of the sequences, from where they end (B+1). */
static nc_value *lengths(nc_builder *b, nc_value *ends) {
    nc_value *last = nc_contrib_size(b, ends, 0), *zero = one(b, 0), *first = one(b, 1);
    nc_value *hi = nc_build1(b, "Slice", 4, ends, first, last, zero);
    return nc_build1(b, "Sub", 2, hi, nc_build1(b, "Slice", 4, ends, zero, one(b, -1), zero));
}

static nc_code packed_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const packed_kind *kind = n->card->own;
    nc_value *qkv[3], *offsets = n->in[kind->offsets], *x = n->in[X];
    if (x->type == NULL || x->type->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    NC_TRY(operands(b, n, kind, qkv));
    for (int i = 0; i < 3; i++) {
        nc_value *in[2] = {qkv[i], offsets};
        qkv[i] = nc_build_attr1(b, NC_MICROSOFT, "RestorePadding", in, 2, NULL, 0);
    }
    if (b->code != NC_OK) return b->code;
    nc_msattn a = {.q = qkv[0], .k = qkv[1], .v = qkv[2], .heads = nc_attr_int(n, "num_heads"), .node = n};
    a.bias = nc_msattn_mask(b, n, lengths(b, n->in[kind->ends]), a.q, nc_contrib_size(b, a.k, 1));
    nc_value *bias = nc_contrib_in(n, kind->attention_bias);
    if (bias != NULL) a.bias = nc_contrib_add(b, bias, a.bias);
    nc_node *attention = nc_msattn_build(b, &a, (const bool[]){true, false, false, false});
    if (attention == NULL) return b->code;
    nc_value *shape[2] = {one(b, -1), nc_contrib_size(b, attention->out[0], 2)};
    nc_value *rows = nc_build1(b, "Reshape", 2, attention->out[0], nc_attn_join(b, shape, 2, 0));
    nc_value *at = nc_build1(b, "Reshape", 2, offsets, one(b, -1));
    at = nc_build1(b, "Slice", 4, at, one(b, 0), nc_contrib_size(b, x, 0), one(b, 0));
    out[0] = nc_build1(b, "Gather", 2, rows, at);
    return b->code;
}

/* ---- cards ---- */

#define BATCH \
    {"token_offset", T_I32}, {"cumulative_sequence_length", T_I32}, { "attention_bias", SAME(0), OPTIONAL }
static const nc_op_version self_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"weights", SAME(0)}, {"bias", SAME(0)}, BATCH),
     OUT({"output", SAME(0)}),
     ATTR(A_INT_REQ("num_heads"), A_INTS_OPT("qkv_hidden_sizes"), A_FLOAT_OPT("scale"))},
    {0}};
static const nc_op_version multi_versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0), OPTIONAL}, {"value", SAME(0), OPTIONAL}, {"bias", SAME(0), OPTIONAL},
        BATCH),
     OUT({"output", SAME(0)}),
     ATTR(A_INT_REQ("num_heads"), A_FLOAT_OPT("mask_filter_value"), A_FLOAT_OPT("scale"))},
    {0}};

const nc_card nc_card_packed_attention = {
    .name = "PackedAttention",
    .domain = NC_MICROSOFT,
    .doc = "Self-attention of sequences without what fills them up.",
    .versions = self_versions,
    .own = &(const packed_kind){.weights = 1, .bias = 2, .offsets = 3, .ends = 4, .attention_bias = 5},
    .no_grad_in = 3u << 3,
    .infer = packed_infer,
    .decompose = packed_decompose};
const nc_card nc_card_packed_multi_head_attention = {
    .name = "PackedMultiHeadAttention",
    .domain = NC_MICROSOFT,
    .doc = "Attention of queries, keys and values of sequences without what fills them up.",
    .versions = multi_versions,
    .own = &(const packed_kind){.key = 1, .value = 2, .bias = 3, .offsets = 4, .ends = 5, .attention_bias = 6},
    .no_grad_in = 3u << 4,
    .infer = packed_infer,
    .decompose = packed_decompose};
