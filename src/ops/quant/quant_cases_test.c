/* ops/quant/quant_cases_test.c: the cases of the quant family (ops/cases.h), its types and refusals. There is no wide
 * form of a quantized graph to compare with: tests/quant_test.c compares with the same in plain ops. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_quant_cases[];

#define G "<opset: \"\" 25> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT
#define SCALE "const float[] s = {0.05}"
#define BACK "f = DequantizeLinear(q, s, z) y = Neg(f) }"

const nc_case nc_quant_cases[] = {
    {"quantize_uint8", G "(float[n,33] x) => (y) <" SCALE "> { y = QuantizeLinear(x, s) }", {{-9, 9}}, FIXED},
    {"quantize_opset_10",
     "<opset: \"\" 10> g (float[3,n] x) => (y) <" SCALE ", const int8[] z = {-3}> { y = QuantizeLinear(x, s, z) }",
     {{-9, 9}},
     FIXED},
    {"quantize_nan",
     G "(float[n] x) => (y) <" SCALE ", const int8[] z = {-3}> { q = Sqrt(x) y = QuantizeLinear(q, s, z) }",
     {{-4, 4}},
     FIXED},
    {"quantize_int32", G "(int32[n] x) => (y) <" SCALE "> { y = QuantizeLinear(x, s) }", {{-9, 9}}, FIXED},
    {"quantize_axis",
     G "(float[2,3,n] x) => (y) <const float[3] s = {0.1, 0.5, 2}, const uint8[3] z = {1, 128, 0}> "
       "{ y = QuantizeLinear<axis = -2>(x, s, z) }",
     {{-40, 40}},
     FIXED},
    {"quantize_int4_and_back",
     G "(float[3,n] x) => (y) <" SCALE ", const int4[] z = {2}> { q = QuantizeLinear(x, s, z) " BACK,
     {{-1, 1}},
     FIXED},
    {"quantize_uint2_and_back",
     G "(float[n,n] x) => (y) <" SCALE ", const uint2[] z = {1}> { q = QuantizeLinear(x, s, z) " BACK,
     {{-1, 1}},
     FIXED},
    {"quantize_float8_and_back",
     G "(float[n,3] x) => (y) <" SCALE ", const float8e4m3fn[] z = {0}> { q = QuantizeLinear(x, s, z) " BACK,
     {{-40, 40}},
     FIXED},
    {"quantize_float4_and_back",
     G "(float[n,3] x) => (y) <" SCALE ", const float4e2m1[] z = {0}> { q = QuantizeLinear(x, s, z) " BACK,
     {{-1, 1}},
     FIXED},
    {"quantize_half",
     G "(float16[n,3] x) => (y) <const float16[] s = {0.05}> { y = QuantizeLinear<output_dtype = 5>(x, s) }",
     {{-9, 9}},
     FIXED},
    {"dequantize_blocks",
     G "(int8[2,5,3] x, float[2,3,3] s, int8[2,3,3] z) => (y) { y = DequantizeLinear<axis = 1, block_size = 2>(x, s, "
       "z) }",
     {{-100, 100}, {0.5, 1}, {-9, 9}},
     FIXED},
    {"dequantize_half",
     G "(uint16[n] x) => (y) <const float16[] s = {0.25}> { y = DequantizeLinear(x, s) }",
     {{0, 900}},
     FIXED},
    {"dequantize_powers_of_two",
     G "(int8[2,n] x) => (y) <const float8e8m0[2] s = {0.5, 4}> { y = DequantizeLinear<axis = 0, output_dtype = 1>(x, "
       "s) }",
     {{-100, 100}},
     FIXED},
    {"quantize_blocks",
     G "(float16[2,5,3] x, float16[2,3,3] s) => (y) { q = QuantizeLinear<axis = -2, block_size = 2, output_dtype = "
       "22>(x, "
       "s) y = DequantizeLinear<axis = 1, block_size = 2>(q, s) }",
     {{-9, 9}, {0.5, 2}},
     FIXED},
    {"quantize_int16_precision",
     G "(float[n,3] x, float[3] s) => (y) { y = QuantizeLinear<output_dtype = 5, precision = 10>(x, s) }",
     {{-9, 9}, {0.5, 2}},
     FIXED},
    {"dynamic_quantize", G "(float[n,33] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }", {{-3, 9}}, FIXED},
    {"dynamic_quantize_empty", G "(float[0] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }", {{0, 0}}, FIXED},
    {"matmul_integer",
     G "(uint8[3,n] a, int8[n,7] b) => (y) { y = MatMulInteger(a, b) }",
     {{0, 200}, {-90, 90}},
     FIXED},
    {"matmul_integer_batches",
     G "(int8[2,1,3,n] a, uint8[4,n,5] b, int8[] za, uint8[5] zb) => (y) { y = MatMulInteger(a, b, za, zb) }",
     {{-90, 90}, {0, 200}, {-5, 5}, {0, 9}},
     FIXED},
    {"matmul_integer_vectors", G "(int8[n] a, int8[n] b) => (y) { y = MatMulInteger(a, b) }", {{-90, 90}}, FIXED},
    {"matmul_integer_empty", G "(int8[3,0] a, int8[0,4] b) => (y) { y = MatMulInteger(a, b) }", {{-9, 9}}, FIXED},
    {"qlinear_matmul",
     G "(uint8[2,3,n] a, uint8[n,5] b) => (y) <const float[3] sa = {0.1, 0.2, 0.4}, const float[5] sb = {0.5, 1, 1, 2, "
       "1},"
       " const float[] sy = {9}, const uint8[] za = {7}, const uint8[] zb = {120}, const int8[] zy = {3}> "
       "{ y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy) }",
     {{0, 200}},
     FIXED},
    {"conv_integer",
     G "(uint8[2,4,n,9] x, int8[6,2,3,2] w, uint8[] zx) => (y) "
       "{ y = ConvInteger<group = 2, pads = [1,0,1,1], strides = [2,1]>(x, w, zx) }",
     {{0, 200}, {-90, 90}, {0, 200}},
     FIXED},
    {"conv_integer_line",
     G "(int8[1,3,n] x, int8[2,3,3] w) => (y) { y = ConvInteger<auto_pad = \"SAME_UPPER\">(x, w) }",
     {{-90, 90}},
     FIXED},
    {"conv_integer_to_float",
     "<opset: \"\" 25, \"nacre\" 1> g (uint8[2,n,9,5] x, uint8[19,5,3,2] w, uint8[] zx, uint8[19] zw) => (y, z) "
     "<const float[] s = {0.01}, const float[19] b = {1,2,3,4,5,6,7,8,9,8,7,6,5,4,3,2,1,0,-1}> { "
     "y = nacre.ConvIntegerToFloat<pads = [1,0,1,1], strides = [2,1]>(x, w, s, zx, zw, b) "
     "z = nacre.ConvIntegerToFloat(x, w, b) }",
     {{0, 200}, {0, 200}, {0, 200}, {0, 200}},
     NC_CASE_NO_GRAD},
    {"conv_integer_to_float_depthwise",
     "<opset: \"\" 25, \"nacre\" 1> g (int8[1,n,9,20] x, int8[20,1,3,3] w, int8[] zx) => (y) <const float[] s = "
     "{0.01}> "
     "{ y = nacre.ConvIntegerToFloat<group = 20>(x, w, s, zx) }",
     {{-90, 90}, {-90, 90}, {-90, 90}},
     NC_CASE_NO_GRAD},
    {"qlinear_conv_add",
     "<opset: \"\" 25, \"nacre\" 1> g (uint8[2,n,9,5] x, uint8[19,5,3,2] w, uint8[2,n,9,19] o, int32[19] b) => (y, z) "
     "<const float[] sx = {0.1}, const float[] sw = {0.5}, const float[] sy = {40}, const uint8[] zx = {9}, const "
     "uint8[] zw = {120}, const uint8[] zy = {128}, const float[] so = {30}, const float[] sz = {50}> { "
     "y = nacre.QLinearConvAdd<pads = [1,0,1,1]>(x, sx, zx, w, sw, zw, sy, zy, o, so, zx, sz, zw, b) "
     "z = nacre.QLinearConvAdd<pads = [1,0,1,1]>(x, sx, zx, w, sw, zw, sy, zy, o, so, zx, sz, zw) }",
     {{0, 200}, {0, 200}, {0, 200}, {-900, 900}},
     NC_CASE_NO_GRAD},
    {"qlinear_conv",
     G
     "(uint8[1,3,n,6] x, uint8[2,3,3,3] w, int32[2] b) => (y) <const float[] sx = {0.1}, const float[2] sw = {0.5, 2},"
     " const float[] sy = {40}, const uint8[] zx = {9}, const uint8[2] zw = {120, 80}, const uint8[] zy = {128}> "
     "{ y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy, b) }",
     {{0, 200}, {0, 200}, {-900, 900}},
     FIXED},
    {0}};

TEST(quant_isas) { nc_cases_check_isas(nc_quant_cases); }

TEST(quant_types) {
    CHECK_INFERS(G "(float[n,3] x, float[] s) => (y) { y = QuantizeLinear(x, s) }", "uint8[n,3]");
    CHECK_INFERS(G "(float[n,3] x, float[] s) => (y) { y = QuantizeLinear<output_dtype = 22>(x, s) }", "int4[n,3]");
    CHECK_INFERS(G "(float[n,3] x, float[] s, float8e5m2[] z) => (y) { y = QuantizeLinear(x, s, z) }",
                 "float8e5m2[n,3]");
    CHECK_INFERS(G "(int4[n] x, float16[] s) => (y) { y = DequantizeLinear(x, s) }", "float16[n]");
    CHECK_INFERS(G "(int4[n] x, float16[] s) => (y) { y = DequantizeLinear<output_dtype = 1>(x, s) }", "float[n]");
    CHECK_INFERS(G "(uint8[b,m,k] x, int8[k,n] s) => (y) { y = MatMulInteger(x, s) }", "int32[b,m,n]");
    CHECK_INFERS(G "(uint8[b,3,5,5] x, int8[7,3,2,2] s) => (y) { y = ConvInteger(x, s) }", "int32[b,7,4,4]");
    CHECK_INFERS("<opset: \"\" 25, \"nacre\" 1> g (uint8[b,5,6,3] x, int8[7,3,2,2] w, float[] s) => (y) "
                 "{ y = nacre.ConvIntegerToFloat(x, w, s) }",
                 "float[b,4,5,7]");
    CHECK_INFERS(G "(int4[n,3] x) => (y) { y = Transpose(x) }", "int4[3,n]");
}

TEST(quant_refusals) {
    CHECK_REFUSED(G "(float[n,3] x, float[2,2] s) => (y) { y = QuantizeLinear(x, s) }", NC_E_SHAPE,
                  "the scale has 2 dims");
    CHECK_REFUSED(G "(float[n] x, float[3] s) => (y) { y = QuantizeLinear<axis = 1>(x, s) }", NC_E_SHAPE, "axis");
    CHECK_REFUSED(G "(float[n] x, float[] s, int8[] z) => (y) { y = QuantizeLinear<output_dtype = 2>(x, s, z) }",
                  NC_E_TYPE, "output_dtype is uint8, the zero point is int8");
    CHECK_REFUSED(G "(float[n] x, float[] s) => (y) { y = QuantizeLinear<output_dtype = 7>(x, s) }", NC_E_TYPE,
                  "cannot quantize to int64");
    CHECK_REFUSED(G "(int8[n] x, float8e8m0[] s) => (y) { y = DequantizeLinear(x, s) }", NC_E_TYPE,
                  "cannot dequantize to float8e8m0");
    CHECK_REFUSED(G "(int8[n,3] x, int8[4,n] s) => (y) { y = MatMulInteger(x, s) }", NC_E_SHAPE,
                  "A has 3 columns, B has 4 rows");
    CHECK_REFUSED(G "(int8[n,3,5] x, int8[4,2,2] s) => (y) { y = ConvInteger(x, s) }", NC_E_SHAPE,
                  "the input has 3 channels");
}
