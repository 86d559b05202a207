/* Captures by sizes: a model whose batch changes from run to run records each size once and replays both. By
 * instruction run the first of each size, and one more of the smaller, whose memory moved when the larger came. */
#include "tests/model.h"

static void alternate(model *m) {
    float x[20];
    model_option(m, "capture", "on");
    model_open(m, "<opset: \"\" 22> g (float[n,4] x) => (y) { a = Exp(x) b = ReduceSum(a) c = Mul(a, b) y = Tanh(c) }");
    random_floats(x, 20, 3);
    for (int i = 0; i < 12 && !m->failed; i++) {
        model_input(m, "x", NACRE_FLOAT, 2, D(i % 2 ? 5 : 3, 4), x);
        model_run(m);
    }
    nacre_stats s = model_stats(m);
    CHECK_INT(s.captures, 2);
    CHECK_INT(s.replays, 9);
}

TEST(cuda_alternating_sizes_replay) { model_on_cuda(alternate); }
