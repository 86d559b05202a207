/* Ranks known only while running: inputs declared without a shape, branches that differ in rank, a Reshape to a fed
 * shape of any length. What depends on them is planned when it is reached (plan/lower_deferred.c, run/deferred.c). */
#include "tests/model.h"

#include <stdio.h>
#include <string.h>

static void check_dims(model *m, const char *name, int rank, const int64_t *dims) {
    nacre_value *v = model_out(m, name);
    if (!v) return;
    CHECK_INT(nacre_value_rank(v), rank);
    for (int d = 0; d < rank && d < nacre_value_rank(v); d++) CHECK_INT(nacre_value_dims(v)[d], dims[d]);
}

/* ---- an input without a shape ---- */

static const char free_text[] =
    "<opset: \"\" 17>\n"
    "g (float[...] x, float[...] y) => (float[...] z, float[...] x_again, float[...] x_too)\n"
    "{\n"
    "  s = Add(x, y)\n"
    "  z = Relu(s)\n"
    "  x_again = Identity(x)\n"
    "  x_too = Identity(x)\n"
    "}\n";

static void add_relu(model *m, int rank, const int64_t *dims, int64_t n) {
    float x[64], y = 0.25f;
    random_floats(x, n, (uint64_t)n);
    model_input(m, "x", NACRE_FLOAT, rank, dims, x);
    model_input(m, "y", NACRE_FLOAT, 0, NULL, &y);
    model_run(m);
    const float *z = model_floats(m, "z", n), *again = model_floats(m, "x_again", n);
    check_dims(m, "z", rank, dims);
    check_dims(m, "x_too", rank, dims);
    for (int64_t i = 0; z && again && i < n; i++) {
        CHECK_NEAR(z[i], x[i] + y > 0 ? x[i] + y : 0, 0);
        CHECK_NEAR(again[i], x[i], 0);
    }
    model_collect_all(m);
}

static void free_input(model *m) {
    model_open(m, free_text);
    add_relu(m, 1, D(7), 7);
    add_relu(m, 3, D(2, 3, 5), 30);
    add_relu(m, 0, NULL, 1);
    add_relu(m, 2, D(0, 4), 0);
    uint64_t plans = model_stats(m).plans;
    add_relu(m, 1, D(9), 9);
    add_relu(m, 3, D(4, 1, 6), 24);
    CHECK_INT(model_stats(m).plans, plans); /* one for each rank, whatever the sizes */
}

TEST(inputs_may_have_any_rank) { model_everywhere(free_input); }

/* ---- branches of different rank ---- */

static const char squeeze_text[] = "<opset: \"\" 17>\n"
                                   "g (float[a,b] x, float[b] w) => (float[...] y, float[...] rows)\n"
                                   "<const int64[1] zero = {0}, const int64[] index = {0}, const int64[] one = {1},\n"
                                   " const int64[1] last = {-1}>\n"
                                   "{\n"
                                   "  size = Shape(x)\n"
                                   "  first = Gather(size, index)\n"
                                   "  single = Equal(first, one)\n"
                                   "  v = If(single)<then_branch = { () => (p) { p = Squeeze(^x, ^zero) } },\n"
                                   "                 else_branch = { () => (q) { q = Identity(^x) } }>\n"
                                   "  scaled = Mul(v, w)\n"
                                   "  y = Exp(scaled)\n"
                                   "  rows = ReduceSum<keepdims = 0>(scaled, last)\n"
                                   "}\n";

static void run_squeeze(model *m, int64_t a, int64_t b) {
    float x[64], w[16];
    random_floats(x, a * b, 5);
    random_floats(w, b, 6);
    model_input(m, "x", NACRE_FLOAT, 2, D(a, b), x);
    model_input(m, "w", NACRE_FLOAT, 1, D(b), w);
    model_run(m);
    bool single = a == 1;
    check_dims(m, "y", single ? 1 : 2, single ? D(b) : D(a, b));
    check_dims(m, "rows", single ? 0 : 1, D(a));
    const float *rows = model_floats(m, "rows", a);
    for (int64_t i = 0; rows && i < a; i++) {
        double sum = 0;
        for (int64_t k = 0; k < b; k++) sum += (double)x[i * b + k] * w[k];
        CHECK_CLOSE(rows[i], sum, nc_tol_device_f32);
    }
    model_collect_all(m);
}

static void squeeze(model *m) {
    model_open(m, squeeze_text);
    run_squeeze(m, 1, 7);
    run_squeeze(m, 4, 7);
    run_squeeze(m, 1, 3);
    run_squeeze(m, 5, 9);
    run_squeeze(m, 1, 7);
}

TEST(branches_may_differ_in_rank) { model_everywhere(squeeze); }

/* ---- a shape of any length ---- */

static const char shape_text[] = "<opset: \"\" 17>\n"
                                 "g (float[n] x, int64[k] shape) => (float[...] y)\n"
                                 "{\n"
                                 "  twice = Add(x, x)\n"
                                 "  v = Reshape(twice, shape)\n"
                                 "  y = Neg(v)\n"
                                 "}\n";

static void run_shape(model *m, int rank, const int64_t *shape, const int64_t *want) {
    float x[24];
    random_floats(x, 24, 8);
    model_input(m, "x", NACRE_FLOAT, 1, D(24), x);
    model_input(m, "shape", NACRE_INT64, 1, D(rank), shape);
    model_run(m);
    check_dims(m, "y", rank, want);
    const float *y = model_floats(m, "y", 24);
    for (int i = 0; y && i < 24; i++) CHECK_NEAR(y[i], -2 * x[i], 0);
    model_collect_all(m);
}

static void fed_shape(model *m) {
    model_open(m, shape_text);
    run_shape(m, 2, D(4, 6), D(4, 6));
    run_shape(m, 3, D(2, -1, 3), D(2, 4, 3));
    run_shape(m, 1, D(-1), D(24));
    run_shape(m, 2, D(6, 4), D(6, 4));
}

TEST(a_shape_may_have_any_length) { model_everywhere(fed_shape); }

/* Plans for exact dims are bounded: the oldest go, and nothing is left behind. */
static void many_sizes(model *m) {
    size_t bytes = 0;
    model_open(m, shape_text);
    for (int k = 0; k < 120; k++) {
        float x[64];
        int64_t n = 1 + k % 40;
        random_floats(x, n, 8);
        model_input(m, "x", NACRE_FLOAT, 1, D(n), x);
        model_input(m, "shape", NACRE_INT64, 1, D(2), D(1, -1));
        model_run(m);
        check_dims(m, "y", 2, D(1, n));
        if (k == 60) bytes = model_stats(m).bytes_frames;
    }
    CHECK(model_stats(m).bytes_frames <= 2 * bytes);
}

TEST(plans_made_while_running_are_bounded) { model_everywhere(many_sizes); }

/* ---- in a loop, where the rank grows with each iteration ---- */

static const char loop_text[] = "<opset: \"\" 17>\n"
                                "g (int64[] n, float[2] x) => (float[...] y, float[] z)\n"
                                "<const bool[] yes = {1}, const int64[1] zero = {0}>\n"
                                "{\n"
                                "  y = Loop(n, yes, x)<body = { (int64[] i, bool[] c, float[...] v) => (c2, w) {\n"
                                "    c2 = Identity(c)\n"
                                "    doubled = Add(v, v)\n"
                                "    w = Unsqueeze(doubled, ^zero)\n"
                                "  } }>\n"
                                "  z = ReduceMax<keepdims = 0>(y)\n"
                                "}\n";

static void growing_rank(model *m) {
    float x[2] = {3, 5};
    model_open(m, loop_text);
    model_input(m, "x", NACRE_FLOAT, 1, D(2), x);
    for (int64_t n = 0; n < 5; n++) {
        model_input(m, "n", NACRE_INT64, 0, NULL, &n);
        model_run(m);
        check_dims(m, "y", (int)n + 1,
                   n == 4   ? D(1, 1, 1, 1, 2)
                   : n == 3 ? D(1, 1, 1, 2)
                   : n == 2 ? D(1, 1, 2)
                   : n      ? D(1, 2)
                            : D(2));
        CHECK_NEAR(model_floats(m, "z", 1)[0], 5 * (double)(1 << n), 0);
        model_collect_all(m);
    }
}

TEST(rank_may_grow_in_a_loop) { model_everywhere(growing_rank); }

/* ---- a shape told in a symbol that the body of the Deferred is not given ---- */

static const char foreign_text[] = "<opset: \"\" 17>\n"
                                   "g (float[...] x, float[n,2] like) => (float[...] y)\n"
                                   "{\n"
                                   "  s = Shape(like)\n"
                                   "  wide = Expand(x, s)\n"
                                   "  y = Neg(wide)\n"
                                   "}\n";

static void foreign_symbol(model *m) {
    float x[2] = {3, 5}, like[8] = {0};
    model_open(m, foreign_text);
    for (int64_t n = 1; n < 5; n++) {
        model_input(m, "like", NACRE_FLOAT, 2, D(n, 2), like);
        for (int rank = 1; rank < 4; rank++) {
            model_input(m, "x", NACRE_FLOAT, rank, rank == 1 ? D(2) : D(1, 1, 2), x);
            if (rank == 2) model_input(m, "x", NACRE_FLOAT, rank, D(1, 2), x);
            model_run(m);
            check_dims(m, "y", rank == 3 ? 3 : 2, rank == 3 ? D(1, n, 2) : D(n, 2));
            const float *y = model_floats(m, "y", 2 * n);
            for (int64_t i = 0; y && i < 2 * n; i++) CHECK_NEAR(y[i], -x[i % 2], 0);
            model_collect_all(m);
        }
    }
}

TEST(sizes_from_outside_of_what_is_planned_later) { model_everywhere(foreign_symbol); }

/* ---- a declared rank that one run in three contradicts: how many elements NonZero finds decides ---- */

static const char squeezed_text[] = "<opset: \"\" 17>\n"
                                    "g (float[n] x) => (int64[k] y, int64[k] z)\n"
                                    "{\n"
                                    "  found = NonZero(x)\n"
                                    "  column = Transpose(found)\n"
                                    "  z = Squeeze(column)\n"
                                    "  y = Neg(z)\n"
                                    "}\n";

static void count_warnings(void *user, nacre_log_level level, const char *message) {
    int *n = user;
    *n += level == NACRE_LOG_WARNING && strstr(message, "the model declares rank 1, this run gave rank 0") != NULL;
}

static void squeezed(model *m) {
    static const float x[][3] = {{1, 0, 1}, {0, 1, 0}, {0, 0, 0}, {1, 1, 1}, {0, 0, 1}};
    int n_warnings = 0;
    nacre_log_set_sink(count_warnings, &n_warnings);
    model_open(m, squeezed_text);
    for (int i = 0; i < 5; i++) {
        int64_t at[3], n = 0;
        for (int k = 0; k < 3; k++)
            if (x[i][k] != 0) at[n++] = k;
        model_input(m, "x", NACRE_FLOAT, 1, D(3), x[i]);
        model_run(m);
        check_dims(m, "y", n != 1, &n);
        check_dims(m, "z", n != 1, &n);
        const int64_t *y = model_ints(m, "y", n), *z = model_ints(m, "z", n);
        for (int64_t k = 0; y && z && k < n; k++) CHECK(z[k] == at[k] && y[k] == -at[k]);
        model_collect_all(m);
    }
    nacre_log_set_sink(NULL, NULL);
    CHECK_INT(n_warnings, 4); /* y and z of two runs */
}

TEST(runs_decide_about_the_rank_of_a_squeeze) { model_everywhere(squeezed); }

/* ---- what stays an error ---- */

TEST(errors_in_what_is_planned_later_name_the_node) {
    static const char text[] = "<opset: \"\" 17>\n"
                               "g (float[...] x, float[3,4] w) => (float[...] y)\n"
                               "{\n"
                               "  y = MatMul(x, w) \"product\"\n"
                               "}\n";
    float x[12] = {0}, w[12] = {0};
    model m;
    model_init(&m, "cpu", 1);
    model_open(&m, text);
    model_input(&m, "w", NACRE_FLOAT, 2, D(3, 4), w);
    model_input(&m, "x", NACRE_FLOAT, 2, D(3, 4), x);
    CHECK_INT(model_try_run(&m), NACRE_SHAPE);
    CHECK_STR(m.err.op, "MatMul");
    CHECK_STR(m.err.node, "product");
    model_input(&m, "x", NACRE_FLOAT, 2, D(4, 3), x); /* and the session goes on */
    CHECK_INT(model_try_run(&m), NACRE_OK);
    model_close(&m);
}
