/* Sizes known only while running: NonZero feeding Gather, a Reshape whose target is computed. */
#include "tests/model.h"

static const char gather_text[] = "<opset: \"\" 17>\n"
                                  "g (float[n] x, float[n,2] table) => (float[count,2] y, int64[1,count] where)\n"
                                  "<const int64[1] first = {0}>\n"
                                  "{\n"
                                  "  p = Relu(x)\n"
                                  "  where = NonZero(p)\n"
                                  "  i = Squeeze(where, first)\n"
                                  "  rows = Gather<axis = 0>(table, i)\n"
                                  "  y = Add(rows, rows)\n"
                                  "}\n";

static void run_gather(model *m, int n) {
    float x[16], table[32];
    random_floats(x, n, (uint64_t)n + 3);
    random_floats(table, 2 * n, 9);
    model_input(m, "x", NACRE_FLOAT, 1, D(n), x);
    model_input(m, "table", NACRE_FLOAT, 2, D(n, 2), table);
    model_run(m);
    int64_t count = 0;
    for (int i = 0; i < n; i++) count += x[i] > 0;
    const float *y = model_floats(m, "y", 2 * count);
    const int64_t *where = model_ints(m, "where", count);
    for (int i = 0, k = 0; i < n; i++) {
        if (!(x[i] > 0)) continue;
        CHECK_INT(where[k], i);
        CHECK_NEAR(y[2 * k], 2 * table[2 * i], 0);
        CHECK_NEAR(y[2 * k + 1], 2 * table[2 * i + 1], 0);
        k++;
    }
    model_collect_all(m);
}

static void nonzero(model *m) {
    model_open(m, gather_text);
    run_gather(m, 11);
    run_gather(m, 16);
    run_gather(m, 1);
    run_gather(m, 11);
    CHECK_INT(model_stats(m).plans, 1);
    CHECK(model_dump_count(m, "program", "segment 1") == 1);
}

TEST(nonzero_feeds_gather) { model_everywhere(nonzero); }

static void nothing_found(model *m) {
    float x[4] = {-1, -2, -3, -4}, table[8] = {0};
    model_open(m, gather_text);
    model_input(m, "x", NACRE_FLOAT, 1, D(4), x);
    model_input(m, "table", NACRE_FLOAT, 2, D(4, 2), table);
    model_run(m);
    model_floats(m, "y", 0);
    model_ints(m, "where", 0);
}

TEST(nonzero_may_find_nothing) { model_everywhere(nothing_found); }

static const char reshape_text[] = "<opset: \"\" 17>\n"
                                   "g (float[a,b] x, int64[2] shape) => (float[c,d] y)\n"
                                   "{\n"
                                   "  twice = Add(x, x)\n"
                                   "  one = Sub(shape, shape)\n"
                                   "  same = Add(shape, one)\n"
                                   "  v = Reshape(twice, same)\n"
                                   "  y = Neg(v)\n"
                                   "}\n";

static void reshape(model *m) {
    float x[12];
    random_floats(x, 12, 4);
    model_open(m, reshape_text);
    model_input(m, "x", NACRE_FLOAT, 2, D(3, 4), x);
    for (int k = 0; k < 2; k++) {
        model_input(m, "shape", NACRE_INT64, 1, D(2), k ? D(2, -1) : D(6, 2));
        model_run(m);
        const float *y = model_floats(m, "y", 12);
        CHECK_INT(nacre_value_dims(m->out[0])[0], k ? 2 : 6);
        for (int i = 0; i < 12; i++) CHECK_NEAR(y[i], -2 * x[i], 0);
        model_collect_all(m);
    }
    model_input(m, "shape", NACRE_INT64, 1, D(2), D(5, 2));
    CHECK(model_try_run(m) == NACRE_SHAPE);
}

TEST(reshape_to_a_computed_shape) { model_everywhere(reshape); }

static void bad_index(model *m) {
    int64_t i[2] = {1, 9};
    float table[6] = {0};
    model_open(
        m,
        "<opset: \"\" 17>\ng (float[n,2] t, int64[k] i) => (float[k,2] y)\n{ y = Gather<axis = 0>(t, i) \"pick\" }\n");
    model_input(m, "t", NACRE_FLOAT, 2, D(3, 2), table);
    model_input(m, "i", NACRE_INT64, 1, D(2), i);
    CHECK_INT(model_try_run(m), NACRE_DATA);
    CHECK_STR(m->err.node, "pick");
    CHECK(strstr(m->err.text, "9") != NULL);
}

TEST(gather_names_a_bad_index) { model_everywhere(bad_index); }

/* The sum's operand is made in the segment whose sizes are being found. */
static const char axes_text[] = "<opset: \"\" 18>\n"
                                "g (float[n,3] x, int64[1] axes) => (y, k)\n"
                                "{\n"
                                "  e = Neg(x)\n"
                                "  s = ReduceSum<keepdims = 0>(e, axes)\n"
                                "  y = Neg(s)\n"
                                "  t = ReduceSum<keepdims = 1>(e, axes)\n"
                                "  k = Neg(t)\n"
                                "}\n";

static void run_axis(model *m, int64_t n, int64_t axis) {
    float x[24];
    int64_t along = axis == 0 || axis == -2 ? n : 3, left = 3 * n / along;
    random_floats(x, 3 * n, (uint64_t)n);
    model_input(m, "x", NACRE_FLOAT, 2, D(n, 3), x);
    model_input(m, "axes", NACRE_INT64, 1, D(1), &axis);
    model_run(m);
    const float *y = model_floats(m, "y", left), *k = model_floats(m, "k", left);
    CHECK_INT(nacre_value_rank(model_out(m, "y")), 1);
    CHECK_INT(nacre_value_rank(model_out(m, "k")), 2);
    for (int64_t i = 0; i < left; i++) {
        double sum = 0;
        for (int64_t j = 0; j < along; j++) sum += (double)x[along == n && left == 3 ? j * 3 + i : i * 3 + j];
        CHECK_CLOSE(y[i], sum, nc_tol_kernel_f32);
        CHECK_CLOSE(k[i], sum, nc_tol_kernel_f32);
    }
    model_collect_all(m);
}

static void fed_axes(model *m) {
    model_open(m, axes_text);
    run_axis(m, 7, 0);
    run_axis(m, 7, 1);
    run_axis(m, 5, -2);
    run_axis(m, 8, -1);
    int64_t axis = 2;
    model_input(m, "axes", NACRE_INT64, 1, D(1), &axis);
    CHECK_INT(model_try_run(m), NACRE_SHAPE);
}

TEST(sizes_from_fed_axes) { model_everywhere(fed_axes); }

/* Exporters write down the sizes of their example as if they were those of every run. */
static const char declared_text[] = "<opset: \"\" 17>\n"
                                    "g (float[n] x) => (float[7] y, int64[1,2] where)\n"
                                    "{\n"
                                    "  y = Neg(x)\n"
                                    "  at = NonZero(y)\n"
                                    "  where = Neg(at)\n"
                                    "}\n";

static void run_declared(model *m, int64_t n) {
    float x[12] = {0};
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i + 1);
    model_input(m, "x", NACRE_FLOAT, 1, D(n), x);
    model_run(m);
    const float *y = model_floats(m, "y", n);
    const int64_t *where = model_ints(m, "where", n);
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(y[i], -(i + 1), 0);
        CHECK_INT(where[i], -i);
    }
    model_collect_all(m);
}

static void declared_sizes(model *m) {
    model_open(m, declared_text);
    run_declared(m, 12);
    run_declared(m, 7);
    run_declared(m, 1);
    run_declared(m, 0);
}

TEST(actual_sizes_win_over_declared_ones) { model_everywhere(declared_sizes); }

/* n-m rows are kept: at capacities of 32 for both none would be. */
static const char difference_text[] = "<opset: \"\" 17>\n"
                                      "g (float[n] x, float[m] z) => (float[k] y)\n"
                                      "<const int64[1] axis = {0}>\n"
                                      "{\n"
                                      "  from = Shape(z)\n"
                                      "  to = Shape(x)\n"
                                      "  t = Add(x, x)\n"
                                      "  part = Slice(t, from, to, axis)\n"
                                      "  e = Softmax(part)\n"
                                      "  l = LogSoftmax(part)\n"
                                      "  y = Mul(e, l)\n"
                                      "}\n";

static void run_difference(model *m, int n, int from) {
    float x[1000], z[1000] = {0};
    random_floats(x, n, (uint64_t)n);
    model_input(m, "x", NACRE_FLOAT, 1, D(n), x);
    model_input(m, "z", NACRE_FLOAT, 1, D(from), z);
    model_run(m);
    const float *y = model_floats(m, "y", n - from);
    double sum = 0;
    for (int i = from; i < n; i++) sum += exp(2.0 * x[i]);
    for (int i = from; i < n; i++)
        CHECK_CLOSE(y[i - from], exp(2.0 * x[i]) / sum * (2.0 * x[i] - log(sum)), nc_tol_device_f32);
    model_collect_all(m);
}

static void differences(model *m) {
    model_open(m, difference_text);
    run_difference(m, 5, 3);
    run_difference(m, 6, 4);
    run_difference(m, 1000, 520); /* both 1024 */
    run_difference(m, 31, 17);
    run_difference(m, 30, 29);
    run_difference(m, 100, 0);
}

TEST(differences_of_sizes_have_room) { model_everywhere(differences); }

/* The summed label is p+q of one operand and s of the other: equal in every run, but not as capacities. */
static const char einsum_text[] = "<opset: \"\" 17>\n"
                                  "g (float[3,p] a, float[3,q] b, float[s,2] c) => (float[3,2] y)\n"
                                  "{\n"
                                  "  ab = Concat<axis = 1>(a, b)\n"
                                  "  y = Einsum<equation = \"ij,jk->ik\">(ab, c)\n"
                                  "}\n";

static void run_einsum(model *m, int p, int q) {
    float a[3 * 40], b[3 * 40], c[2 * 80];
    random_floats(a, 3 * p, 5);
    random_floats(b, 3 * q, 6);
    random_floats(c, 2 * (p + q), 7);
    model_input(m, "a", NACRE_FLOAT, 2, D(3, p), a);
    model_input(m, "b", NACRE_FLOAT, 2, D(3, q), b);
    model_input(m, "c", NACRE_FLOAT, 2, D(p + q, 2), c);
    model_run(m);
    const float *y = model_floats(m, "y", 6);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            double want = 0;
            for (int j = 0; j < p + q; j++) want += (double)(j < p ? a[i * p + j] : b[i * q + j - p]) * c[j * 2 + k];
            CHECK_CLOSE(y[i * 2 + k], want, nc_tol_device_f32);
        }
    model_collect_all(m);
}

static void einsum_sizes(model *m) {
    model_open(m, einsum_text);
    for (int i = 0; i < 6; i++) run_einsum(m, 3 + 7 * i, 38 - 5 * i);
    run_einsum(m, 0, 5);
}

TEST(einsum_of_sizes_that_agree_only_in_the_run) { model_everywhere(einsum_sizes); }

/* Pads as torch writes them: put together from constants, in more steps than inference follows. */
static void folded_pads(model *m) {
    float x[12];
    random_floats(x, 12, 3);
    model_option(m, "dumps", "on");
    model_open(m, "<opset: \"\" 17> g (float[n,3] x) => (float[a,b] y)\n"
                  "<const int64[4] p = {2, 1, 0, 3}, const int64[2] two = {2, 2}, const int64[1] flat = {-1}>\n"
                  "{ r = Reshape(p, two)\n  t = Transpose(r)\n  q = Reshape(t, flat)\n  y = Pad(x, q) }");
    CHECK_INT(model_dump_count(m, "program", "segment "), 1);
    CHECK_INT(model_dump_count(m, "program", "from host arguments"), 0);
    for (int64_t n = 1; n < 5; n++) {
        model_input(m, "x", NACRE_FLOAT, 2, D(n, 3), x);
        model_run(m);
        const float *y = model_floats(m, "y", (n + 3) * 6);
        for (int64_t i = 0; y && i < (n + 3) * 6; i++) {
            int64_t row = i / 6 - 2, column = i % 6;
            bool inside = row >= 0 && row < n && column < 3;
            CHECK_NEAR(y[i], inside ? x[row * 3 + column] : 0, 0);
        }
        model_collect_all(m);
    }
}
TEST(sizes_that_hang_on_folded_constants_are_known_before) { model_everywhere(folded_pads); }
