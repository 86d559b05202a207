/* tests/skeleton/chain_test.c: what may stand in one chain of elementwise nodes. */
#include "tests/model.h"

/* An exponent of integers is computed by one node of its own type and raised by another. */
static void integer_exponent(model *m) {
    const float x[] = {1, -2, 3}, one = 1;
    const int64_t zero = 0, e[] = {4, 5, 2};
    model_open(m, "<opset: \"\" 18> g (float[3] x, float[] one, int64[3] e, int64[] zero) => (z) {\n"
                  "  a = Mul(x, one)\n  b = Add(e, zero)\n  z = Pow(a, b)\n}");
    model_input(m, "x", NACRE_FLOAT, 1, D(3), x);
    model_input(m, "one", NACRE_FLOAT, 0, D(0), &one);
    model_input(m, "e", NACRE_INT64, 1, D(3), e);
    model_input(m, "zero", NACRE_INT64, 0, D(0), &zero);
    model_run(m);
    const float *z = model_floats(m, "z", 3);
    const float want[] = {1, -32, 9};
    for (int i = 0; z && i < 3; i++) CHECK_CLOSE(z[i], want[i], nc_tol_op_f32);
    model_collect_all(m);
}
TEST(a_chain_leaves_out_what_mixes_types) { model_everywhere(integer_exponent); }
