/* ops/attention/contrib_parts.c: the pieces that attentions of com.microsoft share; see contrib.h. */
#include "ops/attention/contrib.h"

/* ---- checks ---- */

nc_code nc_msattn_check_heads(nc_infer *c, const char *attr, const nc_dim *size, const char *what) {
    int64_t heads = nc_attr_int(c->node, attr), n;
    if (heads < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s is %lld, expected at least 1", attr, (long long)heads);
    if (size != NULL && nc_dim_is_const(size, &n) && n % heads != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %lld columns, which %lld heads do not divide", what, (long long)n,
                (long long)heads);
    return NC_OK;
}

nc_code nc_msattn_check_bias(nc_infer *c, int i, const nc_dim *B, int64_t heads, const nc_dim *S, const nc_dim *T) {
    const nc_dim *want[4] = {B, nc_dim_const(c->dims, heads), S, T};
    int rank;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    NC_TRY(nc_contrib_rank(c, i, 4));
    for (int k = 0; k < 4; k++) {
        int64_t size;
        if (k < 2 && nc_dim_is_const(nc_in_dim(c, i, k), &size) && size == 1) continue;
        NC_TRY(nc_in_expect(c, i, k, want[k]));
    }
    return NC_OK;
}

nc_code nc_msattn_check_mask(nc_infer *c, int i, const nc_dim *B, const nc_dim *S, const nc_dim *T) {
    int rank;
    int64_t n, batch;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    const char *name = c->node->version->in[i].name;
    if (rank < 1 || rank > 4) NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected 1 to 4", name, rank);
    if (rank == 1) {
        if (B == NULL || !nc_dim_is_const(nc_in_dim(c, i, 0), &n) || !nc_dim_is_const(B, &batch)) return NC_OK;
        if (n != batch && n != 2 * batch && n != 3 * batch + 2)
            NC_FAIL(c->w, NC_E_SHAPE, "%s has %lld elements for a batch of %lld, expected %lld, %lld or %lld", name,
                    (long long)n, (long long)batch, (long long)batch, (long long)(2 * batch),
                    (long long)(3 * batch + 2));
        return NC_OK;
    }
    NC_TRY(nc_in_expect(c, i, 0, B));
    if (rank == 4) return nc_in_expect(c, i, 1, nc_dim_const(c->dims, 1));
    if (rank == 3) NC_TRY(nc_in_expect(c, i, 1, S));
    return nc_in_expect(c, i, rank - 1, T);
}

/* ---- masks ---- */

static nc_value *vector(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_value *count(nc_builder *b, nc_value *n) {
    int64_t zero = 0;
    nc_value *scalar = nc_build1(b, "Squeeze", 2, n, nc_build_ints(b, &zero, 1));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

nc_value *nc_msattn_keys(nc_builder *b, nc_value *k, nc_value *past) {
    if (b->code != NC_OK) return NULL;
    nc_value *n = nc_contrib_size(b, k, k->type->rank - 2);
    return past != NULL ? nc_build1(b, "Add", 2, n, nc_contrib_size(b, past, past->type->rank - 2)) : n;
}

/* ends (B), behind which are, where there are 2B in all, starts. True (B,T) between them. */
static nc_value *between(nc_builder *b, nc_value *mask, nc_value *like, nc_value *keys) {
    nc_value *B = nc_contrib_size(b, like, 0), *n = nc_contrib_size(b, mask, 0), *zero = vector(b, 0);
    mask = nc_build_cast(b, mask, NC_INT64);
    nc_value *ends = nc_build1(b, "Slice", 4, mask, zero, B, zero);
    nc_value *starts = nc_build1(b, "Slice", 4, mask, nc_build1(b, "Sub", 2, n, B), n, zero);
    nc_value *both = nc_build1(b, "Equal", 2, n, nc_build1(b, "Add", 2, B, B));
    starts = nc_build1(b, "Where", 3, both, starts, nc_build_int(b, 0));
    nc_value *key = nc_build1(b, "Unsqueeze", 2, count(b, keys), zero), *one = vector(b, 1);
    nc_value *below = nc_build1(b, "Less", 2, key, nc_build1(b, "Unsqueeze", 2, ends, one));
    return nc_build1(b, "And", 2, below,
                     nc_build1(b, "GreaterOrEqual", 2, key, nc_build1(b, "Unsqueeze", 2, starts, one)));
}

/* Rows of the last S of `keys` places and their columns, of a mask of all places. */
static nc_value *last_rows(nc_builder *b, nc_value *mask, nc_value *like, nc_value *keys) {
    nc_value *first = nc_build1(b, "Sub", 2, keys, nc_contrib_size(b, like, 1)), *zero = vector(b, 0);
    mask = nc_build1(b, "Slice", 4, mask, first, keys, vector(b, 2));
    return nc_build1(b, "Slice", 4, mask, zero, keys, vector(b, 3));
}

nc_value *nc_msattn_mask(nc_builder *b, const nc_node *n, nc_value *mask, nc_value *like, nc_value *keys) {
    static const int64_t axes[2] = {1, 2};
    if (mask == NULL || b->code != NC_OK) return NULL;
    int rank = mask->type->rank;
    nc_value *seen = rank == 1 ? between(b, mask, like, keys) : rank == 4 ? last_rows(b, mask, like, keys) : mask;
    if (rank > 1) seen = nc_build1(b, "Greater", 2, seen, nc_build_scalar(b, NC_INT32, 0));
    if (rank < 4) seen = nc_build1(b, "Unsqueeze", 2, seen, nc_build_ints(b, axes, rank == 3 ? 1 : 2));
    nc_dtype t = like->type->elem;
    double filter = nc_contrib_float(n, "mask_filter_value", -10000);
    return nc_build1(b, "Where", 3, seen, nc_build_scalar(b, t, 0), nc_build_scalar(b, t, filter));
}

/* ---- attention ---- */

nc_node *nc_msattn_build(nc_builder *b, const nc_msattn *a, const bool *wanted) {
    nc_value *in[7] = {a->q, a->k, a->v, a->bias, a->past_k, a->past_v, a->lens};
    double scale = nc_contrib_float(a->node, "scale", 0);
    int n_in = a->lens != NULL ? 7 : a->past_v != NULL ? 6 : a->bias != NULL ? 4 : 3;
    nc_attr attrs[5] = {{.name = "q_num_heads", .kind = NC_A_INT, .i = a->heads},
                        {.name = "kv_num_heads", .kind = NC_A_INT, .i = a->heads},
                        {.name = "is_causal", .kind = NC_A_INT, .i = a->causal},
                        {.name = "qk_matmul_output_mode", .kind = NC_A_INT, .i = 2},
                        {.name = "scale", .kind = NC_A_FLOAT, .f = (float)scale}};
    return nc_build_newest(b, "Attention", in, n_in, wanted, 4, attrs, scale != 0 ? 5 : 4);
}

nc_dtype nc_msattn_scores_type(const nc_node *n, nc_dtype t) {
    const nc_value *v = n->n_out > 3 ? n->out[3] : NULL;
    return v != NULL && v->type != NULL && v->type->elem != NC_UNDEFINED ? v->type->elem : t;
}

nc_value *nc_msattn_scores(nc_builder *b, const nc_node *n, nc_value *scores, nc_value *keys) {
    scores = nc_build1(b, "Slice", 4, scores, vector(b, 0), keys, vector(b, 3));
    return b->code == NC_OK ? nc_build_cast(b, scores, nc_msattn_scores_type(n, scores->type->elem)) : NULL;
}

/* ---- queries and keys ---- */

nc_code nc_msattn_apart(nc_builder *b, nc_value *all, int64_t heads, int64_t kv, nc_value **qkv) {
    int64_t parts[3] = {heads, kv, kv};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *D = nc_build1(b, "Div", 2, nc_contrib_size(b, all, all->type->rank - 1), nc_build_int(b, heads + 2 * kv));
    nc_value *in[2] = {all, nc_build1(b, "Mul", 2, D, nc_build_ints(b, parts, 3))};
    nc_node *split = nc_build(b, "", "Split", in, 2, 3, &axis, 1);
    for (int i = 0; split != NULL && i < 3; i++) qkv[i] = split->out[i];
    return b->code;
}

nc_value *nc_msattn_turned(nc_builder *b, nc_value *x, nc_value *cos, nc_value *sin, nc_value *ids, int64_t heads,
                           int64_t in_turn) {
    int64_t half = 0;
    if (b->code != NC_OK) return NULL;
    (void)nc_dim_is_const(cos->type->dims[1], &half);
    nc_value *in[4] = {x, cos, sin, ids};
    nc_attr attrs[3] = {{.name = "num_heads", .kind = NC_A_INT, .i = heads},
                        {.name = "interleaved", .kind = NC_A_INT, .i = in_turn},
                        {.name = "rotary_embedding_dim", .kind = NC_A_INT, .i = 2 * half}};
    return nc_build_newest1(b, "RotaryEmbedding", in, 4, attrs, 3);
}
