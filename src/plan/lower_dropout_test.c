/* plan/lower_dropout_test.c: gradients of dropout draw again, on a device alone. */
#include "tests/lowering.h"

static nc_code place_and_draw(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_dropout(w, m, o);
}
#define DRAWS(graph, want) LOWERS_ON(&cuda_planning, graph, place_and_draw, want)
#define OPS(graph, want) OPS_ON(&cuda_planning, graph, place_and_draw, want)

#define HEAD(outs)                                                                                               \
    "(float[n,8] x, float[n,8] e, int64[2] s) => (" outs ") <const float[] r = {0.5}, const float[] q = {0.5}, " \
    "const bool[] t = {1}> "
#define FORWARD "y, m = nacre.PhiloxDropout(x, r, t, s) @random=3 "

TEST(lower_dropout_draws_again) {
    DRAWS(HEAD("y, d") "{ " FORWARD "d = nacre.DropoutGrad(e, m, r, t) }",
          "PhiloxDropout_13_out = nacre.PhiloxDropout(x, 0.5, t, s) @device; "
          "PhiloxDropout_11_out = nacre.PhiloxDropout(e, 0.5, t, s) @device");
    OPS(HEAD("y") "{ " FORWARD "}", "PhiloxDropout@device");
}

TEST(lower_dropout_leaves_masks_that_are_read) {
    OPS(HEAD("y, d, m") "{ " FORWARD "d = nacre.DropoutGrad(e, m, r, t) }", "PhiloxDropout@device DropoutGrad@device");
    OPS(HEAD("y, d, k") "{ " FORWARD "d = nacre.DropoutGrad(e, m, r, t) k = Not(m) }",
        "PhiloxDropout@device DropoutGrad@device Not@device");
    OPS(HEAD("y, d") "{ " FORWARD "d = nacre.DropoutGrad(e, m, q, t) }", "PhiloxDropout@device DropoutGrad@device");
    LOWERS(HEAD("y, d") "{ " FORWARD "d = nacre.DropoutGrad(e, m, r, t) }", nc_lower_dropout,
           "y, m = nacre.PhiloxDropout(x, 0.5, t, s); d = nacre.DropoutGrad(e, m, 0.5, t)");
}
