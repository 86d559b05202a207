/* plan/lower_casts_test.c: casts beside kernels of CUDA that take half types go, those beside others stay. Everything
 * is placed on a device with CUDA's kernels. */
#include "tests/lowering.h"

static nc_code place_and_cast(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    NC_TRY(nc_lower_backward(w, m, o));
    return nc_lower_casts(w, m, o);
}
#define CASTS(graph, want) LOWERS_ON(&cuda_planning, graph, place_and_cast, want)

TEST(lower_casts_around_norms) {
    CASTS("(bfloat16[n,8] x, float[8] s) => (y) { a = Cast<to = 1>(x) b = LayerNormalization(a, s) "
          "y = Cast<to = 16>(b) }",
          "b = LayerNormalization(x, s) @device");
    CASTS("(float[n,8] x, float[8] s) => (b, y) { b = LayerNormalization(x, s) y = Cast<to = 16>(b) }",
          "b = LayerNormalization(x, s) @device; y = Cast(b) @device");
    CASTS("(float16[n,8] d, float[n,8] x, float[8] s) => (e, f) { c = Cast<to = 1>(d) "
          "a, e, f = nacre.NormGrad(c, x, s) }",
          "a, e, f = nacre.NormGrad(d, x, s) @device");
    CASTS("(float16[8] h, float[n,8] x) => (y) { s = Cast<to = 1>(h) y = LayerNormalization(x, s) }",
          "s = Cast(h) @device; y = LayerNormalization(x, s) @device");
    CASTS("(bfloat16[n,8] x) => (y) { a = Cast<to = 1>(x) y = ReduceSum<keepdims = 1>(a) }",
          "a = Cast(x) @device; y = ReduceSum(a) @device");
    CASTS("(double[n,8] x, float[8] s) => (y) { a = Cast<to = 1>(x) y = LayerNormalization(a, s) }",
          "a = Cast(x) @device; y = LayerNormalization(a, s) @device");
}

TEST(lower_casts_around_losses) {
    CASTS("(bfloat16[n,8] x, int64[n] l, float[] d) => (y, g) { a = Cast<to = 1>(x) "
          "y, p = SoftmaxCrossEntropyLoss(a, l) e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l) g = Cast<to = 16>(e) }",
          "y, none, SoftmaxCrossEntropyLoss_5_out2 = SoftmaxCrossEntropyLoss(x, l) @device; CrossEntropyGrad_12_out = "
          "nacre.CrossEntropyGrad(d, x, l, none, SoftmaxCrossEntropyLoss_5_out2) @device");
}

/* Means and pools are of the half type as a whole; the sums are f32 in either form. */
TEST(lower_casts_around_means) {
    CASTS("(float16[n,8] x) => (y) { a = Cast<to = 1>(x) b = ReduceMean<keepdims = 1>(a) y = Cast<to = 10>(b) }",
          "b = ReduceMean(x) @device");
    CASTS("(float16[1,8,9,9] x) => (y) { a = Cast<to = 1>(x) b = AveragePool<kernel_shape = [3, 3]>(a) "
          "y = Cast<to = 10>(b) }",
          "b = AveragePool(x) @device");
    CASTS("(float16[n,8] x) => (y) { a = Cast<to = 1>(x) b = ReduceMean<keepdims = 1>(a) y = Cast<to = 16>(b) }",
          "a = Cast(x) @device; b = ReduceMean(a) @device; y = Cast(b) @device");
    CASTS("(float16[n,8] x) => (y, b) { a = Cast<to = 1>(x) b = ReduceMean<keepdims = 1>(a) y = Cast<to = 10>(b) }",
          "a = Cast(x) @device; b = ReduceMean(a) @device; y = Cast(b) @device");
    CASTS("(float16[n,8] x) => (y, c) { a = Cast<to = 1>(x) b = ReduceMax<keepdims = 1>(a) y = Cast<to = 10>(b) "
          "c = Exp(a) }",
          "a = Cast(x) @device; b = ReduceMax(x) @device; c = Exp(a) @device");
}

/* The CPU's kernels take what their cards say. */
TEST(lower_casts_leaves_the_host_alone) {
    LOWERS("(bfloat16[n,8] x, float[8] s) => (y) { a = Cast<to = 1>(x) y = LayerNormalization(a, s) }", nc_lower_casts,
           "a = Cast(x); y = LayerNormalization(a, s)");
}
