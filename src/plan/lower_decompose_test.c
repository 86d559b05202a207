/* plan/lower_decompose_test.c: ops without a kernel become their pieces, once in each call. */
#include "tests/lowering.h"

static nc_code once(nc_work *w, nc_model *m, const nc_plan_options *o) {
    bool changed;
    return nc_lower_decompose(w, m, o, &changed);
}

#define OPS(graph, step, want) OPS_ON(nc_device_cpu(), graph, step, want)

TEST(lower_decompose_keeps_ops_with_a_kernel) {
    OPS("(float[n,k] x, float[k] s) => (y) { y = LayerNormalization(x, s) }", once, "LayerNormalization");
    OPS("(float[n] x) => (y) { y = NonZero(x) }", once, "NonZero");
}

TEST(lower_decompose_takes_ops_apart) {
    OPS("(float[n,k] x) => (y) { y = Gelu(x) }", once, "GeluErf");
    OPS("(float[n,c,h,w] x) => (y) { y = GlobalAveragePool(x) }", once, "ReduceMean");
    OPS("(float[n,k] x) => (y) { y = MeanVarianceNormalization<axes = [0, 1]>(x) }", once,
        "ReduceMean Sub Mul ReduceMean Sqrt Add Div");
}

/* The gradient of attention reads the shares and the mask that the forward pass left, which draws once; one of other
 * draws computes its own. */
#define DROPS(id)                                                                                                   \
    "(float[2,2,n,4] q, float[2,2,n,4] d, int64[2] z) => (y, b) { y = nacre.AttentionDropout<scale = 1.0, ratio = " \
    "0.5>(q, q, q, , , "                                                                                            \
    ", , z) @random=3 , , b = nacre.AttentionDropoutGrad<scale = 1.0, ratio = 0.5>(q, q, q, , , , , d, , , z) "     \
    "@random=" id " }"
TEST(lower_decompose_draws_once) {
    OPS(DROPS("3"), once,
        "Mul Transpose MatMul Softmax PhiloxDropout MatMul Transpose MatMul DropoutGrad SoftmaxGrad Transpose MatMul");
    OPS(DROPS("4"), once,
        "Mul Transpose MatMul Softmax PhiloxDropout MatMul Mul Transpose MatMul Softmax PhiloxDropout Transpose MatMul "
        "DropoutGrad SoftmaxGrad Transpose MatMul");
}

/* A Scan is a Loop, whose body holds what must be taken apart in turn. */
TEST(lower_decompose_takes_pieces_apart) {
    static const char graph[] = LOWERING_HEAD
        "(float[m,n] x) => (y) { y = Scan(x)<num_scan_inputs = 1, body = { (float[n] a) => (b) { b = Gelu(a) } }> }";
    lowers(__FILE__, __LINE__, graph, nc_lower_place_and_decompose, nc_device_cpu(), print_ops,
           "Shape Gather Sub Loop{Gather GeluErf}", NULL);
}

TEST(lower_decompose_enters_subgraphs) {
    OPS("(bool[] c, float[n] x) => (y) { y = If(c)<then_branch = { () => (p) { p = Gelu(^x) } },"
        " else_branch = { () => (q) { q = Abs(^x) } }> }",
        once, "If{GeluErf}{Abs}");
}
