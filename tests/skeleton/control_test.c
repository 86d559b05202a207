/* If and Loop, nested, with captured values. */
#include "tests/model.h"

/* Sum over i < n of (i even ? x*i : -x), by a Loop whose body holds an If that captures from two levels up. */
static const char loop_text[] =
    "<opset: \"\" 17>\n"
    "g (float[k] x, int64[] n) => (float[k] sum, float[steps,k] all)\n"
    "<const int64[] two = {2}, const int64[] zero = {0}>\n"
    "{\n"
    "  z = Sub(x, x)\n"
    "  sum, all = Loop(n, , z)<body = { (int64[] i, bool[] c, float[k] s) => (c_out, s_out, step)\n"
    "  {\n"
    "    c_out = Identity(c)\n"
    "    h = Div(i, ^two)\n"
    "    h2 = Mul(h, ^two)\n"
    "    even = Equal(h2, i)\n"
    "    step = If(even)<then_branch = { () => (a) { f = Cast<to = 1>(^i)\n a = Mul(^x, f) } },"
    "                    else_branch = { () => (b) { b = Neg(^x) } }>\n"
    "    s_out = Add(s, step)\n"
    "  } }>\n"
    "}\n";

static void run_loop(model *m, int64_t n) {
    float x[3] = {1, -2, 0.5f};
    model_input(m, "x", NACRE_FLOAT, 1, D(3), x);
    model_input(m, "n", NACRE_INT64, 0, D(0), &n);
    model_run(m);
    const float *sum = model_floats(m, "sum", 3), *all = model_floats(m, "all", 3 * n);
    for (int k = 0; k < 3; k++) {
        float want = 0;
        for (int64_t i = 0; i < n; i++) {
            float step = i % 2 == 0 ? x[k] * (float)i : -x[k];
            CHECK_NEAR(all[i * 3 + k], step, 0);
            want += step;
        }
        CHECK_NEAR(sum[k], want, 0);
    }
    model_collect_all(m);
}

static void loop(model *m) {
    model_open(m, loop_text);
    run_loop(m, 5);
    run_loop(m, 0);
    run_loop(m, 1);
    run_loop(m, 12);
    CHECK_INT(model_stats(m).plans, 1);
}

TEST(loop_with_if_and_captures) { model_everywhere(loop); }

/* Two nested loops: y = x * 2^(n*m) by doubling, with the inner trip count captured. */
static const char nested_text[] = "<opset: \"\" 17>\n"
                                  "g (float[2] x, int64[] n, int64[] m) => (float[2] y)\n"
                                  "{\n"
                                  "  y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[2] s) => (c1, s1)\n"
                                  "  {\n"
                                  "    c1 = Identity(c)\n"
                                  "    s1 = Loop(^m, , s)<body = { (int64[] j, bool[] d, float[2] t) => (d1, t1) { d1 "
                                  "= Identity(d)\n t1 = Add(t, t) } }>\n"
                                  "  } }>\n"
                                  "}\n";

static void nested(model *m) {
    float x[2] = {1, 3};
    int64_t n = 3, k = 2;
    model_open(m, nested_text);
    model_input(m, "x", NACRE_FLOAT, 1, D(2), x);
    model_input(m, "n", NACRE_INT64, 0, D(0), &n);
    model_input(m, "m", NACRE_INT64, 0, D(0), &k);
    model_run(m);
    const float *y = model_floats(m, "y", 2);
    CHECK_NEAR(y[0], 64, 0);
    CHECK_NEAR(y[1], 192, 0);
    model_collect_all(m);
}

TEST(loops_nested) { model_everywhere(nested); }

/* A condition computed in the body ends the loop; a loop-carried value changes its size. */
static const char grow_text[] = "<opset: \"\" 17>\n"
                                "g (float[k] x, float[] limit) => (float[r] y)\n"
                                "<const bool[] yes = {1}, const int64[] many = {1000}>\n"
                                "{\n"
                                "  y = Loop(many, yes, x)<body = { (int64[] i, bool[] c, float[p] s) => (c1, s1)\n"
                                "  {\n"
                                "    s1 = Concat<axis = 0>(s, ^x)\n"
                                "    t = ReduceSum<keepdims = 0>(s1)\n"
                                "    c1 = Less(t, ^limit)\n"
                                "  } }>\n"
                                "}\n";

static void growing(model *m) {
    float x[3] = {1, 2, 3}, limit = 20;
    model_open(m, grow_text);
    model_input(m, "x", NACRE_FLOAT, 1, D(3), x);
    model_input(m, "limit", NACRE_FLOAT, 0, D(0), &limit);
    model_run(m);
    const float *y = model_floats(m, "y", 12); /* 6, 12, 18, 24: three more pieces */
    for (int i = 0; i < 12; i++) CHECK_NEAR(y[i], x[i % 3], 0);
    model_collect_all(m);
}

TEST(loop_ends_by_condition_and_grows_a_value) { model_everywhere(growing); }

/* Bodies are not captured: their inputs and outputs lie elsewhere in every iteration. */
static void loop_with_capture(model *m) {
    model_option(m, "capture", "on");
    model_open(m, loop_text);
    for (int i = 0; i < 4; i++) run_loop(m, 6);
}

TEST(loop_with_capture_switched_on) { model_everywhere(loop_with_capture); }

/* The size of what follows a branch is asked for before the branch has run: its dims are known, its tensor is not. */
static void sized_after_a_branch(model *m) {
    static const float x[] = {1, 2, 3, 4};
    static const int64_t four[] = {4};
    static const bool yes = true;
    model_open(
        m, "<opset: \"\" 18> g (float[n] x, bool[] c) => (y)\n"
           "<const int64[1] from = {3}, const int64[1] to = {-4}, const int64[1] axis = {0}, const int64[1] step = "
           "{-1}>\n"
           "{ v = If<then_branch = { () => (p) { p = Relu(^x) } }, else_branch = { () => (q) { q = Neg(^x) } }>(c)\n"
           "  y = Slice(v, from, to, axis, step) }");
    model_input(m, "x", NACRE_FLOAT, 1, four, x);
    model_input(m, "c", NACRE_BOOL, 0, NULL, &yes);
    model_run(m);
    const float *y = model_floats(m, "y", 3);
    for (int i = 0; y && i < 3; i++) CHECK(y[i] == x[3 - i]);
    model_collect_all(m);
}
TEST(sizes_behind_a_branch) { model_everywhere(sized_after_a_branch); }

/* The loop is the last that reads the branch's result: its dims, and those of a view, are asked for when it is gone. */
static void sized_by_what_is_gone(model *m) {
    bool c = true;
    float s[2] = {0}, x[4] = {1, 2, 3, 4};
    model_open(m, "<opset: \"\" 22>\n"
                  "g (bool[] c, float[2] s, float[2,2] x) => (float[2] last, float[2,2] e, float[1,4] o) {\n"
                  "  v = If(c)<then_branch = { () => (a) { a = Neg(^x) } },\n"
                  "    else_branch = { () => (b) { b = Abs(^x) } }>\n"
                  "  turned = Constant<value = int64[2] {1, 4}>()\n"
                  "  w = Reshape(v, turned)\n"
                  "  last, all = Scan(s, v)<num_scan_inputs = 1, body = { (float[2] p, float[2] r) => (n, k) {\n"
                  "    n = Add(p, r)\n    k = Neg(n)\n  } }>\n"
                  "  e = EyeLike<k = 1>(v)\n"
                  "  o = EyeLike(w)\n"
                  "}\n");
    model_input(m, "c", NACRE_BOOL, 0, D(0), &c);
    model_input(m, "s", NACRE_FLOAT, 1, D(2), s);
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 2), x);
    model_run(m);
    const float *last = model_floats(m, "last", 2), *e = model_floats(m, "e", 4), *o = model_floats(m, "o", 4);
    CHECK(last[0] == -4 && last[1] == -6);
    for (int i = 0; i < 4; i++) CHECK(e[i] == (float)(i == 1) && o[i] == (float)(i == 0));
}

TEST(dims_of_what_is_gone) { model_everywhere(sized_by_what_is_gone); }
