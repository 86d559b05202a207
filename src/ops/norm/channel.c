/* ops/norm/channel.c: cards of InstanceNormalization and GroupNormalization: each image's channels, or groups of them,
 * are normalized by themselves. Kernels are in norm_cpu.c, gradients come from the decompositions. */
#include "ops/card.h"
#include "ops/norm/norm.h"

static nc_code check_count(nc_infer *c, int i, const nc_dim *want) {
    int rank;
    int64_t have, count;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    if (rank != 1) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, 1 is expected", i, rank);
    if (nc_dim_is_const(nc_in_dim(c, i, 0), &have) && nc_dim_is_const(want, &count) && have != count)
        NC_FAIL(c->w, NC_E_SHAPE, "input %d has %lld elements, %lld are expected", i, (long long)have,
                (long long)count);
    return NC_OK;
}

static nc_code instance_infer(nc_infer *c) {
    int rank;
    if (nc_in_rank(c, 0, &rank)) {
        if (rank < 3) NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, at least 3 are expected", rank);
        for (int i = 1; i < 3; i++) NC_TRY(check_count(c, i, nc_in_dim(c, 0, 1)));
    }
    return nc_out_like(c, 0, 0);
}

static nc_code group_infer(nc_infer *c) {
    int64_t groups = nc_attr_int(c->node, "num_groups"), channels;
    int rank;
    if (groups < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "num_groups is %lld", (long long)groups);
    if (nc_in_rank(c, 0, &rank)) {
        if (rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
        const nc_dim *C = nc_in_dim(c, 0, 1), *want = c->node->version->since < 21 ? nc_dim_const(c->dims, groups) : C;
        if (nc_dim_is_const(C, &channels) && channels % groups != 0)
            NC_FAIL(c->w, NC_E_SHAPE, "%lld channels do not divide into %lld groups", (long long)channels,
                    (long long)groups);
        for (int i = 1; i < 3; i++) NC_TRY(check_count(c, i, want));
    }
    return nc_out_like(c, 0, 0);
}

static nc_value *scaled(nc_builder *b, const nc_node *n, nc_value *x, int rank, nc_dtype wide) {
    nc_value *scale = nc_norm_channels(b, nc_build_cast(b, n->in[1], wide), rank);
    nc_value *bias = nc_norm_channels(b, nc_build_cast(b, n->in[2], wide), rank);
    return nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, x, scale), bias);
}

static nc_code instance_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int rank;
    int64_t axes[NC_MAX_RANK];
    NC_TRY(nc_norm_rank(b, n, 3, &rank));
    nc_dtype t = n->in[0]->type->elem, wide = nc_norm_wide(t);
    int n_axes = nc_norm_axes(2, rank, axes);
    nc_norm_pieces p =
        nc_norm_pieces_of(b, nc_build_cast(b, n->in[0], wide), axes, n_axes, nc_attr_float(n, "epsilon"), true);
    out[0] = nc_build_cast(b, scaled(b, n, p.normal, rank, wide), t);
    return b->code;
}

/* As (N, groups, rest); version 18 scales there, 21 scales channels. */
static nc_code group_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int rank;
    NC_TRY(nc_norm_rank(b, n, 2, &rank));
    nc_value *x = n->in[0];
    nc_dtype t = x->type->elem, wide = nc_norm_wide(t);
    int64_t shape[3] = {0, nc_attr_int(n, "num_groups"), -1}, axis = 2;
    nc_value *rows = nc_build1(b, "Reshape", 2, nc_build_cast(b, x, wide), nc_build_ints(b, shape, 3));
    nc_norm_pieces p = nc_norm_pieces_of(b, rows, &axis, 1, nc_attr_float(n, "epsilon"), true);
    bool by_group = n->version->since < 21;
    nc_value *y = by_group ? scaled(b, n, p.normal, 3, wide) : p.normal;
    y = nc_build_reshape_like(b, y, x);
    if (!by_group) y = scaled(b, n, y, rank, wide);
    out[0] = nc_build_cast(b, y, t);
    return b->code;
}

#define XSB(x, types, bias, y) IN({x, types}, {"scale", SAME(0)}, {bias, SAME(0)}), OUT({y, SAME(0)})
#define INSTANCE(types) XSB("input", types, "B", "output")
static const nc_op_version instance_versions[] = {
    {.since = 22, INSTANCE(T_FLOAT_ALL), ATTR(A_FLOAT("epsilon", 1e-5f))},
    {.since = 6, INSTANCE(T_FLOAT), ATTR(A_FLOAT("epsilon", 1e-5f))},
    {.since = 1, INSTANCE(T_FLOAT), ATTR(A_FLOAT("epsilon", 1e-5f), A_INTS_OPT("consumed_inputs"))},
    {0}};
static const nc_op_version group_versions[] = {
    {.since = 21,
     XSB("X", T_FLOAT_ALL, "bias", "Y"),
     ATTR(A_INT("stash_type", 1), A_INT_REQ("num_groups"), A_FLOAT("epsilon", 1e-5f))},
    {.since = 18, XSB("X", T_FLOAT_ALL, "bias", "Y"), ATTR(A_INT_REQ("num_groups"), A_FLOAT("epsilon", 1e-5f))},
    {0}};

const nc_card nc_card_instance_normalization = {.name = "InstanceNormalization",
                                                .doc = "Mean 0 and variance 1 of each image's channels, then scaled.",
                                                .versions = instance_versions,
                                                .traits = NC_NORMS,
                                                .infer = instance_infer,
                                                .decompose = instance_decompose};
const nc_card nc_card_group_normalization = {.name = "GroupNormalization",
                                             .doc = "Mean 0 and variance 1 of groups of channels, then scaled.",
                                             .versions = group_versions,
                                             .traits = NC_NORMS,
                                             .infer = group_infer,
                                             .decompose = group_decompose};
