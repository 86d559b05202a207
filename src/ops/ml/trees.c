/* ops/ml/trees.c: cards of TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble. Labels that are strings are
 * the classifier with numbers for labels, and a Gather. */
#include "ops/build.h"
#include "ops/ml/ml.h"

#include <string.h>

#define T_ML (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define T_F32 NC_BIT(NC_FLOAT)

static nc_code rows_of(nc_infer *c, const nc_type *x, const nc_dim **rows) {
    if (x->rank == 0 || x->rank > 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected 1 or 2", x->rank);
    *rows = x->rank == 2 ? x->dims[0] : x->rank == 1 ? nc_dim_const(c->dims, 1) : nc_fresh(c, "n");
    NC_NEED(c->w, *rows);
    return NC_OK;
}

nc_code nc_ml_columns_expect(nc_infer *c, const char *list) {
    const nc_attr *a = nc_node_attr(c->node, list);
    int rank;
    int64_t columns;
    if (a == NULL || !nc_in_rank(c, 0, &rank)) return NC_OK;
    if (rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "X has no dims, at least 1 is expected");
    if (a->n > 1 && nc_dim_is_const(nc_in_dim(c, 0, rank - 1), &columns) && columns != a->n)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %d elements for %lld columns of X", list, a->n, (long long)columns);
    return NC_OK;
}

nc_code nc_ml_scores_infer(nc_infer *c, int i_out, nc_dtype t, int64_t n) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[2] = {NULL, nc_dim_const(c->dims, n)};
    if (x == NULL) return NC_OK;
    NC_TRY(rows_of(c, x, &dims[0]));
    return nc_out(c, i_out, t, 2, dims);
}

nc_code nc_ml_labels_infer(nc_infer *c, const char *strings) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *rows;
    if (x == NULL) return NC_OK;
    NC_TRY(rows_of(c, x, &rows));
    return nc_out(c, 0, nc_node_attr(c->node, strings) != NULL ? NC_STRING : NC_INT64, 1, &rows);
}

int64_t nc_ml_n_labels(const nc_node *n, const char *strings, const char *ints) {
    const nc_attr *a = nc_node_attr(n, strings), *b = nc_node_attr(n, ints);
    return a != NULL ? a->n : b != NULL ? b->n : 0;
}

nc_code nc_ml_number_labels(nc_builder *b, const nc_node *n, const char *strings, const char *ints, nc_value **out) {
    const nc_attr *names = nc_node_attr(n, strings);
    if (names == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "no kernel serves it, and its labels are no strings");
    nc_attr *attrs = nc_arena_array(&b->w->scratch, (size_t)n->n_attrs + 1, sizeof *attrs);
    int64_t *numbers = nc_arena_array(&b->w->scratch, (size_t)names->n + 1, sizeof *numbers), count = names->n;
    NC_NEED(b->w, attrs);
    NC_NEED(b->w, numbers);
    int n_attrs = 0;
    for (int i = 0; i < n->n_attrs; i++)
        if (&n->attrs[i] != names && strcmp(n->attrs[i].name, ints) != 0) attrs[n_attrs++] = n->attrs[i];
    for (int i = 0; i < names->n; i++) numbers[i] = i;
    attrs[n_attrs++] = (nc_attr){.name = ints, .kind = NC_A_INTS, .n = names->n, .ints = numbers};
    nc_node *numbered = nc_build_card(b, n->card, n->in, n->n_in, NULL, n->n_out, attrs, n_attrs);
    if (numbered == NULL) return b->code;
    const nc_literal *l = nc_edit_literal(b->graph->model, NC_STRING, 1, &count, names->strings);
    NC_NEED(b->w, l);
    nc_value *table = nc_edit_const(b->graph, NULL, l);
    NC_NEED(b->w, table);
    out[0] = nc_build1(b, "Gather", 2, table, numbered->out[0]);
    if (n->n_out > 1) out[1] = numbered->out[1];
    return b->code;
}

/* ---- TreeEnsembleRegressor ---- */

static nc_code targets_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int64_t n = nc_attr_has(c->node, "n_targets") ? nc_attr_int(c->node, "n_targets") : 1;
    if (x == NULL) return NC_OK;
    if (n < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "n_targets is %lld", (long long)n);
    return nc_ml_scores_infer(c, 0, c->node->version->since >= 5 ? x->elem : NC_FLOAT, n);
}

#define NODES                                                                                       \
    A_INTS_OPT("nodes_treeids"), A_INTS_OPT("nodes_nodeids"), A_INTS_OPT("nodes_featureids"),       \
        A_FLOATS_OPT("nodes_values"), A_FLOATS_OPT("nodes_hitrates"), A_STRINGS_OPT("nodes_modes"), \
        A_INTS_OPT("nodes_truenodeids"), A_INTS_OPT("nodes_falsenodeids"),                          \
        A_INTS_OPT("nodes_missing_value_tracks_true"), A_FLOATS_OPT("base_values"), A_STR("post_transform", "NONE")
#define NODES_3                                                                              \
    NODES, A_TENSOR_OPT("nodes_values_as_tensor"), A_TENSOR_OPT("nodes_hitrates_as_tensor"), \
        A_TENSOR_OPT("base_values_as_tensor")
#define TARGETS                                                                           \
    A_INTS_OPT("target_treeids"), A_INTS_OPT("target_nodeids"), A_INTS_OPT("target_ids"), \
        A_FLOATS_OPT("target_weights"), A_INT_OPT("n_targets"), A_STR("aggregate_function", "SUM")
#define REGRESSES IN({"X", T_ML}), OUT({"Y", T_F32}), ATTR(NODES_3, TARGETS, A_TENSOR_OPT("target_weights_as_tensor"))
static const nc_op_version regressor_versions[] = {
    {.since = 5, REGRESSES, .removed = true},
    {.since = 3, REGRESSES},
    {.since = 1, IN({"X", T_ML}), OUT({"Y", T_F32}), ATTR(NODES, TARGETS)},
    {0}};

const nc_card nc_card_tree_ensemble_regressor = {.name = "TreeEnsembleRegressor",
                                                 .domain = "ai.onnx.ml",
                                                 .doc = "Scores gathered from the leaves that a row reaches in trees.",
                                                 .versions = regressor_versions,
                                                 .infer = targets_infer,
                                                 .zero_grad = true};

/* ---- TreeEnsembleClassifier ---- */

static nc_code classes_infer(nc_infer *c) {
    int64_t n = nc_ml_n_labels(c->node, "classlabels_strings", "classlabels_int64s");
    if (n < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "has no class labels");
    NC_TRY(nc_ml_labels_infer(c, "classlabels_strings"));
    return c->node->n_out > 1 ? nc_ml_scores_infer(c, 1, NC_FLOAT, n) : NC_OK;
}

static nc_code classes_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_ml_number_labels(b, n, "classlabels_strings", "classlabels_int64s", out);
}

#define CLASSES                                                                                                       \
    A_INTS_OPT("class_treeids"), A_INTS_OPT("class_nodeids"), A_INTS_OPT("class_ids"), A_FLOATS_OPT("class_weights"), \
        A_STRINGS_OPT("classlabels_strings"), A_INTS_OPT("classlabels_int64s")
#define CLASSIFIES IN({"X", T_ML}), OUT({"Y", T_STRING | T_I64}, {"Z", T_F32})
#define CLASSES_3 ATTR(NODES_3, CLASSES, A_TENSOR_OPT("class_weights_as_tensor"))
static const nc_op_version classifier_versions[] = {{.since = 5, CLASSIFIES, CLASSES_3, .removed = true},
                                                    {.since = 3, CLASSIFIES, CLASSES_3},
                                                    {.since = 1, CLASSIFIES, ATTR(NODES, CLASSES)},
                                                    {0}};

const nc_card nc_card_tree_ensemble_classifier = {.name = "TreeEnsembleClassifier",
                                                  .domain = "ai.onnx.ml",
                                                  .doc = "The class that the leaves a row reaches in trees vote for.",
                                                  .versions = classifier_versions,
                                                  .infer = classes_infer,
                                                  .zero_grad = true,
                                                  .decompose = classes_decompose};

/* ---- TreeEnsemble ---- */

#define A_TENSOR_REQ(n) \
    { .name = n, .kind = NC_A_TENSOR, .flags = NC_ATTR_REQUIRED }
static const nc_op_version ensemble_versions[] = {
    {.since = 5,
     IN({"X", NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_FLOAT16)}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("aggregate_function", 1), A_INT("post_transform", 0), A_INTS_REQ("tree_roots"),
          A_TENSOR_OPT("nodes_hitrates"), A_INTS_OPT("nodes_missing_value_tracks_true"), A_TENSOR_REQ("nodes_modes"),
          A_TENSOR_REQ("leaf_weights"), A_INTS_REQ("leaf_targetids"), A_INTS_REQ("nodes_falsenodeids"),
          A_INT_OPT("n_targets"), A_INTS_REQ("nodes_trueleafs"), A_INTS_REQ("nodes_featureids"),
          A_TENSOR_REQ("nodes_splits"), A_INTS_REQ("nodes_falseleafs"), A_INTS_REQ("nodes_truenodeids"),
          A_TENSOR_OPT("membership_values"))},
    {0}};

const nc_card nc_card_tree_ensemble = {.name = "TreeEnsemble",
                                       .domain = "ai.onnx.ml",
                                       .doc = "Scores gathered from the leaves that a row reaches in trees.",
                                       .versions = ensemble_versions,
                                       .infer = targets_infer,
                                       .zero_grad = true};
