/* transform/infer/one_hots_test.c: products of rows with a single 1 as text, with the near misses that stay. */
#include "tests/passes.h"

#define K "const int32[1,3] k = {0, 1, 2}"
#define W "const float[3,2] w = {1, 2, 3, 4, 5, 6}"
#define HOT "bool[n,4,3] e = Equal(x, k); float[n,4,3] c = Cast<to = 1>(e); "
#define ROWS(type) "(" type "[n,4,1] x) => (y) <"
#define LAST "float[n,4,2] y = MatMul(c, w) }"

TEST(one_hots_become_a_choice_of_rows) {
    BECOMES(ROWS("int32") K ", " W "> { " HOT LAST, "one_hots dead_code",
            "=> (float[n,4,2] y)\n<const int64[1] v9 = {-1},\n const int32[] v10 = {-1},\n const int32[] v11 = {3},\n "
            "const float[4,2] w_rows = {1, 2, 3, 4, 5, 6, 0, 0}>\n{\n  Squeeze_12_out = Squeeze(x, v9)\n"
            "  Clip_14_out = Clip(Squeeze_12_out, v10, v11)\n  y = Gather(w_rows, Clip_14_out)\n}\n");
}

TEST(one_hots_that_stay) {
    static const char *const rows[] = {
        /* numbers in another order; a table that is no number; codes for each row; indices of floats */
        ROWS("int32") "const int32[1,3] k = {0, 2, 1}, " W "> { " HOT LAST,
        ROWS("int32") K ", const float[3,2] w = {1, 2, inf, 4, 5, 6}> { " HOT LAST,
        ROWS("int32") K ", const float[3,2] w = {1, 2, nan, 4, 5, 6}> { " HOT LAST,
        ROWS("float") "const float[1,3] k = {0, 1, 2}, " W "> { " HOT LAST,
        "(int32[n,4,3] x) => (y) <" K ", " W "> { " HOT LAST,
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        LEAVES("<opset: \"\" 17> g", rows[i], "one_hots dead_code", 2, 3);
    LEAVES("<opset: \"\" 12> g", ROWS("int32") K ", " W "> { " HOT LAST, "one_hots dead_code", 2, 3);
    LEAVES_TRAINING("<opset: \"\" 17> g", ROWS("int32") K ", " W "> { " HOT LAST, "one_hots dead_code", 2, 3);
}
