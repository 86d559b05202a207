/* ops/reduce/reduce_cases_test.c: the cases of the reduce family (ops/cases.h), the tests that run them, types and
 * folding. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_reduce_cases[];

#define AXES(op, attrs, x, axes) "<opset: \"\" 22> g (" x " x) => (y) <const int64[" axes ">{ y = " op attrs "(x, a) }"
#define ALL(op, attrs, x) "<opset: \"\" 22> g (" x " x) => (y) { y = " op attrs "(x) }"
#define OLD(op, attrs, x) "<opset: \"\" 11> g (" x " x) => (y) { y = " op attrs "(x) }"
#define CUM(op, attrs, x, at) \
    "<opset: \"\" 26> g (" x " x) => (y) <const int64[] a = {" at "}> { y = " op attrs "(x, a) }"
#define EXACT NC_CASE_NO_GRAD | NC_CASE_EXACT
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD

const nc_case nc_reduce_cases[] = {
    {"sum_all", ALL("ReduceSum", "", "float[3,n]")},
    {"sum_all_flat", ALL("ReduceSum", "<keepdims = 0>", "float[3,n]")},
    {"sum_last", AXES("ReduceSum", "<keepdims = 0>", "float[3,n,4]", "1] a = {-1}")},
    {"sum_middle", AXES("ReduceSum", "", "float[3,n,4]", "1] a = {1}")},
    {"sum_two", AXES("ReduceSum", "<keepdims = 0>", "float[3,4,5]", "2] a = {0, -1}")},
    {"sum_columns", AXES("ReduceSum", "<keepdims = 0>", "float[300,40]", "1] a = {0}"), VALUE},
    {"mean_columns_half", AXES("ReduceMean", "", "bfloat16[9100,8]", "1] a = {0}"), VALUE},
    {"max_columns", AXES("ReduceMax", "<keepdims = 0>", "float16[70,264]", "1] a = {0}"), VALUE},
    {"min_columns_int8", AXES("ReduceMin", "", "int8[70,16]", "1] a = {0}"), {{-99, 99}}, EXACT},
    {"prod_columns_none", AXES("ReduceProd", "", "float[0,8]", "1] a = {0}"), VALUE},
    {"sum_columns_planes", AXES("ReduceSum", "", "double[3,70,6]", "1] a = {1}"), VALUE},
    {"sum_of_40_dims",
     AXES("ReduceSum", "", "float[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,n,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,3]",
          "2] a = {20, -1}")},
    {"mean_of_40_dims", AXES("ReduceMean", "<keepdims = 0>",
                             "float[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,n,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,3]",
                             "3] a = {0, 33, 39}")},
    {"sum_scalar", ALL("ReduceSum", "", "float[]")},
    {"sum_scalar_axis", AXES("ReduceSum", "", "float[]", "1] a = {0}")},
    {"sum_scalar_flat", AXES("ReduceSum", "<keepdims = 0>", "float[]", "1] a = {-1}")},
    {"mean_scalar", AXES("ReduceMean", "<keepdims = 0>", "float[]", "1] a = {0}")},
    {"max_scalar", OLD("ReduceMax", "<axes = [-1], keepdims = 0>", "float[]")},
    {"prod_scalar", AXES("ReduceProd", "<keepdims = 0>", "float[]", "1] a = {0}")},
    {"l2_scalar", AXES("ReduceL2", "<keepdims = 0>", "float[]", "1] a = {0}"), {{0.5, 2}}},
    {"log_sum_exp_scalar", AXES("ReduceLogSumExp", "<keepdims = 0>", "float[]", "1] a = {0}")},
    {"scalar_int8", AXES("ReduceMin", "", "int8[]", "1] a = {-1}"), {{-99, 99}}, EXACT},
    {"sum_noop", ALL("ReduceSum", "<noop_with_empty_axes = 1>", "float[3,n]")},
    {"sum_empty_axes", AXES("ReduceSum", "", "float[3,n]", "0] a = {}")},
    {"sum_nothing", AXES("ReduceSum", "", "float[3,0,4]", "1] a = {1}"), VALUE},
    {"sum_empty", AXES("ReduceSum", "", "float[0,5]", "1] a = {1}"), VALUE},
    {"sum_long", ALL("ReduceSum", "", "float[40001]"), {{0, 1}}, NC_CASE_NO_GRAD},
    {"sum_columns", AXES("ReduceSum", "", "float[301,67]", "1] a = {0}"), VALUE},
    {"sum_old", OLD("ReduceSum", "<axes = [1], keepdims = 0>", "float[3,n]")},
    {"sum_half", AXES("ReduceSum", "", "float16[3,n]", "1] a = {1}"), VALUE},
    {"sum_int32", AXES("ReduceSum", "", "int32[3,n]", "1] a = {1}"), {{-99, 99}}, EXACT},
    {"sum_uint64", AXES("ReduceSum", "", "uint64[3,n]", "1] a = {1}"), {{0, 1e9}}, EXACT},
    {"mean_all", ALL("ReduceMean", "", "float[3,4]")},
    {"mean_last", AXES("ReduceMean", "<keepdims = 0>", "float[3,n,4]", "1] a = {-1}")},
    {"mean_unknown", AXES("ReduceMean", "", "float[3,n,4]", "1] a = {1}")},
    {"mean_noop", ALL("ReduceMean", "<noop_with_empty_axes = 1>", "float[3,n]")},
    {"mean_old", "<opset: \"\" 13> g (float[3,4,5] x) => (y) { y = ReduceMean<axes = [-2, 0]>(x) }"},
    {"mean_bfloat16", ALL("ReduceMean", "", "bfloat16[3,n]"), VALUE},
    {"max_last", AXES("ReduceMax", "<keepdims = 0>", "float[3,n]", "1] a = {-1}")},
    {"max_first", AXES("ReduceMax", "", "float[3,n]", "1] a = {0}")},
    {"max_all", ALL("ReduceMax", "<keepdims = 0>", "float[2,3]")},
    {"max_nothing", AXES("ReduceMax", "", "float[3,0]", "1] a = {1}"), VALUE},
    {"max_int8", AXES("ReduceMax", "", "int8[3,n]", "1] a = {1}"), {{-99, 99}}, EXACT},
    {"max_int8_nothing", AXES("ReduceMax", "", "int8[3,0]", "1] a = {1}"), {{-99, 99}}, EXACT},
    {"max_bool", AXES("ReduceMax", "", "bool[3,n]", "1] a = {1}"), {{-1, 1}}, EXACT},
    {"min_last", AXES("ReduceMin", "<keepdims = 0>", "float[3,n]", "1] a = {-1}")},
    {"min_old", OLD("ReduceMin", "", "float[2,3]")},
    {"min_uint8", AXES("ReduceMin", "", "uint8[3,n]", "1] a = {1}"), {{0, 200}}, EXACT},
    {"max_uint64", AXES("ReduceMax", "", "uint64[3,n]", "1] a = {1}"), {{0, 1e9}}, EXACT},
    {"mean_uint64", AXES("ReduceMean", "", "uint64[3,n]", "1] a = {1}"), {{0, 1e9}}, EXACT},
    {"prod_last", AXES("ReduceProd", "<keepdims = 0>", "float[3,n]", "1] a = {-1}")},
    {"prod_all", ALL("ReduceProd", "", "float[2,2,3]")},
    {"prod_two", AXES("ReduceProd", "<keepdims = 0>", "float[2,3,4]", "2] a = {0, 2}")},
    {"prod_noop", ALL("ReduceProd", "<noop_with_empty_axes = 1>", "float[3,n]")},
    {"prod_nothing", AXES("ReduceProd", "", "float[3,0]", "1] a = {1}"), VALUE},
    {"prod_int32", AXES("ReduceProd", "", "int32[3,n]", "1] a = {0}"), {{-9, 9}}, EXACT},
    {"prod_half", AXES("ReduceProd", "", "float16[3,n]", "1] a = {1}"), {{0.5, 1.5}}, NC_CASE_NO_GRAD},
    {"l1", AXES("ReduceL1", "", "float[3,n,2]", "1] a = {1}"), {{0, 0}}, NC_CASE_KINK},
    {"l1_uint64", AXES("ReduceL1", "", "uint64[3,n]", "1] a = {1}"), {{0, 99}}, EXACT},
    {"l2", AXES("ReduceL2", "<keepdims = 0>", "float[3,n,2]", "1] a = {1}")},
    {"l2_int32", ALL("ReduceL2", "", "int32[3,n]"), {{-9, 9}}, EXACT},
    {"l2_old", OLD("ReduceL2", "<axes = [1]>", "float[3,4]")},
    {"sum_square", ALL("ReduceSumSquare", "<keepdims = 0>", "float[3,n]")},
    {"sum_square_noop", ALL("ReduceSumSquare", "<noop_with_empty_axes = 1>", "float[3,n]")},
    {"log_sum", AXES("ReduceLogSum", "", "float[3,n]", "1] a = {1}"), {{0.1, 2}}},
    {"log_sum_exp", AXES("ReduceLogSumExp", "<keepdims = 0>", "float[3,n]", "1] a = {1}")},
    {"log_sum_exp_all", ALL("ReduceLogSumExp", "", "float[2,3]"), {{-90, 90}}, NC_CASE_NO_GRAD},
    {"log_sum_exp_nothing", AXES("ReduceLogSumExp", "", "float[3,0]", "1] a = {1}"), VALUE},
    {"arg_max", ALL("ArgMax", "<axis = -1>", "float[3,n]"), VALUE},
    {"arg_min_last", ALL("ArgMin", "<axis = 0, keepdims = 0, select_last_index = 1>", "int8[7,n]"), {{-3, 3}}, EXACT},
    {"arg_max_long", ALL("ArgMax", "<axis = 0>", "int32[300,3]"), {{-20, 20}}, EXACT},
    {"arg_max_parts", ALL("ArgMax", "<axis = 1, select_last_index = 1>", "int16[2,9001]"), {{-900, 900}}, EXACT},
    {"arg_min_columns", ALL("ArgMin", "<axis = 1>", "int32[2,700,3]"), {{-90, 90}}, EXACT},
    {"arg_max_odd", "<opset: \"\" 22> g (float[5,n] x) => (y) { t = Log(x) y = ArgMax<axis = 0>(t) }", VALUE},
    {"arg_max_half", ALL("ArgMax", "<axis = 1>", "float16[3,n,5]"), VALUE},
    {"arg_max_empty", ALL("ArgMax", "<axis = 1>", "float[0,3]"), VALUE},
    {"hardmax", ALL("Hardmax", "<axis = 1>", "float[2,n,3]"), VALUE},
    {"hardmax_old", OLD("Hardmax", "<axis = 1>", "float[2,n,3]"), VALUE},
    {"cum_sum", CUM("CumSum", "", "float[3,n]", "1")},
    {"cum_sum_reverse", CUM("CumSum", "<reverse = 1, exclusive = 1>", "float[3,n,2]", "-2")},
    {"cum_sum_int32", CUM("CumSum", "<exclusive = 1>", "int32[3,n]", "0"), {{-99, 99}}, EXACT},
    {"cum_sum_long", CUM("CumSum", "<exclusive = 1, reverse = 1>", "int64[100,n]", "0"), {{-99, 99}}, EXACT},
    {"cum_sum_parts", CUM("CumSum", "", "int32[2,9001]", "1"), {{-99, 99}}, EXACT},
    {"cum_sum_part", CUM("CumSum", "<exclusive = 1, reverse = 1>", "int64[3,1500]", "1"), {{-99, 99}}, EXACT},
    {"cum_sum_parts_floats", CUM("CumSum", "<exclusive = 1>", "float[9001]", "0"), VALUE},
    {"cum_sum_words", CUM("CumSum", "<reverse = 1>", "int32[3,8192]", "1"), {{-99, 99}}, EXACT},
    {"cum_sum_words_ahead", CUM("CumSum", "<exclusive = 1>", "int64[8224]", "0"), {{-99, 99}}, EXACT},
    {"cum_sum_columns", CUM("CumSum", "<reverse = 1>", "float16[2,700,3]", "1"), VALUE},
    {"cum_prod_parts", CUM("CumProd", "<exclusive = 1, reverse = 1>", "int64[5000,2]", "0"), {{1, 4}}, EXACT},
    {"cum_sum_half", CUM("CumSum", "", "float16[3,n]", "0"), VALUE},
    {"cum_prod", CUM("CumProd", "", "float[3,n]", "1")},
    {"cum_prod_reverse", CUM("CumProd", "<reverse = 1, exclusive = 1>", "float[2,n,2]", "1")},
    {"trilu", ALL("Trilu", "", "float[2,n,4]")},
    {"trilu_lower", "<opset: \"\" 22> g (float[n,4] x) => (y) <const int64[] k = {-1}> { y = Trilu<upper = 0>(x, k) }"},
    {"trilu_bool", ALL("Trilu", "", "bool[3,n]"), {{-1, 1}}, EXACT},
    {"max_bytes", AXES("ReduceMax", "", "int8[3,n,70]", "1] a = {1}"), {{-99, 99}}, EXACT},
    {"min_bytes", AXES("ReduceMin", "<keepdims = 0>", "uint8[3,n,70]", "2] a = {1, -1}"), {{0, 99}}, EXACT},
    {"max_bytes_apart", AXES("ReduceMax", "", "uint8[3,n,5]", "2] a = {0, 2}"), {{0, 99}}, EXACT},
    {"trilu_far",
     "<opset: \"\" 22> g (int8[3,5,7] x, int64[] k) => (y, z) { y = Trilu(x, k) z = Trilu<upper = 0>(x, k) }",
     {{-9, 9}, {-9, 9}},
     EXACT},
    {"trilu_over", "<opset: \"\" 22> g (float[130,261] x) => (y) { a = Neg(x) b = Trilu(a) y = Trilu<upper = 0>(b) }",
     VALUE},
    {"trilu_empty", ALL("Trilu", "", "float[2,0,4]"), VALUE},
    {"sum_to_row",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,n,4] x) => (y) <const int64[2] s = {1, 4}> { y = nacre.SumTo(x, s) }"},
    {"sum_to_scalar",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,n] x) => (y) <const int64[0] s = {}> { y = nacre.SumTo(x, s) }"},
    {"sum_to_half",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[3,n] x) => (y) <const int64[2] s = {3, 1}> { y = nacre.SumTo(x, s) }",
     VALUE},
    {0}};

TEST(reduce_values) { nc_cases_check_values(nc_reduce_cases); }
TEST(reduce_isas) { nc_cases_check_isas(nc_reduce_cases); }
TEST(reduce_gradients) { nc_cases_check_gradients(nc_reduce_cases); }

TEST(reduce_types) {
    CHECK_INFERS(AXES("ReduceSum", "<keepdims = 0>", "float[b,s,4]", "1] a = {-2}"), "float[b,4]");
    CHECK_INFERS(AXES("ReduceSum", "", "float[b,s,4]", "1] a = {1}"), "float[b,1,4]");
    CHECK_INFERS(ALL("ReduceMax", "<keepdims = 0>", "int8[b,s]"), "int8[]");
    CHECK_INFERS(ALL("ReduceMean", "", "float[...]"), "float[...]");
    CHECK_INFERS("<opset: \"\" 18> g (float[b,4] x, int64[k] a) => (y) { y = ReduceSum<keepdims = 0>(x, a) }",
                 "float[...]");
}

TEST(reduce_refuses_a_wrong_axis) {
    CHECK_REFUSED(AXES("ReduceSum", "", "float[2,3]", "1] a = {2}"), NC_E_SHAPE, "out of range");
}

TEST(reduce_folds_sizes) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(),
                             "<opset: \"\" 18> g (float[1] x) => (y, z) <const int64[3] s = {2, 7, 4}> "
                             "{ y = ReduceSum(s) z = ReduceMax<keepdims = 0>(s) }");
    REQUIRE(m != NULL);
    int64_t v = 0;
    const nc_value *y = nc_graph_find(m->main, "y"), *z = nc_graph_find(m->main, "z");
    CHECK(y->n_elems == 1 && nc_dim_is_const(y->elems[0], &v) && v == 13);
    CHECK(z->n_elems == 1 && nc_dim_is_const(z->elems[0], &v) && v == 7);
    nc_model_destroy(m);
    nc_work_release(&w);
}
