/* transform/infer/attention_test.c: attention as exporters write it becomes one op, in every opset, and near misses. */
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
    char text[2400];
    nc_text got = {0};
    nc_work w;
    nc_work_init(&w);
    snprintf(text, sizeof text, "<opset: \"\" %d> g %s", opset, graph);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    if (m != NULL) {
        m->infers_only = true;
        CHECK_INT(nc_transform(&w, m, &(nc_transform_options){.level = 3, .newer = true, .off = passes, .n_off = 1}),
                  NC_OK);
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
    "const float[2] pair = {2.0, 2.0}, const float[] none = {0.0}, const float[1] hidden = {-inf}, "     \
    "const float[] low = {-3.4e38}, const float[] weak = {-10000.0}> "
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

#define DROPPED(drop)                                                                                              \
    "(float[b,n,8] q, float[b,m,8] k, float[b,m,8] v, float[b,1,1,m] mask, float[] f) => (y) <const float[] r = "  \
    "{0.25}, const float[] r0 = {0.0}, const double[] fine = {0.1}, const bool[] t = {1}, const int64[4] split = " \
    "{0, 0, 2, 4}, const int64[3] join = {0, 0, 8}> { " SPLIT "a = Add(p, mask) s = Softmax<axis = -1>(a) " drop   \
    " @random=5 o = MatMul(w, v4) t0 = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t0, join) }"
#define IN_PIECES \
    "Reshape Transpose Reshape Transpose Reshape Transpose MatMul Add Softmax Dropout MatMul Transpose Reshape"

TEST(attention_takes_dropout_along) {
    OPS(DROPPED("w = Dropout(s, r, t)"), "nacre.AttentionDropout");
    check_ops(__FILE__, __LINE__, 13, DROPPED("w = Dropout(s, r, t)"), "nacre.AttentionDropout");
    OPS(DROPPED("n = IsNaN(s) z = Where(n, r0, s) w = Dropout(z, r, t)"), "nacre.AttentionDropout");
    OPS("(float[b,n,8] q, float[b,8,m] k, float[b,m,8] v) => (y) <const float[] r = {0.25}, const bool[] t = {1}> {"
        " p = MatMul(q, k) s = Softmax<axis = -1>(p) w = Dropout(s, r, t) y = MatMul(w, v) }",
        "Transpose Unsqueeze Unsqueeze Unsqueeze nacre.AttentionDropout Squeeze");
    /* A ratio given in the run, of nothing, or that no float says; certain numbers; a mask that is looked at. */
    OPS(DROPPED("w = Dropout(s, f, t)"), IN_PIECES);
    OPS(DROPPED("w = Dropout(s, r0, t)"), IN_PIECES);
    check_ops(__FILE__, __LINE__, 22, DROPPED("w = Dropout(s, fine, t)"), IN_PIECES);
    OPS(DROPPED("w = Dropout<seed = 3>(s, r, t)"), IN_PIECES);
    OPS("(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y, x) <const float[] r = {0.25}, const bool[] t ="
        " {1}> { p = MatMul(q, k) s = Softmax<axis = -1>(p) w, x = Dropout(s, r, t) y = MatMul(w, v) }",
        "MatMul Softmax Dropout MatMul");
}

/* A gradient in the body of a loop would draw the numbers of another iteration. */
TEST(attention_leaves_dropout_in_subgraphs) {
    OPS("(bool[] c, float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y) <const float[] r = {0.25}, "
        "const bool[] t = {1}> { y = If(c)<then_branch = { () => (o) { p = MatMul(^q, ^k) s = Softmax<axis = -1>(p) "
        "w = Dropout(s, ^r, ^t) o = MatMul(w, ^v) } }, else_branch = { () => (x) { x = Identity(^q) } }> }",
        "If");
}

TEST(attention_keeps_what_dropout_draws) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), "<opset: \"\" 23> g " DROPPED("w = Dropout(s, r, t)"));
    REQUIRE(m);
    m->infers_only = true;
    CHECK_INT(nc_transform(&w, m, &(nc_transform_options){.level = 3}), NC_OK);
    const nc_node *n = m->main->first;
    CHECK(n->card->domain == NULL); /* others read what is saved */
    CHECK_INT(nc_transform(&w, m, &(nc_transform_options){.level = 3, .newer = true}), NC_OK);
    n = m->main->first;
    CHECK_STR(n->card->name, "AttentionDropout");
    CHECK_INT(n->random_id, 5);
    CHECK(nc_attr_float(n, "ratio") == 0.25 && nc_attr_int(n, "q_num_heads") == 2);
    nc_model_destroy(m);
    nc_work_release(&w);
}

/* In every opset, if the model is not saved as it is. */
TEST(attention_is_newer_than_the_opset) {
    check_ops(__FILE__, __LINE__, 11, ROWS "a = Add(p, mask) " JOIN("a"), "Attention");
    check_ops(__FILE__, __LINE__, 17, ROWS "a = Add(p, mask) " JOIN("a"), "Attention");
    check_ops(__FILE__, __LINE__, 25, ROWS "a = Add(p, mask) " JOIN("a"), "Attention");
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), "<opset: \"\" 17> g " ROWS JOIN("p"));
    REQUIRE(m);
    int n = m->main->n_nodes;
    m->infers_only = true;
    CHECK_INT(nc_transform(&w, m, &(nc_transform_options){.level = 3}), NC_OK);
    CHECK_INT(m->main->n_nodes, n);
    CHECK_INT(nc_transform(&w, m, &(nc_transform_options){.level = 3, .newer = true}), NC_OK);
    CHECK_INT(m->main->n_nodes, 1);
    CHECK_INT(m->main->first->version->since, 23);
    nc_model_destroy(m);
    nc_work_release(&w);
}

#define HEADS "(float[b,2,n,4] q, float[b,2,m,4] k, float[b,2,m,4] v, float[n,m] mask) => (y) " CONSTS "{ "
#define TURNED HEADS "k4 = Transpose<perm = [0, 1, 3, 2]>(k) "

TEST(attention_of_four_dims) {
    OPS(TURNED "p = MatMul(q, k4) d = Div(p, two) a = Add(d, mask) s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "Attention"); /* the keys are turned twice: not at all */
    OPS("(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "Transpose Attention");
}

static void check_scale(const char *file, int line, const char *type, const char *scores, double want) {
    char text[1600];
    nc_work w;
    nc_work_init(&w);
    snprintf(text, sizeof text,
             "<opset: \"\" 17> g (%s[b,2,n,4] q, %s[b,2,m,4] k, %s[b,2,m,4] v) => (y) <const %s[] c = {3.0}, const "
             "%s[1] e = {0.5}> { k4 = Transpose<perm = [0, 1, 3, 2]>(k) %s s = Softmax<axis = 3>(p) y = MatMul(s, v) }",
             type, type, type, type, type, scores);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    if (m != NULL) m->infers_only = true;
    if (m == NULL || nc_transform(&w, m, &(nc_transform_options){.level = 3, .newer = true}) != NC_OK ||
        m->main->last->n_attrs < 1)
        nc_test_failed(file, line, "not found: %s (%s)", text, w.diag.text);
    else if (nc_attr_float(m->main->last, "scale") != (double)(float)want)
        nc_test_failed(file, line, "scale is %g, expected %g", nc_attr_float(m->main->last, "scale"), want);
    if (m != NULL) nc_model_destroy(m);
    nc_work_release(&w);
}
#define SCALE(type, scores, want) check_scale(__FILE__, __LINE__, type, scores, want)

/* The scale stands on either side, on both, or behind the product; float cannot say a third of doubles. */
TEST(attention_scales) {
    SCALE("float", "a = Mul(q, c) p = MatMul(a, k4)", 3.0);
    SCALE("float", "a = Div(k4, c) p = MatMul(q, a)", 1 / 3.0);
    SCALE("float", "a = Mul(e, q) d = Mul(k4, e) p = MatMul(a, d)", 0.25);
    SCALE("float", "a = Div(q, e) d = MatMul(a, k4) p = Mul(c, d)", 6.0);
    SCALE("float16", "d = MatMul(q, k4) p = Mul(d, e)", 0.5);
    SCALE("bfloat16", "d = MatMul(q, k4) p = Div(d, e)", 2.0);
    SCALE("double", "d = MatMul(q, k4) p = Mul(d, e)", 0.5);
    SCALE("double", "d = MatMul(q, k4) p = Div(d, c)", 1.0);
}

#define SHARE(scores, shares, value) \
    TURNED "p = MatMul(q, k4) " scores " s = Softmax<axis = 3>(a) " shares " y = MatMul(" value ", v) }"
#define SEEN "(float[b,2,n,4] q, float[b,2,m,4] k, float[b,2,m,4] v, bool[b,1,n,m] c) => (y) " CONSTS "{ "
#define SEEN_BY(scores)                                                                                  \
    SEEN "k4 = Transpose<perm = [0, 1, 3, 2]>(k) p = MatMul(q, k4) " scores " s = Softmax<axis = 3>(a) " \
         "y = MatMul(s, v) }"

TEST(attention_masks) {
    OPS(SHARE("d = Add(p, mask) a = Add(d, mask)", "", "s"), "Add Attention");
    /* NaN of rows that see nothing, as torch hides it */
    OPS(SHARE("a = Add(p, mask)", "i = IsNaN(s) t = Where(i, none, s)", "t"), "Attention");
    /* a mask of bools where minus infinity hides, else one that is added */
    OPS(SEEN_BY("a = Where(c, p, hidden)"), "Attention");
    OPS(SEEN_BY("a = Where(c, p, low)"), "Where Attention");
    OPS(SEEN_BY("a = Where(c, low, p)"), "Where Attention");
    OPS("(float[b,2,n,4] q, float[b,2,m,4] k, float[b,2,m,4] v, bool[b,1,n,m] c, float[n,m] z) => (y) " CONSTS
        "{ k4 = Transpose<perm = [0, 1, 3, 2]>(k) p = MatMul(q, k4) e = Where(c, p, low) a = Add(e, z) "
        "s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "Where Add Attention");
}

/* Halves whose shares are taken in float. */
TEST(attention_of_halves) {
    OPS("(float16[b,2,n,4] q, float16[b,2,4,m] k, float16[b,2,m,4] v) => (y) { p = MatMul(q, k) a = Cast<to = 1>(p) "
        "s = Softmax<axis = 3>(a) c = Cast<to = 10>(s) y = MatMul(c, v) }",
        "Transpose Attention");
}

/* A key head for every two query heads; what is repeated for them is not made. Repeated as a whole it is another. */
#define GROUPS(at, sizes)                                                                                              \
    "(float[b,4,n,4] q, float[b,2,m,4] k, float[b,2,m,4] v) => (y) <const int64[1] at = {" at                          \
    "}, const int64[5] wide = {" sizes "}, const int64[4] flat = {0, 4, -1, 4}> { k5 = Unsqueeze(k, at) "              \
    "ke = Expand(k5, wide) kr = Reshape(ke, flat) v5 = Unsqueeze(v, at) ve = Expand(v5, wide) vr = Reshape(ve, flat) " \
    "k4 = Transpose<perm = [0, 1, 3, 2]>(kr) p = MatMul(q, k4) s = Softmax<axis = 3>(p) y = MatMul(s, vr) }"

TEST(attention_shares_key_heads) {
    OPS(GROUPS("2", "1, 1, 2, 1, 1"), "Attention");
    OPS(GROUPS("1", "1, 2, 1, 1, 1"), "Unsqueeze Expand Reshape Unsqueeze Expand Reshape Attention");
}

/* Keys that torch turns through three dims. */
TEST(attention_of_keys_turned_flat) {
    OPS("(float[b,2,n,4] q, float[b,2,m,4] k, float[b,2,m,4] v) => (y) <const int64[1] less = {-1}, const int64[1] "
        "four "
        "= {4}, const int64[1] at2 = {2}, const int64[1] at3 = {3}, const int64[1] at0 = {0}> { t = Shape(k) "
        "m1 = Slice(t, at2, at3) lead = Slice(t, at0, at2) to3 = Concat<axis = 0>(less, m1, four) "
        "k3 = Reshape(k, to3) kt = Transpose<perm = [0, 2, 1]>(k3) to4 = Concat<axis = 0>(lead, four, m1) "
        "k4 = Reshape(kt, to4) p = MatMul(q, k4) s = Softmax<axis = -1>(p) y = MatMul(s, v) }",
        "Attention");
}

#define FOUR(more, scores)                                                                                     \
    "(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v" more ") => (y) { p = MatMul(q, k) " ADDED_##scores \
        "s = Softmax<axis = 3>(" #scores ") y = MatMul(s, v) }"
#define ADDED_p ""
#define ADDED_a "a = Add(p, c) "

/* One column is spread over the keys; where there may be one or all, the run says it. */
TEST(attention_masks_of_few_columns) {
    OPS(FOUR(", float[n,1] c", a), "Shape Gather Expand Transpose Attention");
    OPS(FOUR(", float[n,l] c", a), "Shape Gather Expand Transpose Attention");
}

TEST(attention_leaves_what_is_none) {
    /* another axis; batches that broadcast; a mask that widens the scores; one of a single dim; what hides may be seen
     * again where all is hidden; probabilities used twice; scales that are no numbers */
    OPS(TURNED "p = MatMul(q, k4) s = Softmax<axis = 2>(p) y = MatMul(s, v) }", "Transpose MatMul Softmax MatMul");
    OPS("(float[1,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
    OPS("(float[1,2,n,4] q, float[1,2,4,m] k, float[b,2,m,4] v, float[b,1,n,m] c) => (y) { p = MatMul(q, k) "
        "a = Add(p, c) s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "MatMul Add Softmax MatMul");
    OPS("(float[1,2,n,4] q, float[1,2,4,m] k, float[1,2,m,4] v, float[b,1,n,m] c) => (y) { p = MatMul(q, k) "
        "a = Add(p, c) s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "MatMul Add Softmax MatMul");
    OPS(FOUR(", float[m] c", a), "MatMul Add Softmax MatMul");
    OPS(SEEN_BY("a = Where(c, p, weak)"), "Transpose MatMul Where Softmax MatMul");
    OPS("(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v) => (y, s) { p = MatMul(q, k) s = Softmax<axis = 3>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
    OPS(FOUR(", float[n,m] c", a) " ", "Transpose Attention");
    OPS("(float[b,2,n,4] q, float[b,2,4,m] k, float[b,2,m,4] v, float[1] c) => (y) { p = MatMul(q, k) a = Mul(p, c) "
        "s = Softmax<axis = 3>(a) y = MatMul(s, v) }",
        "MatMul Mul Softmax MatMul");
}

/* ---- three dims ---- */

#define THREE(more, scores)                                                                                  \
    "(float[h,n,4] q, float[h,m,4] k, float[h,m,4] v" more ") => (y) { k3 = Transpose<perm = [0, 2, 1]>(k) " \
    "p = MatMul(q, k3) " scores "s = Softmax<axis = 2>(a) y = MatMul(s, v) }"

/* Batch times heads, as torch's MultiheadAttention multiplies: one head of each. */
TEST(attention_of_three_dims) {
    const char *heads = "Unsqueeze Unsqueeze Unsqueeze Attention Squeeze";
    for (int opset = 11; opset <= 24; opset += opset == 11 ? 2 : 11) {
        check_ops(__FILE__, __LINE__, opset, THREE(", float[n,m] c", "a = Add(p, c) "), heads);
        check_ops(__FILE__, __LINE__, opset, THREE(", float[h,n,m] c", "a = Add(p, c) "),
                  "Unsqueeze Unsqueeze Unsqueeze Unsqueeze Attention Squeeze");
    }
    /* a mask of more dims than the scores; batches that broadcast; another axis */
    OPS(THREE(", float[1,h,n,m] c", "a = Add(p, c) "), "Transpose MatMul Add Softmax MatMul");
    OPS("(float[1,n,4] q, float[h,4,m] k, float[h,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 2>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
    OPS("(float[h,n,4] q, float[h,4,m] k, float[h,m,4] v) => (y) { p = MatMul(q, k) s = Softmax<axis = 1>(p) "
        "y = MatMul(s, v) }",
        "MatMul Softmax MatMul");
}
