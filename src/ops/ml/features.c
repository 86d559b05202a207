/* ops/ml/features.c: cards of ai.onnx.ml that are other ops put together: ArrayFeatureExtractor, Binarizer, Scaler and
 * Normalizer. They have no kernels. */
#include "ops/build.h"
#include "ops/ml/ml.h"

#include <string.h>

#define T_ML (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define ML "ai.onnx.ml"

static nc_value *floats(nc_builder *b, const float *v, int n) {
    int64_t dims = n;
    const nc_literal *l = nc_edit_literal(b->graph->model, NC_FLOAT, 1, &dims, v);
    nc_attr value = {.name = "value", .kind = NC_A_TENSOR, .tensor = l};
    return l != NULL ? nc_build_attr1(b, "", "Constant", NULL, 0, &value, 1) : NULL;
}

/* ---- ArrayFeatureExtractor ---- */

static nc_code extract_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *y = nc_in(c, 1);
    const nc_dim *dims[NC_MAX_RANK], *n = nc_dim_const(c->dims, 1);
    if (x == NULL) return NC_OK;
    if (x->rank < 0 || y == NULL || y->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "X has no dims");
    for (int k = 0; k < y->rank; k++) n = nc_dim_mul(c->dims, n, y->dims[k]);
    for (int k = 0; k < x->rank - 1; k++) dims[k] = x->dims[k];
    if (x->rank == 1) dims[0] = nc_dim_const(c->dims, 1);
    dims[x->rank > 1 ? x->rank - 1 : 1] = n;
    return nc_out(c, 0, x->elem, x->rank > 1 ? x->rank : 2, dims);
}

static nc_code extract_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t all = -1, first = 0;
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0) NC_FAIL(b->w, NC_E_SHAPE, "the rank of X is not known");
    nc_value *in[2] = {n->in[0], nc_build1(b, "Reshape", 2, n->in[1], nc_build_ints(b, &all, 1))};
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    out[0] = nc_build_attr1(b, "", "Gather", in, 2, &last, 1);
    if (n->in[0]->type->rank == 1) out[0] = nc_build1(b, "Unsqueeze", 2, out[0], nc_build_ints(b, &first, 1));
    return b->code;
}

static const nc_op_version extract_versions[] = {
    {.since = 1, IN({"X", T_ML | T_STRING}, {"Y", T_I64}), OUT({"Z", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_array_feature_extractor = {.name = "ArrayFeatureExtractor",
                                                 .domain = ML,
                                                 .doc = "Elements of the last axis, picked by indices.",
                                                 .versions = extract_versions,
                                                 .no_grad_in = 2,
                                                 .infer = extract_infer,
                                                 .decompose = extract_decompose};

/* ---- Binarizer ---- */

static nc_code same_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

/* Compared in float, or double for the wide types. */
static nc_code binarizer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = n->in[0]->type->elem, wide = t == NC_FLOAT ? NC_FLOAT : NC_DOUBLE;
    nc_value *limit = nc_build_scalar(b, wide, nc_attr_float(n, "threshold"));
    out[0] = nc_build_cast(b, nc_build1(b, "Greater", 2, nc_build_cast(b, n->in[0], wide), limit), t);
    return b->code;
}

static const nc_op_version binarizer_versions[] = {
    {.since = 1, IN({"X", T_ML}), OUT({"Y", SAME(0)}), ATTR(A_FLOAT("threshold", 0))}, {0}};

const nc_card nc_card_binarizer = {.name = "Binarizer",
                                   .domain = ML,
                                   .doc = "1 where X is larger than the threshold, else 0.",
                                   .versions = binarizer_versions,
                                   .infer = same_infer,
                                   .zero_grad = true,
                                   .decompose = binarizer_decompose};

/* ---- Scaler ---- */

static nc_code float_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return NC_OK;
    return x->rank < 0 ? nc_out_unknown(c, 0, NC_FLOAT, -1) : nc_out(c, 0, NC_FLOAT, x->rank, x->dims);
}

static nc_code scaler_infer(nc_infer *c) {
    NC_TRY(nc_ml_columns_expect(c, "offset"));
    NC_TRY(nc_ml_columns_expect(c, "scale"));
    return float_infer(c);
}

static nc_code scaler_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_attr *offset = nc_node_attr(n, "offset"), *scale = nc_node_attr(n, "scale");
    out[0] = nc_build_cast(b, n->in[0], NC_FLOAT);
    if (offset != NULL) out[0] = nc_build1(b, "Sub", 2, out[0], floats(b, offset->floats, offset->n));
    if (scale != NULL) out[0] = nc_build1(b, "Mul", 2, out[0], floats(b, scale->floats, scale->n));
    if (offset == NULL && scale == NULL) out[0] = nc_build1(b, "Identity", 1, out[0]);
    return b->code;
}

static const nc_op_version scaler_versions[] = {
    {.since = 1, IN({"X", T_ML}), OUT({"Y", NC_BIT(NC_FLOAT)}), ATTR(A_FLOATS_OPT("offset"), A_FLOATS_OPT("scale"))},
    {0}};

const nc_card nc_card_scaler = {.name = "Scaler",
                                .domain = ML,
                                .doc = "(X - offset) * scale.",
                                .versions = scaler_versions,
                                .infer = scaler_infer,
                                .decompose = scaler_decompose};

/* ---- Normalizer ---- */

static nc_value *reduced(nc_builder *b, const char *op, nc_value *x) {
    int64_t last = -1;
    return nc_build1(b, op, 2, x, nc_build_ints(b, &last, 1));
}

/* A row of zeros stays: its norm counts as 1. */
static nc_code normalizer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const char *norm = nc_attr_str(n, "norm");
    nc_value *x = nc_build_cast(b, n->in[0], NC_FLOAT), *size, *zero = nc_build_scalar(b, NC_FLOAT, 0);
    if (strcmp(norm, "MAX") == 0)
        size = reduced(b, "ReduceMax", x);
    else if (strcmp(norm, "L1") == 0)
        size = reduced(b, "ReduceSum", nc_build1(b, "Abs", 1, x));
    else if (strcmp(norm, "L2") == 0)
        size = nc_build1(b, "Sqrt", 1, reduced(b, "ReduceSum", nc_build1(b, "Mul", 2, x, x)));
    else
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "norm is '%s', expected MAX, L1 or L2", norm);
    nc_value *one = nc_build_scalar(b, NC_FLOAT, 1);
    out[0] = nc_build1(b, "Div", 2, x, nc_build1(b, "Where", 3, nc_build1(b, "Equal", 2, size, zero), one, size));
    return b->code;
}

static const nc_op_version normalizer_versions[] = {
    {.since = 1, IN({"X", T_ML}), OUT({"Y", NC_BIT(NC_FLOAT)}), ATTR(A_STR("norm", "MAX"))}, {0}};

const nc_card nc_card_normalizer = {.name = "Normalizer",
                                    .domain = ML,
                                    .doc = "The rows of X divided by their norm.",
                                    .versions = normalizer_versions,
                                    .infer = float_infer,
                                    .decompose = normalizer_decompose};
