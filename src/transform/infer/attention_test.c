/* transform/infer/attention_test.c: attention as exporters write it becomes one op, and near misses. */
#include "tests/graph_testing.h"

#include "ir/verify.h"
#include "transform/transform.h"

#include <stdio.h>

static void print(nc_text *out, const nc_graph *g) {
    for (const nc_node *n = g->first; n != NULL; n = n->next)
        nc_text_addf(out, "%s%s%s", n == g->first ? "" : " ", n->card->domain != NULL ? "nacre." : "", n->card->name);
}

static void check_ops(const char *file, int line, int opset, const char *graph, const char *want) {
    const char *passes[] = {"gemms"}; /* not what is looked at */
    char text[1600];
    nc_text got = {0};
    nc_work w;
    nc_work_init(&w);
    snprintf(text, sizeof text, "<opset: \"\" %d> g %s", opset, graph);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    if (m != NULL) {
        m->infers_only = true;
        CHECK_INT(nc_transform(&w, m, 3, false, passes, 1), NC_OK);
        CHECK_INT(nc_verify(&w, m), NC_OK);
        print(&got, m->main);
    }
    if (m == NULL || strcmp(got.s, want) != 0)
        nc_test_failed(file, line, "is: %s, expected: %s (%s)", m ? got.s : "", want, w.diag.text);
    nc_text_release(&got);
    if (m != NULL) nc_model_destroy(m);
    nc_work_release(&w);
}
#define OPS(graph, want) check_ops(__FILE__, __LINE__, 23, graph, want)

#define CONSTS                                                                                           \
    "<const int64[4] split = {0, 0, 2, 4}, const int64[3] join = {0, 0, 8}, const float[] two = {2.0}, " \
    "const float[2] pair = {2.0, 2.0}> "
#define SPLIT                                                         \
    "q0 = Reshape(q, split) q4 = Transpose<perm = [0, 2, 1, 3]>(q0) " \
    "k0 = Reshape(k, split) k4 = Transpose<perm = [0, 2, 3, 1]>(k0) " \
    "v0 = Reshape(v, split) v4 = Transpose<perm = [0, 2, 1, 3]>(v0) p = MatMul(q4, k4) "
#define JOIN(scores)                                                                                                   \
    "s = Softmax<axis = -1>(" scores ") o = MatMul(s, v4) t = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t, join) " \
    "}"
#define ROWS "(float[b,n,8] q, float[b,m,8] k, float[b,m,8] v, float[b,1,1,m] mask) => (y) " CONSTS "{ " SPLIT

TEST(attention_takes_heads_and_all) {
    OPS(ROWS "d = Div(p, two) a = Add(d, mask) " JOIN("a"), "Attention");
    OPS(ROWS "d = Mul(two, p) a = Add(mask, d) " JOIN("a"), "Attention");
    OPS(ROWS "a = Add(p, mask) " JOIN("a"), "Attention");
    OPS(ROWS "d = Mul(p, two) " JOIN("d"), "Attention");
    OPS(ROWS "d = Div(p, two) " JOIN("d"), "Attention");
    OPS(ROWS JOIN("p"), "Attention");
}

#define HEADS "(float[b,2,n,4] q, float[b,2,m,4] k, float[b,2,m,4] v, float[n,m] mask) => (y) " CONSTS "{ "

TEST(attention_of_four_dims) {
    OPS(HEADS "k4 = Transpose<perm = [0, 1, 3, 2]>(k) p = MatMul(q, k4) d = Div(p, two) a = Add(d, mask) "
              "s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "Attention"); /* the keys are turned twice: not at all */
    OPS("(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "Transpose Attention");
}

#define FOUR(more, scores)                                                                                     \
    "(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v" more ") => (y) { p = MatMul(q, k) " ADDED_##scores \
        "s = Softmax<axis = 3>(" #scores ") y = MatMul(s, v) }"
#define ADDED_p ""
#define ADDED_a "a = Add(p, c) "

TEST(attention_leaves_what_is_none) {
    /* no such op; another axis; masks that lack keys, or may; batches that broadcast; a mask that widens the scores;
     * probabilities used twice; doubles */
    check_ops(__FILE__, __LINE__, 22, FOUR("", p), "MatMul Softmax MatMul");
    OPS(FOUR(", float[n,1] c", a), "MatMul Add Softmax MatMul");
    OPS(FOUR(", float[n,l] c", a), "MatMul Add Softmax MatMul");
    OPS(HEADS "k4 = Transpose<perm = [0, 1, 3, 2]>(k) p = MatMul(q, k4) s = Softmax<axis = 2>(p) y = MatMul(s, v) }",
        "Transpose MatMul Softmax MatMul");
    OPS("(float[1,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
    OPS("(float[1,2,n,4] q, float[1,2,4,m] k, float[b,2,m,4] v, float[b,1,n,m] c) => (y) { p = MatMul(q, k) "
        "a = Add(p, c) s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "MatMul Add Softmax MatMul");
    OPS("(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y, s) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
    OPS("(double[b,2,n,4] q, double[b,2,4,m] k, double[b,2,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
}
