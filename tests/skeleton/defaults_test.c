/* tests/skeleton/defaults_test.c: an input with an initial value may be left out or given, run by run, and what is
 * given may have another size. */
#include "tests/model.h"

#define TEXT                                                                                                     \
    "<opset: \"\" 17> d (float[n] x, float[m] w = float[2] {3, -4}) => (float[n] y, float[m] z) { y = Neg(x) z = " \
    "Abs(w) }"

static void body(model *m) {
    model_open(m, TEXT);
    if (m->failed) return;
    CHECK(nacre_session_input_optional(m->session, 1) == 1);
    CHECK(nacre_session_input_optional(m->session, 0) == 0 && nacre_session_input_optional(m->session, 2) == 0);
    CHECK_INT(model_try_run(m), NACRE_ARGUMENT); /* x has no initial value */
    model_input(m, "x", NACRE_FLOAT, 1, D(3), (const float[]){1, -2, 5});
    model_run(m);
    const float *z = model_floats(m, "z", 2);
    if (z) CHECK(z[0] == 3 && z[1] == 4);
    model_collect_all(m);
    model_input(m, "w", NACRE_FLOAT, 1, D(1), (const float[]){-7});
    model_run(m);
    z = model_floats(m, "z", 1);
    if (z) CHECK(z[0] == 7);
    model_collect_all(m);
}

TEST(input_defaults) { model_everywhere(body); }
