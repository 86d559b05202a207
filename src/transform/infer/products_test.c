/* transform/infer/products_test.c: products in front of Convs of one tap as text, with the near misses that stay. */
#include "tests/passes.h"

/* V W' = (1 2; 3 4)(10; 100) and V b + c. */
#define V "const float[2,2,1,1] v = {1, 2, 3, 4}"
#define W "const float[1,2] w = {10, 100}"
#define B "const float[2] b = {1, 2}"
#define C "const float[2] c = {1000, 2000}"
#define NEW "const float[2,1,1,1] v_product = {210, 430}"
#define SWAP "Transpose<perm = [0, 2, 1]>"
#define FRONT "Transpose<perm = [0, 3, 1, 2]>"
#define ROWS "(float[n,6,1] x) => (y) <"
#define IMAGE "const int64[4] s = {0, 2, 3, 2}"
#define MOVES(from) "float[n,2,6] t = " SWAP "(" from "); float[n,2,3,2] i = Reshape(t, s); "

TEST(products_go_into_convs) {
    BECOMES(
        ROWS V ", " W ", " B ", " C ", " IMAGE "> { float[n,6,2] p = MatMul(x, w); float[n,6,2] a = Add(p, b); " MOVES(
            "a") "float[n,2,3,2] y = Conv(i, v, c) }",
        "products dead_code",
        "=> (float[n,2,3,2] y)\n<const int64[4] v18 = {0, 1, 3, 2},\n " NEW
        ",\n const float[2] v_product_bias = {1005, 2011}>\n{\n  Transpose_16_out = Transpose<perm = [0, 2, 1]>(x)\n"
        "  Reshape_19_out = Reshape(Transpose_16_out, v18)\n  y = Conv(Reshape_19_out, v_product, "
        "v_product_bias)\n}\n");
    BECOMES("(float[n,3,2,1] x) => (y) <" V ", " W "> { float[n,3,2,2] p = MatMul(x, w); "
            "float[n,2,3,2] t = " FRONT "(p); float[n,2,3,2] y = Conv(t, v) }",
            "products dead_code",
            "=> (float[n,2,3,2] y)\n<" NEW ">\n{\n  Transpose_9_out = " FRONT "(x)\n"
            "  y = Conv(Transpose_9_out, v_product)\n}\n");
    BECOMES("(float[n,3,2,1] x) => (y) <" V ", " W ", " B "> { float[n,3,2,2] p = MatMul(x, w); "
            "float[n,3,2,2] a = Add(b, p); float[n,2,3,2] t = " FRONT "(a); float[n,2,3,2] y = Conv(t, v) }",
            "products dead_code",
            "=> (float[n,2,3,2] y)\n<" NEW ",\n const float[2] v_product_bias = {5, 11}>\n{\n"
            "  Transpose_12_out = " FRONT "(x)\n  y = Conv(Transpose_12_out, v_product, v_product_bias)\n}\n");
}

#define LAST "(float[n,3,2,1] x) => (y) <" V ", " W "> { float[n,3,2,2] p = MatMul(x, w); "

TEST(products_that_stay) {
    static const char *const rows[] = {
        /* pads see no sum of theirs, and strides may as well come first: both are left alone; other axes */
        LAST "float[n,2,3,2] t = " FRONT "(p); float[n,2,5,4] y = Conv<pads = [1, 1, 1, 1]>(t, v) }",
        LAST "float[n,2,3,2] t = " FRONT "(p); float[n,2,2,1] y = Conv<strides = [2, 2]>(t, v) }",
        LAST "float[n,2,2,3] t = Transpose<perm = [0, 3, 2, 1]>(p); float[n,2,2,3] y = Conv(t, v) }",
        "(float[n,3,2,1] x, float[2,2,1,1] v) => (y) <" W "> { float[n,3,2,2] p = MatMul(x, w); "
        "float[n,2,3,2] t = " FRONT "(p); float[n,2,3,2] y = Conv(t, v) }",
        "(float[n,3,2,1] x, float[1,2] w) => (y) <" V "> { float[n,3,2,2] p = MatMul(x, w); "
        "float[n,2,3,2] t = " FRONT "(p); float[n,2,3,2] y = Conv(t, v) }",
        "(float[n,3,2,1] x) => (y, p) <" V ", " W "> { float[n,3,2,2] p = MatMul(x, w); "
        "float[n,2,3,2] t = " FRONT "(p); float[n,2,3,2] y = Conv(t, v) }",
        /* more multiplications than before: three channels through one */
        "(float[n,3,2,3] x) => (y) <const float[3,1,1,1] v = {1, 2, 3}, const float[3,1] w = {1, 2, 3}> { "
        "float[n,3,2,1] p = MatMul(x, w); float[n,1,3,2] t = " FRONT "(p); float[n,3,3,2] y = Conv(t, v) }",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        LEAVES("<opset: \"\" 17> g", rows[i], "products dead_code", 2, 3);
    /* In training the weights are not known. */
    LEAVES_TRAINING("<opset: \"\" 17> g", LAST "float[n,2,3,2] t = " FRONT "(p); float[n,2,3,2] y = Conv(t, v) }",
                    "products dead_code", 2, 3);
    /* A constant for each row is no constant for each channel. */
    LEAVES("<opset: \"\" 17> g",
           "(float[n,2,2,1] x) => (y) <" V ", " W ", const float[2,1] b = {1, 2}> { float[n,2,2,2] p = MatMul(x, w); "
           "float[n,2,2,2] a = Add(p, b); float[n,2,2,2] t = " FRONT "(a); float[n,2,2,2] y = Conv(t, v) }",
           "products dead_code", 2, 4);
}
