/* transform/infer/invariants_test.c: carried values that no iteration changes, as text. */
#include "tests/passes.h"

#define BODY(out)                                                                                                  \
    "body = { (int64[] i, bool[] c, float[2] s, float[2] u) => (d, o, " out ") { d = Identity(c); o = Mul(s, u); " \
    "float[2] v = Neg(u) } }"
#define LOOP(out) \
    "(float[2] x, float[2] w, int64[] m) => (y, z) { float[2] y, float[2] z = Loop<" BODY(out) ">(m, , x, w) }"

TEST(invariants_are_captured) {
    BECOMES(LOOP("u"), "invariants dead_code",
            "=> (float[2] y, float[2] z = w)\n<const float[0] v17 = {}>\n{\n"
            "  y, z = Loop<body = { (int64[] i, bool[] c, float[2] s, float[0] u) => (d, o, float[0] u)\n  {\n"
            "    d = Identity(c)\n    o = Mul(s, ^w)\n  } }>(m, , x, v17)\n}\n");
}

#define STAYS(out, more)                                                                                      \
    "=> (float[2] y, float[2] z)\n{\n"                                                                        \
    "  y, z = Loop<body = { (int64[] i, bool[] c, float[2] s, float[2] u) => (d, o, float[2] " out ")\n  {\n" \
    "    d = Identity(c)\n    o = Mul(s, u)\n" more "  } }>(m, , x, w)\n}\n"

/* One that the body changes, one that it exchanges, one of a model that may be trained. */
TEST(invariants_that_change_stay) {
    BECOMES(LOOP("v"), "invariants dead_code", STAYS("v", "    v = Neg(u)\n"));
    BECOMES(LOOP("s"), "invariants dead_code", STAYS("s", ""));
    BECOMES_TRAINING(LOOP("u"), "invariants dead_code", STAYS("u", ""));
}
