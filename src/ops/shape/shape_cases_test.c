/* ops/shape/shape_cases_test.c: the cases of the shape family (ops/cases.h) and the tests that run them. */
#include "ops/cases_testing.h"

#include "tests/check.h"

extern const nc_case nc_shape_cases[];

#define G "<opset: \"\" 22> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT

/* Numbers beyond the ends of integers, and NaN: roots of negative ones. */
#define NEWEST "<opset: \"\" 28> g "
#define CAST_END(from, to)                                                                                             \
    {                                                                                                                  \
        "cast_end_" from "_" to, G "(" from "[n,33] x) => (y) { r = Sqrt(x) a = Sub(x, r) y = Cast<to = " to ">(a) }", \
            {{-1e3, 6e4}}, FIXED                                                                                       \
    }
#define CAST_ENDS(from)                                                                                      \
    CAST_END(from, "2"), CAST_END(from, "3"), CAST_END(from, "4"), CAST_END(from, "5"), CAST_END(from, "6"), \
        CAST_END(from, "12"), CAST_END(from, "13")

const nc_case nc_shape_cases[] = {
    {"identity", G "(float[n,3] x) => (y) { y = Identity(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"reshape",
     G "(float[n,3,4] x) => (y) <const int64[2] s = {0, -1}> { y = Reshape(x, s) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"reshape_scalar",
     G "(float[1,1] x) => (y) <const int64[0] s = {}> { y = Reshape(x, s) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"reshape_empty",
     G "(float[0,4] x) => (y) <const int64[3] s = {2, 0, 7}> { y = Reshape<allowzero = 1>(x, s) }",
     {{0, 0}},
     FIXED},
    {"flatten", G "(float[2,n,5] x) => (y) { y = Flatten<axis = -1>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"flatten_all", G "(float[2,n] x) => (y) { y = Flatten<axis = 0>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"squeeze", G "(float[1,n,1,3] x) => (y) <const int64[1] a = {-2}> { y = Squeeze(x, a) }", {{0, 0}}, NC_CASE_EXACT},
    {"squeeze_all", G "(float[1,7,1,3] x) => (y) { y = Squeeze(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"squeeze_old",
     "<opset: \"\" 11> g (float[1,n,1] x) => (y) { y = Squeeze<axes = [0, 2]>(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"unsqueeze",
     G "(float[n,3] x) => (y) <const int64[2] a = {0, -1}> { y = Unsqueeze(x, a) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"transpose", G "(float[n,3] x) => (y) { y = Transpose(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"transpose_heads",
     G "(float[2,n,3,5] x) => (y) { y = Transpose<perm = [0, 2, 1, 3]>(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"transpose_cycle", G "(float[2,3,n] x) => (y) { y = Transpose<perm = [2, 0, 1]>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"transpose_of_18_dims",
     G "(float[2,1,n,1,1,3,1,1,1,1,2,1,1,1,1,1,1,2] x) => (y) "
       "{ y = Transpose<perm = [17, 0, 16, 1, 15, 2, 14, 3, 13, 4, 12, 5, 11, 6, 10, 7, 9, 8]>(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"expand_to_20_dims",
     G "(float[n,1] x) => (y) <const int64[20] s = {2, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4}> "
       "{ y = Expand(x, s) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"transpose_empty", G "(float[0,3] x) => (y) { y = Transpose(x) }", {{0, 0}}, FIXED},
    {"transpose_half", G "(float16[n,33] x) => (y) { y = Transpose(x) }", {{0, 0}}, FIXED},
    {"expand", G "(float[n,1] x) => (y) <const int64[3] s = {2, 1, 4}> { y = Expand(x, s) }", {{0, 0}}, NC_CASE_EXACT},
    {"expand_scalar", G "(float[] x) => (y) <const int64[2] s = {3, 0}> { y = Expand(x, s) }", {{0, 0}}, FIXED},
    {"slice",
     G "(float[n,7] x) => (y) <const int64[2] s = {1, -3}, const int64[2] e = {9223372036854775807, -1}> "
       "{ y = Slice(x, s, e) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"slice_backwards",
     G "(float[3,7] x) => (y) <const int64[1] s = {-1}, const int64[1] e = {-9223372036854775808}, "
       "const int64[1] a = {-1}, const int64[1] t = {-2}> { y = Slice(x, s, e, a, t) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"slice_int32",
     G "(float[n,7] x) => (y) <const int32[1] s = {1}, const int32[1] e = {6}, const int32[1] a = {1}, "
       "const int32[1] t = {3}> { y = Slice(x, s, e, a, t) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"slice_empty",
     G "(float[5] x) => (y) <const int64[1] s = {4}, const int64[1] e = {2}> { y = Slice(x, s, e) }",
     {{0, 0}},
     FIXED},
    {"slice_old",
     "<opset: \"\" 9> g (float[n,7] x) => (y) { y = Slice<starts = [2], ends = [-1], axes = [1]>(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"split",
     G "(float[n,7] x) => (a, b) <const int64[2] s = {5, 2}> { a, b = Split<axis = -1>(x, s) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"split_uneven", G "(float[7,n] x) => (a, b, c) { a, b, c = Split<num_outputs = 3>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"split_short", G "(float[5] x) => (a, b, c, d) { a, b, c, d = Split<num_outputs = 4>(x) }", {{0, 0}}, FIXED},
    {"split_unnamed",
     G "(float[n,6] x) => (b) <const int64[3] s = {1, 2, 3}> { , b, = Split<axis = 1>(x, s) }",
     {{0, 0}},
     FIXED},
    {"split_old",
     "<opset: \"\" 11> g (float[6,n] x) => (a, b) { a, b = Split<split = [4, 2]>(x) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"shape", G "(float[n,3,4] x) => (y) { y = Shape<start = -2>(x) }", {{0, 0}}, FIXED},
    {"size", G "(float[n,3,4] x) => (y) { y = Size(x) }", {{0, 0}}, FIXED},
    {"concat",
     G "(float[n,3] a, float[n,5] b, float[n,1] c) => (y) { y = Concat<axis = -1>(a, b, c) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"concat_rows", G "(float[n,3] a, float[2,3] b) => (y) { y = Concat<axis = 0>(a, b) }", {{0, 0}}, NC_CASE_EXACT},
    {"concat_words",
     G "(float16[700,24] a, float16[700,40] b) => (y) { y = Concat<axis = 1>(a, b) }",
     {{0, 0}},
     FIXED},
    {"slice_words",
     G "(float[4,90,24] x) => (y) <const int64[3] s = {1, 2, 4}, const int64[3] e = {4, 89, 20}> "
       "{ y = Slice(x, s, e) }",
     {{0, 0}},
     FIXED},
    {"concat_empty", G "(float[0,3] a, float[2,3] b) => (y) { y = Concat<axis = 0>(a, b) }", {{0, 0}}, FIXED},
    {"concat_int8", G "(int8[3,n] a, int8[3,n] b) => (y) { y = Concat<axis = 1>(a, b) }", {{-90, 90}}, FIXED},
    {"cast_int32", G "(float[n,33] x) => (y) { y = Cast<to = 6>(x) }", {{-1e4, 1e4}}, FIXED},
    {"cast_half", G "(float[n,33] x) => (y) { y = Cast<to = 10>(x) }", {{-9, 9}}, FIXED},
    {"cast_bool", G "(int64[n] x) => (y) { y = Cast<to = 9>(x) }", {{-1, 1}}, FIXED},
    CAST_ENDS("float"),
    CAST_ENDS("double"),
    CAST_ENDS("float16"),
    {"bit_cast", NEWEST "(int32[n,3] x) => (y) { f = BitCast<to = 1>(x) y = BitCast<to = 6>(f) }", {{0, 0}}, FIXED},
    {"bit_cast_wide", NEWEST "(int64[3,0] x) => (y) { y = BitCast<to = 11>(x) }", {{0, 0}}, FIXED},
    {"bit_cast_byte", NEWEST "(bool[n] x) => (y) { y = BitCast<to = 2>(x) }", {{0, 0}}, FIXED},
    {"cast_double", G "(float[n,3] x) => (y) { y = Cast<to = 11>(x) }", {{0, 0}}, NC_CASE_EXACT},
    {"cast_like", G "(float[n] x, bfloat16[2] t) => (y) { y = CastLike(x, t) }", {{0, 0}}, FIXED},
    {"constant_of_shape",
     G "(float[n] x) => (y) <const int64[2] s = {3, 5}> { y = ConstantOfShape<value = int32[1] {7}>(s) }",
     {{0, 0}},
     FIXED},
    {"constant", G "(float[n] x) => (y) { y = Constant<value_floats = [1.5, 2.5]>() }", {{0, 0}}, FIXED},
    {"range",
     G "(float[n] x) => (y) <const int64[] a = {9}, const int64[] b = {-4}, const int64[] d = {-3}> { y = Range(a, b, "
       "d) }",
     {{0, 0}},
     FIXED},
    {"attention_heads",
     G "(float[b,s,12] x) => (y) <const int64[4] h = {0, 0, 3, 4}, const int64[3] back = {0, 0, 12}> "
       "{ r = Reshape(x, h) t = Transpose<perm = [0, 2, 1, 3]>(r) u = Transpose<perm = [0, 2, 1, 3]>(t) "
       "y = Reshape(u, back) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {0}};

TEST(shape_values) { nc_cases_check_values(nc_shape_cases); }
TEST(shape_isas) { nc_cases_check_isas(nc_shape_cases); }
TEST(shape_gradients) { nc_cases_check_gradients(nc_shape_cases); }
