/* ops/math/math_cases_test.c: the cases of the math family (ops/cases.h) and the tests that run them. */
#include "ops/cases_testing.h"

#include "tests/check.h"

extern const nc_case nc_math_cases[];

#define ONE(op) "<opset: \"\" 22> g (float[n,7] x) => (y) { y = " op "(x) }"
#define TWO(op) "<opset: \"\" 22> g (float[3,n] a, float[3,n] b) => (y) { y = " op "(a, b) }"
#define BIAS(op) "<opset: \"\" 22> g (float[n,3,5] a, float[3,1] b) => (y) { y = " op "(a, b) }"
#define INTS(type, op) "<opset: \"\" 22> g (" type "[n,33] a, " type "[33] b) => (y) { y = " op "(a, b) }"
#define NARROW(type, op) "<opset: \"\" 22> g (" type "[n,33] x) => (y) { y = " op "(x) }"
#define INTEGER NC_CASE_NO_GRAD | NC_CASE_EXACT

const nc_case nc_math_cases[] = {
    {"add", TWO("Add")},
    {"add_bias", BIAS("Add")},
    {"add_empty", "<opset: \"\" 22> g (float[0,4] a, float[4] b) => (y) { y = Add(a, b) }", {{0, 0}}, NC_CASE_NO_GRAD},
    {"add_scalars", "<opset: \"\" 22> g (float[] a, float[] b) => (y) { y = Add(a, b) }"},
    {"add_large",
     "<opset: \"\" 22> g (float[1037,65] a, float[65] b) => (y) { y = Add(a, b) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"add_int8", INTS("int8", "Add"), {{-100, 100}}, INTEGER},
    {"sub", TWO("Sub")},
    {"sub_int64", INTS("int64", "Sub"), {{-1e15, 1e15}}, INTEGER},
    {"mul", TWO("Mul")},
    {"mul_bias", BIAS("Mul")},
    {"mul_uint64", INTS("uint64", "Mul"), {{0, 1e9}}, INTEGER},
    {"div", TWO("Div"), {{-2, 2}, {0.5, 3}}},
    {"div_int32", INTS("int32", "Div"), {{-100, 100}, {1, 9}}, INTEGER},
    {"pow", TWO("Pow"), {{0.2, 3}, {-2, 2}}},
    {"pow_integer_exponent",
     "<opset: \"\" 22> g (float[n,5] a, int64[5] b) => (y) { y = Pow(a, b) }",
     {{0.5, 2}, {2, 4}},
     NC_CASE_NO_GRAD},
    {"min", TWO("Min"), {{0, 0}}, NC_CASE_KINK},
    {"max", TWO("Max"), {{0, 0}}, NC_CASE_KINK},
    {"max_one", ONE("Max")},
    {"max_three",
     "<opset: \"\" 22> g (float[n,4] a, float[n,4] b, float[n,4] c) => (y) { y = Max(a, b, c) }",
     {{0, 0}},
     NC_CASE_KINK},
    {"min_broadcast",
     "<opset: \"\" 22> g (float[n,1] a, float[4] b, float[1] c) => (y) { y = Min(a, b, c) }",
     {{0, 0}},
     NC_CASE_KINK},
    {"neg", ONE("Neg")},
    {"neg_int32", NARROW("int32", "Neg"), {{-9, 9}}, INTEGER},
    {"abs", ONE("Abs"), {{0, 0}}, NC_CASE_KINK},
    {"sqrt", ONE("Sqrt"), {{0.1, 9}}},
    {"exp", ONE("Exp")},
    {"exp_wide", ONE("Exp"), {{-80, 80}}, NC_CASE_NO_GRAD},
    {"log", ONE("Log"), {{0.1, 9}}},
    {"tanh", ONE("Tanh")},
    {"tanh_half", NARROW("float16", "Tanh"), {{-3, 3}}, NC_CASE_NO_GRAD},
    {"erf", ONE("Erf")},
    {"erf_bfloat16", NARROW("bfloat16", "Erf"), {{-3, 3}}, NC_CASE_NO_GRAD},
    {"sigmoid", ONE("Sigmoid"), {{-6, 6}}},
    {"relu", ONE("Relu"), {{0, 0}}, NC_CASE_KINK},
    {"leaky_relu", ONE("LeakyRelu<alpha = 0.2>"), {{0, 0}}, NC_CASE_KINK},
    {"elu", ONE("Elu<alpha = 1.5>"), {{0, 0}}, NC_CASE_KINK},
    {"softplus", ONE("Softplus"), {{-8, 8}}},
    {"reciprocal", ONE("Reciprocal"), {{0.3, 4}}},
    {"floor", ONE("Floor"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sin", ONE("Sin")},
    {"cos", ONE("Cos")},
    {"less", TWO("Less"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"less_or_equal_int64", INTS("int64", "LessOrEqual"), {{-3, 3}}, INTEGER},
    {"equal_int32", INTS("int32", "Equal"), {{-2, 2}}, INTEGER},
    {"equal_bool", INTS("bool", "Equal"), {{-1, 1}}, INTEGER},
    {"greater", BIAS("Greater"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"greater_or_equal_uint8", INTS("uint8", "GreaterOrEqual"), {{0, 3}}, INTEGER},
    {"and", INTS("bool", "And"), {{-1, 1}}, INTEGER},
    {"or", INTS("bool", "Or"), {{-1, 1}}, INTEGER},
    {"xor", INTS("bool", "Xor"), {{-1, 1}}, INTEGER},
    {"not", NARROW("bool", "Not"), {{-1, 1}}, INTEGER},
    {"where", "<opset: \"\" 22> g (bool[n,4] c, float[n,4] a, float[n,4] b) => (y) { y = Where(c, a, b) }", {{-1, 1}}},
    {"where_broadcast",
     "<opset: \"\" 22> g (bool[n,1] c, float[4] a, float[] b) => (y) { y = Where(c, a, b) }",
     {{-1, 1}}},
    {"gelu_by_hand", "<opset: \"\" 22> g (float[n,9] x, float[] k, float[] one, float[] half) => (y) "
                     "{ s = Mul(x, k) e = Erf(s) t = Add(e, one) u = Mul(x, t) y = Mul(u, half) }"},
    {0}};

TEST(math_values) { nc_cases_check_values(nc_math_cases); }
TEST(math_isas) { nc_cases_check_isas(nc_math_cases); }
TEST(math_gradients) { nc_cases_check_gradients(nc_math_cases); }
