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

/* Casts to f32 are done by whoever reads them; those to a half type come last, or are a second result. */
TEST(lower_chain_takes_casts_in) {
    CHAINS("(float[n] x, bfloat16[n] h) => (z) { a = Cast<to = 1>(h) b = Add(x, a) z = Cast<to = 16>(b) }",
           "z = nacre.Chain{Cast Add Cast}(h, x)");
    CHAINS("(float[n] x, float16[n] h) => (y, z) { a = Cast<to = 1>(h) y = Add(x, a) z = Mul(x, a) }",
           "y = nacre.Chain{Cast Add}(h, x); z = nacre.Chain{Cast Mul}(h, x)");
    CHAINS("(float[n] x, float[n] y) => (s, z) { s = Add(x, y) h = Cast<to = 10>(s) z = MatMul(h, h) }",
           "s, h = nacre.Chain{Add Cast}(x, y); z = MatMul(h, h)");
    CHAINS("(float[n] x, int64[n] e) => (y, z) { y = Pow(x, e) h = Cast<to = 10>(y) z = MatMul(h, h) }",
           "y = Pow(x, e); h = Cast(y); z = MatMul(h, h)"); /* a chain has no whole exponents */
    CHAINS("(float[n] x) => (z) { a = Exp(x) h = Cast<to = 16>(a) z = Neg(h) }",
           "h = nacre.Chain{Exp Cast}(x); z = Neg(h)");
    CHAINS("(float[n] x) => (z) { a = Cast<to = 11>(x) z = Neg(a) }", "a = Cast(x); z = Neg(a)");
    CHAINS("(float16[n] h, float[m,n] x) => (z) { a = Cast<to = 1>(h) z = Add(a, x) }", "a = Cast(h); z = Add(a, x)");
    CHAINS("(bfloat16[n] h) => (y, z) { a = Neg(h) b = Cast<to = 1>(a) y = Exp(b) z = ReduceSum<keepdims = 1>(b) }",
           "a = Neg(h); b = Cast(a); y = nacre.Chain{Cast Exp}(a); z = ReduceSum(b)");
}

TEST(lower_chain_enters_subgraphs) {
    CHAINS("(bool[] c, float[n] x) => (y) { y = If(c)<then_branch = { () => (p) { a = Exp(^x) p = Neg(a) } },"
           " else_branch = { () => (q) { q = Abs(^x) } }> }",
           "y = If{p = nacre.Chain{Exp Neg}(x)}{q = Abs(x)}(c)");
}

static nc_code place_and_chain(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_chain(w, m, o);
}

/* Each of three products adds one tensor on a GPU; elsewhere the last one takes both sums. */
TEST(lower_chain_leaves_sums_of_products_to_them) {
#define THREE(last)                                                                               \
    "(float16[4,8] a, float16[8,8] b, float16[4,8] c, float16[4,8] e) => (y) { p = MatMul(a, b) " \
    "q = MatMul(c, b) r = " last " s = Add(p, q) y = Add(s, r) }"
    OPS_ON(&cuda_planning, THREE("MatMul(e, b)"), place_and_chain,
           "MatMul@device MatMul@device MatMul@device Add@device Add@device");
    OPS_ON(&cuda_planning, THREE("Relu(e)"), place_and_chain,
           "MatMul@device MatMul@device Chain@device{Relu@device Add@device Add@device}");
    OPS_ON(nc_device_cpu(), THREE("MatMul(e, b)"), place_and_chain, "MatMul MatMul MatMul Chain{Add Add}");
}
