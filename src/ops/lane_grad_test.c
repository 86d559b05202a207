/* ops/lane_grad_test.c: derivatives and gradients of lane ops, as expressions. What they are worth as numbers is the
 * case tables' business. */
#include "tests/graph_testing.h"
#include "base/mem.h"
#include "ops/lane.h"
#include "ops/math/math.h"

typedef struct site {
    nc_work w;
    nc_model *m;
    nc_builder b;
    nc_value *asked[8]; /* forward values that the gradient asked for */
    int n_asked;
} site;

static nc_value *forward(nc_grad *g, nc_value *v) {
    site *s = g->ctx;
    for (int i = 0; i < s->n_asked; i++)
        if (s->asked[i] == v) return v;
    if (s->n_asked < 8) s->asked[s->n_asked++] = v;
    return v;
}

static bool site_init(site *s, const char *text) {
    *s = (site){0};
    nc_work_init(&s->w);
    s->m = test_model(&s->w, nc_ops_registry(), text);
    if (s->m == NULL) return false;
    s->b = (nc_builder){.w = &s->w, .graph = s->m->main, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    return true;
}

static void site_release(site *s) {
    if (s->m != NULL) nc_model_destroy(s->m);
    nc_work_release(&s->w);
}

/* dx of y's node by input i, given the graph input dy; `asked`: how many forward values it keeps. */
static void check_grad(const char *text, int i, const char *want, int asked) {
    site s;
    if (!site_init(&s, text)) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", text, s.w.diag.text);
        site_release(&s);
        return;
    }
    nc_value *y = nc_graph_find(s.m->main, "y"), *dy = nc_graph_find(s.m->main, "dy"), *dx[8] = {NULL};
    bool wants[8] = {false};
    wants[i] = true;
    nc_grad g = {.b = &s.b, .node = y->def, .dy = &dy, .dx = dx, .wants = wants, .forward = forward, .ctx = &s};
    nc_code code = y->def->card->grad != NULL ? y->def->card->grad(&g) : nc_lane_card_grad(&g);
    CHECK_INT(code, NC_OK);
    CHECK_EXPR(dx[i], want);
    CHECK_INT(s.n_asked, asked);
    site_release(&s);
}

#define UNARY_TEXT(op) "<opset: \"\" 17> g (float[2,3] x, float[2,3] dy) => (y) { y = " op "(x) }"
#define BINARY_TEXT(op) "<opset: \"\" 17> g (float[2,3] a, float[2,3] b, float[2,3] dy) => (y) { y = " op "(a, b) }"

TEST(unary_gradients_are_one_op) {
    check_grad(UNARY_TEXT("Tanh"), 0, "nacre.TanhGrad(dy, y)", 1);
    check_grad(UNARY_TEXT("Erf"), 0, "nacre.ErfGrad(dy, x)", 1);
    check_grad(UNARY_TEXT("LeakyRelu<alpha = 0.5>"), 0, "nacre.LeakyReluGrad(dy, x, alpha=0.5)", 1);
    check_grad(UNARY_TEXT("Elu"), 0, "nacre.EluGrad(dy, x, alpha=1)", 1);
    check_grad(UNARY_TEXT("Neg"), 0, "Neg(dy)", 0);
}

TEST(binary_gradients_keep_what_they_use) {
    check_grad(BINARY_TEXT("Add"), 0, "dy", 0);
    check_grad(BINARY_TEXT("Add"), 1, "dy", 0);
    check_grad(BINARY_TEXT("Sub"), 1, "Neg(dy)", 0);
    check_grad(BINARY_TEXT("Mul"), 0, "Mul(dy, b)", 1);
    check_grad(BINARY_TEXT("Mul"), 1, "Mul(dy, a)", 1);
    check_grad(BINARY_TEXT("Div"), 0, "Div(dy, b)", 1);
    check_grad(BINARY_TEXT("Div"), 1, "Mul(dy, Neg(Div(y, b)))", 2);
    check_grad(BINARY_TEXT("Pow"), 0, "Mul(dy, Where(Equal(b, 0), 0, Mul(b, Pow(a, Sub(b, 1)))))", 2);
    check_grad(BINARY_TEXT("Max"), 0, "Mul(dy, Where(Less(a, b), 0, Where(Equal(a, b), 0.5, 1)))", 2);
    check_grad(
        "<opset: \"\" 17> g (bool[2,3] c, float[2,3] a, float[2,3] b, float[2,3] dy) => (y) { y = Where(c, a, b) }", 1,
        "Where(c, dy, 0)", 1);
    check_grad(
        "<opset: \"\" 17> g (bool[2,3] c, float[2,3] a, float[2,3] b, float[2,3] dy) => (y) { y = Where(c, a, b) }", 2,
        "Where(c, 0, dy)", 1);
}

TEST(variadic_gradients_go_back_through_the_fold) {
    const char *three =
        "<opset: \"\" 17> g (float[3] a, float[3] b, float[3] c, float[3] dy) => (y) { y = Max(a, b, c) }";
    check_grad(three, 2, "Mul(dy, Where(Less(c, Max(a, b)), 0, Where(Equal(Max(a, b), c), 0.5, 1)))", 3);
    check_grad("<opset: \"\" 17> g (float[3] a, float[3] dy) => (y) { y = Max(a) }", 0, "dy", 0);
}

static void check_decompose(const char *op, const char *attrs, const char *want) {
    site s;
    char text[256];
    snprintf(text, sizeof text,
             "<opset: \"\" 17, \"nacre\" 1> g (float[3] dy, float[3] s) => (y) { y = nacre.%sGrad%s(dy, s) }", op,
             attrs);
    nc_value *out = NULL;
    if (site_init(&s, text)) {
        const nc_node *n = s.m->main->last;
        CHECK_INT(n->card->decompose(&s.b, n, &out), NC_OK);
    }
    CHECK_EXPR(out, want);
    site_release(&s);
}

TEST(gradient_ops_decompose) {
    check_decompose("Tanh", "", "Mul(dy, Sub(1, Mul(s, s)))");
    check_decompose("Sigmoid", "", "Mul(dy, Mul(s, Sub(1, s)))");
    check_decompose("Exp", "", "Mul(dy, s)");
    check_decompose("Log", "", "Div(dy, s)");
    check_decompose("Sin", "", "Mul(dy, Cos(s))");
    check_decompose("Relu", "", "Mul(dy, Where(LessOrEqual(s, 0), 0, 1))");
    check_decompose("LeakyRelu", "<alpha = 0.25>", "Mul(dy, Where(Less(s, 0), 0.25, 1))");
    check_decompose("Erf", "", "Mul(dy, Mul(1.12838, Exp(Neg(Mul(s, s)))))");
    check_decompose("Softplus", "", "Mul(dy, Sigmoid(s))");
    check_decompose("Reciprocal", "", "Mul(dy, Neg(Mul(s, s)))");
}

TEST(derivatives_share_equal_parts) {
    site s;
    REQUIRE(site_init(&s, BINARY_TEXT("Max")));
    nc_value *in[2] = {nc_graph_find(s.m->main, "a"), nc_graph_find(s.m->main, "b")},
             *y = nc_graph_find(s.m->main, "y");
    int before = s.m->main->n_nodes;
    CHECK_EXPR(nc_lane_derivative(&s.b, NCK_LANE_elu, 0, in, y, (double[]){2, 0}),
               "Where(Less(a, 0), Mul(2, Exp(Min(a, 0))), 1)");
    CHECK_INT(s.m->main->n_nodes - before, 5);
    CHECK_EXPR(nc_lane_derivative(&s.b, NCK_LANE_add, 1, in, y, NULL), "1");
    CHECK(nc_lane_derivative(&s.b, NCK_LANE_less, 0, in, y, NULL) == NULL);
    CHECK_INT(s.b.code, NC_E_UNSUPPORTED);
    site_release(&s);
}

TEST(gradients_survive_every_failed_allocation) {
    for (uint64_t i = 1; i < 2000; i++) {
        site s;
        REQUIRE(site_init(&s, BINARY_TEXT("Pow")));
        nc_value *y = nc_graph_find(s.m->main, "y"), *dy = nc_graph_find(s.m->main, "dy"), *dx[2] = {NULL};
        bool wants[2] = {true, true};
        nc_grad g = {.b = &s.b, .node = y->def, .dy = &dy, .dx = dx, .wants = wants, .forward = forward, .ctx = &s};
        nc_mem_fail_at(i);
        nc_code code = nc_lane_card_grad(&g);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK_INT(code, hit ? NC_E_MEMORY : NC_OK);
        site_release(&s);
        if (!hit) return;
    }
}
