/* transform/infer/quantized_channels_test.c: convolutions of codes with channels last, and what stands between them. */
#include "tests/passes.h"

static void nodes_become(int line, const char *graph, const char *want) {
    bench b;
    char text[2000];
    snprintf(text, sizeof text, "<opset: \"\" 17> g %s", graph);
    if (bench_init(&b, text)) {
        b.m->infers_only = true;
        CHECK_INT(run_passes(&b, "quantized quantized_channels transposes identity dead_code", 3), NC_OK);
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

#define CONSTS                                                                                              \
    "<const float[] s = {0.5}, const uint8[] z = {7}, const int8[4,4,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, " \
    "10, 11, 12, 13, 14, 15, 16}, const int8[] zw = {0}>"
#define LAST "com.microsoft.QLinearConv<channels_last = 1, kernel_shape = [1, 1]>"
#define CONV(to, from) "uint8[n,4,5,6] " to " = QLinearConv<kernel_shape = [1, 1]>(" from ", s, z, w, s, zw, s, z); "

TEST(quantized_channels_last) {
    NODES("(uint8[n,4,5,6] x) => (y) " CONSTS "{ " CONV("a", "x") CONV("y", "a") "}",
          "  Transpose_9_out = Transpose<perm = [0, 2, 3, 1]>(x)\n"
          "  QLinearConv_11_out = " LAST "(Transpose_9_out, s, z, w, s, zw, s, z)\n"
          "  QLinearConv_17_out = " LAST "(QLinearConv_11_out, s, z, w, s, zw, s, z)\n"
          "  y = Transpose<perm = [0, 3, 1, 2]>(QLinearConv_17_out)\n");
}

/* Of a sum whose operands both come from convolutions no Transpose is left between them; one that does not keeps its
 * own. */
TEST(quantized_channels_through_sums) {
    NODES("(uint8[n,4,5,6] x) => (y) " CONSTS "{ " CONV("a", "x")
              CONV("b", "a") "uint8[n,4,5,6] c = com.microsoft.QLinearAdd(a, s, z, b, s, z, s, z); " CONV("y", "c") "}",
          "  Transpose_13_out = Transpose<perm = [0, 2, 3, 1]>(x)\n"
          "  QLinearConv_15_out = " LAST "(Transpose_13_out, s, z, w, s, zw, s, z)\n"
          "  QLinearConv_21_out = " LAST "(QLinearConv_15_out, s, z, w, s, zw, s, z)\n"
          "  QLinearAdd_25_out = com.microsoft.QLinearAdd(QLinearConv_15_out, s, z, QLinearConv_21_out, s, z, s, z)\n"
          "  QLinearConv_31_out = " LAST "(QLinearAdd_25_out, s, z, w, s, zw, s, z)\n"
          "  y = Transpose<perm = [0, 3, 1, 2]>(QLinearConv_31_out)\n");
    NODES("(uint8[n,4,5,6] x) => (y) " CONSTS
          "{ " CONV("a", "x") "uint8[n,4,5,6] y = com.microsoft.QLinearAdd(a, s, z, x, s, z, s, z) }",
          "  Transpose_9_out = Transpose<perm = [0, 2, 3, 1]>(x)\n"
          "  QLinearConv_11_out = " LAST "(Transpose_9_out, s, z, w, s, zw, s, z)\n"
          "  a = Transpose<perm = [0, 3, 1, 2]>(QLinearConv_11_out)\n"
          "  y = com.microsoft.QLinearAdd(a, s, z, x, s, z, s, z)\n");
}

/* A MaxPool of codes between convolutions turns nothing; one that gives places too, or stands in front, stays. */
TEST(quantized_channels_through_pools) {
    NODES("(uint8[n,4,5,6] x) => (y) " CONSTS "{ " CONV(
              "a", "x") "uint8[n,4,2,3] b = MaxPool<kernel_shape = [2, 2], strides = [2, 2], storage_order = 0>(a); "
                        "uint8[n,4,2,3] y = QLinearConv<kernel_shape = [1, 1]>(b, s, z, w, s, zw, s, z) }",
          "  Transpose_11_out = Transpose<perm = [0, 2, 3, 1]>(x)\n"
          "  QLinearConv_13_out = " LAST "(Transpose_11_out, s, z, w, s, zw, s, z)\n"
          "  NhwcMaxPool_17_out = com.microsoft.NhwcMaxPool<kernel_shape = [2, 2], strides = [2, 2]>"
          "(QLinearConv_13_out)\n"
          "  QLinearConv_23_out = " LAST "(NhwcMaxPool_17_out, s, z, w, s, zw, s, z)\n"
          "  y = Transpose<perm = [0, 3, 1, 2]>(QLinearConv_23_out)\n");
    NODES("(uint8[n,4,5,6] x) => (y, at) " CONSTS "{ " CONV(
              "a", "x") "uint8[n,4,2,3] y, int64[n,4,2,3] at = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a) }",
          "  Transpose_10_out = Transpose<perm = [0, 2, 3, 1]>(x)\n"
          "  QLinearConv_12_out = " LAST "(Transpose_10_out, s, z, w, s, zw, s, z)\n"
          "  a = Transpose<perm = [0, 3, 1, 2]>(QLinearConv_12_out)\n"
          "  y, at = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)\n");
    NODES("(uint8[n,4,5,6] x) => (y) " CONSTS
          "{ uint8[n,4,2,3] y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
          "  y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)\n");
}
