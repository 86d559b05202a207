/* Reshape, Transpose, Slice and Split as views; an op that cannot take the strides gets a copy, visibly. */
#include "tests/model.h"

static const char text[] = "<opset: \"\" 17>\n"
                           "g (float[n,6] x, float[6,n] other) => (float[n,6] a, float[6,n] b, float[n,2] c, "
                           "float[n,4] d, float[k] e, float[n,6] f)\n"
                           "<const int64[1] from = {1}, const int64[1] to = {3}, const int64[1] axis = {1}, const "
                           "int64[2] parts = {2,4}, const int64[1] flat = {-1},"
                           " const int64[2] back = {-1,6}>\n"
                           "{\n"
                           "  t = Transpose<perm = [1,0]>(x)\n"
                           "  b = Add(t, other)\n" /* a lane takes strides */
                           "  m = MatMul(x, t)\n"  /* GEMM takes strides */
                           "  a = MatMul(m, x)\n"
                           "  s = Slice(x, from, to, axis)\n"
                           "  c = Neg(s)\n"
                           "  p, q = Split<axis = 1>(x, parts)\n"
                           "  d = Exp(q)\n"
                           "  u = Reshape(t, flat)\n" /* a strided input: needs a copy */
                           "  e = Neg(u)\n"
                           "  v = Reshape(x, flat)\n" /* dense: a view */
                           "  w = Reshape(v, back)\n"
                           "  f = Relu(w)\n"
                           "}\n";

static void check_numbers(model *m, const float *x, const float *other, int n) {
    const float *b = model_floats(m, "b", 6 * n), *c = model_floats(m, "c", 2 * n), *d = model_floats(m, "d", 4 * n);
    const float *e = model_floats(m, "e", 6 * n), *f = model_floats(m, "f", 6 * n), *a = model_floats(m, "a", 6 * n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 6; j++) {
            float v = x[i * 6 + j];
            CHECK_NEAR(b[j * n + i], v + other[j * n + i], 0);
            if (j >= 1 && j < 3) CHECK_NEAR(c[i * 2 + j - 1], -v, 0);
            if (j >= 2) CHECK_CLOSE(d[i * 4 + j - 2], exp(v), nc_tol_kernel_f32);
            CHECK_NEAR(e[j * n + i], -v, 0);
            CHECK_NEAR(f[i * 6 + j], v > 0 ? v : 0, 0);
            double sum = 0;
            for (int k = 0; k < n; k++) {
                double dot = 0;
                for (int l = 0; l < 6; l++) dot += (double)x[i * 6 + l] * x[k * 6 + l];
                sum += dot * x[k * 6 + j];
            }
            CHECK_CLOSE(a[i * 6 + j], sum, nc_tol_device_f32);
        }
}

static void views(model *m) {
    float x[30], other[30];
    random_floats(x, 30, 1);
    random_floats(other, 30, 2);
    model_open(m, text);
    for (int n = 5; n >= 1; n -= 2) {
        model_input(m, "x", NACRE_FLOAT, 2, D(n, 6), x);
        model_input(m, "other", NACRE_FLOAT, 2, D(6, n), other);
        model_run(m);
        check_numbers(m, x, other, n);
        model_collect_all(m);
    }
    bool guard = strcmp(m->device, "guard") == 0;
    CHECK_INT(model_dump_count(m, "program", " view "), 6); /* t, s, p q, u, v, w */
    CHECK_INT(model_dump_count(m, "lowered", "nacre.Copy(t"), guard ? 1 : 1);
}

TEST(views_and_one_visible_copy) { model_everywhere(views); }

static void views_off(model *m) {
    float x[30], other[30];
    random_floats(x, 30, 1);
    random_floats(other, 30, 2);
    model_option(m, "views", "off");
    model_open(m, text);
    model_input(m, "x", NACRE_FLOAT, 2, D(5, 6), x);
    model_input(m, "other", NACRE_FLOAT, 2, D(6, 5), other);
    model_run(m);
    check_numbers(m, x, other, 5);
    CHECK(model_dump_count(m, "lowered", "nacre.Copy(") >= 6);
}

TEST(views_switched_off_give_the_same) { model_everywhere(views_off); }

/* A view as graph output, a graph input as output, the same value twice. */
static void outputs(model *m) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    model_open(m, "<opset: \"\" 17>\ng (float[2,3] x) => (float[3,2] y, float[2,3] z = x, float[3,2] w = y)\n{ y = "
                  "Transpose(x) }\n");
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 3), x);
    model_run(m);
    const float *y = model_floats(m, "y", 6), *z = model_floats(m, "z", 6), *w = model_floats(m, "w", 6);
    for (int i = 0; i < 6; i++) {
        CHECK_NEAR(y[i], x[i % 2 * 3 + i / 2], 0);
        CHECK_NEAR(z[i], x[i], 0);
        CHECK_NEAR(w[i], y[i], 0);
    }
    CHECK(z != x);
}

TEST(views_and_inputs_as_outputs_are_copied) { model_everywhere(outputs); }
