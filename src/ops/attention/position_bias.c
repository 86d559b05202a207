/* ops/attention/position_bias.c: the cards of RelativePositionBias and GatedRelativePositionBias (com.microsoft): what
 * T5 adds to scores for the distance of a key, by buckets that grow with it, and what WavLM adds, through gates. They
 * run, and are differentiated, as what they are made of. */
#include "ops/attention/contrib.h"

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

/* ---- RelativePositionBias: table (buckets,heads), lengths of queries and keys ---- */

enum { TABLE, QUERIES, KEYS };

static nc_code position_infer(nc_infer *c) {
    const nc_type *t = nc_in(c, TABLE);
    int64_t far = nc_attr_int(c->node, "max_distance"), v, buckets;
    bool two = nc_attr_int(c->node, "is_bidirectional") != 0, known[2];
    const nc_dim *lengths[2];
    NC_TRY(nc_contrib_rank(c, TABLE, 2));
    for (int i = 0; i < 2; i++) {
        NC_TRY(nc_in_number(c, QUERIES + i, &v, &known[i]));
        if (known[i] && v < 0) NC_FAIL(c->w, NC_E_SHAPE, "a length is %lld, expected at least 0", (long long)v);
        lengths[i] = known[i] ? nc_dim_const(c->dims, v) : nc_fresh(c, i == 0 ? "queries" : "keys");
    }
    if (t == NULL) return NC_OK;
    if (t->rank < 0) return nc_out_unknown(c, 0, t->elem, 4);
    if (nc_dim_is_const(t->dims[0], &buckets)) {
        int64_t exact = buckets / (two ? 4 : 2);
        if (exact < 1 || far <= exact)
            NC_FAIL(c->w, NC_E_BAD_GRAPH,
                    "bias_table has %lld buckets for max_distance %lld, expected at least %d and "
                    "a distance beyond %lld",
                    (long long)buckets, (long long)far, two ? 4 : 2, (long long)exact);
    }
    const nc_dim *dims[4] = {nc_dim_const(c->dims, 1), t->dims[1], lengths[0], lengths[1]};
    return nc_out(c, 0, t->elem, 4, dims);
}

static nc_value *counted(nc_builder *b, nc_value *n) {
    nc_value *scalar = nc_build1(b, "Reshape", 2, n, nc_build_ints(b, NULL, 0));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

/* The bucket of distance d >= 0, of n (scalar): exact up to n / 2, then by the logarithm, up to max_distance. */
static nc_value *bucket(nc_builder *b, const nc_node *node, nc_value *d, nc_value *n) {
    nc_value *exact = nc_build1(b, "Div", 2, n, nc_build_int(b, 2)), *first = nc_build_int(b, 1);
    nc_value *near = nc_build_cast(b, exact, NC_FLOAT),
             *far = nc_build_scalar(b, NC_FLOAT, (double)nc_attr_int(node, "max_distance"));
    nc_value *times = nc_build1(b, "Div", 2, nc_build_cast(b, nc_build1(b, "Max", 2, d, first), NC_FLOAT), near);
    nc_value *share = nc_build1(b, "Div", 2, nc_build1(b, "Log", 1, times),
                                nc_build1(b, "Log", 1, nc_build1(b, "Div", 2, far, near)));
    nc_value *more = nc_build_cast(b, nc_build1(b, "Sub", 2, n, exact), NC_FLOAT);
    nc_value *big = nc_build_cast(b, nc_build1(b, "Mul", 2, share, more), NC_INT64);
    big = nc_build1(b, "Min", 2, nc_build1(b, "Add", 2, exact, big), nc_build1(b, "Sub", 2, n, first));
    return nc_build1(b, "Where", 3, nc_build1(b, "Less", 2, d, exact), d, big);
}

static nc_code position_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool two = nc_attr_int(n, "is_bidirectional") != 0;
    nc_value *buckets = nc_build1(b, "Squeeze", 2, nc_contrib_size(b, n->in[TABLE], 0), one(b, 0));
    nc_value *zero = nc_build_int(b, 0), *query = nc_build1(b, "Unsqueeze", 2, counted(b, n->in[QUERIES]), one(b, 1));
    nc_value *d = nc_build1(b, "Sub", 2, counted(b, n->in[KEYS]), query), *base = zero;
    if (two) {
        buckets = nc_build1(b, "Div", 2, buckets, nc_build_int(b, 2));
        base = nc_build1(b, "Where", 3, nc_build1(b, "Greater", 2, d, zero), buckets, zero);
        d = nc_build1(b, "Abs", 1, d);
    } else {
        d = nc_build1(b, "Neg", 1, nc_build1(b, "Min", 2, d, zero));
    }
    nc_value *at = nc_build1(b, "Add", 2, base, bucket(b, n, d, buckets));
    nc_value *y = nc_build_transpose(b, nc_build1(b, "Gather", 2, n->in[TABLE], at), (int64_t[]){2, 0, 1}, 3);
    out[0] = nc_build1(b, "Unsqueeze", 2, y, one(b, 0));
    return b->code;
}

/* ---- GatedRelativePositionBias ---- */

enum { LAYER, LAYER_BIAS, POSITIONS, WEIGHT, GATE_BIAS, CONSTANT, OFFSETS };

static nc_code gated_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, LAYER), *p = nc_in(c, POSITIONS);
    bool packed = c->node->n_in > OFFSETS && c->node->in[OFFSETS] != NULL;
    NC_TRY(nc_msattn_check_heads(c, "num_heads", NULL, ""));
    NC_TRY(nc_contrib_rank(c, LAYER, packed ? 2 : 3));
    NC_TRY(nc_contrib_rank(c, POSITIONS, 4));
    NC_TRY(nc_contrib_rank(c, WEIGHT, 2));
    NC_TRY(nc_contrib_vector(c, GATE_BIAS, nc_in_dim(c, WEIGHT, 1)));
    if (packed) NC_TRY(nc_contrib_rank(c, OFFSETS, 2));
    if (x == NULL) return NC_OK;
    if (x->rank < 0 || p == NULL || p->rank < 0) return nc_out_unknown(c, 0, x->elem, 4);
    NC_TRY(nc_msattn_check_heads(c, "num_heads", x->dims[x->rank - 1], "query_layer"));
    NC_TRY(nc_contrib_vector(c, LAYER_BIAS, x->dims[x->rank - 1]));
    const nc_dim *B = packed ? nc_in_dim(c, OFFSETS, 0) : x->dims[0];
    if (B == NULL) return nc_out_unknown(c, 0, x->elem, 4);
    return nc_out(c, 0, x->elem, 4, (const nc_dim *[]){B, p->dims[1], p->dims[2], p->dims[3]});
}

static nc_code gated_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[LAYER], *in[2] = {x, nc_contrib_in(n, OFFSETS)};
    nc_attr how[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    if (x->type == NULL || x->type->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    if (in[1] != NULL) x = nc_build_attr1(b, NC_MICROSOFT, "RestorePadding", in, 2, NULL, 0);
    x = nc_attn_to_heads(b, nc_build1(b, "Add", 2, x, n->in[LAYER_BIAS]), nc_attr_int(n, "num_heads"));
    nc_value *y = nc_build1(b, "Add", 2, nc_build1(b, "MatMul", 2, x, n->in[WEIGHT]), n->in[GATE_BIAS]);
    nc_node *parts = nc_build(b, "", "Split", &y, 1, 2, how, 2);
    if (parts == NULL) return b->code;
    nc_value *gate[2];
    for (int i = 0; i < 2; i++)
        gate[i] = nc_build1(b, "Sigmoid", 1, nc_build_reduce_sum(b, parts->out[i], (int64_t[]){3}, 1, true));
    if (b->code != NC_OK) return b->code;
    nc_dtype t = gate[0]->type->elem;
    nc_value *r = nc_build1(b, "Sub", 2, nc_build1(b, "Mul", 2, gate[1], n->in[CONSTANT]), nc_build_scalar(b, t, 1));
    nc_value *u = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, gate[0], r), nc_build_scalar(b, t, 2));
    out[0] = nc_build1(b, "Mul", 2, u, n->in[POSITIONS]);
    return b->code;
}

/* ---- cards ---- */

static const nc_op_version position_versions[] = {
    {.since = 1,
     IN({"bias_table", T_FLOAT_ALL}, {"query_length", T_I64}, {"key_length", T_I64}),
     OUT({"output", SAME(0)}),
     ATTR(A_INT_REQ("max_distance"), A_INT("is_bidirectional", 0))},
    {0}};
static const nc_op_version gated_versions[] = {
    {.since = 1,
     IN({"query_layer", T_FLOAT_ALL}, {"query_bias", SAME(0)}, {"rel_pos", SAME(0)}, {"weight", SAME(0)},
        {"bias", SAME(0)}, {"eco_a", SAME(0)}, {"token_offset", T_I32, OPTIONAL}),
     OUT({"output", SAME(0)}),
     ATTR(A_INT_REQ("num_heads"))},
    {0}};

const nc_card nc_card_relative_position_bias = {.name = "RelativePositionBias",
                                                .domain = NC_MICROSOFT,
                                                .doc = "What scores get for the distance of a key, by buckets.",
                                                .versions = position_versions,
                                                .host_in = 3u << QUERIES,
                                                .no_grad_in = 3u << QUERIES,
                                                .infer = position_infer,
                                                .decompose = position_decompose};
const nc_card nc_card_gated_relative_position_bias = {
    .name = "GatedRelativePositionBias",
    .domain = NC_MICROSOFT,
    .doc = "What scores get for the distance of a key, through gates of the query.",
    .versions = gated_versions,
    .no_grad_in = 1u << OFFSETS,
    .infer = gated_infer,
    .decompose = gated_decompose};
