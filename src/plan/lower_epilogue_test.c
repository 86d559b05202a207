/* plan/lower_epilogue_test.c: element formulas become the body of the kernel before them, and near misses. */
#include "tests/lowering.h"

static nc_code chains_and_epilogues(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_chain(w, m, o));
    return nc_lower_epilogue(w, m, o);
}

#define JOINS(graph, want) OPS_ON(nc_device_cpu(), graph, chains_and_epilogues, want)
#define CONV(y, x) #y " = nacre.ConvBlocked<block = 8>(" #x ", w) "
#define HEAD                                                                                                      \
    "(float[n,8,h,k] i, float[] s, float[n,8,1,1] e) => (y) <const float[1,8,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8}> " \
    "{ x = nacre.PackChannels<block = 8>(i) " CONV(c, x)

TEST(lower_epilogue_joins_what_follows) {
    JOINS(HEAD "r = Relu(c) y = nacre.UnpackChannels(r) }", "PackChannels ConvBlocked{Relu} UnpackChannels");
    JOINS(HEAD "r = Min(c, s) z = Tanh(r) y = nacre.UnpackChannels(z) }",
          "PackChannels ConvBlocked{Min Tanh} UnpackChannels");
    JOINS(HEAD "p = Sigmoid(c) z = Mul(c, p) y = nacre.UnpackChannels(z) }",
          "PackChannels ConvBlocked{Sigmoid Mul} UnpackChannels");
}

TEST(lower_epilogue_takes_residuals_and_channels) {
    JOINS(HEAD CONV(d, x) "r = Add(c, d) y = nacre.UnpackChannels(r) }",
          "PackChannels ConvBlocked ConvBlocked{Add} UnpackChannels");
    JOINS("(float[n,8,h,k] i, float[n,8,1,1] e) => (y) <const float[8,1,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8}> "
          "{ x = nacre.PackChannels<block = 8>(i) v = nacre.PackChannels<block = 8>(e) "
          "c = nacre.ConvBlocked<block = 8, group = 8>(x, w) r = Mul(c, v) y = nacre.UnpackChannels(r) }",
          "PackChannels PackChannels ConvBlocked{Mul} UnpackChannels");
}

#define PRODUCT                                                                                                    \
    "(float[b,s,4] x, float[b,s,4] r, float[] k, float[b,1,4] m) => (y) <const float[4,4] w = {1, 2, 3, 4, 5, 6, " \
    "7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, const float[4] v = {1, 2, 3, 4}> { p = MatMul(x, w) "

TEST(lower_epilogue_follows_products) {
    JOINS(PRODUCT "a = Add(p, v) y = Tanh(a) }", "MatMulChain{Add Tanh}");
    JOINS(PRODUCT "a = Add(v, p) y = Add(a, r) }", "MatMulChain{Add Add}");
    JOINS(PRODUCT "a = Mul(p, k) y = Softmax(a) }", "MatMulChain{Mul} Softmax");
    JOINS(PRODUCT "q = Sigmoid(p) y = Mul(p, q) }", "MatMulChain{Sigmoid Mul}");
    JOINS(
        "(float[m,4] x, float[4,8] w, float[8] b, float[m,8] r) => (y) { g = Gemm(x, w, b) a = Relu(g) y = Add(a, r) }",
        "GemmChain{Relu Add}");
    JOINS("(float[m,4] x, float[4,8] w) => (y) { g = Gemm(x, w) y = Tanh(g) }", "GemmChain{Tanh}");
    JOINS("(float[4] x, float[4,n] w, float[n] b) => (y) { g = MatMul(x, w) y = Add(g, b) }", "MatMulChain{Add}");
}

#define ATTENTION(dims)                                                     \
    "(float[" dims "] q, float[" dims "] k, float[" dims "] v, float[" dims \
    "] r, float[] s, bool[1] m, float[t,1] e) => (y) <const "               \
    "float[4] c = {1, 2, 3, 4}> { "

TEST(lower_epilogue_follows_attention) {
    JOINS(ATTENTION("b,h,t,4") "a = Attention(q, k, v) g = Sigmoid(r) p = Mul(a, g) y = Add(p, c) }",
          "AttentionChain{Sigmoid Mul Add}");
    JOINS(
        ATTENTION("b,t,4") "a = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, m) p = Mul(a, s) y = Add(p, c) }",
        "AttentionChain{Mul Add}");
    JOINS(ATTENTION("b,h,t,4") "a, j, l = Attention(q, k, v) o = Add(j, l) p = Tanh(a) y = Concat<axis = 2>(o, p) }",
          "Attention Add Tanh Concat");
    JOINS(ATTENTION("b,h,t,4") "a = Attention(q, k, v) p = Mul(a, r) y = Add(p, e) }", "Attention Chain{Mul Add}");
}

TEST(lower_epilogue_refuses_what_products_cannot_spread) {
    JOINS(PRODUCT "y = Add(p, m) }", "MatMul Add");
    JOINS("(float[s,4] x, float[4] w, float[s] b) => (y) { g = MatMul(x, w) y = Add(g, b) }", "MatMulChain{Add}");
    JOINS("(float[n,s,4] x, float[4] w, float[s] b) => (y) { g = MatMul(x, w) y = Add(g, b) }", "MatMul Add");
    JOINS("(double[s,4] x, double[4,4] w) => (y) { g = MatMul(x, w) y = Tanh(g) }", "MatMul Tanh");
    JOINS("(float16[s,4] x, float16[4,4] w) => (y) { g = MatMul(x, w) y = Tanh(g) }", "MatMul Tanh");
    JOINS("(float[s,4] x, float[4,4] w) => (y) { g = MatMul(x, w) h = Tanh(g) i = Softmax(g) y = Add(h, i) }",
          "MatMul Softmax Chain{Tanh Add}");
}

TEST(lower_epilogue_leaves_what_is_used_elsewhere) {
    JOINS(HEAD "r = Relu(c) z = Softmax(c) q = nacre.UnpackChannels(r) t = nacre.UnpackChannels(z) y = Add(q, t) }",
          "PackChannels ConvBlocked Relu Softmax UnpackChannels UnpackChannels Add");
    JOINS("(float[n] x) => (y) { a = Exp(x) y = Neg(a) }", "Chain{Exp Neg}");
}
