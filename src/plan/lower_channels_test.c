/* plan/lower_channels_test.c: rows of channels, images and formulas around convolutions; near misses stay. */
#include "tests/lowering.h"

#define BECOMES(graph, want) OPS_ON(nc_device_cpu(), graph, nc_lower_channels, want)
#define ALL(graph, want) LOWERS(graph, nc_lower_channels, want)
#define W16 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
#define CONSTS                                                                                                 \
    "<const float[16,1,3,3] d = {" W16 "," W16 "," W16 "," W16 "," W16 "," W16 "," W16 "," W16 "," W16         \
    "}, const int64[4] image = {0, 16, 6, 5}, const int64[3] rows = {0, 16, 30}, const float[] half = {0.5}, " \
    "const float[30,1] each = {" W16 ",1,1,1,1,1,1,1,1,1,1,1,1,1,1}> "
#define CONV "Conv<group = 16, pads = [1,1,1,1]>"
#define SWAP "Transpose<perm = [0,2,1]>"

TEST(lower_channels_from_rows) {
    ALL("(float[n,30,16] x) => (y) " CONSTS "{ a = " SWAP "(x) b = Reshape(a, image) y = " CONV "(b, d) }",
        "Reshape_13_out = Reshape(x, 0 6 5 16); Transpose_15_out = Transpose(Reshape_13_out); "
        "y = Conv(Transpose_15_out, d)");
    /* The rows are read by others too. */
    BECOMES("(float[n,30,16] x) => (a, y) " CONSTS "{ a = " SWAP "(x) b = Reshape(a, image) y = " CONV "(b, d) }",
            "Transpose Reshape Transpose Conv");
}

TEST(lower_channels_to_rows) {
    ALL("(float[n,16,6,5] x) => (y) " CONSTS "{ a = " CONV "(x, d) b = Reshape(a, rows) y = " SWAP "(b) }",
        "a = Conv(x, d); Transpose_12_out = Transpose(a); Reshape_15_out = Reshape(Transpose_12_out, 0 30 16)");
}

/* Of channels last, as convolutions of codes give them: no convolution need be beside it. */
TEST(lower_channels_last_to_rows) {
    ALL("(uint8[n,6,5,16] x) => (y) " CONSTS "{ a = Transpose<perm = [0,3,1,2]>(x) b = Reshape(a, rows) y = " SWAP
        "(b) }",
        "Reshape_13_out = Reshape(x, 0 30 16)");
    BECOMES("(uint8[n,6,5,16] x) => (y) " CONSTS "{ a = Transpose<perm = [0,3,2,1]>(x) b = Reshape(a, rows) y = " SWAP
            "(b) }",
            "Transpose Reshape Transpose");
}

TEST(lower_channels_formulas_first) {
    BECOMES("(float[n,16,6,5] x) => (y) " CONSTS "{ a = " CONV "(x, d) b = Reshape(a, rows) c = " SWAP "(b) "
            "e = Mul(half, c) y = Relu(e) }",
            "Conv Mul Relu Transpose Reshape");
    BECOMES("(float[n,16,6,5] x) => (y) " CONSTS "{ a = " CONV "(x, d) b = Transpose(a) y = Neg(b) }",
            "Conv Neg Transpose");
}

#define PARTS(sizes, axis)                                                                                        \
    "(float[n,48,6,5] x) => (y) <const float[48,1,1,1] d = {" W16 "," W16 "," W16 "}, const int64[2] s = {" sizes \
    "}> "                                                                                                         \
    "{ a = Conv<group = 48>(x, d) b = Relu(a) c, e = Split<axis = " axis ">(b, s) y = Concat<axis = " axis ">(e, c) }"

TEST(lower_channels_splits_into_slices) {
    BECOMES(PARTS("16,32", "1"), "Conv Relu Slice Slice Concat");
    BECOMES(PARTS("32,16", "-3"), "Conv Relu Slice Slice Concat");
    /* Inside of a block, nothing at all, or another axis. */
    BECOMES(PARTS("20,28", "1"), "Conv Relu Split Concat");
    BECOMES(PARTS("48,0", "1"), "Conv Relu Split Concat");
    BECOMES(PARTS("4,2", "2"), "Conv Relu Split Concat");
}

TEST(lower_channels_leaves_the_rest) {
    /* No convolution beside it. */
    BECOMES("(float[n,16,6,5] x) => (y) " CONSTS "{ a = Softmax(x) b = Reshape(a, rows) c = " SWAP "(b) y = Relu(c) }",
            "Softmax Reshape Transpose Relu");
    BECOMES("(float[n,30,16] x) => (y) " CONSTS "{ a = " SWAP "(x) b = Reshape(a, image) y = Softmax(b) }",
            "Transpose Reshape Softmax");
    /* The formula has another tensor, or what it reads is also read as it is. */
    BECOMES("(float[n,16,6,5] x) => (y) " CONSTS "{ a = " CONV "(x, d) b = Reshape(a, rows) c = " SWAP "(b) "
            "y = Mul(c, each) }",
            "Conv Transpose Reshape Mul");
    BECOMES("(float[n,16,6,5] x) => (b, y) " CONSTS "{ a = " CONV "(x, d) b = Reshape(a, rows) y = Relu(b) }",
            "Conv Reshape Relu");
    BECOMES("(float[n,16,6,5] x) => (a, y) " CONSTS "{ a = " CONV "(x, d) b = Reshape(a, rows) y = Relu(b) }",
            "Conv Reshape Relu");
    /* Other axes, or other channels. */
    BECOMES("(float[n,16,30] x) => (y) " CONSTS "{ b = Reshape(x, image) y = " CONV "(b, d) }", "Reshape Conv");
    BECOMES("(float[16,30,n] x) => (y) " CONSTS "{ a = Transpose<perm = [2,0,1]>(x) b = Reshape(a, image) "
            "y = " CONV "(b, d) }",
            "Transpose Reshape Conv");
    BECOMES("(float[n,60,8] x) => (y) " CONSTS "{ a = " SWAP "(x) b = Reshape(a, image) y = " CONV "(b, d) }",
            "Transpose Reshape Conv");
}
