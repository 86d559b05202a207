/* ops/norm/simple.c: cards of LRN, LpNormalization and MeanVarianceNormalization, which have no kernels of their own:
 * they run, and are differentiated, as what they are made of. */
#include "ops/card.h"
#include "ops/norm/norm.h"

static nc_code same_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

/* ---- LRN ---- */

static nc_code lrn_infer(nc_infer *c) {
    int rank;
    if (nc_attr_int(c->node, "size") < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "size is %lld", (long long)nc_attr_int(c->node, "size"));
    if (nc_in_rank(c, 0, &rank) && rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
    return nc_out_like(c, 0, 0);
}

/* Sums over neighbouring channels are sums under a window of a tensor (N, 1, C, all else). */
static nc_code lrn_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int rank;
    NC_TRY(nc_norm_rank(b, n, 2, &rank));
    nc_value *x = n->in[0];
    nc_dtype t = x->type->elem, wide = nc_norm_wide(t);
    int64_t size = nc_attr_int(n, "size"), one = 1, rows[3] = {0, 0, -1};
    int64_t kernel[2] = {size, 1}, pads[4] = {(size - 1) / 2, 0, size / 2, 0};
    nc_attr attrs[2] = {{.name = "kernel_shape", .kind = NC_A_INTS, .n = 2, .ints = kernel},
                        {.name = "pads", .kind = NC_A_INTS, .n = 4, .ints = pads}};
    nc_value *v = nc_build_cast(b, x, wide);
    nc_value *squares = nc_build1(b, "Reshape", 2, nc_build1(b, "Mul", 2, v, v), nc_build_ints(b, rows, 3));
    nc_value *planes = nc_build1(b, "Unsqueeze", 2, squares, nc_build_ints(b, &one, 1));
    nc_value *sums = nc_build_attr1(b, "nacre", "SumPool", &planes, 1, attrs, 2);
    sums = nc_build_reshape_like(b, sums, x);
    nc_value *share = nc_build_scalar(b, wide, nc_attr_float(n, "alpha") / (double)size);
    nc_value *base =
        nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, sums, share), nc_build_scalar(b, wide, nc_attr_float(n, "bias")));
    nc_value *power = nc_build1(b, "Pow", 2, base, nc_build_scalar(b, wide, nc_attr_float(n, "beta")));
    out[0] = nc_build_cast(b, nc_build1(b, "Div", 2, v, power), t);
    return b->code;
}

/* ---- LpNormalization ---- */

static nc_code lp_infer(nc_infer *c) {
    int rank, axis;
    int64_t p = nc_attr_int(c->node, "p");
    if (p != 1 && p != 2) NC_FAIL(c->w, NC_E_BAD_GRAPH, "p is %lld, expected 1 or 2", (long long)p);
    if (nc_in_rank(c, 0, &rank)) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    return nc_out_like(c, 0, 0);
}

/* A row of zeros stays zeros: it is divided by 1. */
static nc_code lp_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0];
    if (x->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_dtype t = x->type->elem, wide = nc_norm_wide(t);
    int64_t axis = nc_attr_int(n, "axis");
    bool squared = nc_attr_int(n, "p") == 2;
    nc_value *v = nc_build_cast(b, x, wide);
    nc_value *sum =
        nc_build_reduce_sum(b, squared ? nc_build1(b, "Mul", 2, v, v) : nc_build1(b, "Abs", 1, v), &axis, 1, true);
    nc_value *none = nc_build1(b, "Equal", 2, sum, nc_build_scalar(b, wide, 0));
    nc_value *safe = nc_build1(b, "Where", 3, none, nc_build_scalar(b, wide, 1), sum);
    nc_value *norm = squared ? nc_build1(b, "Sqrt", 1, safe) : safe;
    out[0] = nc_build_cast(b, nc_build1(b, "Div", 2, v, norm), t);
    return b->code;
}

/* ---- MeanVarianceNormalization ---- */

static nc_code mean_variance_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t usual[] = {0, 2, 3};
    int n_axes;
    const int64_t *axes = nc_attr_ints(n, "axes", &n_axes);
    if (axes == NULL) axes = usual, n_axes = 3;
    nc_value *x = n->in[0];
    if (x->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_dtype t = x->type->elem, wide = nc_norm_wide(t);
    nc_value *v = nc_build_cast(b, x, wide);
    nc_value *d = nc_build1(b, "Sub", 2, v, nc_norm_mean_of(b, v, axes, n_axes));
    nc_value *var = nc_norm_mean_of(b, nc_build1(b, "Mul", 2, d, d), axes, n_axes);
    nc_value *std = nc_build1(b, "Add", 2, nc_build1(b, "Sqrt", 1, var), nc_build_scalar(b, wide, 1e-9));
    out[0] = nc_build_cast(b, nc_build1(b, "Div", 2, d, std), t);
    return b->code;
}

#define X_Y(x, types, y) IN({x, types}), OUT({y, SAME(0)})
#define LRN_ATTR ATTR(A_FLOAT("alpha", 0.0001f), A_FLOAT("beta", 0.75f), A_FLOAT("bias", 1), A_INT_REQ("size"))
static const nc_op_version lrn_versions[] = {
    {.since = 13, X_Y("X", T_FLOAT_ALL, "Y"), LRN_ATTR}, {.since = 1, X_Y("X", T_FLOAT, "Y"), LRN_ATTR}, {0}};
#define LP_ATTR ATTR(A_INT("axis", -1), A_INT("p", 2))
static const nc_op_version lp_versions[] = {{.since = 22, X_Y("input", T_FLOAT_ALL, "output"), LP_ATTR},
                                            {.since = 1, X_Y("input", T_FLOAT, "output"), LP_ATTR},
                                            {0}};
static const nc_op_version mean_variance_versions[] = {
    {.since = 13, X_Y("X", T_FLOAT_ALL, "Y"), ATTR(A_INTS_OPT("axes"))},
    {.since = 9, X_Y("X", T_FLOAT, "Y"), ATTR(A_INTS_OPT("axes"))},
    {0}};

const nc_card nc_card_lrn = {.name = "LRN",
                             .doc = "x divided by a power of the squares of neighbouring channels.",
                             .versions = lrn_versions,
                             .infer = lrn_infer,
                             .decompose = lrn_decompose};
const nc_card nc_card_lp_normalization = {.name = "LpNormalization",
                                          .doc = "Rows along an axis divided by their 1- or 2-norm.",
                                          .versions = lp_versions,
                                          .infer = lp_infer,
                                          .decompose = lp_decompose};
const nc_card nc_card_mean_variance_normalization = {.name = "MeanVarianceNormalization",
                                                     .doc = "Mean 0 and variance 1 along axes, by default 0, 2 and 3.",
                                                     .versions = mean_variance_versions,
                                                     .infer = same_infer,
                                                     .decompose = mean_variance_decompose};
