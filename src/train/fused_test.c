/* train/fused_test.c: what is differentiated are the ops that patterns find, except where they would use the value of
 * what is asked for, where ONNX's own ops are wanted, or where an end lies inside of what they would take. */
#include "train/artifacts.h"
#include "train/train.h"

#include "ir/verify.h"
#include "tests/graph_testing.h"

#include <string.h>

static void print(nc_text *out, const nc_graph *g) {
    for (const nc_node *n = g->first; n != NULL; n = n->next)
        nc_text_addf(out, "%s%s%s", n == g->first ? "" : " ",
                     n->card->domain != NULL && strcmp(n->card->domain, "nacre") == 0 ? "nacre." : "", n->card->name);
}

static void check_ops(const char *file, int line, const nc_train_ask *ask, const char *graph, const char *want) {
    nc_text got = {0}, text = {0};
    nc_work w;
    nc_work_init(&w);
    nc_text_addf(&text, "<opset: \"\" 18> g %s", graph);
    nc_model *m = text.s != NULL ? test_model(&w, nc_ops_registry(), text.s) : NULL;
    if (m != NULL) {
        CHECK_INT(nc_train_model_gradients(&w, m, ask), NC_OK);
        CHECK_INT(nc_verify(&w, m), NC_OK);
        print(&got, m->main);
    }
    if (m == NULL || got.s == NULL || strcmp(got.s, want) != 0)
        nc_test_failed(file, line, "is: %s, expected: %s (%s)", got.s ? got.s : "", want, w.diag.text);
    nc_text_release(&got), nc_text_release(&text);
    if (m != NULL) nc_model_destroy(m);
    nc_work_release(&w);
}
#define ASK(y, x) \
    &(nc_train_ask) { .ys = (const char *const[]){y}, .n_y = 1, .xs = (const char *const[]){x}, .n_x = 1 }
#define OPS(y, x, graph, want) check_ops(__FILE__, __LINE__, ASK(y, x), graph, want)

#define GELU                                                                                                          \
    "(float[3] x) => (y) <const float[] root = {1.41421356}, const float[] one = {1.0}, const float[] half = {0.5}, " \
    "const float[3] unused = {1.0, 2.0, 3.0}> {"                                                                      \
    " a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(c, half) y = Mul(x, d) }"

TEST(what_is_differentiated_is_fused) { OPS("y", "x", GELU, "Gelu Expand nacre.GeluGrad"); }

TEST(a_constant_that_is_asked_for_keeps_its_place) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), "<opset: \"\" 18> g " GELU);
    REQUIRE(m != NULL);
    CHECK_INT(nc_train_model_gradients(&w, m, ASK("y", "half")), NC_OK);
    CHECK_INT(nc_verify(&w, m), NC_OK);
    const nc_value *half = nc_graph_find(m->main, "half");
    CHECK(half != NULL && half->origin == NC_FROM_CONST && half->var == NULL && half->uses.n > 0);
    CHECK(!m->infers_only);
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(a_constant_without_influence_has_a_gradient_of_zeros) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), "<opset: \"\" 18> g " GELU);
    REQUIRE(m != NULL);
    CHECK_INT(nc_train_model_gradients(&w, m, ASK("y", "unused")), NC_OK);
    CHECK_INT(nc_verify(&w, m), NC_OK);
    CHECK_STR(m->main->output_names.v[1], "grad:unused");
    CHECK_TYPE(m->main->outputs.v[1]->type, "float[3]");
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(ends_inside_of_a_pattern_keep_it_apart) { OPS("y", "b", GELU, "Div Erf Add Mul Mul Expand Mul Mul"); }

#define ATTENTION                                                                                                 \
    "(float[2,2,s,4] q, float[2,2,4,t] k, float[2,2,t,4] v) => (y) <const float[] by = {0.5}> { p = MatMul(q, k)" \
    " a = Mul(p, by) s = Softmax<axis = -1>(a) y = MatMul(s, v) }"

TEST(attention_is_differentiated_whole) {
    OPS("y", "q", ATTENTION, "Transpose Attention Shape Expand nacre.AttentionGrad");
    nc_train_ask standard = *ASK("y", "q");
    standard.standard = true;
    check_ops(__FILE__, __LINE__, &standard, ATTENTION,
              "MatMul Mul Softmax MatMul Shape Expand Transpose MatMul Mul ReduceSum Sub Mul Mul Transpose MatMul");
}

#define DROPOUT                                                                                                       \
    "(float[2,2,s,4] q, float[2,2,4,t] k, float[2,2,t,4] v) => (y) <const float[] r = {0.25}, const bool[] t = {1}> " \
    "{ p = MatMul(q, k) s = Softmax<axis = -1>(p) d = Dropout(s, r, t) y = MatMul(d, v) }"

TEST(attention_with_dropout_is_differentiated_whole) {
    OPS("y", "q", DROPOUT, "Transpose nacre.AttentionDropout Shape Expand nacre.AttentionDropoutGrad");
    nc_train_ask standard = *ASK("y", "q");
    standard.standard = true;
    check_ops(__FILE__, __LINE__, &standard, DROPOUT,
              "MatMul Softmax Dropout MatMul Shape Expand Transpose MatMul Sub Div Mul Where Mul ReduceSum Sub Mul "
              "Transpose MatMul");
}

/* Casts come behind the patterns: attention and Gelu stay whole, and compute narrow. */
TEST(half_precision_trains_what_is_fused) {
    static const char graph[] =
        "<opset: \"\" 18> g (float[2,2,6,4] x) => (loss) <const float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, "
        "4,"
        " 3, 2}, const float[] by = {0.5}, const float[] root = {1.41421356}, const float[] one = {1.0}> {"
        " q = MatMul(x, w) k = Transpose<perm = [0, 1, 3, 2]>(q) p = MatMul(q, k) a = Mul(p, by)"
        " s = Softmax<axis = -1>(a) y = MatMul(s, q) d = Div(y, root) e = Erf(d) f = Add(e, one) h = Mul(f, by)"
        " z = Mul(y, h) loss = ReduceSum<keepdims = 0>(z) }";
    const char *const names[] = {"w"};
    const nc_artifacts_params params = {
        .moved = names, .n_moved = 1, .trainable = names, .n_trainable = 1, .compute = NC_BFLOAT16};
    nc_text got = {0};
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), graph);
    REQUIRE(m != NULL);
    CHECK_INT(nc_artifacts_training(&w, m, &params, false), NC_OK);
    CHECK_INT(nc_verify(&w, m), NC_OK);
    print(&got, m->main);
    for (const nc_node *n = m->main->first; n != NULL; n = n->next)
        if (strstr(n->card->name, "Attention") != NULL || strstr(n->card->name, "Gelu") != NULL)
            CHECK_INT(n->in[0]->type->elem, NC_BFLOAT16);
    CHECK(got.s != NULL && strstr(got.s, "Softmax") == NULL && strstr(got.s, "Erf") == NULL);
    CHECK(got.s != NULL && strstr(got.s, "nacre.AttentionGrad") != NULL && strstr(got.s, "nacre.GeluGrad") != NULL);
    nc_text_release(&got);
    nc_model_destroy(m);
    nc_work_release(&w);
}
