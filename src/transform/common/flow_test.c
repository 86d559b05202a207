/* transform/common/flow_test.c: neutral operands, pairs, no-ops of their cards and decided control flow as text. */
#include "tests/passes.h"

TEST(neutral_operands_go) {
    static const char *const gone[] = {
        "(float[n] x) => (y) <const float[] c = {1}> { a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[1] c = {1}> { float[n] a = Mul(c, x); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {1}> { a = Div(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {0}> { a = Sub(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {-0.0}> { a = Add(x, c); y = Exp(a) }",
        "(float16[n] x) => (y) <const float16[] c = {1}> { a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {1}> { a = Pow(x, c); y = Exp(a) }",
        "(float[2] x) => (y) <const float[2] c = {1, 1}> { a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const bool[1] c = {1}, const float[] z = {0}> "
        "{ float[n] a = Where(c, x, z); y = Exp(a) }",
        "(float[2,n] x) => (y) <const bool[2,1] c = {0, 0}, const float[] z = {0}> "
        "{ float[2,n] a = Where(c, z, x); y = Exp(a) }",
    };
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        LEAVES("<opset: \"\" 17> g", gone[i], "neutral dead_code", 1, 1);
    BECOMES(
        "(int64[n] x, bool[n] z) => (y, w) <const int64[] c = {0}, const bool[] d = {1}> { a = Add(x, c); y = Neg(a); "
        "b = And(z, d); w = Not(b) }",
        "neutral dead_code", "=> (int64[n] y, bool[n] w)\n{\n  y = Neg(x)\n  w = Not(z)\n}\n");
}

TEST(neutral_near_misses_stay) {
    static const char *const stay[] = {
        "(float[n] x) => (y) <const float[] c = {0}> { a = Add(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {-0.0}> { a = Sub(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {1}> { a = Div(c, x); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {1.0000001}> { a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[] c = {nan}> { a = Mul(x, c); y = Exp(a) }",
        "(float[2] x) => (y) <const float[2] c = {1, 2}> { a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[1,1] c = {1}> { float[1,n] a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <const float[0] c = {}> { float[0] a = Mul(x, c); y = Exp(a) }",
        "(float[n] x) => (y) <var float[] c = {1}> { a = Mul(x, c); y = Exp(a) }",
        "(float[2] x) => (y) <const bool[2] c = {0, 1}, const float[] z = {0}> "
        "{ float[2] a = Where(c, z, x); y = Exp(a) }",
        "(float[2] x) => (y) <const bool[3,1] c = {0, 0, 0}, const float[] z = {0}> "
        "{ float[3,2] a = Where(c, z, x); y = Exp(a) }",
    };
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++)
        LEAVES("<opset: \"\" 17> g", stay[i], "neutral dead_code", 1, 2);
    /* A scale that training starts from 1. */
    BECOMES_TRAINING("(float[n] x) => (y) <const float[] c = {1}> { y = Mul(x, c) }", "neutral dead_code",
                     "=> (float[n] y)\n<const float[] c = {1}>\n{\n  y = Mul(x, c)\n}\n");
}

TEST(pairs_go) {
    BECOMES("(float[n] x) => (y) { a = Neg(x); b = Neg(a); c = Neg(b); y = Exp(c) }", "pairs dead_code",
            "=> (float[n] y)\n{\n  c = Neg(x)\n  y = Exp(c)\n}\n");
    BECOMES("(bool[n] x) => (y) { a = Not(x); b = Not(a); y = Not(b) }", "pairs dead_code",
            "=> (bool[n] y)\n{\n  y = Not(x)\n}\n");
    BECOMES("(float[n] x) => (y) { a = Relu(x); b = Relu(a); y = Exp(b) }", "pairs dead_code",
            "=> (float[n] y)\n{\n  a = Relu(x)\n  y = Exp(a)\n}\n");
    BECOMES("(float[n] x) => (y) { a = Neg(x); b = Abs(a); y = Exp(b) }", "pairs dead_code",
            "=> (float[n] y)\n{\n  a = Neg(x)\n  b = Abs(a)\n  y = Exp(b)\n}\n");
}

TEST(cards_know_when_they_do_nothing) {
    static const struct {
        const char *body;
        int n_left;
    } rows[] = {
        {"<const int64[4] p = {0, 0, 0, 0}> { a = Pad(x, p); y = Exp(a) }", 1},
        {"<const int64[4] p = {1, 0, -1, 0}> { a = Pad(x, p); y = Exp(a) }", 2},
        {"<const int64[2] p = {1, 1}> { a = Tile(x, p); y = Exp(a) }", 1},
        {"{ a = Sum(x); b = Mean(a); c = Min(b); d = Max(c); e = Concat<axis = 0>(d); y = Exp(e) }", 1},
        {"<const int64[2] p = {1, 1}> { a = Expand(x, p); y = Exp(a) }", 1},
        {"<const float[] r = {0.5}, const bool[] t = {0}> { a = Dropout(x, r, t); y = Exp(a) }", 1},
        {"<const float[] r = {0.5}, const bool[] t = {1}> { a = Dropout(x, r, t); y = Exp(a) }", 2},
        {"<const int64[1] s = {0}, const int64[1] e = {9223372036854775807}> { a = Slice(x, s, e); y = Exp(a) }", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        LEAVES_TRAINING("<opset: \"\" 17> g (float[n,3] x) => (y)", rows[i].body, "identity dead_code", 1,
                        rows[i].n_left);
}

#define BRANCHES                                                                      \
    "then_branch = { () => (t) { float[n] u = Neg(^x); float[n] t = Mul(u, ^z) } }, " \
    "else_branch = { () => (e) { float[n] e = Abs(^x) } }"

TEST(decided_branches_take_their_place) {
    BECOMES("(float[n] x, float[n] z) => (y) <const bool[] c = {1}> { float[n] i = If<" BRANCHES ">(c); y = Exp(i) }",
            "branches dead_code",
            "=> (float[n] y)\n{\n  u = Neg(x) \"Neg_5\"\n  t = Mul(u, z) \"Mul_8\"\n  y = Exp(t)\n}\n");
    BECOMES("(float[n] x, float[n] z) => (y) <const bool[] c = {0}> { float[n] y = If<" BRANCHES ">(c) }",
            "branches dead_code", "=> (float[n] y = e)\n{\n  e = Abs(x) \"Abs_11\"\n}\n");
    /* The size that the branch made has another name outside. */
    bench b;
    if (bench_init(
            &b, "<opset: \"\" 17> g (float[n] x, float[n] z) => (y) <const bool[] c = {0}> { float[m] i = If<" BRANCHES
                ">(c); y = Exp(i) }")) {
        CHECK_INT(run_passes(&b, "branches", 1), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 2);
    }
    bench_release(&b);
}

#define BODY "body = { (int64[] i, bool[] c, float[n] s) => (d, o, k) { d = Identity(c); o = Neg(s); k = Exp(s) } }"

TEST(loops_that_never_run_go) {
    BECOMES("(float[n] x) => (y) <const int64[] m = {0}> { float[n] a, float[0,n] b = Loop<" BODY
            ">(m, , x); y = Exp(a) }",
            "branches dead_code", "=> (float[n] y)\n{\n  y = Exp(x)\n}\n");
    BECOMES(
        "(float[3] x) => (y, z) <const int64[] m = {5}, const bool[] c = {0}> { float[3] a, float[0,3] z = Loop<" BODY
        ">(m, c, x); y = Exp(a) }",
        "branches dead_code", "=> (float[3] y, float[0,3] z)\n<const float[0,3] z = {}>\n{\n  y = Exp(x)\n}\n");
    bench b;
    if (bench_init(
            &b, "<opset: \"\" 17> g (float[n] x) => (y) <const int64[] m = {1}> { float[n] a, float[1,n] b = Loop<" BODY
                ">(m, , x); y = Exp(a) }")) {
        CHECK_INT(run_passes(&b, "branches", 1), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 2);
    }
    bench_release(&b);
}
