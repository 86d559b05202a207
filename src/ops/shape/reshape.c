/* ops/shape/reshape.c: cards of Reshape and Flatten: the same elements in row-major order under other dims. Views of a
 * dense input (shape_views.c); string tensors are copied (shape_cpu.c). */
#include "ops/shape/shape.h"

/* What a target shape says of its dims: sizes taken over from the input cancel in the dim that is to be found. */
typedef struct target {
    const nc_dim *dims[NC_MAX_RANK];
    const nc_dim *rest_in, *rest_out; /* products of what does not cancel */
    int i_open;                       /* the dim given as -1; -1: none */
    bool empty;                       /* a size taken over is 0: there is nothing, whatever the rest */
} target;

static nc_code read_target(nc_infer *c, const nc_dim *const *elems, int n, target *t) {
    const nc_type *x = nc_in(c, 0);
    bool zero_is_size = nc_attr_has(c->node, "allowzero") && nc_attr_int(c->node, "allowzero") != 0,
         taken[NC_MAX_RANK] = {0};
    *t = (target){.i_open = -1, .rest_in = nc_dim_const(c->dims, 1), .rest_out = nc_dim_const(c->dims, 1)};
    if (n > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "the shape has %d dims, at most %d are supported", n, NC_MAX_RANK);
    for (int k = 0; k < n; k++) {
        int64_t v = 1;
        bool known = nc_dim_is_const(elems[k], &v);
        if (known && v == 0 && !zero_is_size) {
            if (x->rank >= 0 && k >= x->rank)
                NC_FAIL(c->w, NC_E_SHAPE, "dim %d of the shape is 0, but the input has %d dims", k, x->rank);
            t->dims[k] = x->rank >= 0 ? x->dims[k] : nc_fresh(c, "d");
            if (x->rank >= 0) taken[k] = true;
            t->empty |= x->rank >= 0 && nc_dim_is_const(x->dims[k], &v) && v == 0;
        } else if (known && v == -1) {
            if (t->i_open >= 0) NC_FAIL(c->w, NC_E_SHAPE, "the shape has more than one -1");
            t->i_open = k;
        } else if (known && v < 0) {
            NC_FAIL(c->w, NC_E_SHAPE, "dim %d of the shape is %lld", k, (long long)v);
        } else {
            t->dims[k] = elems[k];
            t->rest_out = nc_dim_mul(c->dims, t->rest_out, elems[k]);
        }
    }
    for (int k = 0; k < x->rank; k++)
        if (!taken[k]) t->rest_in = nc_dim_mul(c->dims, t->rest_in, x->dims[k]);
    NC_NEED(c->w, t->rest_in);
    NC_NEED(c->w, t->rest_out);
    return NC_OK;
}

static nc_code solve_target(nc_infer *c, target *t) {
    int64_t in = 0, out = 0;
    bool in_known = nc_dim_is_const(t->rest_in, &in), out_known = nc_dim_is_const(t->rest_out, &out);
    if (t->i_open >= 0 && out_known && out == 0) NC_FAIL(c->w, NC_E_SHAPE, "-1 beside a dim of 0 has no one answer");
    if (in_known && out_known && (t->i_open >= 0 ? in % out != 0 : in != out && !t->empty))
        NC_FAIL(c->w, NC_E_SHAPE, "%lld elements do not fit a shape of %s%lld", (long long)in,
                t->i_open >= 0 ? "a multiple of " : "", (long long)out);
    if (t->i_open < 0) return NC_OK;
    t->dims[t->i_open] = nc_dim_floordiv(c->dims, t->rest_in, t->rest_out);
    NC_NEED(c->w, t->dims[t->i_open]);
    return NC_OK;
}

static nc_code reshape_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *const *elems = NULL;
    int n;
    target t;
    if (x == NULL) return NC_OK;
    NC_TRY(nc_shape_elems(c, 1, "shape", &elems, &n));
    if (elems == NULL) {
        int rank = nc_shape_count(c, 1);
        return nc_out_unknown(c, 0, x->elem, rank);
    }
    NC_TRY(read_target(c, elems, n, &t));
    if (x->rank >= 0) {
        NC_TRY(solve_target(c, &t));
    } else if (t.i_open >= 0) {
        t.dims[t.i_open] = nc_fresh(c, "d");
    }
    return nc_out(c, 0, x->elem, n, t.dims);
}

#define RESHAPE(types) IN({"data", types}, {"shape", T_I64}), OUT({"reshaped", SAME(0)})
#define ALLOW_ZERO ATTR(A_INT("allowzero", 0))
static const nc_op_version reshape_versions[] = {{.since = 25, RESHAPE(T_TENSOR_ALL | T_NARROW_25), ALLOW_ZERO},
                                                 {.since = 24, RESHAPE(T_TENSOR_ALL | T_NARROW_24), ALLOW_ZERO},
                                                 {.since = 23, RESHAPE(T_TENSOR_ALL | T_NARROW_23), ALLOW_ZERO},
                                                 {.since = 21, RESHAPE(T_TENSOR_ALL | T_NARROW_21), ALLOW_ZERO},
                                                 {.since = 19, RESHAPE(T_TENSOR_ALL | T_NARROW_19), ALLOW_ZERO},
                                                 {.since = 14, RESHAPE(T_TENSOR_ALL), ALLOW_ZERO},
                                                 {.since = 13, RESHAPE(T_TENSOR_ALL), NO_ATTR},
                                                 {.since = 5, RESHAPE(T_TENSOR), NO_ATTR},
                                                 {.since = 1,
                                                  IN({"data", T_FLOAT}),
                                                  OUT({"reshaped", SAME(0)}),
                                                  ATTR(A_INTS_OPT("shape"), A_INTS_OPT("consumed_inputs"))},
                                                 {0}};

const nc_card nc_card_reshape = {.name = "Reshape",
                                 .doc = "The same elements under another shape; 0 keeps a dim, -1 is found.",
                                 .versions = reshape_versions,
                                 .traits = NC_VIEW_DENSE,
                                 .host_in = 1u << 1,
                                 .no_grad_in = 1u << 1,
                                 .infer = reshape_infer,
                                 .fold = nc_shape_fold_same,
                                 .grad = nc_shape_grad_reshape,
                                 .is_identity = nc_shape_same_type};

/* ---- Flatten ---- */

static nc_code flatten_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, 2);
    int64_t axis = nc_attr_int(c->node, "axis");
    if (axis < -x->rank || axis > x->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "axis %lld is out of range for %d dims", (long long)axis, x->rank);
    if (axis < 0) axis += x->rank;
    const nc_dim *dims[2] = {nc_dim_const(c->dims, 1), nc_dim_const(c->dims, 1)};
    for (int k = 0; k < x->rank; k++) dims[k >= axis] = nc_dim_mul(c->dims, dims[k >= axis], x->dims[k]);
    return nc_out(c, 0, x->elem, 2, dims);
}

#define FLATTEN(types) IN({"input", types}), OUT({"output", SAME(0)}), ATTR(A_INT("axis", 1))
static const nc_op_version flatten_versions[] = {{.since = 25, FLATTEN(T_TENSOR_ALL | T_NARROW_25)},
                                                 {.since = 24, FLATTEN(T_TENSOR_ALL | T_NARROW_24)},
                                                 {.since = 23, FLATTEN(T_TENSOR_ALL | T_NARROW_23)},
                                                 {.since = 21, FLATTEN(T_TENSOR_ALL | T_NARROW_21)},
                                                 {.since = 13, FLATTEN(T_TENSOR_ALL)},
                                                 {.since = 11, FLATTEN(T_TENSOR)},
                                                 {.since = 9, FLATTEN(T_TENSOR)},
                                                 {.since = 1, FLATTEN(T_FLOAT)},
                                                 {0}};

const nc_card nc_card_flatten = {.name = "Flatten",
                                 .doc = "Two dims: the product of those before axis, and of the others.",
                                 .versions = flatten_versions,
                                 .traits = NC_VIEW_DENSE,
                                 .infer = flatten_infer,
                                 .fold = nc_shape_fold_same,
                                 .grad = nc_shape_grad_reshape,
                                 .is_identity = nc_shape_same_type};
