/* Gradients as graphs: before and after as text, or the gradient as one expression. Values are checked where graphs run. */
#include "autodiff/autodiff.h"

#include "autodiff/cards_testing.h"
#include "ir/verify.h"
#include "ops/graph_testing.h"

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

#define DIFF(s, text, ...)                                                       \
    setting s = {0};                                                             \
    const char *names_##s[] = {__VA_ARGS__};                                     \
    differentiate(&s, text, (int)(sizeof names_##s / sizeof *names_##s), names_##s)
#define GOOD(s) \
    if (s.code != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", s.w.diag.text)

/* Made-up names carry ids (Add_41_out, v13, tape.32): those are numbered anew in order of appearance. */
static void renumber(nc_text *out, const char *s) {
    int ids[256], n = 0;
    for (const char *p = s; *p; p++) {
        bool after = p > s + 1 && ((p[-1] == '_') || (p[-1] == 'v' && !isalnum(p[-2])) || (p[-1] == '.' && !isdigit(p[-2])));
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
    DIFF(s, "(float[5,3] x, float[5,2] dummy) => (y) <const float[3,2] W = {1,2,3,4,5,6}, const float[2] b = {0,0}>"
            "{ h = MatMul(x, W)\n y = Add(h, b) }", "x", "W", "b", "dummy");
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
    DIFF(s, "(float[] x, int64[] i, bool[] c) => (y) { f = Floor(x)\n j = Add(i, i)\n y = Where(c, f, x) }", "x", "i", "c", "f");
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
    DIFF(s, "(bool[] c, float[] x, float[] z) => (y) { y = If(c)<then_branch = { () => (a) { a = Sin(^x) } },"
            " else_branch = { () => (b) { e = Exp(^x)\n b = Mul(e, ^z) } }> }", "x", "z");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

TEST(loop) {
    DIFF(s, "(int64[] n, float[] x, float[] k) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) =>"
            " (c, u) { t = Mul(v, ^k)\n u = Tanh(t) } }> }", "x", "k");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

TEST(loop_with_scan) {
    DIFF(s, "(int64[] n, float[2] x) => (z) { y, z = Loop(n, , x)<body = { (int64[] i, bool[] c, float[2] v) =>"
            " (c, u, w) { u = Exp(v)\n w = Sin(v) } }> }", "x");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

TEST(nested_loop) {
    DIFF(s, "(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) => (c, u)"
            " { u = Loop(^n, , v)<body = { (int64[] j, bool[] d, float[] a) => (d, b) { e = Mul(a, ^v)\n b = Sin(e) } }> } }> }", "x");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

/* u does not depend on the w that comes in: its gradient is zeros, and stays in the loop all the same. */
TEST(loop_that_swaps) {
    DIFF(s, "(int64[] n, float[] x, float[] k) => (y) { y, z = Loop(n, , x, k)<body = { (int64[] i, bool[] c, float[] v, float[] w)"
            " => (c, w, u) { u = Sin(v) } }> }", "x", "k");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

TEST(loop_of_growing_value) {
    DIFF(s, "(int64[] n, float[1] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[q] v)"
            " => (c, u) { u = test.Grow(v) } }> }", "x");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

TEST(what_does_not_depend_on_x_is_not_differentiated) {
    DIFF(s, "(int64[] n, float[] x, float[] k) => (y) { y, z = Loop(n, , x, k)<body = { (int64[] i, bool[] c, float[] v, float[] w)"
            " => (c, u, o) { u = Mul(v, w)\n o = test.Opaque(w) } }> }", "x");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

TEST(if_in_loop) {
    DIFF(s, "(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) => (c, u) {"
            " u = If(c)<then_branch = { () => (a) { a = Sin(^v) } }, else_branch = { () => (b) { b = Add(^v, ^x) } }> } }> }", "x");
    GOOD(s);
    check_text(&s, "");
    end(&s);
}

/* The gradient of a tape is a tape of gradients. */
TEST(second_derivative_of_loop) {
    DIFF(s, "(int64[] n, float[] x) => (y) { y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[] v) =>"
            " (c, u) { u = Mul(v, v) } }> }", "x");
    GOOD(s);
    nc_value *x = nc_graph_find(s.m->main, "x"), *ddx = NULL;
    REQUIRE(s.dx[0] != NULL);
    if (nc_autodiff(&s.w, s.m->main, &s.dx[0], NULL, 1, &x, 1, &ddx) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", s.w.diag.text);
    CHECK_INT(nc_verify(&s.w, s.m), NC_OK);
    CHECK(ddx != NULL);
    check_text(&s, "");
    end(&s);
}
