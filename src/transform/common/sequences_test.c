/* transform/common/sequences_test.c: a SplitToSequence that is read at known places as text, before and after, with the
 * near misses that stay. */
#include "tests/passes.h"

#define PARTS "seq(float[2,3]) s = SplitToSequence<axis = 1>(x, p) "

TEST(sequences_of_equal_parts_become_a_split) {
    BECOMES("(float[2,9] x) => (y, z) <const int64[] p = {3}, const int64[] a = {0}, const int64[] b = {-1}> { " PARTS
            "float[2,3] t = SequenceAt(s, a) float[2,3] u = SequenceAt(s, b) y = Neg(t) z = Add(u, t) }",
            "sequences dead_code",
            "=> (float[2,3] y, float[2,3] z)\n<const int64[3] v14 = {3, 3, 3}>\n{\n"
            "  Split_15_out, Split_15_out1, Split_15_out2 = Split<axis = 1>(x, v14)\n"
            "  y = Neg(Split_15_out)\n  z = Add(Split_15_out2, Split_15_out)\n}\n");
    BECOMES_TRAINING("(float[2,6] x) => (y) <const int32[2] p = {3, 3}, const int64[] a = {1}> { " PARTS
                     "float[2,3] t = SequenceAt(s, a) y = Neg(t) }",
                     "sequences dead_code",
                     "=> (float[2,3] y)\n<const int32[2] p = {3, 3},\n const int64[] a = {1},\n"
                     " const int64[2] v9 = {3, 3}>\n{\n"
                     "  Split_10_out, Split_10_out1 = Split<axis = 1>(x, v9)\n  y = Neg(Split_10_out1)\n}\n");
    BECOMES_AT("11",
               "(float[2,6] x) => (y) <const int64[] p = {3}, const int64[] a = {1}> { " PARTS
               "float[2,3] t = SequenceAt(s, a) y = Neg(t) }",
               "sequences dead_code",
               "=> (float[2,3] y)\n{\n  Split_9_out, Split_9_out1 = Split<axis = 1, split = [3, 3]>(x)\n"
               "  y = Neg(Split_9_out1)\n}\n");
}

#define HEAD "<opset: \"\" 17> g "
#define STAY(inputs, body, n_nodes) LEAVES(HEAD inputs, body, "sequences", 3, n_nodes)

TEST(sequences_that_stay) {
    /* A place that is not known, that is not there, and the sequence itself used otherwise. */
    STAY("(float[2,6] x, int64[] a) => (y) <const int64[] p = {3}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) y = Neg(t) }", 3);
    STAY("(float[2,6] x) => (y) <const int64[] p = {3}, const int64[] a = {2}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) y = Neg(t) }", 3);
    STAY("(float[2,6] x) => (y, n) <const int64[] p = {3}, const int64[] a = {1}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) int64[] n = SequenceLength(s) y = Neg(t) }", 4);
    STAY("(float[2,6] x) => (t, s) <const int64[] p = {3}, const int64[] a = {1}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) }", 2);
    /* Sizes that differ, that are not all of the dim, and a dim that is not known. */
    STAY("(float[2,5] x) => (y) <const int64[2] p = {3, 2}, const int64[] a = {0}>",
         "{ seq(float[2,n]) s = SplitToSequence<axis = 1>(x, p) float[2,m] t = SequenceAt(s, a) y = Neg(t) }", 3);
    STAY("(float[2,9] x) => (y) <const int64[2] p = {3, 3}, const int64[] a = {0}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) y = Neg(t) }", 3);
    STAY("(float[2,8] x) => (y) <const int64[] p = {3}, const int64[] a = {0}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) y = Neg(t) }", 3);
    STAY("(float[2,n] x) => (y) <const int64[] p = {3}, const int64[] a = {0}>",
         "{ " PARTS "float[2,3] t = SequenceAt(s, a) y = Neg(t) }", 3);
}
