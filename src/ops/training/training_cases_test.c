/* ops/training/training_cases_test.c: the cases of ONNX Runtime's training operators (ops/cases.h), and the tests that
 * run them. tests/py/test_training_ops.py compares values with PyTorch and numpy. */
#include "ops/cases_testing.h"

#include "tests/check.h"

extern const nc_case nc_training_cases[];

#define HEAD "<opset: \"\" 17, \"com.microsoft\" 1> g "
#define TWO(op, x, y) HEAD "(" x " a, " y " b) => (y) { y = com.microsoft." op "(a, b) }"
#define THREE(op, x, y, z) HEAD "(" x " a, " y " b, " z " c) => (y) { y = com.microsoft." op "(a, b, c) }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
#define ELEMENTS(row, op)                                                                               \
    {row, TWO(op, "float[n,7]", "float[n,7]")}, {row "_odd", TWO(op, "float[33]", "float[33]"), VALUE}, \
        {row "_half", TWO(op, "float16[n,7]", "float16[n,7]"), VALUE},                                  \
        {row "_bfloat16", TWO(op, "bfloat16[n,7]", "bfloat16[n,7]"), VALUE},                            \
        {row "_double", TWO(op, "double[1]", "double[1]"), VALUE}, {                                    \
        row "_empty", TWO(op, "float[0,7]", "float[0,7]"), VALUE                                        \
    }

/* Sums of every type with values of others: vectors and what is left over, of one element, empty. */
#define NACRE "<opset: \"\" 17, \"nacre\" 1> g "
#define MANY(flag)                                                                                                  \
    NACRE "(float[1037] a, bfloat16[n,7] b, float16[64] c, double[5] d, float[0] e, float[1] f, bfloat16[1037] g, " \
          "float[n,7] h, float16[64] i, double[5] j, float[0] k, float16[1] l) => (p, q, r, s, t, u) "              \
          "<const bool[1] o = " flag "> "                                                                           \
          "{ p, q, r, s, t, u = nacre.AccumulateMany(a, b, c, d, e, f, g, h, i, j, k, l, o) }"

const nc_case nc_training_cases[] = {
    ELEMENTS("training_relu_grad", "ReluGrad"),
    ELEMENTS("training_leaky_relu_grad", "LeakyReluGrad<alpha = 0.25>"),
    ELEMENTS("training_sigmoid_grad", "SigmoidGrad"),
    ELEMENTS("training_tanh_grad", "TanhGrad"),
    ELEMENTS("training_gelu_grad", "GeluGrad"),
    ELEMENTS("training_fast_gelu_grad", "FastGeluGrad"),
    ELEMENTS("training_quick_gelu_grad", "QuickGeluGrad"),
    {"training_bias_gelu_grad", THREE("BiasGeluGrad_dX", "float[n,7]", "float[n,7]", "float[7]")},
    {"training_bias_fast_gelu_grad", THREE("BiasFastGeluGrad_dX", "float[n,7]", "float[n,7]", "float[7]")},
    {"training_softmax_grad", TWO("SoftmaxGrad<axis = 1>", "float[n,3,5]", "float[n,3,5]")},
    {"training_softmax_grad_13", TWO("SoftmaxGrad_13<axis = 1>", "float[n,3,5]", "float[n,3,5]")},
    {"training_log_softmax_grad", TWO("LogSoftmaxGrad<axis = 1>", "float[n,3,5]", "float[n,3,5]")},
    {"training_log_softmax_grad_13", TWO("LogSoftmaxGrad_13<axis = 1>", "float[n,3,5]", "float[n,3,5]")},
    {"training_div_grad", HEAD "(float[n,7] d, float[n,7] x, float[7] z) => (a, b) "
                               "{ y = Exp(z)\n a, b = com.microsoft.DivGrad(d, x, y) }"},
    {"training_conv_grad", HEAD "(float[n,4,5,4] d, float[n,3,5,4] x, float[4,3,3,3] w) => (a, b, c) "
                                "{ a, b, c = com.microsoft.ConvGrad<pads = [1, 1, 1, 1]>(d, x, w) }"},
    {"training_max_pool_grad",
     HEAD "(float[n,2,6,4] x, float[n,2,3,2] d) => (y, dx) "
          "{ y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)\n"
          " dx = MaxPoolGrad<kernel_shape = [2, 2], strides = [2, 2]>(d, i) }",
     VALUE},
    {"training_layer_normalization_grad",
     HEAD "(float[n,3,7] x, float[7] s, float[7] b, float[n,3,7] d) => (y, dx, ds, db) "
          "{ y, m, i = LayerNormalization<epsilon = 0.001>(x, s, b)\n"
          " dx, ds, db = com.microsoft.LayerNormalizationGrad<axis = -1>(d, x, s, m, i) }",
     VALUE},
    {"training_layer_normalization_grad_of_given",
     HEAD "(float[n,3,7] x, float[7] s, float[n,3,1] m, float[n,3,1] i, float[n,3,7] d) => (dx, ds, db) "
          "{ dx, ds, db = com.microsoft.LayerNormalizationGrad<axis = -1>(d, x, s, m, i) }"},
    {"training_batch_normalization_grad",
     HEAD "(float[n,3,7] x, float[3] s, float[3] m, float[3] i, float[n,3,7] d) => (dx, ds, db) "
          "{ dx, ds, db = com.microsoft.BatchNormalizationGrad<epsilon = 0.001>(d, x, s, m, i) }"},
    {"training_batch_norm_internal",
     HEAD "(float[4,3,7] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y, rm, rv, sm, si) "
          "{ y, rm, rv, sm, si = com.microsoft.BatchNormInternal<epsilon = 0.001>(x, s, b, m, v) }"},
    {"training_cross_entropy_grad", HEAD "(float[] d, float[4,5] p) => (y) <const int64[4] l = {1, 4, 0, 2}> "
                                         "{ y = com.microsoft.SoftmaxCrossEntropyLossGrad(d, p, l) }"},
    {"training_cross_entropy_internal",
     HEAD "(float[4,5] x) => (y, p) <const int64[4] l = {1, 4, 0, 2}, const int64[] i = {4}> "
          "{ y, p = com.microsoft.SoftmaxCrossEntropyLossInternal(x, l, , i) }"},
    {"training_gather_grad", HEAD "(float[4,3] d) => (y) <const int64[4] i = {1, 4, 1, 2}, const int64[2] s = {5, 3}> "
                                  "{ y = com.microsoft.GatherGrad(s, i, d) }"},
    {"training_gather_elements_grad",
     HEAD "(float[2,2] d) => (y) <const int64[2,2] i = {1, 4, 1, 2}, const int64[2] s = {2, 5}> "
          "{ y = com.microsoft.GatherElementsGrad<axis = 1>(d, s, i) }"},
    {"training_in_place_accumulator", TWO("InPlaceAccumulator", "float[n,7]", "float[n,7]")},
    {"training_in_place_accumulator_2", HEAD "(float[n,7] a, float[n,7] b) => (y) "
                                             "{ f, y = com.microsoft.InPlaceAccumulatorV2(a, b) }"},
    {"training_accumulate_many", MANY("{0}"), VALUE},
    {"training_accumulate_many_over", MANY("{1}"), VALUE},
    {"training_cast_many",
     NACRE "(float[n,7] a, float[1037] b, double[3] c, float16[9] d, float[0] e, float[64] f) => "
           "(x, y, z, u, v, w) { x, y, z, u, v, w = nacre.CastMany<to = 16>(a, b, c, d, e, f) }",
     VALUE | NC_CASE_EXACT},
    {"training_scaled_sum", TWO("ScaledSum<scale_0 = 0.5, scale_1 = 2.0>", "float[n,7]", "float[n,7]")},
    {"training_reduce_all_l2", TWO("ReduceAllL2", "float[n,7]", "float[3]")},
    {"training_concat", HEAD "(float[n,2] a, float[n,3] b) => (y, l) "
                             "{ y, l = com.microsoft.ConcatTraining<axis = 1>(a, b) }"},
    {0}};

TEST(training_values) { nc_cases_check_values(nc_training_cases); }
TEST(training_isas) { nc_cases_check_isas(nc_training_cases); }
TEST(training_gradients) { nc_cases_check_gradients(nc_training_cases); }
