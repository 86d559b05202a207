/* Gradients as graphs: before and after as text, or the gradient as one expression. Values are checked where graphs
 * run. */
#include "autodiff/autodiff.h"

#include "tests/grad_cards.h"
#include "base/mem.h"
#include "ir/verify.h"
#include "tests/graph_testing.h"

#include <ctype.h>
#include <stdlib.h>

typedef struct setting {
    nc_work w;
    nc_model *m;
    nc_value *dx[4];
    nc_code code;
} setting;

/* Differentiates output 0 by the named values (inputs, constants or any other). */
static void differentiate(setting *s, const char *text, int n, const char *const *names) {
    nc_value *xs[4];
    nc_work_init(&s->w);
    s->code = NC_E_FAIL;
    s->m = test_model(&s->w, &nc_test_cards, text);
    if (!s->m) {
        nc_test_failed(__FILE__, __LINE__, "%s", s->w.diag.text);
        return;
    }
    for (int i = 0; i < n; i++) xs[i] = nc_graph_find(s->m->main, names[i]);
    s->code = nc_autodiff(&s->w, s->m->main, s->m->main->outputs.v, NULL, 1, xs, n, s->dx);
    if (s->code == NC_OK && nc_verify(&s->w, s->m) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", s->w.diag.text);
}

static void end(setting *s) {
    if (s->m) nc_model_destroy(s->m);
    nc_work_release(&s->w);
}

#define DIFF(s, text, ...)                   \
    setting s = {0};                         \
    const char *names_##s[] = {__VA_ARGS__}; \
    differentiate(&s, text, (int)(sizeof names_##s / sizeof *names_##s), names_##s)
#define GOOD(s) \
    if (s.code != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", s.w.diag.text)

/* Made-up names carry ids (Add_41_out, v13, tape.32): those are numbered anew in order of appearance. */
static void renumber(nc_text *out, const char *s) {
    int ids[256], n = 0;
    for (const char *p = s; *p; p++) {
        bool after =
            p > s + 1 && (p[-1] == '_' || (p[-1] == 'v' && !isalnum(p[-2])) || (p[-1] == '.' && !isdigit(p[-2])));
        if (!isdigit(*p) || !after) {
            nc_text_add_n(out, p, 1);
            continue;
        }
        char *end_;
        int id = (int)strtol(p, &end_, 10), k = 0;
        while (k < n && ids[k] != id) k++;
        if (k == n && n < 256) ids[n++] = id;
        nc_text_addf(out, "%d", k + 1);
        p = end_ - 1;
    }
}

static void check_text(const setting *s, const char *want) {
    nc_text t = {0}, u = {0};
    nc_graph_print(&t, s->m);
    if (t.s) renumber(&u, t.s);
    CHECK_STR(u.s, want);
    nc_text_release(&t);
    nc_text_release(&u);
}

TEST(unary_lane) {
    DIFF(s, "(float[n,3] x) => (y) { y = Tanh(x) }", "x");
    GOOD(s);
    CHECK_EXPR(s.dx[0], "nacre.TanhGrad(Expand(1, Shape(y)), y)");
    CHECK(s.dx[0]->def->stage == NC_STAGE_BACKWARD);
    CHECK(s.dx[0]->def == s.m->main->last);
    end(&s);
}

TEST(scalar_of_ones_is_no_expand) {
    DIFF(s, "(float[] x) => (y) { y = Neg(x) }", "x");
    GOOD(s);
    CHECK_EXPR(s.dx[0], "Neg(1)");
    end(&s);
}

TEST(matmul_and_broadcast_add) {
    DIFF(s,
         "(float[5,3] x, float[5,2] dummy) => (y) <const float[3,2] W = {1,2,3,4,5,6}, const float[2] b = {0,0}>"
         "{ h = MatMul(x, W)\n y = Add(h, b) }",
         "x", "W", "b", "dummy");
    GOOD(s);
    CHECK_EXPR(s.dx[0], "MatMul(Expand(1, [5 2]), Transpose(W))");
    CHECK_EXPR(s.dx[1], "MatMul(Transpose(x), Expand(1, [5 2]))");
    CHECK_EXPR(s.dx[2], "ReduceSum(Expand(1, [5 2]), [0], keepdims=0, noop_with_empty_axes=1)");
    CHECK(s.dx[3] == NULL);
    end(&s);
}

TEST(several_uses_add_in_order) {
    DIFF(s, "(float[] x) => (y) { a = Exp(x)\n b = Sin(x)\n c = Mul(a, b)\n y = Add(c, x) }", "x", "a");
    GOOD(s);
    CHECK_EXPR(s.dx[0], "Add(Add(1, nacre.SinGrad(Mul(1, a), x)), nacre.ExpGrad(Mul(1, b), a))");
    CHECK_EXPR(s.dx[1], "Mul(1, b)");
    end(&s);
}

TEST(y_is_x) {
    DIFF(s, "(float[] x) => (x) {}", "x");
    GOOD(s);
    CHECK_EXPR(s.dx[0], "1");
    end(&s);
}

TEST(stops_at_what_has_no_gradient) {
    DIFF(s, "(float[] x, int64[] i, bool[] c) => (y) { f = Floor(x)\n j = Add(i, i)\n y = Where(c, f, x) }", "x", "i",
         "c", "f");
    GOOD(s);
    CHECK(s.dx[0] && s.dx[0]->def->stage == NC_STAGE_BACKWARD);
    CHECK(s.dx[1] == NULL && s.dx[2] == NULL);
    CHECK(s.dx[3] != NULL);
    end(&s);
}

TEST(only_the_way_must_be_differentiable) {
    DIFF(s, "(float[] x, float[] z) => (y) { o = test.Opaque(z)\n y = Mul(o, x) }", "x");
    GOOD(s);
    CHECK_EXPR(s.dx[0], "Mul(1, o)");
    end(&s);
    DIFF(t, "(float[] x, float[] z) => (y) { o = test.Opaque(z)\n y = Mul(o, x) }", "z");
    CHECK_INT(t.code, NC_E_UNSUPPORTED);
    CHECK_STR(t.w.diag.op, "Opaque");
    CHECK_DIAG(&t.w, "no gradient");
    end(&t);
}

TEST(integers_have_no_gradient) {
    DIFF(s, "(int64[] x) => (y) { y = Add(x, x) }", "x");
    CHECK_INT(s.code, NC_E_TYPE);
    end(&s);
}

TEST(given_gradients_and_several_outputs) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, &nc_test_cards, "(float[] x, float[] d) => (y, z) { y = Exp(x)\n z = Sin(x) }");
    REQUIRE(m != NULL);
    nc_value *x = m->main->inputs.v[0], *dys[2] = {m->main->inputs.v[1], NULL}, *dx;
    CHECK_INT(nc_autodiff(&w, m->main, m->main->outputs.v, dys, 2, &x, 1, &dx), NC_OK);
    CHECK_EXPR(dx, "Add(nacre.SinGrad(1, x), nacre.ExpGrad(d, y))");
    bool used[2];
    CHECK_INT(nc_autodiff_influence(&w, m->main, m->main->outputs.v, 2, m->main->inputs.v, 2, used), NC_OK);
    CHECK(used[0] && !used[1]);
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(second_derivative_decomposes_gradient_ops) {
    DIFF(s, "(float[] x) => (y) { y = Tanh(x) }", "x");
    GOOD(s);
    nc_value *x = s.m->main->inputs.v[0], *ddx = NULL;
    REQUIRE(s.dx[0] != NULL);
    CHECK_INT(nc_autodiff(&s.w, s.m->main, &s.dx[0], NULL, 1, &x, 1, &ddx), NC_OK);
    CHECK_INT(nc_verify(&s.w, s.m), NC_OK);
    REQUIRE(ddx != NULL);
    for (const nc_node *n = s.m->main->first; n != ddx->def; n = n->next) CHECK(n != NULL);
    CHECK(strcmp(ddx->def->card->name, "TanhGrad") == 0);
    end(&s);
}

TEST(branches) {
    DIFF(s,
         "(bool[] c, float[] x, float[] z) => (y) { y = If(c)<then_branch = { () => (a) { a = Sin(^x) } },"
         " else_branch = { () => (b) { e = Exp(^x)\n b = Mul(e, ^z) } }> }",
         "x", "z");
    GOOD(s);
    check_text(&s, "(bool[] c, float[] x, float[] z) => (float[] y)\n"
                   "<const float[] v1 = {1}>\n"
                   "{\n"
                   "  y, tape = If<then_branch = { () => (float[] a, tape TapePush_2_out)\n"
                   "  {\n"
                   "    a = Sin(^x)\n"
                   "    TapeEmpty_3_out = nacre.TapeEmpty()\n"
                   "    TapePush_2_out = nacre.TapePush(TapeEmpty_3_out)\n"
                   "  } }, else_branch = { () => (float[] b, tape TapePush_4_out)\n"
                   "  {\n"
                   "    e = Exp(^x)\n"
                   "    b = Mul(e, ^z)\n"
                   "    TapeEmpty_5_out = nacre.TapeEmpty()\n"
                   "    TapePush_4_out = nacre.TapePush(TapeEmpty_5_out, e)\n"
                   "  } }>(c)\n"
                   "  If_6_out, If_6_out1 = If<then_branch = { () => (float[] SinGrad_7_out, float[] v8)\n"
                   "  <const float[] v8 = {0}>\n"
                   "  {\n"
                   "    TapePop_9_out = nacre.TapePop(^tape) @stage=1\n"
                   "    SinGrad_7_out = nacre.SinGrad(^v1, ^x) @stage=1\n"
                   "  } }, else_branch = { () => (float[] ExpGrad_10_out, float[] Mul_11_out)\n"
                   "  {\n"
                   "    TapePop_12_out, TapePop_12_out1 = nacre.TapePop(^tape) @stage=1\n"
                   "    Mul_13_out = Mul(^v1, ^z) @stage=1\n"
                   "    Mul_11_out = Mul(^v1, TapePop_12_out1) @stage=1\n"
                   "    ExpGrad_10_out = nacre.ExpGrad(Mul_13_out, TapePop_12_out1) @stage=1\n"
                   "  } }>(c) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(loop) {
    DIFF(s,
         "(int64[] n, float[] x, float[] k) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) =>"
         " (c, u) { t = Mul(v, ^k)\n u = Tanh(t) } }> }",
         "x", "k");
    GOOD(s);
    check_text(&s, "(int64[] n, float[] x, float[] k) => (float[] y)\n"
                   "<const float[] v1 = {1},\n"
                   " const float[] v2 = {0}>\n"
                   "{\n"
                   "  TapeEmpty_3_out = nacre.TapeEmpty()\n"
                   "  y, tape = Loop<body = { (int64[] i, bool[] c, float[] v, tape tape.4) => (bool[] c, float[]"
                   " u, tape TapePush_5_out)\n"
                   "  {\n"
                   "    t = Mul(v, ^k)\n"
                   "    u = Tanh(t)\n"
                   "    TapePush_5_out = nacre.TapePush(tape.4, u, v)\n"
                   "  } }>(n, , x, TapeEmpty_3_out)\n"
                   "  TapeLength_6_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Loop_7_out, Loop_7_out1, Loop_7_out2 = Loop<body = { (int64[] iter, bool[] cond, tape"
                   " tape.8, float[] dv, float[] sum) => (bool[] cond, tape TapePop_9_out, float[] Mul_10_out,"
                   " float[] Add_11_out)\n"
                   "  {\n"
                   "    TapePop_9_out, TapePop_9_out1, TapePop_9_out2 = nacre.TapePop(tape.8) @stage=1\n"
                   "    TanhGrad_12_out = nacre.TanhGrad(dv, TapePop_9_out1) @stage=1\n"
                   "    Mul_10_out = Mul(TanhGrad_12_out, ^k) @stage=1\n"
                   "    Mul_13_out = Mul(TanhGrad_12_out, TapePop_9_out2) @stage=1\n"
                   "    Add_11_out = Add(sum, Mul_13_out) @stage=1\n"
                   "  } }>(TapeLength_6_out, , tape, v1, v2) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(loop_with_scan) {
    DIFF(s,
         "(int64[] n, float[2] x) => (z) { y, z = Loop(n, , x)<body = { (int64[] i, bool[] c, float[2] v) =>"
         " (c, u, w) { u = Exp(v)\n w = Sin(v) } }> }",
         "x");
    GOOD(s);
    check_text(&s, "(int64[] n, float[2] x) => (float[Loop_1_n,2] z)\n"
                   "<const float[] v2 = {1},\n"
                   " const int64[] v3 = {1},\n"
                   " const float[] v4 = {0},\n"
                   " const int64[1] v5 = {2}>\n"
                   "{\n"
                   "  TapeEmpty_6_out = nacre.TapeEmpty()\n"
                   "  y, tape, z = Loop<body = { (int64[] i, bool[] c, float[2] v, tape tape.7) => (bool[] c,"
                   " float[2] u, tape TapePush_8_out, float[2] w)\n"
                   "  {\n"
                   "    u = Exp(v)\n"
                   "    w = Sin(v)\n"
                   "    TapePush_8_out = nacre.TapePush(tape.7, v, u)\n"
                   "  } }>(n, , x, TapeEmpty_6_out)\n"
                   "  Shape_9_out = Shape(z) @stage=1\n"
                   "  Expand_10_out = Expand(v2, Shape_9_out) @stage=1\n"
                   "  TapeLength_11_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Sub_12_out = Sub(TapeLength_11_out, v3) @stage=1\n"
                   "  Expand_13_out = Expand(v4, v5) @stage=1\n"
                   "  Loop_14_out, Loop_14_out1 = Loop<body = { (int64[] iter, bool[] cond, tape tape.15, float[2]"
                   " dv) => (bool[] cond, tape TapePop_16_out, float[2] Add_17_out)\n"
                   "  {\n"
                   "    TapePop_16_out, TapePop_16_out1, TapePop_16_out2 = nacre.TapePop(tape.15) @stage=1\n"
                   "    Sub_18_out = Sub(^Sub_12_out, iter) @stage=1\n"
                   "    Gather_19_out = Gather(^Expand_10_out, Sub_18_out) @stage=1\n"
                   "    SinGrad_20_out = nacre.SinGrad(Gather_19_out, TapePop_16_out1) @stage=1\n"
                   "    ExpGrad_21_out = nacre.ExpGrad(dv, TapePop_16_out2) @stage=1\n"
                   "    Add_17_out = Add(SinGrad_20_out, ExpGrad_21_out) @stage=1\n"
                   "  } }>(TapeLength_11_out, , tape, Expand_13_out) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(nested_loop) {
    DIFF(s,
         "(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) => (c, u)"
         " { u = Loop(^n, , v)<body = { (int64[] j, bool[] d, float[] a) => (d, b)"
         " { e = Mul(a, ^v)\n b = Sin(e) } }> } }> }",
         "x");
    GOOD(s);
    check_text(&s, "(int64[] n, float[] x) => (float[] y)\n"
                   "<const float[] v1 = {1}>\n"
                   "{\n"
                   "  TapeEmpty_2_out = nacre.TapeEmpty()\n"
                   "  y, tape = Loop<body = { (int64[] i, bool[] c, float[] v, tape tape.3) => (bool[] c, float[]"
                   " u, tape TapePush_4_out)\n"
                   "  {\n"
                   "    TapeEmpty_5_out = nacre.TapeEmpty()\n"
                   "    u, tape.6 = Loop<body = { (int64[] j, bool[] d, float[] a, tape tape.7) => (bool[] d,"
                   " float[] b, tape TapePush_8_out)\n"
                   "    {\n"
                   "      e = Mul(a, ^v)\n"
                   "      b = Sin(e)\n"
                   "      TapePush_8_out = nacre.TapePush(tape.7, e, a)\n"
                   "    } }>(^n, , v, TapeEmpty_5_out)\n"
                   "    TapePush_4_out = nacre.TapePush(tape.3, tape.6, v)\n"
                   "  } }>(n, , x, TapeEmpty_2_out)\n"
                   "  TapeLength_9_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Loop_10_out, Loop_10_out1 = Loop<body = { (int64[] iter, bool[] cond, tape tape.11, float[]"
                   " dv) => (bool[] cond, tape TapePop_12_out, float[] Add_13_out)\n"
                   "  <const float[] v14 = {0}>\n"
                   "  {\n"
                   "    TapePop_12_out, TapePop_12_out1, TapePop_12_out2 = nacre.TapePop(tape.11) @stage=1\n"
                   "    TapeLength_15_out = nacre.TapeLength(TapePop_12_out1) @stage=1\n"
                   "    Loop_16_out, Loop_16_out1, Loop_16_out2 = Loop<body = { (int64[] iter.17, bool[] cond.18,"
                   " tape tape.19, float[] dv.20, float[] sum) => (bool[] cond = cond.18, tape TapePop_21_out,"
                   " float[] Mul_22_out, float[] Add_23_out)\n"
                   "    {\n"
                   "      TapePop_21_out, TapePop_21_out1, TapePop_21_out2 = nacre.TapePop(tape.19) @stage=1\n"
                   "      SinGrad_24_out = nacre.SinGrad(dv.20, TapePop_21_out1) @stage=1\n"
                   "      Mul_22_out = Mul(SinGrad_24_out, ^TapePop_12_out2) @stage=1\n"
                   "      Mul_25_out = Mul(SinGrad_24_out, TapePop_21_out2) @stage=1\n"
                   "      Add_23_out = Add(sum, Mul_25_out) @stage=1\n"
                   "    } }>(TapeLength_15_out, , TapePop_12_out1, dv, v14) @stage=1\n"
                   "    Add_13_out = Add(Loop_16_out1, Loop_16_out2) @stage=1\n"
                   "  } }>(TapeLength_9_out, , tape, v1) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(loop_that_swaps) {
    DIFF(s,
         "(int64[] n, float[] x, float[] k) => (y) { "
         "y, z = Loop(n, , x, k)<body = { (int64[] i, bool[] c, float[] v, float[] w)"
         " => (c, w, u) { u = Sin(v) } }> }",
         "x", "k");
    GOOD(s);
    check_text(&s, "(int64[] n, float[] x, float[] k) => (float[] y)\n"
                   "<const float[] v1 = {1},\n"
                   " const float[] v2 = {0}>\n"
                   "{\n"
                   "  TapeEmpty_3_out = nacre.TapeEmpty()\n"
                   "  y, z, tape = Loop<body = { (int64[] i, bool[] c, float[] v, float[] w, tape tape.4) =>"
                   " (bool[] c, float[] w, float[] u, tape TapePush_5_out)\n"
                   "  {\n"
                   "    u = Sin(v)\n"
                   "    TapePush_5_out = nacre.TapePush(tape.4, v)\n"
                   "  } }>(n, , x, k, TapeEmpty_3_out)\n"
                   "  TapeLength_6_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Loop_7_out, Loop_7_out1, Loop_7_out2 = Loop<body = { (int64[] iter, bool[] cond, tape"
                   " tape.8, float[] dv, float[] dv.9) => (bool[] cond, tape TapePop_10_out, float[]"
                   " SinGrad_11_out, float[] dv)\n"
                   "  {\n"
                   "    TapePop_10_out, TapePop_10_out1 = nacre.TapePop(tape.8) @stage=1\n"
                   "    SinGrad_11_out = nacre.SinGrad(dv.9, TapePop_10_out1) @stage=1\n"
                   "  } }>(TapeLength_6_out, , tape, v1, v2) @stage=1\n"
                   "}\n");
    end(&s);
}

/* Nothing uses the v that comes in: its gradient is zeros, whose shape is that of v. */
TEST(loop_that_forgets) {
    DIFF(s,
         "(int64[] n, float[q] x, float[q] k) => (y) { "
         "y, z = Loop(n, , x, k)<body = { (int64[] i, bool[] c, float[q] v, float[q] w)"
         " => (c, u, w) { u = Sin(w) } }> }",
         "k");
    GOOD(s);
    check_text(&s, "(int64[] n, float[q] x, float[q] k) => (float[q] y)\n"
                   "<const float[] v1 = {1},\n"
                   " const float[] v2 = {0}>\n"
                   "{\n"
                   "  TapeEmpty_3_out = nacre.TapeEmpty()\n"
                   "  y, z, tape = Loop<body = { (int64[] i, bool[] c, float[q] v, float[q] w, tape tape.4) =>"
                   " (bool[] c, float[q] u, float[q] w, tape TapePush_5_out)\n"
                   "  {\n"
                   "    u = Sin(w)\n"
                   "    TapePush_5_out = nacre.TapePush(tape.4, w, v)\n"
                   "  } }>(n, , x, k, TapeEmpty_3_out)\n"
                   "  Shape_6_out = Shape(y) @stage=1\n"
                   "  Expand_7_out = Expand(v1, Shape_6_out) @stage=1\n"
                   "  TapeLength_8_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Shape_9_out = Shape(z) @stage=1\n"
                   "  Expand_10_out = Expand(v2, Shape_9_out) @stage=1\n"
                   "  Loop_11_out, Loop_11_out1, Loop_11_out2 = Loop<body = { (int64[] iter, bool[] cond, tape"
                   " tape.12, float[q] dv, float[q] dv.13) => (bool[] cond, tape TapePop_14_out, float[q]"
                   " Expand_15_out, float[q] Add_16_out)\n"
                   "  <const float[] v17 = {0}>\n"
                   "  {\n"
                   "    TapePop_14_out, TapePop_14_out1, TapePop_14_out2 = nacre.TapePop(tape.12) @stage=1\n"
                   "    SinGrad_18_out = nacre.SinGrad(dv, TapePop_14_out1) @stage=1\n"
                   "    Add_16_out = Add(dv.13, SinGrad_18_out) @stage=1\n"
                   "    Shape_19_out = Shape(TapePop_14_out2) @stage=1\n"
                   "    Expand_15_out = Expand(v17, Shape_19_out) @stage=1\n"
                   "  } }>(TapeLength_8_out, , tape, Expand_7_out, Expand_10_out) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(loop_of_growing_value) {
    DIFF(s,
         "(int64[] n, float[1] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[q] v)"
         " => (c, u) { g = test.Grow(v)\n u = Sin(g) } }> }",
         "x");
    GOOD(s);
    check_text(&s, "(int64[] n, float[1] x) => (float[Loop_1_d] y)\n"
                   "<const float[] v2 = {1}>\n"
                   "{\n"
                   "  TapeEmpty_3_out = nacre.TapeEmpty()\n"
                   "  y, tape = Loop<body = { (int64[] i, bool[] c, float[Loop_1_v] v, tape tape.4) => (bool[] c,"
                   " float[Loop_1_v+1] u, tape TapePush_5_out)\n"
                   "  {\n"
                   "    g = test.Grow(v)\n"
                   "    u = Sin(g)\n"
                   "    TapePush_5_out = nacre.TapePush(tape.4, g, v)\n"
                   "  } }>(n, , x, TapeEmpty_3_out)\n"
                   "  Shape_6_out = Shape(y) @stage=1\n"
                   "  Expand_7_out = Expand(v2, Shape_6_out) @stage=1\n"
                   "  TapeLength_8_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Loop_9_out, Loop_9_out1 = Loop<body = { (int64[] iter, bool[] cond, tape tape.10,"
                   " float[Loop_9_v] dv) => (bool[] cond, tape TapePop_11_out, float[Loop_1_v] Like_12_out)\n"
                   "  {\n"
                   "    TapePop_11_out, TapePop_11_out1, TapePop_11_out2 = nacre.TapePop(tape.10) @stage=1\n"
                   "    SinGrad_13_out = nacre.SinGrad(dv, TapePop_11_out1) @stage=1\n"
                   "    Shape_14_out = Shape(TapePop_11_out1) @stage=1\n"
                   "    SumTo_15_out = nacre.SumTo(SinGrad_13_out, Shape_14_out) @stage=1\n"
                   "    Like_12_out = test.Like(SumTo_15_out, TapePop_11_out2) @stage=1\n"
                   "  } }>(TapeLength_8_out, , tape, Expand_7_out) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(what_does_not_depend_on_x_is_not_differentiated) {
    DIFF(s,
         "(int64[] n, float[] x, float[] k) => (y) { "
         "y, z = Loop(n, , x, k)<body = { (int64[] i, bool[] c, float[] v, float[] w)"
         " => (c, u, o) { u = Mul(v, w)\n o = test.Opaque(w) } }> }",
         "x");
    GOOD(s);
    check_text(&s, "(int64[] n, float[] x, float[] k) => (float[] y)\n"
                   "<const float[] v1 = {1}>\n"
                   "{\n"
                   "  TapeEmpty_2_out = nacre.TapeEmpty()\n"
                   "  y, z, tape = Loop<body = { (int64[] i, bool[] c, float[] v, float[] w, tape tape.3) =>"
                   " (bool[] c, float[] u, float[] o, tape TapePush_4_out)\n"
                   "  {\n"
                   "    u = Mul(v, w)\n"
                   "    o = test.Opaque(w)\n"
                   "    TapePush_4_out = nacre.TapePush(tape.3, w)\n"
                   "  } }>(n, , x, k, TapeEmpty_2_out)\n"
                   "  TapeLength_5_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Loop_6_out, Loop_6_out1 = Loop<body = { (int64[] iter, bool[] cond, tape tape.7, float[] dv)"
                   " => (bool[] cond, tape TapePop_8_out, float[] Mul_9_out)\n"
                   "  {\n"
                   "    TapePop_8_out, TapePop_8_out1 = nacre.TapePop(tape.7) @stage=1\n"
                   "    Mul_9_out = Mul(dv, TapePop_8_out1) @stage=1\n"
                   "  } }>(TapeLength_5_out, , tape, v1) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(if_in_loop) {
    DIFF(s,
         "(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) => (c, u) {"
         " u = If(c)<then_branch = { () => (a) { a = Sin(^v) } }, "
         "else_branch = { () => (b) { b = Add(^v, ^x) } }> } }> }",
         "x");
    GOOD(s);
    check_text(&s, "(int64[] n, float[] x) => (float[] y)\n"
                   "<const float[] v1 = {1},\n"
                   " const float[] v2 = {0}>\n"
                   "{\n"
                   "  TapeEmpty_3_out = nacre.TapeEmpty()\n"
                   "  y, tape = Loop<body = { (int64[] i, bool[] c, float[] v, tape tape.4) => (bool[] c, float[]"
                   " u, tape TapePush_5_out)\n"
                   "  {\n"
                   "    u, tape.6 = If<then_branch = { () => (float[] a, tape TapePush_7_out)\n"
                   "    {\n"
                   "      a = Sin(^v)\n"
                   "      TapeEmpty_8_out = nacre.TapeEmpty()\n"
                   "      TapePush_7_out = nacre.TapePush(TapeEmpty_8_out)\n"
                   "    } }, else_branch = { () => (float[] b, tape TapePush_9_out)\n"
                   "    {\n"
                   "      b = Add(^v, ^x)\n"
                   "      TapeEmpty_10_out = nacre.TapeEmpty()\n"
                   "      TapePush_9_out = nacre.TapePush(TapeEmpty_10_out)\n"
                   "    } }>(c)\n"
                   "    TapePush_5_out = nacre.TapePush(tape.4, c, tape.6, v)\n"
                   "  } }>(n, , x, TapeEmpty_3_out)\n"
                   "  TapeLength_11_out = nacre.TapeLength(tape) @stage=1\n"
                   "  Loop_12_out, Loop_12_out1, Loop_12_out2 = Loop<body = { (int64[] iter, bool[] cond, tape"
                   " tape.13, float[] dv, float[] sum) => (bool[] cond, tape TapePop_14_out, float[] If_15_out,"
                   " float[] Add_16_out)\n"
                   "  {\n"
                   "    TapePop_14_out, TapePop_14_out1, TapePop_14_out2, TapePop_14_out3 = nacre.TapePop(tape.13)"
                   " @stage=1\n"
                   "    If_15_out, If_15_out1 = If<then_branch = { () => (float[] SinGrad_17_out, float[] v18)\n"
                   "    <const float[] v18 = {0}>\n"
                   "    {\n"
                   "      TapePop_19_out = nacre.TapePop(^TapePop_14_out2) @stage=1\n"
                   "      SinGrad_17_out = nacre.SinGrad(^dv, ^TapePop_14_out3) @stage=1\n"
                   "    } }, else_branch = { () => (dv = ^dv, dv = ^dv)\n"
                   "    {\n"
                   "      TapePop_20_out = nacre.TapePop(^TapePop_14_out2) @stage=1\n"
                   "    } }>(TapePop_14_out1) @stage=1\n"
                   "    Add_16_out = Add(sum, If_15_out1) @stage=1\n"
                   "  } }>(TapeLength_11_out, , tape, v1, v2) @stage=1\n"
                   "  Add_21_out = Add(Loop_12_out1, Loop_12_out2) @stage=1\n"
                   "}\n");
    end(&s);
}

/* The gradient of a tape is a tape of gradients. */
TEST(second_derivative_of_loop) {
    DIFF(s,
         "(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) =>"
         " (c, u) { u = Mul(v, v) } }> }",
         "x");
    GOOD(s);
    nc_value *x = nc_graph_find(s.m->main, "x"), *ddx = NULL;
    REQUIRE(s.dx[0] != NULL);
    s.code = nc_autodiff(&s.w, s.m->main, &s.dx[0], NULL, 1, &x, 1, &ddx);
    GOOD(s);
    CHECK_INT(nc_verify(&s.w, s.m), NC_OK);
    CHECK(ddx != NULL);
    check_text(&s, "(int64[] n, float[] x) => (float[] y)\n"
                   "<const float[] v1 = {1},\n"
                   " const float[] v2 = {1},\n"
                   " const float[] v3 = {0}>\n"
                   "{\n"
                   "  TapeEmpty_4_out = nacre.TapeEmpty()\n"
                   "  TapeEmpty_5_out = nacre.TapeEmpty()\n"
                   "  y, tape, tape.6 = Loop<body = { (int64[] i, bool[] c, float[] v, tape tape.7, tape tape.8)"
                   " => (bool[] c, float[] u, tape TapePush_9_out, tape TapePush_10_out)\n"
                   "  {\n"
                   "    u = Mul(v, v)\n"
                   "    TapePush_9_out = nacre.TapePush(tape.7, v)\n"
                   "    TapePush_10_out = nacre.TapePush(tape.8, v)\n"
                   "  } }>(n, , x, TapeEmpty_4_out, TapeEmpty_5_out)\n"
                   "  TapeLength_11_out = nacre.TapeLength(tape) @stage=1\n"
                   "  TapeEmpty_12_out = nacre.TapeEmpty() @stage=1\n"
                   "  Loop_13_out, Loop_13_out1, tape.14 = Loop<body = { (int64[] iter, bool[] cond, tape tape.15,"
                   " float[] dv, tape tape.16) => (bool[] cond, tape TapePop_17_out, float[] Add_18_out, tape"
                   " TapePush_19_out)\n"
                   "  {\n"
                   "    TapePop_17_out, TapePop_17_out1 = nacre.TapePop(tape.15) @stage=1\n"
                   "    Mul_20_out = Mul(dv, TapePop_17_out1) @stage=1\n"
                   "    Mul_21_out = Mul(dv, TapePop_17_out1) @stage=1\n"
                   "    Add_18_out = Add(Mul_20_out, Mul_21_out) @stage=1\n"
                   "    TapePush_19_out = nacre.TapePush(tape.16, TapePop_17_out1, dv) @stage=1\n"
                   "  } }>(TapeLength_11_out, , tape, v1, TapeEmpty_12_out) @stage=1\n"
                   "  TapeLength_22_out = nacre.TapeLength(tape.14) @stage=1\n"
                   "  TapeEmpty_23_out = nacre.TapeEmpty() @stage=1\n"
                   "  Loop_24_out, Loop_24_out1, Loop_24_out2 = Loop<body = { (int64[] iter, bool[] cond, tape"
                   " tape.25, tape dv, float[] dv.26) => (bool[] cond, tape TapePop_27_out, tape TapePush_28_out,"
                   " float[] Add_29_out)\n"
                   "  {\n"
                   "    TapePop_27_out, TapePop_27_out1, TapePop_27_out2 = nacre.TapePop(tape.25) @stage=1\n"
                   "    Mul_30_out = Mul(dv.26, TapePop_27_out1) @stage=1\n"
                   "    Mul_31_out = Mul(dv.26, TapePop_27_out2) @stage=1\n"
                   "    Mul_32_out = Mul(dv.26, TapePop_27_out1) @stage=1\n"
                   "    Mul_33_out = Mul(dv.26, TapePop_27_out2) @stage=1\n"
                   "    Add_34_out = Add(Mul_31_out, Mul_33_out) @stage=1\n"
                   "    TapePush_28_out = nacre.TapePush(dv, Add_34_out) @stage=1\n"
                   "    Add_29_out = Add(Mul_30_out, Mul_32_out) @stage=1\n"
                   "  } }>(TapeLength_22_out, , tape.14, TapeEmpty_23_out, v2) @stage=1\n"
                   "  TapeLength_35_out = nacre.TapeLength(tape.6) @stage=1\n"
                   "  Loop_36_out, Loop_36_out1, Loop_36_out2 = Loop<body = { (int64[] iter, bool[] cond, tape"
                   " tape.37, float[] dv, tape dv.38) => (bool[] cond, tape TapePop_39_out, float[] Add_40_out,"
                   " tape TapePop_41_out)\n"
                   "  {\n"
                   "    TapePop_39_out, TapePop_39_out1 = nacre.TapePop(tape.37) @stage=1\n"
                   "    TapePop_41_out, TapePop_41_out1 = nacre.TapePop(dv.38) @stage=1\n"
                   "    Mul_42_out = Mul(dv, TapePop_39_out1) @stage=1\n"
                   "    Mul_43_out = Mul(dv, TapePop_39_out1) @stage=1\n"
                   "    Add_44_out = Add(TapePop_41_out1, Mul_42_out) @stage=1\n"
                   "    Add_40_out = Add(Add_44_out, Mul_43_out) @stage=1\n"
                   "  } }>(TapeLength_35_out, , tape.6, v3, Loop_24_out1) @stage=1\n"
                   "}\n");
    end(&s);
}

TEST(out_of_memory_is_an_ordinary_error) {
    static const char text[] = "(int64[] n, bool[] k, float[q] x) => (y) { y, z = Loop(n, , x)<body = {"
                               " (int64[] i, bool[] c, float[q] v) => (c, u, v) {"
                               " u = If(^k)<then_branch = { () => (a) { a = Sin(^v) } },"
                               " else_branch = { () => (b) { b = Mul(^v, ^x) } }> } }> }";
    uint64_t live = nc_mem_live();
    nc_code code = NC_E_MEMORY;
    for (uint64_t n = 1; n < 500 && code != NC_OK; n++) {
        nc_work w;
        nc_work_init(&w);
        nc_model *m = test_model(&w, &nc_test_cards, text);
        REQUIRE(m != NULL);
        nc_arena_release(&w.scratch);
        nc_value *x = nc_graph_find(m->main, "x"), *dx;
        nc_mem_fail_at(n);
        code = nc_autodiff(&w, m->main, m->main->outputs.v, NULL, 1, &x, 1, &dx);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        nc_model_destroy(m);
        nc_work_release(&w);
    }
    CHECK_INT(code, NC_OK);
    CHECK_INT(nc_mem_live(), live);
}
