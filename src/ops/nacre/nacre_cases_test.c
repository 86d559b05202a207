/* ops/nacre/nacre_cases_test.c: the cases of the ops that passes and gradients make. */
#include "ops/cases_testing.h"

#include "tests/check.h"

extern const nc_case nc_nacre_cases[];

#define HEAD "<opset: \"\" 22, \"nacre\" 1> g "
#define SUM_TO(x, n, shape) \
    HEAD "(float[" x "] x) => (y) <const int64[" n "] s = {" shape "}> { y = nacre.SumTo(x, s) }"

const nc_case nc_nacre_cases[] = {
    {"sum_to_bias", SUM_TO("n,3,7", "1", "7"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_both", SUM_TO("n,3,7", "2", "1, 7"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_scalar", SUM_TO("n,65", "0", ""), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_itself", SUM_TO("4,5", "2", "4, 5"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_of_nothing", SUM_TO("0,5", "2", "1, 5"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"chain",
     HEAD "(float[n,9] x, float[9] b) => (y, c) { y, c = nacre.Chain<body = { (p, q) => (t, u) "
          "{ s = Add(p, q) e = Erf(s) t = Mul(e, p) u = Less(s, q) } }>(x, b) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"tanh_grad", HEAD "(float[n,9] dy, float[n,9] s) => (y) { y = nacre.TanhGrad(dy, s) }", {{0, 0}}, NC_CASE_NO_GRAD},
    {0}};

TEST(nacre_values) { nc_cases_check_values(nc_nacre_cases); }
TEST(nacre_isas) { nc_cases_check_isas(nc_nacre_cases); }
