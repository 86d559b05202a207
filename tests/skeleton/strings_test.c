/* Numbers become strings and come back; strings are chosen and matched on the host, whatever the device. */
#include "tests/model.h"

static void there_and_back(model *m) {
    float x[8] = {0, -1.5f, 0.1f, 1e-30f, 3.4e38f, 16777217.0f, (float)INFINITY, (float)NAN};
    model_open(m, "<opset: \"\" 20>\ng (float[n] x) => (y, b)\n{\n  s = Cast<to = 8>(x)\n  y = Cast<to = 1>(s)\n"
                  "  b = RegexFullMatch<pattern = \"-?[0-9][0-9.e+-]*\">(s)\n}\n");
    model_input(m, "x", NACRE_FLOAT, 1, D(8), x);
    model_run(m);
    const float *y = model_floats(m, "y", 8);
    const bool *b = nacre_value_data(model_out(m, "b"));
    for (int i = 0; y && b && i < 8; i++) {
        CHECK(y[i] == x[i] || (y[i] != y[i] && x[i] != x[i]));
        CHECK_INT(b[i], i < 6);
    }
    model_collect_all(m);
    model_input(m, "x", NACRE_FLOAT, 1, D(0), x);
    model_run(m);
    model_collect_all(m);
}
TEST(numbers_as_strings_and_back) { model_everywhere(there_and_back); }

static void chosen(model *m) {
    int64_t x[4] = {1, -20, 300, 0};
    bool c[2] = {true, false};
    model_open(
        m, "<opset: \"\" 20>\ng (bool[2,1] c, int64[4] x) => (y)\n{\n  s = Cast<to = 8>(x)\n  t = StringConcat(s, s)\n"
           "  w = Where(c, s, t)\n  y = Cast<to = 7>(w)\n}\n");
    model_input(m, "c", NACRE_BOOL, 2, D(2, 1), c);
    model_input(m, "x", NACRE_INT64, 1, D(4), x);
    if (model_try_run(m) == NACRE_OK) nc_test_failed(__FILE__, __LINE__, "'-20-20' was read as a number");
    x[1] = 20;
    model_input(m, "x", NACRE_INT64, 1, D(4), x);
    model_run(m);
    const int64_t want[8] = {1, 20, 300, 0, 11, 2020, 300300, 0}, *y = model_ints(m, "y", 8);
    for (int i = 0; y && i < 8; i++) CHECK_INT(y[i], want[i]);
    model_collect_all(m);
}
TEST(strings_are_chosen) { model_everywhere(chosen); }

/* What Trilu leaves out is the empty string, which a 0 in front makes readable. */
static void triangle(model *m) {
    int64_t x[6] = {11, 12, 13, 21, 22, 23};
    model_open(m,
               "<opset: \"\" 20>\ng (int64[n,3] x) => (y, l)\n<const int64[] zero = {0}, const int64[] k = {1}>\n{\n"
               "  s = Cast<to = 8>(x)\n  z = Cast<to = 8>(zero)\n  u = Trilu(s, k)\n  d = Trilu<upper = 0>(s)\n"
               "  p = StringConcat(z, u)\n  y = Cast<to = 7>(p)\n  q = StringConcat(z, d)\n  l = Cast<to = 7>(q)\n}\n");
    model_input(m, "x", NACRE_INT64, 2, D(2, 3), x);
    model_run(m);
    const int64_t upper[6] = {0, 12, 13, 0, 0, 23}, lower[6] = {11, 0, 0, 21, 22, 0};
    const int64_t *y = model_ints(m, "y", 6), *l = model_ints(m, "l", 6);
    for (int i = 0; y && l && i < 6; i++) {
        CHECK_INT(y[i], upper[i]);
        CHECK_INT(l[i], lower[i]);
    }
    model_collect_all(m);
    model_input(m, "x", NACRE_INT64, 2, D(0, 3), x);
    model_run(m);
    model_collect_all(m);
}
TEST(strings_have_triangles) { model_everywhere(triangle); }
