/* ops/norm/branchwise.c: the cards of BranchwiseRMSNorm and ScaledSiLU (com.microsoft): each branch of the columns with
 * mean square 1, times a weight; a scaled input times its sigmoid. They run, and are differentiated, as what they are
 * made of. */
#include "ops/contrib.h"

enum { X, SCALE };

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_code branch_infer(nc_infer *c) {
    int64_t n = nc_attr_int(c->node, "num_branches"), columns;
    int rank;
    if (n < 0) NC_FAIL(c->w, NC_E_BAD_GRAPH, "num_branches is %lld, expected at least 0", (long long)n);
    if (nc_in_rank(c, X, &rank)) {
        if (rank < (n > 0 ? 1 : 2))
            NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected at least %d", rank, n > 0 ? 1 : 2);
        if (n > 0 && nc_dim_is_const(nc_in_dim(c, X, rank - 1), &columns) && columns % n != 0)
            NC_FAIL(c->w, NC_E_SHAPE, "X has %lld columns, which %lld branches do not divide", (long long)columns,
                    (long long)n);
    }
    if (nc_in_rank(c, SCALE, &rank) && rank != 1 && rank != 2)
        NC_FAIL(c->w, NC_E_SHAPE, "scale has %d dims, expected 1 or 2", rank);
    return nc_out_like(c, 0, X);
}

/* scale (C*H), (C,H) or (H), to be multiplied with (...,C,H); x: of that shape. */
static nc_value *branch_scale(nc_builder *b, nc_value *scale, nc_value *x, nc_dtype t) {
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    scale = nc_build_cast(b, scale, t);
    if (b->code != NC_OK || scale->type->rank == 2) return scale;
    nc_value *shape[2] = {ints(b, -1), nc_contrib_size(b, x, x->type->rank - 1)}; /* (1,H) or (C,H) */
    return nc_build1(b, "Reshape", 2, scale, nc_build_attr1(b, "", "Concat", shape, 2, &first, 1));
}

static nc_code branch_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t branches = nc_attr_int(n, "num_branches");
    nc_value *x = nc_contrib_wide(b, n->in[X]), *scale = nc_contrib_in(n, SCALE);
    nc_attr ends[2] = {{.name = "start", .kind = NC_A_INT, .i = 0}, {.name = "end", .kind = NC_A_INT, .i = -1}};
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (n->in[X]->type == NULL || n->in[X]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    if (branches > 0) {
        nc_value *H = nc_build1(b, "Div", 2, nc_contrib_size(b, n->in[X], n->in[X]->type->rank - 1), ints(b, branches));
        nc_value *shape[3] = {nc_build_attr1(b, "", "Shape", &x, 1, ends, 2), ints(b, branches), H};
        x = nc_build1(b, "Reshape", 2, x, nc_build_attr1(b, "", "Concat", shape, 3, &first, 1));
    }
    if (b->code != NC_OK) return b->code;
    nc_dtype t = x->type->elem;
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    nc_value *mean[2] = {nc_build1(b, "Mul", 2, x, x), ints(b, -1)};
    nc_value *sum = nc_build1(b, "Add", 2, nc_build_attr1(b, "", "ReduceMean", mean, 2, &keep, 1),
                              nc_build_scalar(b, t, nc_attr_float(n, "epsilon")));
    nc_value *y = nc_build1(b, "Div", 2, x, nc_build1(b, "Sqrt", 1, sum));
    if (scale != NULL) y = nc_build1(b, "Mul", 2, y, branch_scale(b, scale, x, t));
    out[0] = nc_build_cast(b, branches > 0 ? nc_build_reshape_like(b, y, n->in[X]) : y, n->in[X]->type->elem);
    return b->code;
}

static nc_code silu_infer(nc_infer *c) {
    int rank;
    if (nc_in_rank(c, SCALE, &rank) && rank > 1) NC_FAIL(c->w, NC_E_SHAPE, "scale has %d dims, expected 0", rank);
    return nc_out_like(c, 0, X);
}

static nc_code silu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[X], *scale = nc_contrib_in(n, SCALE);
    if (x->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *wide = nc_contrib_wide(b, x);
    if (b->code != NC_OK) return b->code;
    nc_dtype t = wide->type->elem;
    scale = scale != NULL ? nc_build1(b, "Reshape", 2, nc_build_cast(b, scale, t), nc_build_ints(b, NULL, 0))
                          : nc_build_scalar(b, t, nc_attr_float(n, "alpha"));
    nc_value *z = nc_build_cast(b, nc_build1(b, "Mul", 2, wide, scale), x->type->elem);
    out[0] = nc_build1(b, "Mul", 2, z, nc_build1(b, "Sigmoid", 1, z));
    return b->code;
}

static const nc_op_version branch_versions[] = {{.since = 1,
                                                 IN({"X", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL, OPTIONAL}),
                                                 OUT({"Y", SAME(0)}),
                                                 ATTR(A_INT("num_branches", 0), A_FLOAT("epsilon", 1e-5f))},
                                                {0}};
static const nc_op_version silu_versions[] = {{.since = 1,
                                               IN({"X", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL, OPTIONAL}),
                                               OUT({"Y", SAME(0)}),
                                               ATTR(A_FLOAT("alpha", 1.0f))},
                                              {0}};

const nc_card nc_card_branchwise_rms_norm = {.name = "BranchwiseRMSNorm",
                                             .domain = NC_MICROSOFT,
                                             .doc = "Each branch of the columns with mean square 1, times a weight.",
                                             .versions = branch_versions,
                                             .infer = branch_infer,
                                             .decompose = branch_decompose};
const nc_card nc_card_scaled_silu = {.name = "ScaledSiLU",
                                     .domain = NC_MICROSOFT,
                                     .doc = "The scaled input times its sigmoid.",
                                     .versions = silu_versions,
                                     .infer = silu_infer,
                                     .decompose = silu_decompose};
