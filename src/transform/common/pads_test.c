/* transform/common/pads_test.c: Pads in front of Convs as text, with the near misses that stay. */
#include "tests/passes.h"

#define W "const float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}"
#define ZERO "const float[] z = {0}"
#define PAD(amounts) "<" W ", " ZERO ", const int64[8] p = {" amounts "}>"
#define CONV "float[1,2,h+3,v+1] y = Conv(a, w) }"

TEST(pads_go_into_conv) {
    BECOMES("(float[1,3,h,v] x) => (y) " PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); " CONV,
            "pads dead_code", "=> (float[1,2,h+3,v+1] y)\n<" W ">\n{\n  y = Conv<pads = [1, 0, 2, 1]>(x, w)\n}\n");
    BECOMES("(float[1,3,h,v] x) => (y) " PAD(
                "0, 0, 1, 0, 0, 0, 1, 1") " { float[1,3,h+2,v+1] a = Pad(x, p); float[1,2,h+4,v+2] y = Conv<pads = [1, "
                                          "0, 1, 1]>(a, w) }",
            "pads dead_code", "=> (float[1,2,h+4,v+2] y)\n<" W ">\n{\n  y = Conv<pads = [2, 0, 2, 2]>(x, w)\n}\n");
    BECOMES_AT("18",
               "(float[1,3,h,v] x) => (y) <" W ", const int64[2] p = {1, 2}, const int64[1] k = {-2}> "
               "{ float[1,3,h+3,v] a = Pad(x, p, , k); float[1,2,h+3,v] y = Conv<auto_pad = \"VALID\">(a, w) }",
               "pads dead_code",
               "=> (float[1,2,h+3,v] y)\n<" W
               ">\n{\n  y = Conv<auto_pad = \"NOTSET\", pads = [1, 0, 2, 0]>(x, w)\n}\n");
    BECOMES_AT("10",
               "(float[1,3,h,v] x) => (y) <" W
               "> { float[1,3,h+3,v+1] a = Pad<pads = [0, 0, 1, 0, 0, 0, 2, 1]>(x); " CONV,
               "pads dead_code", "=> (float[1,2,h+3,v+1] y)\n<" W ">\n{\n  y = Conv<pads = [1, 0, 2, 1]>(x, w)\n}\n");
}

/* Its other users keep the Pad. */
TEST(pads_with_other_uses_stay_for_them) {
    LEAVES("<opset: \"\" 17> g (float[1,3,h,v] x) => (y, b)",
           PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); b = Neg(a); " CONV, "pads dead_code",
           3, 3);
}

TEST(pads_that_are_no_zeros_around_the_image_stay) {
    static const char *const rows[] = {
        PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,h+3,v+1] a = Pad<mode = \"edge\">(x, p, z); " CONV,
        PAD("0, 0, -1, 0, 0, 0, 4, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); " CONV,
        PAD("0, 1, 1, 0, 0, -1, 2, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); " CONV,
        PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); float[1,2,h+3,v+1] y = Conv<auto_pad = "
                                      "\"SAME_UPPER\">(a, w) }",
        "<" W ", const float[] z = {1}, const int64[8] p = {0, 0, 1, 0, 0, 0, 2, 1}> "
        "{ float[1,3,h+3,v+1] a = Pad(x, p, z); " CONV,
        "<" W ", " ZERO "> { float[1,3,h+3,v+1] a = Pad(x, q, z); " CONV,
        /* only the Pad's output says what m is */
        PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,m,v+1] a = Pad(x, p, z); float[1,2,m,v+1] y = Conv(a, w) }",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        LEAVES("<opset: \"\" 17> g (float[1,3,h,v] x, int64[8] q) => (y)", rows[i], "pads dead_code", 3, 2);
    LEAVES("<opset: \"\" 17> g (float[1,3,h,v] x, int64[8] q) => (y)",
           PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); " CONV, "pads dead_code", 1, 2);
    /* a constant of floats may become a variable */
    LEAVES_TRAINING("<opset: \"\" 17> g (float[1,3,h,v] x, int64[8] q) => (y)",
                    PAD("0, 0, 1, 0, 0, 0, 2, 1") " { float[1,3,h+3,v+1] a = Pad(x, p, z); " CONV, "pads dead_code", 3,
                    2);
}
