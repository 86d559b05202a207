/* transform/infer/attention_causal_test.c: triangles in every form that exporters write become is_causal; near misses
 * stay masks. */
#include "tests/graph_testing.h"

#include "ir/verify.h"
#include "transform/transform.h"

#include <stdio.h>

/* The Attention of what is left of the graph: whether it is causal, and which of its masks stays ("": none). */
static void check_mask(const char *file, int line, const char *graph, bool causal, const char *mask) {
    char text[2400];
    nc_work w;
    nc_work_init(&w);
    snprintf(text, sizeof text, "<opset: \"\" 18> g %s", graph);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    if (m == NULL) {
        nc_test_failed(file, line, "%s", w.diag.text);
        nc_work_release(&w);
        return;
    }
    m->infers_only = true;
    CHECK_INT(nc_transform(&w, m, &(nc_transform_options){.level = 3, .newer = true}), NC_OK);
    CHECK_INT(nc_verify(&w, m), NC_OK);
    const nc_node *n = m->main->last;
    while (n != NULL && strcmp(n->card->name, "Attention") != 0) n = n->prev;
    const nc_value *left = n != NULL && n->n_in > 3 ? n->in[3] : NULL;
    if (n == NULL)
        nc_test_failed(file, line, "no Attention");
    else if ((nc_attr_int(n, "is_causal") != 0) != causal)
        nc_test_failed(file, line, "is_causal is %d", !causal);
    else if (left == NULL ? *mask != '\0' : *mask == '\0' || (*mask != '?' && strcmp(left->name, mask) != 0))
        nc_test_failed(file, line, "the mask is '%s', expected '%s'", left ? left->name : "", mask);
    nc_model_destroy(m);
    nc_work_release(&w);
}

#define ATTEND(make, scores)                                                                                 \
    "k4 = Transpose<perm = [0, 1, 3, 2]>(k) p = MatMul(q, k4) " make " " scores " s = Softmax<axis = 3>(a) " \
    "y = MatMul(s, v) }"
#define CONSTS                                                                                                     \
    "<const int64[] zero = {0}, const int64[] one = {1}, const int64[1] at0 = {0}, const int64[1] at1 = {1}, "     \
    "const int64[1] at2 = {2}, const int64[1] at3 = {3}, const float[] none = {0.0}, const float[] unit = {1.0}, " \
    "const float[] low = {-3.4e38}, const float[] weak = {-10000.0}, const float[] hidden = {-inf}> { "
#define OPERANDS(queries, keys, more) \
    "(float[b,2," queries ",4] q, float[b,2," keys ",4] k, float[b,2," keys ",4] v" more ") => (y) "
#define SQUARE OPERANDS("n", "n", ", float[b,1,1,n] pad, bool[b,1,1,n] seen") CONSTS
/* The length as a number, and as the shape of a square. */
#define LENGTH "z = Shape(q) l1 = Slice(z, at2, at3) l0 = Squeeze(l1, at0) ll = Concat<axis = 0>(l1, l1) "
#define ONES "o = ConstantOfShape<value = float[1] {1.0}>(ll) "

#define CAUSAL(make, scores, mask) check_mask(__FILE__, __LINE__, SQUARE ATTEND(LENGTH make, scores), true, mask)
#define MASKED(make, scores) check_mask(__FILE__, __LINE__, SQUARE ATTEND(LENGTH make, scores), false, "?")

/* torch's scaled_dot_product_attention(is_causal=True); a full matrix above whose diagonal all is low. */
TEST(causal_by_trilu) {
    CAUSAL(ONES "t = Trilu<upper = 0>(o) e = Equal(t, none) c = Where(e, hidden, none)", "a = Add(p, c)", "");
    CAUSAL(ONES "t = Trilu<upper = 0>(o) c = Cast<to = 9>(t)", "a = Where(c, p, hidden)", "");
    CAUSAL(ONES "t = Trilu<upper = 0>(o) c = Cast<to = 9>(t)", "a = Where(c, p, low)", "");
    CAUSAL(ONES "m = Mul(o, low) c = Trilu<upper = 1>(m, one)", "a = Add(p, c)", "");
    CAUSAL("f = Expand(low, ll) t = Trilu<upper = 1>(f, one) c = Unsqueeze(t, at0)", "a = Add(p, c)", "");
    CAUSAL(ONES "t = Trilu<upper = 0>(o) i = Sub(unit, t) c = Mul(i, low)", "a = Add(p, c)", "");
    MASKED(ONES "m = Mul(o, low) c = Trilu<upper = 1>(m, zero)", "a = Add(p, c)");
    MASKED(ONES "m = Mul(o, low) c = Trilu<upper = 0>(m, zero)", "a = Add(p, c)");
    MASKED(ONES "m = Mul(o, weak) c = Trilu<upper = 1>(m, one)", "a = Add(p, c)");
}

/* Places of keys beside places of queries. */
#define PLACES "r = Range(zero, l0, one) col = Unsqueeze(r, at0) row = Unsqueeze(r, at1) "
TEST(causal_by_places) {
    CAUSAL(PLACES "c = LessOrEqual(col, row)", "a = Where(c, p, hidden)", "");
    CAUSAL(PLACES "c = GreaterOrEqual(row, col)", "a = Where(c, p, hidden)", "");
    CAUSAL(PLACES "g = Greater(col, row) c = Where(g, low, none)", "a = Add(p, c)", "");
    CAUSAL(PLACES "g = Less(row, col) i = Not(g)", "a = Where(i, p, hidden)", "");
    CAUSAL(PLACES "x = Add(row, one) c = Less(col, x)", "a = Where(c, p, hidden)", "");
    MASKED(PLACES "x = Add(row, one) c = LessOrEqual(col, x)", "a = Where(c, p, hidden)");
    MASKED(PLACES "c = Less(col, row)", "a = Where(c, p, hidden)");
    MASKED(PLACES "c = LessOrEqual(row, col)", "a = Where(c, p, hidden)");
    MASKED(PLACES "c = Greater(col, row)", "a = Where(c, p, hidden)");
}

/* Values that are used twice again and again are not looked at for ever. */
#define TWICE(a, b) a " = Add(" b ", " b ") "
TEST(causal_of_many_sums) {
    MASKED(ONES TWICE("c1", "o") TWICE("c2", "c1") TWICE("c3", "c2") TWICE("c4", "c3") TWICE("c5", "c4")
               TWICE("c6", "c5") TWICE("c7", "c6") TWICE("c8", "c7") "m = Mul(c8, low) c = Trilu<upper = 1>(m, one)",
           "a = Add(p, c)");
}

/* What hides something else as well stays. */
TEST(causal_and_more) {
    CAUSAL(ONES "m = Mul(o, low) t = Trilu<upper = 1>(m, one) c = Add(t, pad)", "a = Add(p, c)", "pad");
    CAUSAL(PLACES "l = LessOrEqual(col, row) c = And(seen, l)", "a = Where(c, p, hidden)", "seen");
}

#define OF_THREE                                                                                                       \
    OPERANDS("3", "3", "")                                                                                             \
    "<const float[3,3] tri = {0.0, -inf, -inf, 0.0, 0.0, -inf, 0.0, 0.0, 0.0}, "                                       \
    "const bool[1,1,3,3] see = {1, 0, 0, 1, 1, 0, 1, 1, 1}, const float[3,3] off = {0.0, -inf, -inf, 0.0, 0.0, -inf, " \
    "0.0, -1.0, 0.0}, const float[3,3] up = {0.0, 0.0, 0.0, -inf, 0.0, 0.0, -inf, -inf, 0.0}, "                        \
    "const bool[1,1,5,5] wide = {1,0,0,0,0, 1,1,0,0,0, 1,1,1,0,0, 1,1,1,1,0, 1,1,1,1,1}, const int64[2] from = {0, "   \
    "0}, "                                                                                                             \
    "const int64[2] later = {1, 0}, const int64[2] to = {3, 3}, const int64[2] end = {4, 3}, const int64[2] axes = "   \
    "{2, 3}, "                                                                                                         \
    "const float[] hidden = {-inf}> { "

/* Constants, and what is cut from a larger one. */
TEST(causal_by_constants) {
    check_mask(__FILE__, __LINE__, OF_THREE ATTEND("", "a = Add(p, tri)"), true, "");
    check_mask(__FILE__, __LINE__, OF_THREE ATTEND("", "a = Where(see, p, hidden)"), true, "");
    check_mask(__FILE__, __LINE__, OF_THREE ATTEND("c = Slice(wide, from, to, axes)", "a = Where(c, p, hidden)"), true,
               "");
    check_mask(__FILE__, __LINE__, OF_THREE ATTEND("c = Slice(wide, later, end, axes)", "a = Where(c, p, hidden)"),
               false, "?");
    check_mask(__FILE__, __LINE__, OF_THREE ATTEND("", "a = Add(p, off)"), false, "off");
    check_mask(__FILE__, __LINE__, OF_THREE ATTEND("", "a = Add(p, up)"), false, "up");
}

/* With keys of a past the triangle begins elsewhere: the mask stays. So does one whose dims only may be the same. */
TEST(causal_of_other_lengths) {
    check_mask(__FILE__, __LINE__,
               OPERANDS("n", "m", "") CONSTS ATTEND("z = Shape(q) l1 = Slice(z, at2, at3) y1 = Shape(k) "
                                                    "l2 = Slice(y1, at2, at3) ll = Concat<axis = 0>(l1, l2) " ONES
                                                    "t = Trilu<upper = 0>(o) c = Cast<to = 9>(t)",
                                                    "a = Where(c, p, hidden)"),
               false, "?");
    check_mask(__FILE__, __LINE__,
               OPERANDS("2", "3", "") "<const float[2,3] tri = {0.0, -inf, -inf, 0.0, 0.0, -inf}> { " ATTEND(
                   "", "a = Add(p, tri)"),
               false, "tri");
}
