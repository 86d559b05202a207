/* plan/lower_sum_norm_test.c: norms take in the sums in front of them, on a device with CUDA's kernels. */
#include "tests/lowering.h"

static nc_code place_and_take(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_sum_norm(w, m, o);
}
#define TAKES(graph, want) LOWERS_ON(&cuda_planning, graph, place_and_take, want)
#define OPS(graph, want) OPS_ON(&cuda_planning, graph, place_and_take, want)

#define HEAD(outs)                                                                                                \
    "(float16[n,8] h, float[n,8] o, float[n,8] x, float[8] s, float[8] b, float[8] p, int64[2] z) => (" outs ") " \
    "<const float[] r = {0.25}, const bool[] t = {1}, const bool[] f = {0}> "
#define DROPS "d = nacre.PhiloxDropout(h, r, t, z) @random=3 c = Cast<to = 1>(d) "

TEST(lower_sum_norm_takes_sum_cast_and_dropout) {
    TAKES(HEAD("y, a") "{ " DROPS "a = Add(o, c) y = LayerNormalization(a, s, b) }",
          "SumNorm_18_out, none, none, SumNorm_18_out3 = nacre.SumNorm(h, o, s, b, z) @device");
    TAKES(HEAD("y, m, i, a") "{ " DROPS "a = Add(c, o) y, m, i = LayerNormalization(a, s, b) }",
          "SumNorm_20_out, SumNorm_20_out1, SumNorm_20_out2, SumNorm_20_out3 = nacre.SumNorm(h, o, s, b, z) @device");
    TAKES(HEAD("y") "{ d = nacre.PhiloxDropout(x, r, t, z) a = Add(d, o) y = LayerNormalization(a, s) }",
          "SumNorm_16_out, none, none, SumNorm_16_out3 = nacre.SumNorm(x, o, s, none, z) @device");
    TAKES(HEAD("y, q") "{ c = Cast<to = 1>(h) a = Add(c, o) q = Exp(a) y = LayerNormalization(a, s) }",
          "SumNorm_18_out, none, none, SumNorm_18_out3 = nacre.SumNorm(h, o, s, none) @device; "
          "q = Exp(SumNorm_18_out3) @device");
}

TEST(lower_sum_norm_takes_a_cast_where_dropout_stays) {
    OPS(HEAD("y, m") "{ d, m = nacre.PhiloxDropout(h, r, t, z) c = Cast<to = 1>(d) a = Add(o, c) "
                     "y = LayerNormalization(a, s) }",
        "PhiloxDropout@device SumNorm@device");
    OPS(HEAD("y") "{ d = nacre.PhiloxDropout(h, r, f, z) c = Cast<to = 1>(d) a = Add(o, c) "
                  "y = LayerNormalization(a, s) }",
        "PhiloxDropout@device SumNorm@device");
    OPS(HEAD("y") "{ d = nacre.PhiloxDropout<seed = 4>(h, r, t, z) c = Cast<to = 1>(d) a = Add(o, c) "
                  "y = LayerNormalization(a, s) }",
        "PhiloxDropout@device SumNorm@device");
}

TEST(lower_sum_norm_leaves_others_alone) {
    OPS(HEAD("y") "{ a = Add(o, x) y = LayerNormalization(a, s) }", "Add@device LayerNormalization@device");
    OPS(HEAD("y") "{ c = Cast<to = 1>(h) a = Add(c, p) y = LayerNormalization(a, s) }",
        "Cast@device Add@device LayerNormalization@device");
    OPS(HEAD("y, c") "{ c = Cast<to = 1>(h) a = Add(c, o) y = LayerNormalization(a, s) }",
        "Cast@device Add@device LayerNormalization@device");
    OPS(HEAD("y") "{ c = Cast<to = 1>(h) a = Add(c, o) e = Exp(s) y = LayerNormalization(a, e) }",
        "Cast@device Add@device Exp@device LayerNormalization@device");
    OPS(HEAD("y") "{ c = Cast<to = 1>(h) a = Add(c, o) y = LayerNormalization<stash_type = 16>(a, s) }",
        "Cast@device Add@device LayerNormalization@device");
    LOWERS(HEAD("y") "{ c = Cast<to = 1>(h) a = Add(c, o) y = LayerNormalization(a, s) }", nc_lower_sum_norm,
           "c = Cast(h); a = Add(c, o); y = LayerNormalization(a, s)");
}
