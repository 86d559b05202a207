/* Ops without a kernel run as the ops their cards name: here Max of more inputs than one pass takes. */
#include "tests/model.h"

#include <string.h>

#define X8 "x, x, x, x, x, x, x, x"
#define INNER8 "^x, ^x, ^x, ^x, ^x, ^x, ^x, ^x"
#define MANY X8 ", " X8 ", " X8 ", " X8 ", y"

static void run(model *m, const char *text, bool yes) {
    float x[6] = {-1, 2, 0, 3.5f, -4, 0.25f}, y[3] = {0, 1, -1};
    model_open(m, text);
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 3), x);
    model_input(m, "y", NACRE_FLOAT, 1, D(3), y);
    if (strstr(text, "bool")) model_input(m, "c", NACRE_BOOL, 0, D(0), &yes);
    model_run(m);
    const float *z = model_floats(m, "z", 6);
    for (int i = 0; z && i < 6; i++) CHECK_NEAR(z[i], yes ? (x[i] > y[i % 3] ? x[i] : y[i % 3]) : 2 * x[i], 0);
    model_collect_all(m);
}

static void in_main(model *m) {
    model_option(m, "fusion", "off");
    run(m, "<opset: \"\" 18>\ng (float[n,k] x, float[k] y) => (z)\n{\n  z = Max(" MANY ")\n}\n", true);
    CHECK_INT(model_dump_count(m, "lowered", "= Max("), 32);
}
TEST(an_op_without_a_kernel_is_decomposed) { model_everywhere(in_main); }

static const char in_branch[] = "<opset: \"\" 18>\ng (bool[] c, float[n,k] x, float[k] y) => (z)\n{\n"
                                "  z = If(c)<then_branch = { () => (a) { a = Max(" INNER8 ", " INNER8 ", " INNER8
                                ", " INNER8 ", ^y) } }, else_branch = { () => (b) { b = Add(^x, ^x) } }>\n}\n";
static void then_side(model *m) { run(m, in_branch, true); }
static void else_side(model *m) { run(m, in_branch, false); }
TEST(subgraphs_are_decomposed_too) {
    model_everywhere(then_side);
    model_everywhere(else_side);
}

/* The loop that SequenceMap is made of knows its items' type in another form than the branch that captures them. */
static void captured_items(model *m) {
    const bool yes = true;
    const float x[] = {1, -2};
    model_option(m, "level", "off");
    model_open(m, "<opset: \"\" 19>\ng (bool[] c, float[2] x) => (z)\n{\n"
                  "  s = SequenceConstruct(x, x)\n"
                  "  t = SequenceMap(s)<body = { (float[2] p) => (q) { q = Neg(p) } }>\n"
                  "  z = If(c)<then_branch = { () => (a) { a = ConcatFromSequence<axis = 0>(^t) } }, "
                  "else_branch = { () => (b) { b = Concat<axis = 0>(^x, ^x) } }>\n}\n");
    model_input(m, "c", NACRE_BOOL, 0, D(0), &yes);
    model_input(m, "x", NACRE_FLOAT, 1, D(2), x);
    model_run(m);
    const float *z = model_floats(m, "z", 4);
    for (int i = 0; z && i < 4; i++) CHECK(z[i] == -x[i % 2]);
    model_collect_all(m);
}
TEST(a_branch_captures_what_a_decomposed_node_gave) { model_everywhere(captured_items); }
