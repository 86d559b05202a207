/* ops/ml/svm.c: cards of SVMRegressor and SVMClassifier. Labels that are strings are the classifier with numbers for
 * labels, and a Gather. */
#include "ops/ml/svm.h"

#define T_ML (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define T_F32 NC_BIT(NC_FLOAT)

static nc_code regressor_infer(nc_infer *c) { return nc_ml_scores_infer(c, 0, NC_FLOAT, 1); }

#define SVM                                                                                                           \
    A_STR("kernel_type", "LINEAR"), A_FLOATS_OPT("kernel_params"), A_FLOATS_OPT("rho"), A_FLOATS_OPT("coefficients"), \
        A_FLOATS_OPT("support_vectors"), A_STR("post_transform", "NONE")
static const nc_op_version regressor_versions[] = {
    {.since = 1, IN({"X", T_ML}), OUT({"Y", T_F32}), ATTR(SVM, A_INT("n_supports", 0), A_INT("one_class", 0))}, {0}};

const nc_card nc_card_svm_regressor = {.name = "SVMRegressor",
                                       .domain = "ai.onnx.ml",
                                       .doc = "A sum of kernels of X with support vectors.",
                                       .versions = regressor_versions,
                                       .infer = regressor_infer,
                                       .no_grad = NC_ML_NO_GRAD};

int64_t nc_svm_n_scores(const nc_node *n) {
    const nc_attr *per_class = nc_node_attr(n, "vectors_per_class"), *proba = nc_node_attr(n, "prob_a");
    int64_t labels = nc_ml_n_labels(n, "classlabels_strings", "classlabels_ints");
    int64_t classes = per_class != NULL && per_class->n > 0 ? per_class->n : labels;
    bool linear = per_class == NULL || per_class->n == 0;
    if (linear || (proba != NULL && proba->n > 0) || classes <= 2) return classes;
    return classes * (classes - 1) / 2;
}

static nc_code classifier_infer(nc_infer *c) {
    if (nc_ml_n_labels(c->node, "classlabels_strings", "classlabels_ints") < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "has no class labels");
    NC_TRY(nc_ml_labels_infer(c, "classlabels_strings"));
    return c->node->n_out > 1 ? nc_ml_scores_infer(c, 1, NC_FLOAT, nc_svm_n_scores(c->node)) : NC_OK;
}

static nc_code classifier_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_ml_number_labels(b, n, "classlabels_strings", "classlabels_ints", out);
}

static const nc_op_version classifier_versions[] = {
    {.since = 1,
     IN({"X", T_ML}),
     OUT({"Y", T_STRING | T_I64}, {"Z", T_F32}),
     ATTR(SVM, A_INTS_OPT("vectors_per_class"), A_FLOATS_OPT("prob_a"), A_FLOATS_OPT("prob_b"),
          A_STRINGS_OPT("classlabels_strings"), A_INTS_OPT("classlabels_ints"))},
    {0}};

const nc_card nc_card_svm_classifier = {.name = "SVMClassifier",
                                        .domain = "ai.onnx.ml",
                                        .doc = "The class that most pairwise support vector machines vote for.",
                                        .versions = classifier_versions,
                                        .infer = classifier_infer,
                                        .no_grad = NC_ML_NO_GRAD,
                                        .decompose = classifier_decompose};
