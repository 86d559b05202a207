/* transform/infer/resizes_test.c: Convs of one tap behind Resizes as text, with the near misses that stay. */
#include "tests/passes.h"

#define ONES16 "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1"
#define ONES64 ONES16 ", " ONES16 ", " ONES16 ", " ONES16
#define SCALES "const float[4] s = {1, 1, 2, 2}"
#define W64 "const float[1,64,1,1] w = {" ONES64 "}"
#define GROWN(more) "float[n,64,4,6] a = Resize" more "(x, , s); "
#define CONV "float[n,1,4,6] y = Conv(a, w, b) }"
#define HEAD "(float[n,64,2,3] x) => (y) <" W64 ", const float[1] b = {5}, " SCALES "> { "

TEST(resizes_come_behind_convs) {
    BECOMES(HEAD GROWN("") CONV, "resizes dead_code",
            "=> (float[n,1,4,6] y = Resize_11_out)\n<const float[1] b = {5},\n " SCALES
            ",\n const float[1,64,1,1] v8 = {" ONES64
            "}>\n{\n  Conv_9_out = Conv(x, v8, b)\n  Resize_11_out = Resize(Conv_9_out, , s)\n}\n");
    BECOMES("(float[n,64,2,3] x) => (y) <" W64 ", const int64[4] s = {3, 64, 4, 6}> { "
            "float[n,64,4,6] a = Resize<mode = \"linear\">(x, , , s); float[n,1,4,6] y = Conv(a, w) }",
            "resizes dead_code",
            "=> (float[n,1,4,6] y = Resize_11_out)\n<const float[1,64,1,1] v7 = {" ONES64
            "},\n const int64[4] v10 = {3, 1, 4, 6}>\n{\n  Conv_8_out = Conv(x, v7)\n"
            "  Resize_11_out = Resize<mode = \"linear\">(Conv_8_out, , , v10)\n}\n");
}

#define W69 "const float[1,69,1,1] w = {2, 3, " ONES64 ", 4, 5, 6}"
#define THREE "(float[n,64,2,3] x, float[n,2,4,6] l, float[n,3,4,6] r) => (y) <" W69 ", " SCALES "> { "

TEST(resizes_leave_concats) {
    BECOMES(THREE GROWN("") "float[n,69,4,6] c = Concat<axis = 1>(l, a, r); float[n,1,4,6] y = Conv(c, w) }",
            "resizes dead_code",
            "=> (float[n,1,4,6] y = Add_21_out)\n<" SCALES ",\n const float[1,5,1,1] v13 = {2, 3, 4, 5, 6},\n"
            " const float[1,64,1,1] v16 = {" ONES64 "}>\n{\n  Concat_11_out = Concat<axis = 1>(l, r)\n"
            "  Conv_14_out = Conv(Concat_11_out, v13)\n  Conv_17_out = Conv(x, v16)\n"
            "  Resize_19_out = Resize(Conv_17_out, , s)\n  Add_21_out = Add(Conv_14_out, Resize_19_out)\n}\n");
}

TEST(resizes_that_stay) {
    static const char *const rows[] = {
        /* other taps, strides, pads; what else reads it; places that count twice or not at all */
        "(float[n,64,2,3] x) => (y) <" W64 ", " SCALES
        "> { " GROWN("") "float[n,1,2,3] y = Conv<strides = [2, 2]>(a, w) }",
        "(float[n,64,2,3] x) => (y) <" W64 ", " SCALES
        "> { " GROWN("") "float[n,1,6,8] y = Conv<pads = [1, 1, 1, 1]>(a, w) }",
        "(float[n,64,2,3] x) => (y) <const float[1,64,2,1] w = {" ONES64 ", " ONES64 "}, " SCALES
        "> { " GROWN("") "float[n,1,3,6] y = Conv(a, w) }",
        "(float[n,64,2,3] x) => (a, y) <" W64 ", " SCALES "> { " GROWN("") "float[n,1,4,6] y = Conv(a, w) }",
        "(float[n,64,2,3] x) => (y) <" W64 ", " SCALES
        "> { " GROWN("<mode = \"cubic\">") "float[n,1,4,6] y = Conv(a, w) }",
        "(float[n,64,2,3] x) => (y) <" W64 ", " SCALES
        "> { " GROWN("<coordinate_transformation_mode = \"tf_crop_and_resize\">") "float[n,1,4,6] y = Conv(a, w) }",
        /* it shrinks; sizes are not known before the run; weights are not */
        "(float[n,64,8,8] x) => (y) <" W64
        ", const float[4] s = {1, 1, 0.5, 0.5}> { float[n,64,4,4] a = Resize(x, , s); "
        "float[n,1,4,4] y = Conv(a, w) }",
        "(float[n,64,h,3] x) => (y) <" W64 ", " SCALES "> { float[n,64,h*2,6] a = Resize(x, , s); "
        "float[n,1,h*2,6] y = Conv(a, w) }",
        "(float[n,64,2,3] x, int64[4] s) => (y) <" W64 "> { float[n,64,4,6] a = Resize(x, , , s); "
        "float[n,1,4,6] y = Conv(a, w) }",
        "(float[n,64,2,3] x, float[1,64,1,1] w) => (y) <" SCALES "> { " GROWN("") "float[n,1,4,6] y = Conv(a, w) }",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        LEAVES("<opset: \"\" 17> g", rows[i], "resizes dead_code", 2, 2);
}

/* Few channels, or many more behind the Conv than in front of it, cost more than they save. */
TEST(resizes_that_do_not_pay_stay) {
    LEAVES("<opset: \"\" 17> g",
           "(float[n,2,2,3] x) => (y) <const float[1,2,1,1] w = {1, 2}, " SCALES "> { "
           "float[n,2,4,6] a = Resize(x, , s); float[n,1,4,6] y = Conv(a, w) }",
           "resizes dead_code", 2, 2);
}
