/* ops/arrange/arrange_cases_test.c: the cases of the arrange family (ops/cases.h), and known values of its borders. */
#include "ops/cases_testing.h"

#include "kernels/cpu/move/pad.h"
#include "tests/graph_testing.h"

extern const nc_case nc_arrange_cases[];

#define G "<opset: \"\" 22, \"nacre\" 1> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT
#define PADS "<const int64[4] p = {1, 2, 0, 3}> "
#define INTS(name, n, ...) "<const int64[" #n "] " name " = {" #__VA_ARGS__ "}> "

const nc_case nc_arrange_cases[] = {
    {"pad", G "(float[3,n] x) => (y) " PADS "{ y = Pad(x, p) }", {{0, 0}}, NC_CASE_EXACT},
    {"pad_value", G "(float[3,n] x, float[] v) => (y) " PADS "{ y = Pad(x, p, v) }", {{0, 0}}, 0},
    {"pad_crop", G "(float[5,6] x) => (y) " INTS("p", 4, -1, 2, -2, -3) "{ y = Pad(x, p) }", {{0, 0}}, NC_CASE_EXACT},
    {"pad_reflect", G "(float[4,n] x) => (y) " PADS "{ y = Pad<mode = \"reflect\">(x, p) }", {{0, 0}}, 0},
    {"pad_edge", G "(float[4,n] x) => (y) " PADS "{ y = Pad<mode = \"edge\">(x, p) }", {{0, 0}}, 0},
    {"pad_wrap_cut",
     G "(float[4,n] x) => (y) " INTS("p", 4, -1, 2, 3, -1) "{ y = Pad<mode = \"wrap\">(x, p) }",
     {{0, 0}},
     0},
    {"pad_wrap", G "(float[4,n] x) => (y) " PADS "{ y = Pad<mode = \"wrap\">(x, p) }", {{0, 0}}, 0},
    {"pad_axes",
     G "(float[2,4,3] x) => (y) <const int64[2] p = {2, 1}, const int64[1] a = {-2}> "
       "{ y = Pad<mode = \"reflect\">(x, p, , a) }",
     {{0, 0}},
     0},
    {"pad_old",
     "<opset: \"\" 10> g (float[3,n] x) => (y) { y = Pad<pads = [1, 0, 2, 1], value = 2.5>(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"pad_bytes", G "(int8[3,2] x) => (y) " PADS "{ y = Pad<mode = \"edge\">(x, p) }", {{-9, 9}}, FIXED},
    {"pad_empty", G "(float[0,2] x) => (y) " PADS "{ y = Pad(x, p) }", {{0, 0}}, FIXED},
    {"pad_grad_half",
     G "(float16[5,7] d) => (y) <const int64[2] s = {4, 2}, const int64[4] p = {1, 2, 0, 3}> "
       "{ y = nacre.PadGrad<mode = \"wrap\">(d, s, p) }",
     {{0, 0}},
     FIXED},
    {"tile", G "(float[2,n] x) => (y) " INTS("r", 2, 3, 2) "{ y = Tile(x, r) }", {{0, 0}}, 0},
    {"tile_one", G "(float[2,n] x) => (y) " INTS("r", 2, 1, 4) "{ y = Tile(x, r) }", {{0, 0}}, 0},
    {"tile_none", G "(int32[2,3] x) => (y) " INTS("r", 2, 0, 4) "{ y = Tile(x, r) }", {{-9, 9}}, FIXED},
    {"tile_old",
     "<opset: \"\" 5> g (float[2,3] x) => (y) <const float[] t = {3}, const float[] a = {1}> { y = Tile(x, t, a) }",
     {{0, 0}},
     FIXED},
    {"depth_to_space", G "(float[n,8,2,3] x) => (y) { y = DepthToSpace<blocksize = 2>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"depth_to_space_crd",
     G "(float[2,8,2,3] x) => (y) { y = DepthToSpace<blocksize = 2, mode = \"CRD\">(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"space_to_depth", G "(float[n,2,4,6] x) => (y) { y = SpaceToDepth<blocksize = 2>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"space_to_depth_bytes", G "(uint8[0,2,4,6] x) => (y) { y = SpaceToDepth<blocksize = 2>(x) }", {{0, 9}}, FIXED},
    {"reverse_sequence",
     G "(float[4,3,2] x) => (y) " INTS("l", 3, 4, 0, 2) "{ y = ReverseSequence(x, l) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"reverse_sequence_batch",
     G "(float[3,n] x) => (y) " INTS("l", 3, 4, 1, 2) "{ y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, l) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"eye_like", G "(float[3,n] x) => (y) { y = EyeLike<k = 1>(x) }", {{0, 0}}, FIXED},
    {"eye_like_long", G "(float[4,3] x) => (y) { y = EyeLike<k = -2, dtype = 7>(x) }", {{0, 0}}, FIXED},
    {"center_crop_pad",
     G "(float[5,4] x) => (y) " INTS("s", 2, 2, 7) "{ y = CenterCropPad(x, s) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"center_crop_pad_axes",
     G "(float[n,5,4] x) => (y) " INTS("s", 1, 8) "{ y = CenterCropPad<axes = [-2]>(x, s) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {0}};

TEST(arrange_values) { nc_cases_check_values(nc_arrange_cases); }
TEST(arrange_isas) { nc_cases_check_isas(nc_arrange_cases); }
TEST(arrange_gradients) { nc_cases_check_gradients(nc_arrange_cases); }

static void check_line(nck_pad_mode mode, int64_t begin, int64_t n, const float *want) {
    float x[3] = {1, 2, NAN}, y[12];
    int64_t table[16], d = 3;
    nc_tensor in = {.data = x, .dtype = NC_FLOAT, .rank = 1, .dims = {d}, .strides = {1}}, out = in;
    out.data = y;
    out.dims[0] = n;
    x[2] = 3;
    nck_pad(mode, &in, &begin, NULL, &out, table, NULL);
    for (int64_t i = 0; i < n; i++) CHECK(y[i] == want[i]);
}

TEST(pad_borders_longer_than_the_line) {
    check_line(NCK_PAD_CONSTANT, 2, 7, (float[]){0, 0, 1, 2, 3, 0, 0});
    check_line(NCK_PAD_REFLECT, 5, 11, (float[]){2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2});
    check_line(NCK_PAD_EDGE, 1, 6, (float[]){1, 1, 2, 3, 3, 3});
    check_line(NCK_PAD_WRAP, 4, 9, (float[]){3, 1, 2, 3, 1, 2, 3, 1, 2});
    check_line(NCK_PAD_CONSTANT, -1, 3, (float[]){2, 3, 0});
}

/* What is taken away is gone before the rest is repeated. */
TEST(pad_borders_of_what_is_left) {
    check_line(NCK_PAD_WRAP, -1, 6, (float[]){2, 3, 2, 3, 2, 3});
    check_line(NCK_PAD_WRAP, 3, 5, (float[]){2, 1, 2, 1, 2});
    check_line(NCK_PAD_REFLECT, -1, 5, (float[]){2, 3, 2, 3, 2});
    check_line(NCK_PAD_EDGE, 2, 3, (float[]){1, 1, 1});
}

TEST(arrange_types) {
#define TILE_1(tiles)                                                    \
    "<opset: \"\" 5> g (float[a,b] x) => (y) <const float[] t = {" tiles \
    "}, const float[] at = {1}> { y = Tile(x, t, at) }"
    CHECK_INFERS(TILE_1("3"), "float[a,3*b]");
    CHECK_REFUSED(TILE_1("1e30"), NC_E_DATA, "tiles is 1e+30, expected a number that int64 holds");
#undef TILE_1
    CHECK_INFERS(G "(float[a,b] x) => (y) " PADS "{ y = Pad(x, p) }", "float[a+1,b+5]");
    CHECK_INFERS(G "(float[a,b,c] x) => (y) " PADS "{ y = Pad(x, p) }",
                 "pads has 4 elements, expected 2 for each of 3 axes");
    CHECK_INFERS(G "(float[a,b] x) => (y) " INTS("r", 2, 2, 3) "{ y = Tile(x, r) }", "float[2*a,3*b]");
    CHECK_INFERS(G "(float[n,8,h,w] x) => (y) { y = DepthToSpace<blocksize = 2>(x) }", "float[n,2,2*h,2*w]");
    CHECK_INFERS(G "(float[n,6,h,w] x) => (y) { y = DepthToSpace<blocksize = 2>(x) }",
                 "the number of channels is 6, expected a multiple of 4");
    CHECK_INFERS(G "(float[a,b] x) => (y) " INTS("s", 1, 9) "{ y = CenterCropPad<axes = [1]>(x, s) }", "float[a,9]");
}
