/* plan/lower_random_test.c: random nodes take the random state, which one node advances; loops move the seed on. */
#include "tests/lowering.h"

static nc_code draw(nc_work *w, nc_model *m, const nc_plan_options *o) {
    (void)o;
    return nc_lower_random(w, m);
}

#define DRAWS(graph, want) OPS_ON(nc_device_cpu(), graph, draw, want)

TEST(lower_random_takes_the_state) {
    DRAWS("(float[n] x) => (y, z) { y = RandomNormalLike(x) z = RandomUniformLike(x) }",
          "PhiloxNormalLike PhiloxUniformLike RandomStep");
    DRAWS("(float[n] x) => (y) { y = Exp(x) }", "Exp");
}

TEST(lower_random_leaves_a_dropout_that_drops_nothing) {
    DRAWS("(float[n] x) => (y) { y = Dropout(x) }", "Dropout");
    DRAWS("(float[n] x) => (y) <const float[] r = {0.5}, const bool[] t = {1}> { y = Dropout(x, r, t) }",
          "PhiloxDropout RandomStep");
}

/* An op and its gradient that draw the same numbers take the state themselves. */
TEST(lower_random_gives_attention_the_state) {
    LOWERS("(float[2,2,n,4] q, float[2,2,n,4] d) => (y, a) { y = nacre.AttentionDropout(q, q, q) @random=3"
           " a = nacre.AttentionDropoutGrad(q, q, q, , , , , d) @random=3 }",
           draw,
           "AttentionDropout_7_out = nacre.AttentionDropout(q, q, q, none, none, none, none, nacre.random); "
           "AttentionDropoutGrad_9_out = nacre.AttentionDropoutGrad(q, q, q, none, none, none, none, d, none, none, "
           "nacre.random); "
           "RandomStep_11_out = nacre.RandomStep(nacre.random)");
}

/* The seed written into a graph that only infers asks for certain numbers. */
TEST(lower_random_heeds_a_seed) {
    DRAWS("(float[n] x) => (y) <const float[] r = {0.5}, const bool[] t = {1}> { y = Dropout<seed = 7>(x, r, t) }",
          "NumpyDropout");
    DRAWS("(float[n] x) => (y, z) <const float[] r = {0.5}, const bool[] t = {1}>"
          " { y = Dropout<seed = 7>(x, r, t) z = Neg(y) @stage=1 }",
          "PhiloxDropout Neg RandomStep");
}

TEST(lower_random_in_subgraphs) {
    DRAWS("(bool[] c, float[n] x) => (y) { y = If(c)<then_branch = { () => (p) { p = RandomNormalLike(^x) } },"
          " else_branch = { () => (q) { q = Abs(^x) } }> }",
          "If{PhiloxNormalLike}{Abs} RandomStep");
    DRAWS("(int64[] k, bool[] c, float[n] x) => (y) { y = Loop(k, c, x)<body = { (int64[] i, bool[] a, float[n] b) =>"
          " (d, e) { d = Identity(a) e = RandomNormalLike(b) } }> }",
          "Loop{Add Reshape Mul Concat Add Identity PhiloxNormalLike} RandomStep");
    REFUSES("(float[m,n] x) => (y) { y = Scan(x)<num_scan_inputs = 1,"
            " body = { (float[n] a) => (b) { b = RandomNormalLike(a) } }> }",
            draw, "would draw the same numbers");
}
