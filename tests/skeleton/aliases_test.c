/* tests/skeleton/aliases_test.c: results laid over dying operands. Every value has one shape, so that the planner could
 * lay each result over any operand; it may do so only where the kernel says that it reads nothing else there. */
#include "tests/model.h"

#include <math.h>

static const float small[] = {0, 1, -1}, tens[] = {10, 20, 30};
static const int64_t three[] = {3};

/* The updates of a scatter die here, but are read after the first results were written. */
static void scatter_updates(model *m) {
    const int64_t i[] = {2, 0, 1};
    model_open(m, "<opset: \"\" 18> g (float[3] t, float[3] x, int64[3] i) => (z) {\n"
                  "u = Exp(t)\n y = ScatterElements(x, i, u)\n z = Softmax(y) }");
    model_input(m, "t", NACRE_FLOAT, 1, three, small);
    model_input(m, "x", NACRE_FLOAT, 1, three, tens);
    model_input(m, "i", NACRE_INT64, 1, three, i);
    model_run(m);
    const float *z = model_floats(m, "z", 3);
    double e[] = {exp(1), exp(-1), exp(0)}, sum = 0; /* y[i[k]] = exp(t[k]) */
    for (int k = 0; k < 3; k++) sum += exp(e[k]);
    for (int k = 0; z && k < 3; k++) CHECK_CLOSE(z[k], exp(e[k]) / sum, nc_tol_op_f32);
    model_collect_all(m);
}
TEST(a_scatter_does_not_overwrite_its_updates) { model_everywhere(scatter_updates); }

/* The data of a scatter are its updates too: overwriting the data would change what is still to be read. */
static void scatter_itself(model *m) {
    const int64_t i[] = {1, 2, 0};
    model_open(m, "<opset: \"\" 18> g (float[3] t, int64[3] i) => (z) {\n"
                  "u = Neg(t)\n y = ScatterElements(u, i, u)\n z = Abs(y)\n }");
    model_input(m, "t", NACRE_FLOAT, 1, three, tens);
    model_input(m, "i", NACRE_INT64, 1, three, i);
    model_run(m);
    const float *z = model_floats(m, "z", 3);
    const float want[] = {30, 10, 20};
    for (int k = 0; z && k < 3; k++) CHECK(z[k] == want[k]);
    model_collect_all(m);
}
TEST(a_scatter_of_itself_keeps_its_data) { model_everywhere(scatter_itself); }

/* Where it is allowed it happens: a run of single elementwise nodes needs the memory of one tensor. */
static void in_place(model *m) {
    model_option(m, "fusion", "off");
    model_open(m, "<opset: \"\" 18> g (float[3] t) => (z) {\n"
                  "a = Exp(t)\n b = Neg(a)\n c = Abs(b)\n d = Sqrt(c)\n z = Log(d)\n }");
    model_input(m, "t", NACRE_FLOAT, 1, three, small);
    model_run(m);
    const float *z = model_floats(m, "z", 3);
    for (int k = 0; z && k < 3; k++) CHECK_CLOSE(z[k], small[k] / 2, nc_tol_op_f32);
    /* The result itself is, or may be, the caller's memory. */
    CHECK_INT(model_dump_count(m, "program", "alias of"), 3);
    model_collect_all(m);
}
TEST(elementwise_results_lie_over_their_operands) { model_everywhere(in_place); }

/* Scores, their log-probabilities and the gradient are one tensor's memory; nothing else is taken. */
static void loss_in_place(model *m) {
    const int64_t dims[] = {2, 3}, two[] = {2}, labels[] = {2, 0};
    const float x[] = {0.5f, -1, 2, 1, 0, -0.5f};
    model_option(m, "fusion", "off");
    model_open(m, "<opset: \"\" 18, \"nacre\" 1> g (float[2,3] x, int64[2] t) => (l, w) {\n"
                  "u = Neg(x)\n l, p = SoftmaxCrossEntropyLoss(u, t)\n"
                  "z = nacre.SoftmaxCrossEntropyLossGrad(l, p, t)\n w = Neg(z)\n }");
    model_input(m, "x", NACRE_FLOAT, 2, dims, x);
    model_input(m, "t", NACRE_INT64, 1, two, labels);
    model_run(m);
    const float *w = model_floats(m, "w", 6);
    double loss = 0, share[6];
    for (int i = 0; i < 6; i++) {
        const float *row = x + i / 3 * 3;
        share[i] = exp(-x[i]) / (exp(-row[0]) + exp(-row[1]) + exp(-row[2]));
    }
    for (int r = 0; r < 2; r++) loss -= log(share[r * 3 + labels[r]]) / 2;
    for (int i = 0; w && i < 6; i++)
        CHECK_CLOSE(w[i], -(share[i] - (i % 3 == labels[i / 3])) * loss / 2, nc_tol_op_f32);
    CHECK_INT(model_dump_count(m, "program", "alias of"), 2);
    model_collect_all(m);
}
TEST(a_loss_and_its_gradient_lie_over_the_scores) { model_everywhere(loss_in_place); }

/* A view of all of a dying result, in order, may be written over too; one of a part, or in another order, may not. */
static void through_views(model *m) {
    const int64_t dims[] = {2, 3};
    const float x[] = {1, 2, 3, 4, 5, 6};
    model_option(m, "fusion", "off");
    model_open(m, "<opset: \"\" 18> g (float[2,3] x) => (y, z)\n"
                  "<const int64[1] s = {6}, const int64[2] q = {3, 2}, const int64[1] a = {0},\n"
                  " const int64[1] b = {1}> {\n"
                  "e = Neg(x)\n v = Reshape(e, s)\n f = Abs(v)\n r = Reshape(f, q)\n h = Neg(r)\n y = Exp(h)\n"
                  "c = Abs(x)\n p = Slice(c, a, b, a)\n d = Neg(p)\n z = Sqrt(d)\n }");
    model_input(m, "x", NACRE_FLOAT, 2, dims, x);
    model_run(m);
    const float *y = model_floats(m, "y", 6), *z = model_floats(m, "z", 3);
    for (int k = 0; y && k < 6; k++) CHECK_CLOSE(y[k], exp(-x[k]), nc_tol_op_f32);
    for (int k = 0; z && k < 3; k++) CHECK(z[k] != z[k]);
    CHECK_INT(model_dump_count(m, "program", "alias of"), 2);
    model_collect_all(m);
}
TEST(results_lie_over_views_of_whole_results) { model_everywhere(through_views); }
