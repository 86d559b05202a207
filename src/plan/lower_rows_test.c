/* plan/lower_rows_test.c: what is done to rows takes in the formulas that make them, and near misses. */
#include "tests/lowering.h"

static nc_code chains_and_rows(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_chain(w, m, o));
    NC_TRY(nc_lower_epilogue(w, m, o));
    return nc_lower_rows(w, m, o);
}

#define JOINS(graph, want) OPS_ON(nc_device_cpu(), graph, chains_and_rows, want)
#define HEAD "(float[b,s,4] x, float[b,1,4] m, float[] k, float[4] v, float[s,4] u) => (y) "
#define AXES(a) "<const int64[1] a = {" a "}> "

TEST(lower_rows_joins_what_makes_them) {
    JOINS(HEAD "{ p = Mul(x, k) q = Add(p, m) y = Softmax(q) }", "ChainRows{Mul Add}");
    JOINS(HEAD "{ p = Neg(x) y = LogSoftmax<axis = 2>(p) }", "ChainRows{Neg}");
    JOINS(HEAD "{ p = Add(x, m) y = LayerNormalization(p, v, v) }", "ChainRows{Add}");
    JOINS(HEAD "{ p = Add(x, x) y = LayerNormalization<axis = 1>(p, u) }", "ChainRows{Add}");
    JOINS(HEAD "{ p = Tanh(x) y = SimplifiedLayerNormalization(p, v) }", "ChainRows{Tanh}");
    JOINS(HEAD AXES("-1") "{ p = Exp(x) y = ReduceSum(p, a) }", "ChainRows{Exp}");
    JOINS(HEAD "{ p = Abs(x) q = Mul(p, k) y = ReduceMax<keepdims = 0>(q) }", "ChainRows{Abs Mul}");
}

/* Other axes, another reader, a result of the graph, scales of other dims, statistics that are wanted; a product's
 * formulas are done by the product. */
TEST(lower_rows_leaves_others_alone) {
    JOINS(HEAD "{ p = Mul(x, k) y = Softmax<axis = 1>(p) }", "Mul Softmax");
    JOINS(HEAD AXES("0") "{ p = Exp(x) y = ReduceSum(p, a) }", "Exp ReduceSum");
    JOINS("(float[b,4] x) => (y, z) { p = Exp(x) y = Softmax(p) z = Neg(p) }", "Exp Softmax Neg");
    JOINS("(float[b,4] x) => (y, p) { p = Exp(x) y = Softmax(p) }", "Exp Softmax");
    JOINS(HEAD "{ p = Exp(x) y = LayerNormalization(p, k) }", "Exp LayerNormalization");
    JOINS("(float[b,4] x, float[4] v) => (y, s) { p = Exp(x) y, s = LayerNormalization(p, v) }",
          "Exp LayerNormalization");
    JOINS("(float[b,4] x, int64[b,4] e) => (y) { p = Pow(x, e) y = Softmax(p) }", "Pow Softmax");
    JOINS("(double[b,4] x) => (y) { p = Exp(x) y = Softmax(p) }", "Exp Softmax");
    JOINS("(float[b,4] x, float[4,4] w) => (y) { p = MatMul(x, w) q = Exp(p) y = Softmax(q) }",
          "MatMulChain{Exp} Softmax");
}
