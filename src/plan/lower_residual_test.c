/* plan/lower_residual_test.c: gradients of norms take in the sum and the cast behind them, on a device with CUDA's
 * kernels. */
#include "tests/lowering.h"

static nc_code place_and_take(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_residual(w, m, o);
}
#define TAKES(graph, want) LOWERS_ON(&cuda_planning, graph, place_and_take, want)
#define OPS(graph, want) OPS_ON(&cuda_planning, graph, place_and_take, want)
#define HEAD "(float[n,8] d, float[n,8] x, float[8] s, float[n,8] o, float[8] p) => "

TEST(lower_residual_takes_sum_and_cast) {
    TAKES(HEAD "(y, b, c, h) { a, b, c = nacre.NormGrad(d, x, s) y = Add(o, a) h = Cast<to = 16>(y) }",
          "NormGradAdd_13_out, NormGradAdd_13_out1, NormGradAdd_13_out2, NormGradAdd_13_out3 = "
          "nacre.NormGradAdd(d, x, s, o) @device");
    TAKES(HEAD "(y, b) { a, b = nacre.NormGrad<center = 0>(d, x, s) y = Add(a, o) }",
          "NormGradAdd_10_out, NormGradAdd_10_out1, none = nacre.NormGradAdd(d, x, s, o) @device");
}

/* Of the cast, over all rows. */
#define WIDE "(float[n,3,8] d, float[n,3,8] x, float[8] s, float[n,3,8] o, float[n,3,7] e, float[n,3,7] q, float[7] r)"
#define SUMMED(n_axes, axes, more)                                                                            \
    WIDE "=> (y, t) <const int64[" n_axes "] axes = {" axes "}> { a = nacre.NormGrad(d, x, s) y = Add(o, a) " \
         "h = Cast<to = 16>(y) t = ReduceSum<keepdims = " more ">(h, axes) }"

TEST(lower_residual_takes_the_sum_of_rows) {
    OPS(SUMMED("2", "0, 1", "0"), "NormGradAdd@device");
    OPS(SUMMED("2", "-2, 0", "0"), "NormGradAdd@device");
    OPS(SUMMED("2", "0, 1", "1"), "NormGradAdd@device ReduceSum@device");
    OPS(SUMMED("2", "0, 2", "0"), "NormGradAdd@device ReduceSum@device");
    OPS(SUMMED("1", "0", "0"), "NormGradAdd@device ReduceSum@device");
    OPS(WIDE "=> (y, t) <const int64[2] axes = {0, 1}> { a = nacre.NormGrad(e, q, r) y = Add(e, a) "
             "h = Cast<to = 16>(y) t = ReduceSum<keepdims = 0>(h, axes) }",
        "NormGradAdd@device ReduceSum@device");
}

/* Of the norm over the same rows. */
#define NORMED(how) HEAD "(y, f) { f = LayerNormalization" how "(x, s) a = nacre.NormGrad(d, x, s) y = Add(o, a) }"

TEST(lower_residual_takes_the_statistics) {
    TAKES(NORMED(""), "f, LayerNormalization_5_out1, LayerNormalization_5_out2 = LayerNormalization(x, s) @device; "
                      "NormGradAdd_13_out, none, none = nacre.NormGradAdd(d, x, s, o, LayerNormalization_5_out1, "
                      "LayerNormalization_5_out2) @device");
    TAKES(NORMED("<epsilon = 0.5>"), "f = LayerNormalization(x, s) @device; NormGradAdd_11_out, none, none = "
                                     "nacre.NormGradAdd(d, x, s, o) @device");
}

/* Of the cast, which nobody else reads; what is added up is then its result. */
#define DROPPED(outs, more)                                                                             \
    WIDE "=> (" outs ") <const int64[2] axes = {0, 1}, const float[] u = {0.5}, const bool[] w = {1}, " \
         "const int64[2] z = {1, 2}> { a = nacre.NormGrad(d, x, s) y = Add(o, a) h = Cast<to = 16>(y) " \
         "k = nacre.PhiloxDropout(h, u, w, z) @random=3 t = ReduceSum<keepdims = 0>(k, axes) " more "}"

TEST(lower_residual_takes_dropout) {
    TAKES(DROPPED("y, k, t", ""), "NormGradAdd_21_out, none, none, NormGradAdd_21_out3, NormGradAdd_21_out4 = "
                                  "nacre.NormGradAdd(d, x, s, o, none, none, 1 2) @device");
    OPS(DROPPED("y, k, t, h", ""), "NormGradAdd@device PhiloxDropout@device ReduceSum@device");
    OPS(DROPPED("y, k, t, v", "v = Exp(h) "), "NormGradAdd@device PhiloxDropout@device ReduceSum@device Exp@device");
}

TEST(lower_residual_leaves_others_alone) {
    OPS(HEAD "(y) { a = nacre.NormGrad(d, x, s) y = Add(p, a) }", "NormGrad@device Add@device");
    OPS(HEAD "(y, a) { a = nacre.NormGrad(d, x, s) y = Add(o, a) }", "NormGrad@device Add@device");
    OPS(HEAD "(y, z) { a = nacre.NormGrad(d, x, s) z = Exp(a) y = Add(o, a) }",
        "NormGrad@device Exp@device Add@device");
    OPS(HEAD "(y) { a = nacre.NormGrad(d, x, s) e = Exp(o) y = Add(e, a) }", "NormGrad@device Exp@device Add@device");
    OPS(HEAD "(y) { a = nacre.NormGrad(d, x, s) y = Add(a, a) }", "NormGrad@device Add@device");
    LOWERS(HEAD "(y) { a = nacre.NormGrad(d, x, s) y = Add(o, a) }", nc_lower_residual,
           "a = nacre.NormGrad(d, x, s); y = Add(o, a)");
}
