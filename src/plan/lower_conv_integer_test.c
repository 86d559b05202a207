/* plan/lower_conv_integer_test.c: convolutions of integers that become numbers, and what lies between them, with
 * channels last; what is left as it is. */
#include "tests/lowering.h"

#define NUMBERS(graph, want) OPS_ON(nc_device_cpu(), graph, nc_lower_conv_integer, want)
#define HEAD                                                                                                        \
    "(float[n,4,9,8] x) => (y) <const uint8[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, const float[] s" \
    " = {0.5}, const uint8[] z = {3}, const float[1,4,1,1] b = {1,2,3,4}, const float[9,8] wide = {"                \
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"              \
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> "
#define CODES(x, n) "c" #n ", e" #n ", o" #n " = DynamicQuantizeLinear(" x ") m" #n " = Mul(e" #n ", s) "
#define SUMS(n) \
    "i" #n " = ConvInteger(c" #n ", w, o" #n ", z) f" #n " = Cast<to = 1>(i" #n ") p" #n " = Mul(f" #n ", m" #n ") "

TEST(lower_conv_integer_turns_once_for_a_whole_network) {
    NUMBERS(HEAD "{ " CODES("x", 1) SUMS(1) "y = Add(p1, b) }",
            "DynamicQuantizeLinear Mul Transpose ConvIntegerToFloat Transpose");
    NUMBERS(HEAD "{ " CODES("x", 1) SUMS(1) "a = Add(p1, b) r = Relu(a) " CODES("r", 2)
                SUMS(2) "t = Add(p2, b) "
                        "u = Add(t, r) y = MaxPool<kernel_shape = [2,2]>(u) }",
            "DynamicQuantizeLinear Mul Transpose ConvIntegerToFloat DynamicQuantizeLinear Mul ConvIntegerToFloat Add "
            "Unsqueeze MaxPool Squeeze Transpose");
    NUMBERS(HEAD "{ " CODES("x", 1) SUMS(1) "a = Add(p1, b) r = Max(s, a) t = Min(r, s) u = Max(t, s) y = Neg(u) }",
            "DynamicQuantizeLinear Mul Transpose ConvIntegerToFloat Max Neg Transpose");
}

/* Sums that are used as integers too, a scale for each element, what broadcasts otherwise than along channels. */
TEST(lower_conv_integer_leaves_the_rest) {
    NUMBERS("(uint8[n,4,9,8] x, float[n,4,9,8] s) => (y) <const uint8[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,"
            "15,16}> { i = ConvInteger(x, w) f = Cast<to = 1>(i) y = Mul(f, s) }",
            "ConvInteger Cast Mul");
    NUMBERS("(uint8[n,4,9,8] x, float[] s) => (i, y) <const uint8[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,"
            "15,16}> { i = ConvInteger(x, w) f = Cast<to = 1>(i) y = Mul(f, s) }",
            "ConvInteger Cast Mul");
    NUMBERS(HEAD "{ " CODES("x", 1) SUMS(1) "y = Mul(p1, wide) }",
            "DynamicQuantizeLinear Mul Transpose ConvIntegerToFloat Transpose Mul");
}
