/* NVIDIA's libraries by need: cuBLASLt is asked for by a session that multiplies, cuDNN by one that convolves, or
 * attends in half types, and by no other. Counted on the stand-ins. */
#include "tests/cuda/standin.h"
#include "tests/model.h"

/* How often a function was called while a session of the text was made. */
static void check_made(model *m, const char *text, uint64_t lt, uint64_t dnn) {
    const standin_control *c = standin_find();
    if (c == NULL) return; /* a real GPU: nobody counts */
    c->reset_calls();
    model_open(m, text);
    CHECK_INT(c->calls("cublasLtCreate"), lt);
    CHECK_INT(c->calls("cudnnCreate"), dnn);
}

static void of_formulas(model *m) {
    check_made(m, "<opset: \"\" 22> g (float[n,4] x) => (y) { a = Exp(x) y = ReduceSum(a) }", 0, 0);
}
static void of_products(model *m) {
    check_made(m, "<opset: \"\" 22> g (float[n,4] x, float[4,4] w) => (y) { y = MatMul(x, w) }", 1, 0);
}
static void of_convolutions(model *m) {
    check_made(m, "<opset: \"\" 22> g (float[1,3,8,8] x, float[4,3,3,3] w) => (y) { y = Conv(x, w) }", 1, 1);
}
static void of_attention(model *m) {
    check_made(m,
               "<opset: \"\" 23> g (float16[1,2,9,8] q, float16[1,2,9,8] k, float16[1,2,9,8] v) => (y) {"
               " y = Attention(q, k, v) }",
               0, 1);
}

TEST(cuda_libraries_none_for_formulas) { model_on_cuda(of_formulas); }
TEST(cuda_libraries_cublaslt_for_products) { model_on_cuda(of_products); }
TEST(cuda_libraries_both_for_convolutions) { model_on_cuda(of_convolutions); }
TEST(cuda_libraries_cudnn_for_attention_of_halves) { model_on_cuda(of_attention); }
