/* plan/lower_conv_codes_test.c: convolutions of codes that take in the sum behind them, and those that do not. */
#include "tests/lowering.h"

#define SUMS(graph, want) OPS_ON(nc_device_cpu(), graph, nc_lower_conv_codes, want)
#define HEAD                                                                                                           \
    "(uint8[n,5,6,4] x, uint8[n,5,6,4] o, uint8[] free) => (y) <const float[] s = {0.5}, const float[] t = {0.25}, "   \
    "const float[] same = {0.5}, const uint8[] z = {7}, const int8[4,4,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "  \
    "12, 13, 14, 15, 16}, const int8[4,2,1,1] half = {1, 2, 3, 4, 5, 6, 7, 8}, const int8[] zw = {0}, const int32[4] " \
    "b = {1, 2, 3, 4}> "
#define LAST "com.microsoft.QLinearConv<channels_last = 1>"
#define ADD "com.microsoft.QLinearAdd"

TEST(lower_conv_codes_takes_in_sums) {
    LOWERS_ON(nc_device_cpu(), HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z, b) y = " ADD "(c, s, z, o, t, z, t, z) }",
              nc_lower_conv_codes,
              "QLinearConvAdd_15_out = nacre.QLinearConvAdd(x, 0.5, z, w, 0.5, zw, 0.5, z, o, 0.25, z, 0.25, z, b)");
    LOWERS_ON(nc_device_cpu(), HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) y = " ADD "(o, t, z, c, same, z, t, z) }",
              nc_lower_conv_codes,
              "QLinearConvAdd_15_out = nacre.QLinearConvAdd(x, 0.5, z, w, 0.5, zw, 0.5, z, o, 0.25, z, 0.25, z)");
    SUMS(HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) d = " LAST "(o, s, z, w, s, zw, t, z) y = " ADD
              "(c, s, z, d, t, z, t, z) }",
         "QLinearConv QLinearConvAdd");
}

/* Another reader; codes that the sum reads by another scale, or by a zero point that is not known; groups; channels
 * first; another shape; no zero point of the sum. */
TEST(lower_conv_codes_leaves_the_rest) {
    SUMS(HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) d = " ADD "(c, s, z, o, t, z, t, z) y = " ADD
              "(c, s, z, d, t, z, t, z) }",
         "QLinearConv QLinearAdd QLinearAdd");
    SUMS(HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) y = " ADD "(c, t, z, o, t, z, t, z) }",
         "QLinearConv QLinearAdd");
    SUMS(HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) y = " ADD "(c, s, free, o, t, z, t, z) }",
         "QLinearConv QLinearAdd");
    SUMS(HEAD "{ c = com.microsoft.QLinearConv<channels_last = 1, group = 2>(x, s, z, half, s, zw, s, z) y = " ADD
              "(c, s, z, o, t, z, t, z) }",
         "QLinearConv QLinearAdd");
    SUMS("(uint8[n,4,5,6] x, uint8[n,4,5,6] o) => (y) <const float[] s = {0.5}, const uint8[] z = {7}, const "
         "int8[1,4,1,1] w = {1, 2, 3, 4}, const int8[] zw = {0}> { c = com.microsoft.QLinearConv(x, s, z, w, s, zw, s, "
         "z) "
         "y = " ADD "(c, s, z, o, s, z, s, z) }",
         "QLinearConv QLinearAdd");
    SUMS(HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) y = " ADD "(c, s, z, z, t, z, t, z) }",
         "QLinearConv QLinearAdd");
    SUMS(HEAD "{ c = " LAST "(x, s, z, w, s, zw, s, z) y = " ADD "(c, s, z, o, t, z, t) }", "QLinearConv QLinearAdd");
}
