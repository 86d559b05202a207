/* plan/lower_backward_test.c: the gradient of a loss reads scores, that of attention what its forward pass left, on a
 * device with CUDA's kernels; on the CPU a loss and its gradient are one, and GELU's gradient reads its result. */
#include "tests/lowering.h"

static nc_code place_and_read(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_backward(w, m, o);
}
#define READS(graph, want) LOWERS_ON(&cuda_planning, graph, place_and_read, want)

TEST(lower_backward_reads_scores) {
    READS("(float[n,8] x, int64[n] l, float[] d) => (y, p, e) { y, p = SoftmaxCrossEntropyLoss(x, l) "
          "e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l) }",
          "y, p, SoftmaxCrossEntropyLoss_3_out2 = SoftmaxCrossEntropyLoss(x, l) @device; CrossEntropyGrad_8_out = "
          "nacre.CrossEntropyGrad(d, x, l, none, SoftmaxCrossEntropyLoss_3_out2) @device");
    READS("(float[n,8] x, int64[n] l, float[] d) => (y, e) { y, p = SoftmaxCrossEntropyLoss(x, l) "
          "e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l) }",
          "y, none, SoftmaxCrossEntropyLoss_3_out2 = SoftmaxCrossEntropyLoss(x, l) @device; CrossEntropyGrad_8_out = "
          "nacre.CrossEntropyGrad(d, x, l, none, SoftmaxCrossEntropyLoss_3_out2) @device");
    READS("(float[n,8] p, int64[n] l, float[] d) => (e) { e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l) }",
          "e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l) @device");
}

TEST(lower_backward_reads_what_attention_left) {
    READS("(float16[2,4,n,8] q, float16[2,4,n,8] k, float16[2,4,n,8] v, float16[2,4,n,8] d) => (y, a, b, c) "
          "{ y = Attention<is_causal = 1>(q, k, v) a, b, c = nacre.AttentionGrad<is_causal = 1>(q, k, v, , , , , d) }",
          "y, none, none, none, Attention_4_out4 = Attention(q, k, v) @device; "
          "a, b, c = nacre.AttentionGrad(q, k, v, none, none, none, none, d, y, Attention_4_out4) @device");
    READS("(float16[2,4,n,8] q, float16[2,4,n,8] k, float16[2,4,n,8] v, float16[2,4,n,8] d) => (y, a, b, c) "
          "{ y = Attention(q, k, v) a, b, c = nacre.AttentionGrad<is_causal = 1>(q, k, v, , , , , d) }",
          "y = Attention(q, k, v) @device; "
          "a, b, c = nacre.AttentionGrad(q, k, v, none, none, none, none, d) @device");
}

#define DROPPED_GRAPH(id)                                                                                           \
    "(float16[2,4,n,8] q, float16[2,4,n,8] k, float16[2,4,n,8] v, float16[2,4,n,8] d, int64[2] z) => (y, a, b, c) " \
    "{ y = nacre.AttentionDropout(q, k, v, , , , , z) @random=3 "                                                   \
    "a, b, c = nacre.AttentionDropoutGrad(q, k, v, , , , , d, , , z) @random=" id " }"

/* Of the same draws alone. */
TEST(lower_backward_reads_what_attention_with_dropout_left) {
    READS(DROPPED_GRAPH("3"),
          "y, none, none, none, AttentionDropout_5_out4 = nacre.AttentionDropout(q, k, v, none, none, none, none, z) "
          "@device; a, b, c = nacre.AttentionDropoutGrad(q, k, v, none, none, none, none, d, y, "
          "AttentionDropout_5_out4, z) @device");
    READS(DROPPED_GRAPH("4"),
          "y = nacre.AttentionDropout(q, k, v, none, none, none, none, z) @device; "
          "a, b, c = nacre.AttentionDropoutGrad(q, k, v, none, none, none, none, d, none, none, z) @device");
}

#define LOSS_AND_GRAD "y, p = SoftmaxCrossEntropyLoss(x, l) e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l)"

/* On the CPU a loss and its gradient are one node, unless somebody needs the loss first, or the log-probabilities. */
TEST(lower_backward_joins_loss_and_gradient) {
    LOWERS("(float[n,8] x, int64[n] l, float[] d) => (y, e, z) { " LOSS_AND_GRAD " z = Neg(y) }", nc_lower_backward,
           "e, y = nacre.CrossEntropyBoth(d, x, l); z = Neg(y)");
    LOWERS("(float[n,8] x, int64[n] l, float[] d) => (y, e, p) { " LOSS_AND_GRAD " }", nc_lower_backward,
           "y, p = SoftmaxCrossEntropyLoss(x, l); e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l)");
    LOWERS("(float[n,8] x, int64[n] l) => (e) { y, p = SoftmaxCrossEntropyLoss(x, l) d = Neg(y) "
           "e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l) }",
           nc_lower_backward,
           "y, p = SoftmaxCrossEntropyLoss(x, l); d = Neg(y); e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l)");
    LOWERS("(float16[n,8] x, int64[n] l, float16[] d) => (y, e) { " LOSS_AND_GRAD " }", nc_lower_backward,
           "y, p = SoftmaxCrossEntropyLoss(x, l); e = nacre.SoftmaxCrossEntropyLossGrad(d, p, l)");
}

#define GELU_AND_GRAD(form) "y = nacre." form "(x) d = MatMul(e, c) w = MatMul(y, e) g = nacre." form "Grad(d, x)"
#define GELU_GRAPH(type, nodes) "(" type "[8,8] x, " type "[8,8] e, " type "[8,8] c) => (g, w) { " nodes " }"

/* Where the result lives that long, since the next product's weights need it; in f32 alone. */
TEST(lower_backward_takes_gelu_from_its_result) {
    LOWERS(GELU_GRAPH("float", GELU_AND_GRAD("GeluErf")), nc_lower_backward,
           "y = nacre.GeluErf(x); d = MatMul(e, c); w = MatMul(y, e); g = nacre.GeluErfGradY(d, x, y)");
    LOWERS(GELU_GRAPH("float", GELU_AND_GRAD("GeluTanh")), nc_lower_backward,
           "y = nacre.GeluTanh(x); d = MatMul(e, c); w = MatMul(y, e); g = nacre.GeluTanhGradY(d, x, y)");
    LOWERS(GELU_GRAPH("float", "y = nacre.GeluErf(x) r = Transpose(y) d = MatMul(e, c) t = Transpose(d) "
                               "w = MatMul(r, e) g = nacre.GeluErfGrad(t, x)"),
           nc_lower_backward,
           "y = nacre.GeluErf(x); r = Transpose(y); d = MatMul(e, c); t = Transpose(d); w = MatMul(r, e); "
           "g = nacre.GeluErfGradY(t, x, y)");
    LOWERS(GELU_GRAPH("double", GELU_AND_GRAD("GeluErf")), nc_lower_backward,
           "y = nacre.GeluErf(x); d = MatMul(e, c); w = MatMul(y, e); g = nacre.GeluErfGrad(d, x)");
    LOWERS(GELU_GRAPH("float", "y = nacre.GeluErf(x) w = MatMul(y, e) d = MatMul(e, c) g = nacre.GeluErfGrad(d, x)"),
           nc_lower_backward, "y = nacre.GeluErf(x); w = MatMul(y, e); d = MatMul(e, c); g = nacre.GeluErfGrad(d, x)");
    LOWERS(GELU_GRAPH("float", "y = nacre.GeluTanh(x) d = MatMul(e, c) w = MatMul(y, e) g = nacre.GeluErfGrad(d, x)"),
           nc_lower_backward, "y = nacre.GeluTanh(x); d = MatMul(e, c); w = MatMul(y, e); g = nacre.GeluErfGrad(d, x)");
    READS(GELU_GRAPH("float", GELU_AND_GRAD("GeluErf")),
          "y = nacre.GeluErf(x) @device; d = MatMul(e, c) @device; w = MatMul(y, e) @device; "
          "g = nacre.GeluErfGrad(d, x) @device");
}
