/* Classical learning through the public API: trees with values that are missing or meet a threshold, features side by
 * side, and maps in the order of a vocabulary. */
#include "tests/model.h"

#define ML "<opset: \"\" 17, \"ai.onnx.ml\" 3>\ng "

/* Tree 0: x0 <= 0.5 (a missing x0 goes there too) gives 1 to target 0; else x1 < 1 gives 10 to target 0, what is left
 * 100 to target 1. Tree 1 is one leaf, with something for both. */
#define TREES                                                                                                        \
    "nodes_treeids = [0, 0, 0, 0, 0, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0], nodes_featureids = [0, 0, 1, 0, 0, 0]," \
    " nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\", \"LEAF\"],"                        \
    " nodes_values = [0.5, 0.0, 1.0, 0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 3, 0, 0, 0],"                        \
    " nodes_falsenodeids = [2, 0, 4, 0, 0, 0], nodes_missing_value_tracks_true = [1, 0, 0, 0, 0, 0]"
#define LEAVES(word)                                                                                             \
    word "_treeids = [0, 0, 0, 1, 1], " word "_nodeids = [1, 3, 4, 0, 0], " word "_ids = [0, 0, 1, 0, 1], " word \
         "_weights = "

static void trees(model *m) {
    float x[12] = {0.5f, 9, 0.6f, 0.5f, 0.6f, 1, (float)NAN, 0, 2, (float)NAN, (float)INFINITY, -(float)INFINITY};
    model_open(m, ML "(float[n,2] x) => (y, c, z)\n{\n  y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 2, "
                     "base_values = [0.5, -0.5], " TREES
                     ", " LEAVES("target") "[1.0, 10.0, 100.0, 1000.0, 0.25]>(x)\n"
                                           "  c, z = ai.onnx.ml.TreeEnsembleClassifier<classlabels_int64s = [7, -3, "
                                           "5], base_values = [0.5, -0.5, 0.0], " TREES
                                           ", " LEAVES("class") "[1.0, 10.0, 100.0, 0.25, 0.25]>(x)\n}\n");
    model_input(m, "x", NACRE_FLOAT, 2, D(6, 2), x);
    model_run(m);
    const float want[12] = {1001.5f, -0.25f, 1010.5f, -0.25f, 1000.5f, 99.75f,
                            1001.5f, -0.25f, 1000.5f, 99.75f, 1010.5f, -0.25f};
    const float votes[18] = {1.75f, -0.25f, 0, 10.75f, -0.25f, 0, 0.75f,  99.75f, 0,
                             1.75f, -0.25f, 0, 0.75f,  99.75f, 0, 10.75f, -0.25f, 0};
    const int64_t classes[6] = {7, 7, -3, 7, -3, 7}, *c = model_ints(m, "c", 6);
    const float *y = model_floats(m, "y", 12), *z = model_floats(m, "z", 18);
    for (int i = 0; y && i < 12; i++) CHECK_NEAR(y[i], want[i], 0);
    for (int i = 0; z && i < 18; i++) CHECK_NEAR(z[i], votes[i], 0);
    for (int i = 0; c && i < 6; i++) CHECK_INT(c[i], classes[i]);
    model_collect_all(m);
    model_input(m, "x", NACRE_FLOAT, 2, D(0, 2), x);
    model_run(m);
    model_floats(m, "y", 0);
    model_ints(m, "c", 0);
    model_collect_all(m);
}
TEST(ml_trees) { model_everywhere(trees); }

static void features(model *m) {
    int64_t a[2] = {3, -4}, b[4] = {1, 2, 5, 6};
    model_open(m, ML "(int64[n,1] a, int64[n,2] b) => (y)\n{\n"
                     "  y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [1, 2, 1]>(a, b, a)\n}\n");
    model_input(m, "a", NACRE_INT64, 2, D(2, 1), a);
    model_input(m, "b", NACRE_INT64, 2, D(2, 2), b);
    model_run(m);
    const float want[8] = {3, 1, 2, 3, -4, 5, 6, -4}, *y = model_floats(m, "y", 8);
    for (int i = 0; y && i < 8; i++) CHECK_NEAR(y[i], want[i], 0);
    model_collect_all(m);
    model_input(m, "a", NACRE_INT64, 2, D(0, 1), a);
    model_input(m, "b", NACRE_INT64, 2, D(0, 2), b);
    model_run(m);
    model_floats(m, "y", 0);
    model_collect_all(m);
}
TEST(ml_features_side_by_side) { model_everywhere(features); }

static void give_map(model *m, int64_t n, const int64_t *keys, const float *values) {
    nacre_value *k = NULL, *v = NULL, *map = NULL;
    CHECK_INT(nacre_value_tensor(NACRE_INT64, 1, &n, (void *)(uintptr_t)keys, &k, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_tensor(NACRE_FLOAT, 1, &n, (void *)(uintptr_t)values, &v, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_map(k, v, &map, &m->err), NACRE_OK);
    nacre_value_release(k);
    nacre_value_release(v);
    if (map) model_value(m, "x", map);
}

/* Keys that the vocabulary lacks are dropped, words that the map lacks are 0. */
static void dictionary(model *m) {
    const int64_t keys[3] = {40, -1, 7};
    const float values[3] = {4, (float)NAN, (float)INFINITY};
    model_open(m, ML "(map(int64,float[]) x) => (y)\n{\n"
                     "  y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [7, 8, 40, -1]>(x)\n}\n");
    give_map(m, 3, keys, values);
    model_run(m);
    const float *y = model_floats(m, "y", 4);
    if (y) CHECK(isinf(y[0]) && y[1] == 0 && y[2] == 4 && isnan(y[3]));
    model_collect_all(m);
    give_map(m, 1, (const int64_t[]){99}, values);
    model_run(m);
    y = model_floats(m, "y", 4);
    for (int i = 0; y && i < 4; i++) CHECK_NEAR(y[i], 0, 0);
    model_collect_all(m);
    give_map(m, 0, keys, values);
    model_run(m);
    y = model_floats(m, "y", 4);
    for (int i = 0; y && i < 4; i++) CHECK_NEAR(y[i], 0, 0);
    model_collect_all(m);
}
TEST(ml_dictionary) { model_everywhere(dictionary); }
