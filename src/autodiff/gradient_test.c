/* Nodes that ask for gradients, before and after: what takes their place, where, and what is held. */
#include "autodiff/autodiff.h"

#include "base/mem.h"
#include "ir/verify.h"
#include "ops/binding.h"
#include "tests/graph_testing.h"

#define G "<opset: \"\" 18, \"ai.onnx.preview.training\" 1> g "
#define GRADIENT "ai.onnx.preview.training.Gradient"

typedef struct setting {
    nc_work w;
    nc_model *m;
    nc_code code;
} setting;

static void expand(setting *s, const char *text) {
    nc_work_init(&s->w);
    s->code = NC_E_FAIL;
    s->m = test_model(&s->w, nc_ops_registry(), text);
    if (!s->m) {
        nc_test_failed(__FILE__, __LINE__, "%s", s->w.diag.text);
        return;
    }
    s->code = nc_autodiff_expand(&s->w, s->m);
    if (s->code == NC_OK && nc_verify(&s->w, s->m) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", s->w.diag.text);
}

static void end(setting *s) {
    if (s->m) nc_model_destroy(s->m);
    nc_work_release(&s->w);
}

static int count(const nc_graph *g, const char *op) {
    int n = 0;
    for (const nc_node *k = g->first; k; k = k->next) {
        n += strcmp(k->card->name, op) == 0;
        for (int i = 0; i < k->n_subs; i++) n += count(k->subs[i].graph, op);
    }
    return n;
}

/* v is ones * factor. */
static void check_times(const nc_value *v, const char *factor) {
    REQUIRE(v->origin == NC_FROM_NODE);
    CHECK_STR(v->def->card->name, "Mul");
    CHECK_STR(v->def->in[0]->def->card->name, "Expand");
    CHECK_STR(v->def->in[1]->name, factor);
    CHECK(v->def->stage == NC_STAGE_FORWARD);
}

TEST(gradient_node_gives_its_place_to_the_gradients) {
    setting s = {0};
    expand(&s, G "(float[3] x, float[3] w) => (e, dw) { y = Mul(x, w)\n dx, dw = " GRADIENT
                 "<y = \"y\", xs = [\"x\", \"w\"]>(x, w, y, x, w)\n e = Neg(dx) }");
    REQUIRE(s.code == NC_OK);
    CHECK_STR(s.m->main->last->card->name, "Neg");
    check_times(s.m->main->last->in[0], "w");
    check_times(s.m->main->outputs.v[1], "x");
    CHECK_INT(count(s.m->main, "Gradient"), 0);
    end(&s);
}

TEST(gradient_node_holds_xs_and_zs) {
    setting s = {0};
    expand(&s, G "(float[3] x) => (dx, held) { h = Exp(x)\n y = Mul(h, x)\n dx = " GRADIENT
                 "<y = \"y\", xs = [\"x\"]>(x, y, x)\n held = " GRADIENT
                 "<y = \"y\", xs = [\"x\"], zs = [\"h\"]>(x, h, y, x, h) }");
    REQUIRE(s.code == NC_OK);
    check_times(s.m->main->outputs.v[1], "h");
    CHECK(s.m->main->outputs.v[0] != s.m->main->outputs.v[1]);
    CHECK_INT(count(s.m->main, "StopGradient"), 0);
    end(&s);
}

TEST(gradient_node_copies_the_function_to_another_point) {
    setting s = {0};
    expand(&s, G "(float[3] x, float[3] p) => (y, dx) { k = Exp(p)\n h = Sin(x)\n y = Mul(h, k)\n dx = " GRADIENT
                 "<y = \"y\", xs = [\"x\"]>(p, y, x) }");
    REQUIRE(s.code == NC_OK);
    CHECK_INT(count(s.m->main, "Sin"), 2);
    CHECK_INT(count(s.m->main, "Exp"), 1); /* does not depend on x: not copied */
    CHECK_INT(count(s.m->main, "SinGrad") + count(s.m->main, "Cos"), 1);
    CHECK_STR(s.m->main->outputs.v[0]->name, "y");
    CHECK_STR(s.m->main->outputs.v[0]->def->in[0]->name, "h");
    end(&s);
}

TEST(held_values_pass_no_gradient_and_are_let_go) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), G "(float[3] x) => (y) { h = Exp(x)\n y = Mul(h, x) }");
    REQUIRE(m != NULL);
    nc_value *h = nc_graph_find(m->main, "h"), *x = m->main->inputs.v[0], *dx[2];
    CHECK(nc_autodiff_stopped(h) == h);
    CHECK_INT(nc_autodiff_stop(&w, h, NULL), NC_OK);
    CHECK_INT(nc_autodiff_stop(&w, h, NULL), NC_OK);
    CHECK_INT(count(m->main, "StopGradient"), 1);
    CHECK(nc_autodiff_stopped(h) != h);
    nc_value *xs[2] = {x, nc_autodiff_stopped(h)};
    CHECK_INT(nc_autodiff(&w, m->main, m->main->outputs.v, NULL, 1, xs, 2, dx), NC_OK);
    nc_autodiff_unstop_all(m->main);
    CHECK_INT(count(m->main, "StopGradient"), 0);
    CHECK_EXPR(dx[0], "Mul(Expand(1, [3]), h)");
    CHECK_EXPR(dx[1], "Mul(Expand(1, [3]), x)");
    CHECK_INT(nc_verify(&w, m), NC_OK);
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(gradient_node_out_of_memory_is_an_ordinary_error) {
    static const char text[] =
        G "(bool[] c, float[3] x, float[3] p) => (r, d) { h = Sin(x)\n y = Mul(h, x)\n d = " GRADIENT
          "<y = \"y\", xs = [\"x\"], zs = [\"h\"]>(p, h, y, x, h)\n"
          " r = If(c)<then_branch = { () => (q) { q = " GRADIENT "<y = \"y\", xs = [\"x\"]>(^x, ^y, ^x) } },"
          " else_branch = { () => (q) { q = Neg(^x) } }> }";
    uint64_t live = nc_mem_live();
    nc_code code = NC_E_MEMORY;
    for (uint64_t n = 1; n < 500 && code != NC_OK; n++) {
        nc_work w;
        nc_work_init(&w);
        nc_model *m = test_model(&w, nc_ops_registry(), text);
        REQUIRE(m != NULL);
        nc_arena_release(&w.scratch);
        nc_mem_fail_at(n);
        code = nc_autodiff_expand(&w, m);
        bool hit = nc_mem_fail_hit() || m->out_of_memory;
        nc_mem_fail_at(0);
        if (code != NC_OK || !hit) CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        if (hit) code = NC_E_MEMORY;
        nc_model_destroy(m);
        nc_work_release(&w);
    }
    CHECK_INT(code, NC_OK);
    CHECK_INT(nc_mem_live(), live);
}
