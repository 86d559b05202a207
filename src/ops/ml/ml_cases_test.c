/* ops/ml/ml_cases_test.c: the ml family's case rows, types and refusals. What trees, maps and features give is in
 * tests/skeleton/ml_test.c. */
#include "ops/cases_testing.h"

#include "tests/check.h"

#define ML "<opset: \"\" 17, \"ai.onnx.ml\" 3> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT
/* One split of feature 1 at a value that no input meets, and its two leaves. */
#define STUMP                                                                                   \
    "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0],"       \
    " nodes_modes = [\"BRANCH_GT\", \"LEAF\", \"LEAF\"], nodes_values = [0.1234567, 0.0, 0.0]," \
    " nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0]"
#define REGRESSOR(more)                                                                                       \
    "TreeEnsembleRegressor<" STUMP ", target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0]," \
    " target_weights = [1.5, -2.0]" more ">"
#define ONE(op, type) ML "(" type " x) => (y) { y = ai.onnx.ml." op "(x) }"
#define TWO(attrs, a, b) ML "(" a " a, " b " b) => (y) { y = ai.onnx.ml.FeatureVectorizer" attrs "(a, b) }"

/* Results are float whatever the input is, so that there is no gradient in double to compare with. */
const nc_case nc_ml_cases[] = {
    {"tree", ONE(REGRESSOR(""), "float[n,3]"), {{0, 0}}, FIXED},
    {"tree_row", ONE(REGRESSOR(", post_transform = \"LOGISTIC\""), "float[3]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"tree_average",
     ONE(REGRESSOR(", n_targets = 2, aggregate_function = \"AVERAGE\""), "float[37,2]"),
     {{0, 0}},
     FIXED},
    {"tree_of_integers", ONE(REGRESSOR(""), "int64[n,2]"), {{-3, 3}}, FIXED},
    {"tree_none", ONE(REGRESSOR(""), "float[0,2]"), {{0, 0}}, FIXED},
    {"features", TWO("", "float[n,3]", "float[n,1]"), {{0, 0}}, FIXED},
    {"features_one_row", TWO("<inputdimensions = [4, 2]>", "float[4]", "float[2]"), {{0, 0}}, FIXED},
    {"features_integers", TWO("", "int32[n,3]", "int32[n,2]"), {{-9, 9}}, FIXED},
    {"features_none", TWO("", "float[0,3]", "float[0,2]"), {{0, 0}}, FIXED},
    {0}};

TEST(ml_values) { nc_cases_check_values(nc_ml_cases); }
TEST(ml_isas) { nc_cases_check_isas(nc_ml_cases); }

TEST(ml_types) {
    CHECK_INFERS(ONE(REGRESSOR(", n_targets = 4"), "float[n,3]"), "float[n,4]");
    CHECK_INFERS(TWO("", "float[n,3]", "float[n,k]"), "float[n,k+3]");
    CHECK_INFERS(ONE("DictVectorizer<int64_vocabulary = [1, 2, 3]>", "map(int64,double[])"), "double[1,3]");
    CHECK_INFERS(TWO("", "float[2,3,4]", "float[n,1]"), "float[2,13]");
    CHECK_INFERS(ONE("CastMap<map_form = \"SPARSE\", max_map = 5>", "map(int64,string[])"), "float[1,5]");
    CHECK_INFERS(ONE("DictVectorizer<string_vocabulary = [\"a\"]>", "map(string,int64[])"), "int64[1,1]");
}

TEST(ml_refusals) {
    CHECK_REFUSED(ONE(REGRESSOR(""), "float[2,3,4]"), NC_E_SHAPE, "X has 3 dims, expected 1 or 2");
    CHECK_REFUSED(ONE(REGRESSOR(", n_targets = 0"), "float[n,3]"), NC_E_BAD_GRAPH, "n_targets is 0");
    CHECK_REFUSED(TWO("<inputdimensions = [3, 2]>", "float[n,3]", "float[n,1]"), NC_E_SHAPE,
                  "input 1 has 1 columns, inputdimensions says 2");
    CHECK_REFUSED(TWO("", "float[]", "float[n,1]"), NC_E_SHAPE, "input 0 has no dims, at least 1 is expected");
    CHECK_REFUSED(ONE("Scaler<offset = [1.0, 2.0, 3.0]>", "float[n,2]"), NC_E_SHAPE,
                  "offset has 3 elements for 2 columns");
    CHECK_REFUSED(ONE("CastMap<map_form = \"SPARSE\", max_map = 0>", "map(int64,float[])"), NC_E_BAD_GRAPH,
                  "max_map is 0");
    CHECK_REFUSED(ONE("DictVectorizer", "map(int64,float[])"), NC_E_BAD_GRAPH, "needs int64_vocabulary");
}
