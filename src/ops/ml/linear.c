/* ops/ml/linear.c: cards of LinearRegressor and LinearClassifier. Labels that are strings are the classifier with
 * numbers for labels, and a Gather. */
#include "ops/ml/linear.h"

#define T_ML (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define T_F32 NC_BIT(NC_FLOAT)

static nc_code regressor_infer(nc_infer *c) {
    int64_t n = nc_attr_int(c->node, "targets");
    if (n < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "targets is %lld", (long long)n);
    return nc_ml_scores_infer(c, 0, NC_FLOAT, n);
}

static const nc_op_version regressor_versions[] = {
    {.since = 1,
     IN({"X", T_ML}),
     OUT({"Y", T_F32}),
     ATTR(A_INT("targets", 1), A_FLOATS_OPT("intercepts"), A_FLOATS_OPT("coefficients"),
          A_STR("post_transform", "NONE"))},
    {0}};

const nc_card nc_card_linear_regressor = {.name = "LinearRegressor",
                                          .domain = "ai.onnx.ml",
                                          .doc = "X times coefficients plus intercepts, transformed.",
                                          .versions = regressor_versions,
                                          .infer = regressor_infer,
                                          .no_grad = NC_ML_NO_GRAD};

int64_t nc_linear_n_scores(const nc_node *n) {
    int64_t labels = nc_ml_n_labels(n, "classlabels_strings", "classlabels_ints");
    const nc_attr *intercepts = nc_node_attr(n, "intercepts");
    return intercepts != NULL && intercepts->n > 0 ? intercepts->n : labels > 0 ? labels : 1;
}

static nc_code classifier_infer(nc_infer *c) {
    int64_t n = nc_linear_n_scores(c->node),
            labels = nc_ml_n_labels(c->node, "classlabels_strings", "classlabels_ints");
    if (n == 1 && labels == 2) n = 2;
    NC_TRY(nc_ml_labels_infer(c, "classlabels_strings"));
    return c->node->n_out > 1 ? nc_ml_scores_infer(c, 1, NC_FLOAT, n) : NC_OK;
}

static nc_code classifier_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_ml_number_labels(b, n, "classlabels_strings", "classlabels_ints", out);
}

static const nc_op_version classifier_versions[] = {
    {.since = 1,
     IN({"X", T_ML}),
     OUT({"Y", T_STRING | T_I64}, {"Z", T_F32}),
     ATTR(A_STR("post_transform", "NONE"), A_INTS_OPT("classlabels_ints"), A_STRINGS_OPT("classlabels_strings"),
          A_INT("multi_class", 0), A_FLOATS_OPT("intercepts"),
          {.name = "coefficients", .kind = NC_A_FLOATS, .flags = NC_ATTR_REQUIRED})},
    {0}};

const nc_card nc_card_linear_classifier = {.name = "LinearClassifier",
                                           .domain = "ai.onnx.ml",
                                           .doc = "The class whose linear score is the highest.",
                                           .versions = classifier_versions,
                                           .infer = classifier_infer,
                                           .no_grad = NC_ML_NO_GRAD,
                                           .decompose = classifier_decompose};
