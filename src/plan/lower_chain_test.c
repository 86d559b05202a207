/* plan/lower_chain_test.c: what becomes one chain, and where a chain ends because no program would hold it. */
#include "tests/lowering.h"

#define CHAINS(graph, want) LOWERS(graph, nc_lower_chain, want)

TEST(lower_chain_joins_a_lane_and_its_only_user) {
    CHAINS("(float[n] x, float[n] y) => (z) { a = Add(x, y) b = Exp(a) z = Mul(b, x) }",
           "z = nacre.Chain{Add Exp Mul}(x, y)");
    CHAINS("(float[n] x) => (y, z) { a = Exp(x) y = Neg(a) z = Abs(a) }", "a = Exp(x); y = Neg(a); z = Abs(a)");
    CHAINS("(float[n] x) => (a, y) { a = Exp(x) y = Neg(a) }", "a = Exp(x); y = Neg(a)");
    CHAINS("(float[n] x) => (y) { a = Exp(x) b = ReduceSum<keepdims = 1>(a) y = Neg(b) }",
           "a = Exp(x); b = ReduceSum(a); y = Neg(b)");
}

TEST(lower_chain_joins_one_shape_only) {
    CHAINS("(float[n] x, float[m,n] y) => (z) { a = Exp(x) z = Add(a, y) }", "a = Exp(x); z = Add(a, y)");
    CHAINS("(float[n] x, float[m,n] y) => (z) { a = Exp(y) z = Add(a, x) }", "z = nacre.Chain{Exp Add}(y, x)");
}

/* A single node may mix types, a chain may not. */
TEST(lower_chain_ends_where_types_mix) {
    CHAINS("(double[n] x, double[n] y, int64[n] k) => (z) { a = Sub(x, y) b = Pow(a, k) z = Sqrt(b) }",
           "a = Sub(x, y); b = Pow(a, k); z = Sqrt(b)");
    CHAINS("(double[n] x, float[n] y) => (z) { a = Less(x, x) b = Where(a, y, y) z = Neg(b) }",
           "a = Less(x, x); z = nacre.Chain{Where Neg}(a, y)");
    CHAINS("(double[n] x, double[n] y) => (z) { a = Less(x, y) b = Not(a) c = Where(b, x, y) z = Neg(c) }",
           "z = nacre.Chain{Less Not Where Neg}(x, y)");
    CHAINS("(int32[n] x) => (y) { a = Neg(x) y = Abs(a) }", "a = Neg(x); y = Abs(a)");
}

TEST(lower_chain_enters_subgraphs) {
    CHAINS("(bool[] c, float[n] x) => (y) { y = If(c)<then_branch = { () => (p) { a = Exp(^x) p = Neg(a) } },"
           " else_branch = { () => (q) { q = Abs(^x) } }> }",
           "y = If{p = nacre.Chain{Exp Neg}(x)}{q = Abs(x)}(c)");
}
