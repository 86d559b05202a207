/* transform/infer/quantized_test.c: DequantizeLinear and QuantizeLinear taken into what stands between them, and the
 * near misses that stay as they are. */
#include "tests/passes.h"

/* As BECOMES, but for the list of constants, which is long: `want` is the nodes. */
static void nodes_become(int line, const char *graph, const char *want) {
    bench b;
    char text[2000];
    snprintf(text, sizeof text, "<opset: \"\" 17> g %s", graph);
    if (bench_init(&b, text)) {
        b.m->infers_only = true;
        CHECK_INT(run_passes(&b, "quantized dead_code", 3), NC_OK);
        nc_text out = {0};
        nc_graph_print(&out, b.m);
        const char *at = out.s != NULL ? strstr(out.s, "\n{\n") : NULL;
        if (at == NULL || strcmp(at + 3, want) != 0)
            nc_test_failed(__FILE__, line, "is:\n%s\nexpected:\n%s", at != NULL ? at + 3 : "", want);
        nc_text_release(&out);
    }
    bench_release(&b);
}
#define NODES(graph, want) nodes_become(__LINE__, graph, want "}\n")

#define CONSTS                                                                                                    \
    "<const float[] s = {0.5}, const uint8[] z = {7}, const float[] t = {0.25}, const uint8[] u = {0}, "          \
    "const int8[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, const float[3] sw = {0.1, 0.2, 0.3}, "          \
    "const int8[3] zw = {0, 0, 0}, const int8[3,4] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "                 \
    "const int32[3] c = {1, 2, 3}, const float[3] sc = {0.05, 0.1, 0.15}, const int32[3] zc = {0, 0, 0}, "        \
    "const int8[] zi = {1}, const float[3] bad = {0.05, 0.1, 0.2}, const float[] one = {1}, const float[] big = " \
    "{63.75}, const int64[1] two "                                                                                \
    "= {2}>"
#define A "float[n,4] a = DequantizeLinear(x, s, z); "
#define B "float[4,3] b = DequantizeLinear(w, sw, zw); "
#define Y "uint8[n,3] y = QuantizeLinear(m, t, u) }"

TEST(quantized_products) {
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A B "float[n,3] m = MatMul(a, b); " Y,
          "  y = QLinearMatMul(x, s, z, w, sw, zw, t, u)\n");
    /* Saturation is Relu where 0 is the least code, and Clip where its ends are beyond the codes'. */
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A B "float[n,3] p = MatMul(a, b); float[n,3] m = Relu(p); " Y,
          "  y = QLinearMatMul(x, s, z, w, sw, zw, t, u)\n");
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A B "float[n,3] p = MatMul(a, b); float[n,3] m = Clip(p, , big); " Y,
          "  y = QLinearMatMul(x, s, z, w, sw, zw, t, u)\n");
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A B "float[n,3] p = MatMul(a, b); float[n,3] m = Clip(p, , one); " Y,
          "  p = com.microsoft.MatMulIntegerToFloat(x, w, s, sw, z, zw)\n  m = Clip(p, , one)\n"
          "  y = QuantizeLinear(m, t, u)\n");
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A B "float[n,3] p = MatMul(a, b); float[n,3] m = Relu(p); "
          "uint8[n,3] y = QuantizeLinear(m, t, z) }",
          "  p = com.microsoft.MatMulIntegerToFloat(x, w, s, sw, z, zw)\n  m = Relu(p)\n"
          "  y = QuantizeLinear(m, t, z)\n");
}

TEST(quantized_products_go_on_as_numbers) {
    NODES("(uint8[n,4] x) => (m) " CONSTS "{ " A B "float[n,3] m = MatMul(a, b) }",
          "  m = com.microsoft.MatMulIntegerToFloat(x, w, s, sw, z, zw)\n");
    /* Weights with a scale for each row. */
    NODES("(uint8[n,3] x) => (m) " CONSTS
          "{ float[n,3] a = DequantizeLinear(x, s, z); float[3,4] b = DequantizeLinear<axis = 0>(k, sw, zw); "
          "float[n,4] m = MatMul(a, b) }",
          "  a = DequantizeLinear(x, s, z)\n  b = DequantizeLinear<axis = 0>(k, sw, zw)\n"
          "  m = MatMul(a, b)\n");
}

#define CONV(scale)                                                                                                   \
    "(uint8[n,4,5] x, int8[3,4,2] q) => (y) " CONSTS                                                                  \
    "{ float[n,4,5] a = DequantizeLinear(x, s, z); float[3,4,2] b = DequantizeLinear<axis = 0>(q, sw, zw); "          \
    "float[3] d = DequantizeLinear<axis = 0>(c, " scale ", zc); "                                                     \
    "float[n,3,4] p = Conv<strides = [1]>(a, b, d); float[n,3,4] m = Relu(p); uint8[n,3,4] y = QuantizeLinear(m, t, " \
    "u) }"

TEST(quantized_convolutions) {
    NODES(CONV("sc"), "  y = QLinearConv<strides = [1]>(x, s, z, q, sw, zw, t, u, c)\n");
    /* A bias in another scale than that of the sums. */
    NODES(CONV("bad"),
          "  a = DequantizeLinear(x, s, z)\n  b = DequantizeLinear<axis = 0>(q, sw, zw)\n"
          "  d = DequantizeLinear<axis = 0>(c, bad, zc)\n  p = Conv<strides = [1]>(a, b, d)\n  m = Relu(p)\n"
          "  y = QuantizeLinear(m, t, u)\n");
}

TEST(quantized_gemms) {
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A "float[3,4] b = DequantizeLinear<axis = 0>(k, sw, zw); "
          "float[3] d = DequantizeLinear<axis = 0>(c, sc, zc); float[n,3] m = Gemm<transB = 1>(a, b, d); " Y,
          "  y = com.microsoft.QGemm<transA = 0, transB = 1>(x, s, z, k, sw, zw, c, t, u)\n");
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A B "float[n,3] m = Gemm<alpha = 2>(a, b); " Y,
          "  a = DequantizeLinear(x, s, z)\n  b = DequantizeLinear(w, sw, zw)\n"
          "  m = Gemm<alpha = 2.0>(a, b)\n  y = QuantizeLinear(m, t, u)\n");
}

TEST(quantized_sums) {
    NODES("(uint8[n,4] x, uint8[n,4] v) => (y) " CONSTS "{ " A "float[n,4] b = DequantizeLinear(v, t, u); "
          "float[n,4] p = Add(a, b); float[n,4] m = Relu(p); uint8[n,4] y = QuantizeLinear(m, t, u) }",
          "  y = com.microsoft.QLinearAdd(x, s, z, v, t, u, t, u)\n");
    /* Codes of another kind, and numbers. */
    NODES("(uint8[n,4] x, int8[n,4] v) => (y) " CONSTS "{ " A "float[n,4] b = DequantizeLinear(v, t, zi); "
          "float[n,4] m = Add(a, b); uint8[n,4] y = QuantizeLinear(m, t, u) }",
          "  a = DequantizeLinear(x, s, z)\n  b = DequantizeLinear(v, t, zi)\n  m = Add(a, b)\n"
          "  y = QuantizeLinear(m, t, u)\n");
    NODES("(uint8[n,4] x, float[n,4] b) => (y) " CONSTS "{ " A "float[n,4] m = Add(a, b); "
          "uint8[n,4] y = QuantizeLinear(m, t, u) }",
          "  a = DequantizeLinear(x, s, z)\n  m = Add(a, b)\n  y = QuantizeLinear(m, t, u)\n");
}

TEST(quantized_moves) {
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A "float[4,n] m = Transpose(a); float[4,n,1] r = Unsqueeze(m, two); "
          "uint8[4,n,1] y = QuantizeLinear(r, s, z) }",
          "  m_codes = Transpose(x)\n  r_codes = Unsqueeze(m_codes, two)\n");
    /* Another scale behind it: codes are moved, then quantized anew. */
    NODES("(uint8[n,4] x) => (y) " CONSTS "{ " A
          "float[4,n] m = Transpose(a); uint8[4,n] y = QuantizeLinear(m, t, z) }",
          "  m_codes = Transpose(x)\n  m = DequantizeLinear(m_codes, s, z)\n"
          "  y = QuantizeLinear(m, t, z)\n");
    /* Scales by axis do not go through. */
    NODES("(int8[4,3] x) => (y) " CONSTS "{ float[4,3] a = DequantizeLinear(x, sw, zw); float[3,4] y = Transpose(a) }",
          "  a = DequantizeLinear(x, sw, zw)\n  y = Transpose(a)\n");
}

#define SUMS                                                                                                     \
    "uint8[n,4] q, float[] r, uint8[] o = DynamicQuantizeLinear(x); int32[n,3] i = MatMulInteger(q, w, o, zw); " \
    "float[n,3] f = Cast<to = 1>(i); "
#define CODES "  q, r, o = DynamicQuantizeLinear(x)\n"

TEST(quantized_dynamic_products) {
    NODES("(float[n,4] x) => (y) " CONSTS "{ " SUMS "float[] p = Mul(r, s); float[n,3] y = Mul(f, p) }",
          CODES "  y = com.microsoft.MatMulIntegerToFloat(q, w, r, s, o, zw)\n");
    /* Scales of columns stand on the right whichever way they are multiplied; the bias goes in. */
    NODES("(float[n,4] x) => (y) " CONSTS "{ " SUMS
          "float[3] p = Mul(sw, r); float[n,3] m = Mul(p, f); float[n,3] y = Add(sc, m) }",
          CODES "  y = com.microsoft.MatMulIntegerToFloat(q, w, r, sw, o, zw, sc)\n");
    /* A number added is no bias; two scales of columns are none of A. */
    NODES("(float[n,4] x) => (y) " CONSTS "{ " SUMS
          "float[] p = Mul(r, s); float[n,3] m = Mul(f, p); float[n,3] y = Add(m, one) }",
          CODES "  m = com.microsoft.MatMulIntegerToFloat(q, w, r, s, o, zw)\n  y = Add(m, one)\n");
    NODES("(float[n,4] x, float[3] v) => (y) " CONSTS "{ " SUMS "float[3] p = Mul(v, sw); float[n,3] y = Mul(f, p) }",
          CODES "  i = MatMulInteger(q, w, o, zw)\n  f = Cast<to = 1>(i)\n  p = Mul(v, sw)\n  y = Mul(f, p)\n");
    /* Sums that someone else reads. */
    NODES("(float[n,4] x) => (y, i) " CONSTS "{ " SUMS "float[] p = Mul(r, s); float[n,3] y = Mul(f, p) }",
          CODES "  i = MatMulInteger(q, w, o, zw)\n  f = Cast<to = 1>(i)\n  p = Mul(r, s)\n  y = Mul(f, p)\n");
}
