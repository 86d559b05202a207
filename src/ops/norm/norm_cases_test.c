/* ops/norm/norm_cases_test.c: the cases of the norm family (ops/cases.h), the tests that run them, and refusals. */
#include "ops/cases_testing.h"

#include "ops/binding.h"
#include "tests/check.h"
#include "tests/graph_testing.h"

#include <string.h>

#define ONE(op, x) "<opset: \"\" 23> g (" x " x) => (y) { y = " op "(x) }"
#define SCALED(op, x, s) "<opset: \"\" 23> g (" x " x, " s " s) => (y) { y = " op "(x, s) }"
#define BIASED(op, x, s, b) "<opset: \"\" 23> g (" x " x, " s " s, " b " b) => (y) { y = " op "(x, s, b) }"
#define BATCH(opset, attrs, out, x, c)                                                                  \
    "<opset: \"\" " opset "> g (" x " x, " c " s, " c " b, " c " m, " c " v) => (" out ") { " out " = " \
    "BatchNormalization" attrs "(x, s, b, m, v) }"
#define BACK_IN(type, x, c) type "[" x "] d, " type "[" x "] x, " type "[" c "] s"
#define BATCH_BACK(attrs, type, x, c, out)                                                      \
    "<opset: \"\" 22, \"nacre\" 1> g (" BACK_IN(type, x, c) ") => (" out ") { " out " = nacre." \
                                                            "BatchNormGrad" attrs "(d, x, s) }"
#define BATCH_GIVEN(attrs, type, x, c)                                                                              \
    "<opset: \"\" 22, \"nacre\" 1> g (" BACK_IN(type, x, c) ", " type "[" c "] m, " type "[" c "] i) => (a, b, c) " \
                                                            "{ a, b, c = nacre.BatchNormGrad" attrs                 \
                                                            "(d, x, s, m, i) }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
#define STATS                                 \
    {                                         \
        {-2, 2}, {-2, 2}, {-1, 1}, { 0.5, 2 } \
    }

/* With dropout on the way; the last input is the random state. */
#define GRAD_DROPPED(dims, cols)                                                                                      \
    "<opset: \"\" 22, \"nacre\" 1> g (float16[" dims "] d, float[" dims "] x, float[" cols "] s, float[" dims "] o, " \
    "int64[2] z) => (a, b, c, h, t) "                                                                                 \
    "{ a, b, c, h, t = nacre.NormGradAdd<to = 10, ratio = 0.25>(d, x, s, o, , , z) @random=7 }"
#define SUM_NORM(type, dims, cols, attrs, state)                                                                       \
    "<opset: \"\" 22, \"nacre\" 1> g (" type "[" dims "] x, float[" dims "] o, float[" cols "] s, float[" cols "] b, " \
    "int64[2] z) => (y, m, i, a, e) "                                                                                  \
    "{ y, m, i, a = nacre.SumNorm<" attrs ">(x, o, s, b" state ") @random=7 e = Identity(z) }"

extern const nc_case nc_norm_cases[];
const nc_case nc_norm_cases[] = {
    {"layer", BIASED("LayerNormalization", "float[n,3,7]", "float[7]", "float[7]")},
    {"layer_axis", BIASED("LayerNormalization<axis = 1>", "float[2,3,5]", "float[3,5]", "float[3,5]")},
    {"layer_all", SCALED("LayerNormalization<axis = 0>", "float[3,5]", "float[3,5]")},
    {"layer_spread", BIASED("LayerNormalization<axis = 1>", "float[2,3,5]", "float[5]", "float[3,1]")},
    {"layer_rows", BIASED("LayerNormalization", "float[2,3,5]", "float[2,3,5]", "float[3,1]")},
    {"layer_rows_open", BIASED("LayerNormalization", "float[n,5]", "float[n,5]", "float[n,1]")},
    {"layer_rows_half", SCALED("LayerNormalization", "float16[3,7]", "float16[3,1]"), VALUE},
    {"layer_one", SCALED("LayerNormalization", "float[n,3]", "float[1]")},
    {"layer_long", BIASED("LayerNormalization", "float[2,1037]", "float[1037]", "float[1037]"), VALUE},
    {"layer_half", BIASED("LayerNormalization", "float16[3,7]", "float16[7]", "float16[7]"), VALUE},
    {"layer_bfloat16", SCALED("LayerNormalization", "bfloat16[3,7]", "bfloat16[7]"), VALUE},
    {"layer_double", BIASED("LayerNormalization", "double[3,7]", "double[7]", "double[7]"), VALUE},
    {"layer_very_long", BIASED("LayerNormalization", "float[2,4111]", "float[4111]", "float[4111]"), VALUE},
    {"layer_vectors", BIASED("LayerNormalization", "float16[3,264]", "float16[264]", "float16[264]"), VALUE},
    {"layer_vectors_long", SCALED("LayerNormalization", "float[2,8212]", "float[8212]"), VALUE},
    {"layer_vectors_mixed",
     "<opset: \"\" 9> g (float16[3,64] x, float[64] s, float[64] b) => (y) { y = LayerNormalization(x, s, b) }", VALUE},
    {"layer_single", BIASED("LayerNormalization", "float[n,1]", "float[1]", "float[1]"), VALUE},
    {"layer_odd", "<opset: \"\" 23> g (float[5,7] x, float[7] s) => (y) { t = Log(x) y = LayerNormalization(t, s) }",
     VALUE},
    {"layer_empty", SCALED("LayerNormalization", "float[0,7]", "float[7]"), VALUE},
    {"layer_stats",
     "<opset: \"\" 17> g (float[2,3,5] x, float[5] s) => (y, m, i) { y, m, i = LayerNormalization(x, s) }", VALUE},
    {"layer_old",
     "<opset: \"\" 9> g (float[n,5] x, float[5] s, float[5] b) => (y) { y = LayerNormalization(x, s, b) }"},
    {"layer_old_mixed",
     "<opset: \"\" 9> g (float16[3,5] x, float[5] s, float[5] b) => (y, m, i) { y, m, i = LayerNormalization(x, s, b) "
     "}",
     VALUE},
    {"layer_old_wide", "<opset: \"\" 9> g (double[3,5] x, float[5] s) => (y) { y = LayerNormalization(x, s) }", VALUE},
    {"simplified", SCALED("SimplifiedLayerNormalization", "float[n,3,7]", "float[7]")},
    {"simplified_axis", SCALED("SimplifiedLayerNormalization<axis = 1>", "float[2,3,5]", "float[3,5]")},
    {"simplified_stat",
     "<opset: \"\" 9> g (float[n,5] x, float[5] s) => (y, i) { y, i = SimplifiedLayerNormalization(x, s) }", VALUE},
    {"simplified_mixed",
     "<opset: \"\" 9> g (float16[n,5] x, float[5] s) => (y, i) { y, i = SimplifiedLayerNormalization(x, s) }", VALUE},
    {"rms", SCALED("RMSNormalization", "float[n,3,7]", "float[7]")},
    {"rms_axis", SCALED("RMSNormalization<axis = 1, epsilon = 0.01>", "float[2,3,5]", "float[3,5]")},
    {"rms_rows", SCALED("RMSNormalization", "float[2,3,5]", "float[2,1,5]")},
    {"rms_mixed", SCALED("RMSNormalization", "float16[n,7]", "float[7]"), VALUE},
    {"rms_half", SCALED("RMSNormalization", "bfloat16[n,7]", "bfloat16[7]"), VALUE},
    {"norm_grad",
     "<opset: \"\" 22, \"nacre\" 1> g (float[70,5] d, float[70,5] x, float[5] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"norm_grad_rms",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,600] d, float[3,600] x, float[600] s) => (a, b) "
     "{ a, b = nacre.NormGrad<center = 0>(d, x, s) }",
     VALUE},
    {"norm_grad_many_rows",
     "<opset: \"\" 22, \"nacre\" 1> g (float[300,35] d, float[300,35] x, float[35] s) => (b, c) "
     "{ , b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"norm_grad_spread",
     "<opset: \"\" 22, \"nacre\" 1> g (float[2,3,5] d, float[2,3,5] x, float[3,1] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad<axis = 1>(d, x, s) }",
     VALUE},
    {"norm_grad_half",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[9,5] d, float16[9,5] x, float16[5] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"norm_grad_vectors",
     "<opset: \"\" 22, \"nacre\" 1> g (float[150,40] d, float[150,40] x, float[40] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"norm_grad_block",
     "<opset: \"\" 22, \"nacre\" 1> g (float[37,1000] d, float[37,1000] x, float[1000] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"norm_grad_block_rms",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[18,768] d, float16[18,768] x, float16[768] s) => (b) "
     "{ , b = nacre.NormGrad<center = 0>(d, x, s) }",
     VALUE},
    {"norm_grad_add",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[37,96] d, float[37,96] x, float[96] s, float[37,96] o) => (a, b, c, h) "
     "{ a, b, c, h = nacre.NormGradAdd<to = 10>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_odd",
     "<opset: \"\" 22, \"nacre\" 1> g (float[5,7] d, float[5,7] x, float[7] s, float[5,7] o) => (a, b) "
     "{ a, b = nacre.NormGradAdd<center = 0>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_long",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,1200] d, float[3,1200] x, float[1200] s, float[3,1200] o) => (a, c, h) "
     "{ a, , c, h = nacre.NormGradAdd<to = 16>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_sums",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[5,37,96] d, float[5,37,96] x, float[96] s, float[5,37,96] o) => "
     "(a, b, c, h, t) { a, b, c, h, t = nacre.NormGradAdd<to = 10>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_statistics",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[5,37,96] d, float[5,37,96] x, float[96] s, float[5,37,96] o) => "
     "(y, a, b, c, h, t) { y, m, i = LayerNormalization(x, s) "
     "a, b, c, h, t = nacre.NormGradAdd<to = 10>(d, x, s, o, m, i) }",
     VALUE},
    {"norm_grad_add_sums_alone",
     "<opset: \"\" 22, \"nacre\" 1> g (float[37,64] d, float[37,64] x, float[64] s, float[37,64] o) => (a, t) "
     "{ a, , , , t = nacre.NormGradAdd<to = 10>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_sums_odd",
     "<opset: \"\" 22, \"nacre\" 1> g (float[9,7] d, float[9,7] x, float[7] s, float[9,7] o) => (a, b, h, t) "
     "{ a, b, , h, t = nacre.NormGradAdd<to = 10>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_sums_of_nothing",
     "<opset: \"\" 22, \"nacre\" 1> g (float[0,8] d, float[0,8] x, float[8] s, float[0,8] o) => (a, h, t) "
     "{ a, , , h, t = nacre.NormGradAdd<to = 10>(d, x, s, o) }",
     VALUE},
    {"norm_grad_add_dropped", GRAD_DROPPED("5,37,96", "96"), VALUE},
    {"norm_grad_add_dropped_odd", GRAD_DROPPED("3,9,7", "7"), VALUE},
    {"norm_grad_add_dropped_long", GRAD_DROPPED("3,1200", "1200"), VALUE},
    {"norm_grad_add_dropped_too_long", GRAD_DROPPED("3,2500", "2500"), VALUE},
    {"norm_grad_add_dropped_of_nothing", GRAD_DROPPED("0,8", "8"), VALUE},
    {"sum_norm", SUM_NORM("float16", "5,37,96", "96", "to = 10, ratio = 0.25", ", z"), VALUE},
    {"sum_norm_odd", SUM_NORM("bfloat16", "5,7", "7", "to = 16, ratio = 0.25", ", z"), VALUE},
    {"sum_norm_of_floats", SUM_NORM("float", "9,36", "36", "ratio = 0.5", ", z"), VALUE},
    {"sum_norm_of_all", SUM_NORM("float16", "9,1024", "1024", "to = 10", ""), VALUE},
    {"sum_norm_long", SUM_NORM("float16", "3,9000", "9000", "to = 10, ratio = 0.25", ", z"), VALUE},
    {"sum_norm_long_odd", SUM_NORM("float16", "3,2501", "2501", "to = 10, ratio = 0.25", ", z"), VALUE},
    {"sum_norm_of_none", SUM_NORM("float16", "9,40", "40", "to = 10, ratio = 1.0", ", z"), VALUE},
    {"sum_norm_no_rows", SUM_NORM("float16", "0,8", "8", "to = 10, ratio = 0.25", ", z"), VALUE},
    {"sum_norm_plain",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[9,40] x, float[9,40] o, float[40] s) => (y, a) "
     "{ y, , , a = nacre.SumNorm<epsilon = 0.5, to = 1>(x, o, s) }",
     VALUE},
    {"norm_grad_no_rows",
     "<opset: \"\" 22, \"nacre\" 1> g (float[0,8] d, float[0,8] x, float[8] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"norm_grad_long",
     "<opset: \"\" 22, \"nacre\" 1> g (double[3,1100] d, double[3,1100] x, double[1100] s) => (a, c) "
     "{ a, , c = nacre.NormGrad<center = 0>(d, x, s) }",
     VALUE},
    {"norm_grad_none",
     "<opset: \"\" 22, \"nacre\" 1> g (float[0,5] d, float[0,5] x, float[5] s) => (a, b, c) "
     "{ a, b, c = nacre.NormGrad(d, x, s) }",
     VALUE},
    {"instance", BIASED("InstanceNormalization", "float[n,3,4,2]", "float[3]", "float[3]")},
    {"instance_old",
     "<opset: \"\" 6> g (float[2,3,5] x, float[3] s, float[3] b) => (y) { y = InstanceNormalization(x, s, b) }"},
    {"instance_half", BIASED("InstanceNormalization", "float16[2,3,5]", "float16[3]", "float16[3]"), VALUE},
    {"group", BIASED("GroupNormalization<num_groups = 2>", "float[n,4,3,2]", "float[4]", "float[4]")},
    {"group_18", "<opset: \"\" 18> g (float[2,4,3] x, float[2] s, float[2] b) => (y) "
                 "{ y = GroupNormalization<num_groups = 2>(x, s, b) }"},
    {"group_all", BIASED("GroupNormalization<num_groups = 4>", "float[2,4,3]", "float[4]", "float[4]")},
    {"group_bfloat16", BIASED("GroupNormalization<num_groups = 2>", "bfloat16[2,4,3]", "bfloat16[4]", "bfloat16[4]"),
     VALUE},
    {"batch", BATCH("15", "", "y", "float[n,3,4]", "float[3]"), STATS},
    {"batch_rank_2", BATCH("15", "", "y", "float[n,3]", "float[3]"), STATS},
    {"batch_trains", BATCH("15", "<training_mode = 1>", "y, a, c", "float[n,3,4,2]", "float[3]"), STATS},
    {"batch_trains_rank_2", BATCH("15", "<training_mode = 1>", "y, a, c", "float[n,3]", "float[3]"), STATS},
    {"batch_trains_strips", BATCH("15", "<training_mode = 1>", "y", "float[5,67]", "float[67]"), STATS},
    {"batch_trains_one", BATCH("15", "<training_mode = 1>", "y", "float[n,3,4]", "float[3]"), STATS},
    {"batch_trains_old", BATCH("9", "", "y, a, c, d, e", "float[n,3,4]", "float[3]"), STATS},
    {"batch_positions", BATCH("7", "<spatial = 0>", "y", "float[n,3,4]", "float[3,4]"), STATS},
    {"batch_positions_train", BATCH("7", "<spatial = 0>", "y, a, c", "float[n,3,4]", "float[3,4]"), STATS},
    {"batch_test", BATCH("6", "<is_test = 1>", "y", "float[n,3,4]", "float[3]"), STATS},
    {"batch_half", BATCH("15", "", "y", "float16[n,3,4]", "float[3]"), STATS, NC_CASE_NO_GRAD},
    {"batch_empty", BATCH("15", "", "y", "float[0,3,4]", "float[3]"), STATS, NC_CASE_NO_GRAD},
    {"batch_train_half", BATCH("15", "<training_mode = 1>", "y", "float16[3,3,4]", "float16[3]"), STATS,
     NC_CASE_NO_GRAD},
    {"batch_train_double", BATCH("15", "<training_mode = 1>", "y, a, c", "double[3,3,5]", "double[3]"), STATS},
    {"batch_train_single", BATCH("15", "<training_mode = 1>", "y", "float[n,1,1]", "float[1]"), STATS, NC_CASE_NO_GRAD},
    {"batch_wide", BATCH("15", "", "y", "double[2,3,5]", "double[3]"), STATS},
    {"batch_only_x", "<opset: \"\" 15> g (float[3,2,3,3] x) => (y) { s = Constant<value_floats = [0.5, -2.0]>() "
                     "b = Constant<value_floats = [1.0, 0.0]>() m = Constant<value_floats = [0.25, 0.5]>() "
                     "v = Constant<value_floats = [2.0, 0.5]>() y = BatchNormalization(x, s, b, m, v) }"},
    {"batch_grad", BATCH_BACK("", "float", "5,3,4,7", "3", "a, b, c"), VALUE},
    {"batch_grad_planes", BATCH_BACK("", "float", "2,3,37,31", "3", "a, b, c"), VALUE},
    {"batch_grad_dx", BATCH_BACK("", "float", "3,2,5", "2", "a"), VALUE},
    {"batch_grad_vectors",
     "<opset: \"\" 22, \"nacre\" 1> g (float[70,5] d, float[70,5] x, float[5] s) => (b, c) "
     "{ , b, c = nacre.BatchNormGrad<epsilon = 0.125>(d, x, s) }",
     VALUE},
    {"batch_grad_positions", BATCH_BACK("<spatial = 0>", "float", "9,3,4", "3,4", "a, b, c"), VALUE},
    {"batch_grad_double", BATCH_BACK("", "double", "3,2,19", "2", "a, b, c"), VALUE},
    {"batch_grad_half", BATCH_BACK("", "float16", "3,2,19", "2", "a, b, c"), VALUE},
    {"batch_grad_bfloat16", BATCH_BACK("", "bfloat16", "3,2,19", "2", "a, b, c"), VALUE},
    {"batch_grad_empty", BATCH_BACK("", "float", "0,3,4", "3", "a, b, c"), VALUE},
    {"batch_grad_no_channels", BATCH_BACK("", "float", "2,0,4", "0", "a, b, c"), VALUE},
    {"batch_grad_odd",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,2,5] d, float[3,2,5] x, float[2] s) => (a, b, c) "
     "{ l = Log(x) a, b, c = nacre.BatchNormGrad(d, l, s) }",
     VALUE},
    {"batch_grad_given",
     BATCH_GIVEN("", "float", "3,2,5", "2"),
     {{-2, 2}, {-2, 2}, {-1, 1}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"batch_grad_constant",
     BATCH_GIVEN("<constant = 1>", "float", "3,2,37", "2"),
     {{-2, 2}, {-2, 2}, {-1, 1}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"batch_grad_mixed",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[3,2,5] d, float16[3,2,5] x, float[2] s) => (a, b, c) "
     "{ a, b, c = nacre.BatchNormGrad(d, x, s) }",
     VALUE},
    {"lrn", ONE("LRN<size = 3, alpha = 0.5>", "float[2,5,3,2]")},
    {"lrn_even", ONE("LRN<size = 4, alpha = 0.5, bias = 2.0>", "float[1,5,3]")},
    {"lp_2", ONE("LpNormalization", "float[n,5]")},
    {"lp_1", ONE("LpNormalization<p = 1, axis = 0>", "float[3,5]"), {{0, 0}}, NC_CASE_KINK},
    {"mean_variance", ONE("MeanVarianceNormalization", "float[2,3,4,2]")},
    {"mean_variance_axes", ONE("MeanVarianceNormalization<axes = [1]>", "float[2,5]")},
    {0}};

TEST(norm_values) { nc_cases_check_values(nc_norm_cases); }
TEST(norm_isas) { nc_cases_check_isas(nc_norm_cases); }
TEST(norm_gradients) { nc_cases_check_gradients(nc_norm_cases); }

TEST(norm_refusals) {
    CHECK_REFUSED(SCALED("LayerNormalization", "float[2,3]", "float[4]"), NC_E_SHAPE, "expected 1 or X's 3");
    CHECK_REFUSED(BIASED("InstanceNormalization", "float[2,3,4]", "float[2]", "float[3]"), NC_E_SHAPE,
                  "3 are expected");
    CHECK_REFUSED(BIASED("GroupNormalization<num_groups = 3>", "float[2,4,4]", "float[4]", "float[4]"), NC_E_SHAPE,
                  "divide");
    CHECK_REFUSED(BATCH("15", "", "y", "float[2,3,4]", "float[4]"), NC_E_SHAPE, "X has 3");
    CHECK_REFUSED(BATCH("15", "", "y, a, c", "float[2,3,4]", "float[3]"), NC_E_BAD_GRAPH, "training_mode");
    CHECK_REFUSED(BATCH_BACK("<constant = 1>", "float", "2,3,4", "3", "a"), NC_E_BAD_GRAPH, "inputs 3 and 4");
    CHECK_REFUSED(ONE("LpNormalization<p = 3>", "float[2,3]"), NC_E_BAD_GRAPH, "p is 3");
    CHECK_REFUSED(ONE("LRN<size = 0>", "float[2,3]"), NC_E_BAD_GRAPH, "size");
}
