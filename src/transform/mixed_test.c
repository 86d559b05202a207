/* transform/mixed_test.c: models of f32 that compute in half precision, before and after as text. */
#include "transform/mixed.h"

#include "tests/passes.h"

static void mixes(const char *file, int line, const char *text, nc_dtype compute, bool infers_only, const char *want) {
    bench b;
    nc_text out = {0};
    if (bench_init(&b, text)) {
        b.m->infers_only = infers_only;
        CHECK_INT(nc_transform_mixed(&b.w, b.m, compute), NC_OK);
        CHECK_INT(nc_verify(&b.w, b.m), NC_OK);
        nc_graph_print(&out, b.m);
        const char *at = out.s != NULL ? strstr(out.s, "=>") : NULL;
        if (at == NULL || strcmp(at, want) != 0)
            nc_test_failed(file, line, "is:\n%s\nexpected:\n%s", at != NULL ? at : "", want);
    }
    nc_text_release(&out);
    bench_release(&b);
}
#define MIXES_AS(opset, type, graph, want) \
    mixes(__FILE__, __LINE__, "<opset: \"\" " opset "> g " graph, type, false, want)
#define MIXES_TO_INFER(graph, want) mixes(__FILE__, __LINE__, "<opset: \"\" 17> g " graph, NC_FLOAT16, true, want)
#define MIXES(graph, want) MIXES_AS("17", NC_FLOAT16, graph, want)

#define WB "const float[2,2] w = {1, 2, 3, 4}, const float[2] b = {1, 2}"

/* The product, the bias and the formula behind it are narrow; what comes out is not, under its own name. */
TEST(mixed_products_and_the_formulas_behind_them) {
    MIXES("(float[n,2] x) => (y) <" WB "> { float[n,2] h = MatMul(x, w); float[n,2] a = Add(h, b); y = Relu(a) }",
          "=> (float[n,2] y)\n"
          "<const float[2,2] w = {1, 2, 3, 4},\n"
          " const float[2] b = {1, 2}>\n"
          "{\n"
          "  x_float16 = Cast<to = 10>(x)\n"
          "  w_float16 = Cast<to = 10>(w)\n"
          "  h_float16 = MatMul(x_float16, w_float16) \"MatMul_3\"\n"
          "  b_float16 = Cast<to = 10>(b)\n"
          "  a_float16 = Add(h_float16, b_float16) \"Add_5\"\n"
          "  y_float16 = Relu(a_float16) \"Relu_7\"\n"
          "  y = Cast<to = 1>(y_float16)\n"
          "}\n");
}

/* A softmax, an exponent and an operand that is not narrow are computed in f32; one Cast serves two products. */
TEST(mixed_keeps_in_f32_what_would_lose) {
    MIXES("(float[n,2] x) => (y, z, u) <" WB "> { float[n,2] h = MatMul(x, w); y = Softmax(h); z = Exp(h); "
          "float[n,2] k = MatMul(x, w); u = Add(k, x) }",

          "=> (float[n,2] y, float[n,2] z, float[n,2] u)\n"
          "<const float[2,2] w = {1, 2, 3, 4},\n"
          " const float[2] b = {1, 2}>\n"
          "{\n"
          "  x_float16 = Cast<to = 10>(x)\n"
          "  w_float16 = Cast<to = 10>(w)\n"
          "  h_float16 = MatMul(x_float16, w_float16) \"MatMul_3\"\n"
          "  h = Cast<to = 1>(h_float16)\n"
          "  y = Softmax(h)\n"
          "  z = Exp(h)\n"
          "  k_float16 = MatMul(x_float16, w_float16) \"MatMul_9\"\n"
          "  k = Cast<to = 1>(k_float16)\n"
          "  u = Add(k, x)\n"
          "}\n");
}

/* Views follow and products take them as they are: nothing is cast in between. */
TEST(mixed_views_between_products) {
    MIXES_AS("17", NC_BFLOAT16,
             "(float[2,2] x) => (y) <" WB "> { float[2,2] h = MatMul(x, w); float[2,2] t = Transpose(h); "
             "y = MatMul(t, w) }",

             "=> (float[2,2] y)\n"
             "<const float[2,2] w = {1, 2, 3, 4},\n"
             " const float[2] b = {1, 2}>\n"
             "{\n"
             "  x_bfloat16 = Cast<to = 16>(x)\n"
             "  w_bfloat16 = Cast<to = 16>(w)\n"
             "  h_bfloat16 = MatMul(x_bfloat16, w_bfloat16) \"MatMul_3\"\n"
             "  t_bfloat16 = Transpose(h_bfloat16) \"Transpose_5\"\n"
             "  y_bfloat16 = MatMul(t_bfloat16, w_bfloat16) \"MatMul_7\"\n"
             "  y = Cast<to = 1>(y_bfloat16)\n"
             "}\n");
}

/* Views of f32 are made of the narrow form of what they show, once. */
TEST(mixed_views_in_front_of_products) {
    MIXES_AS("17", NC_BFLOAT16,
             "(float[2,2] x) => (y) <" WB "> { float[2,2] t = Transpose(w); float[2,2] h = MatMul(x, t); "
             "y = MatMul(h, t) }",

             "=> (float[2,2] y)\n"
             "<const float[2,2] w = {1, 2, 3, 4},\n"
             " const float[2] b = {1, 2}>\n"
             "{\n"
             "  w_bfloat16 = Cast<to = 16>(w)\n"
             "  t_bfloat16 = Transpose(w_bfloat16) \"Transpose_3\"\n"
             "  x_bfloat16 = Cast<to = 16>(x)\n"
             "  h_bfloat16 = MatMul(x_bfloat16, t_bfloat16) \"MatMul_5\"\n"
             "  y_bfloat16 = MatMul(h_bfloat16, t_bfloat16) \"MatMul_7\"\n"
             "  y = Cast<to = 1>(y_bfloat16)\n"
             "}\n");
}

#define LOW \
    "(float[2,2] x) => (y) <" WB ", const float[] low = {-1e30}> { float[2,2] h = MatMul(x, w); y = Max(h, low) }"

/* A constant that f16 cannot hold keeps its formula in f32; bf16 holds it. */
TEST(mixed_constants_that_do_not_fit) {
    MIXES(LOW, "=> (float[2,2] y)\n"
               "<const float[2,2] w = {1, 2, 3, 4},\n"
               " const float[2] b = {1, 2},\n"
               " const float[] low = {-1.00000002e+30}>\n"
               "{\n"
               "  x_float16 = Cast<to = 10>(x)\n"
               "  w_float16 = Cast<to = 10>(w)\n"
               "  h_float16 = MatMul(x_float16, w_float16) \"MatMul_4\"\n"
               "  h = Cast<to = 1>(h_float16)\n"
               "  y = Max(h, low)\n"
               "}\n");
    MIXES_AS("17", NC_BFLOAT16, LOW,
             "=> (float[2,2] y)\n"
             "<const float[2,2] w = {1, 2, 3, 4},\n"
             " const float[2] b = {1, 2},\n"
             " const float[] low = {-1.00000002e+30}>\n"
             "{\n"
             "  x_bfloat16 = Cast<to = 16>(x)\n"
             "  w_bfloat16 = Cast<to = 16>(w)\n"
             "  h_bfloat16 = MatMul(x_bfloat16, w_bfloat16) \"MatMul_4\"\n"
             "  low_bfloat16 = Cast<to = 16>(low)\n"
             "  y_bfloat16 = Max(h_bfloat16, low_bfloat16) \"Max_6\"\n"
             "  y = Cast<to = 1>(y_bfloat16)\n"
             "}\n");
}

/* An op whose version takes no bfloat16 stays, and so does what follows it; an opset without a Cast to it. */
TEST(mixed_where_the_opset_is_older) {
    MIXES_AS("17", NC_BFLOAT16,
             "(float[1,2,4] x) => (y) <const float[1,2,1] k = {1, 2}> { float[1,1,4] h = Conv(x, k); y = Relu(h) }",

             "=> (float[1,1,4] y)\n"
             "<const float[1,2,1] k = {1, 2}>\n"
             "{\n"
             "  h = Conv(x, k)\n"
             "  y = Relu(h)\n"
             "}\n");
    bench b;
    if (bench_init(&b, "<opset: \"\" 11> g (float[2,2] x) => (y) <" WB "> { y = MatMul(x, w) }")) {
        CHECK_INT(nc_transform_mixed(&b.w, b.m, NC_BFLOAT16), NC_E_UNSUPPORTED);
        CHECK(strstr(b.w.diag.text, "opset 11 has no Cast to bfloat16") != NULL);
    }
    bench_release(&b);
}

/* What chooses or scales elements follows, with its other outputs and the ratio as they are; it draws as before. */
TEST(mixed_pools_and_dropout_between_products) {
    MIXES("(float[1,2,4] x, bool[] t) => (y) <const float[1,2,1] k = {1, 2}, const float[] r = {0.25}> { "
          "float[1,1,4] h = Conv(x, k); float[1,1,2] p, int64[1,1,2] i = MaxPool<kernel_shape = [2], strides = [2]>(h);"
          " y = Dropout(p, r, t) @random=7 }",

          "=> (float[1,1,2] y)\n"
          "<const float[1,2,1] k = {1, 2},\n"
          " const float[] r = {0.25}>\n"
          "{\n"
          "  x_float16 = Cast<to = 10>(x)\n"
          "  k_float16 = Cast<to = 10>(k)\n"
          "  h_float16 = Conv(x_float16, k_float16) \"Conv_4\"\n"
          "  p_float16, i = MaxPool<kernel_shape = [2], strides = [2]>(h_float16) \"MaxPool_6\"\n"
          "  y_float16 = Dropout(p_float16, r, t) @random=7 \"Dropout_9\"\n"
          "  y = Cast<to = 1>(y_float16)\n"
          "}\n");
}

/* Integers, and a model of doubles, stay as they are. */
TEST(mixed_other_types_stay) {
    MIXES("(double[2,2] x, int64[2,2] k) => (y, z) { y = MatMul(x, x); z = MatMul(k, k) }",
          "=> (double[2,2] y, int64[2,2] z)\n"
          "{\n"
          "  y = MatMul(x, x)\n"
          "  z = MatMul(k, k)\n"
          "}\n");
}

/* Attention adds products up: it is narrow, and its mask, which may be as low as a float can be, stays as it is. */
TEST(mixed_attention_keeps_its_mask) {
    MIXES_AS("23", NC_BFLOAT16, "(float[1,1,2,2] q, float[2,2] m) => (y) { float[1,1,2,2] y = Attention(q, q, q, m) }",

             "=> (float[1,1,2,2] y)\n"
             "{\n"
             "  q_bfloat16 = Cast<to = 16>(q)\n"
             "  y_bfloat16 = Attention(q_bfloat16, q_bfloat16, q_bfloat16, m) \"Attention_2\"\n"
             "  y = Cast<to = 1>(y_bfloat16)\n"
             "}\n");
}

/* Where no gradient is asked for a norm is narrow, and what is added to the value that it norms; a softmax is not. */
TEST(mixed_norms_of_a_model_that_only_infers) {
    MIXES_TO_INFER("(float[n,2] x) => (y, z) <" WB "> { float[n,2] k = LayerNormalization(x, b); "
                   "float[n,2] h = MatMul(k, w); y = Add(x, h); z = Softmax(h) }",

                   "=> (float[n,2] y, float[n,2] z)\n"
                   "<const float[2,2] w = {1, 2, 3, 4},\n"
                   " const float[2] b = {1, 2}>\n"
                   "{\n"
                   "  x_float16 = Cast<to = 10>(x)\n"
                   "  b_float16 = Cast<to = 10>(b)\n"
                   "  k_float16 = LayerNormalization(x_float16, b_float16) \"LayerNormalization_3\"\n"
                   "  w_float16 = Cast<to = 10>(w)\n"
                   "  h_float16 = MatMul(k_float16, w_float16) \"MatMul_5\"\n"
                   "  h = Cast<to = 1>(h_float16)\n"
                   "  y_float16 = Add(x_float16, h_float16) \"Add_7\"\n"
                   "  y = Cast<to = 1>(y_float16)\n"
                   "  z = Softmax(h)\n"
                   "}\n");
    MIXES("(float[n,2] x) => (y) <" WB "> { float[n,2] h = MatMul(x, w); y = LayerNormalization(h, b) }",

          "=> (float[n,2] y)\n"
          "<const float[2,2] w = {1, 2, 3, 4},\n"
          " const float[2] b = {1, 2}>\n"
          "{\n"
          "  x_float16 = Cast<to = 10>(x)\n"
          "  w_float16 = Cast<to = 10>(w)\n"
          "  h_float16 = MatMul(x_float16, w_float16) \"MatMul_3\"\n"
          "  h = Cast<to = 1>(h_float16)\n"
          "  y = LayerNormalization(h, b)\n"
          "}\n");
}

/* A Cast that the model has of its own may stand behind the product. */
TEST(mixed_takes_no_cast_that_comes_later) {
    MIXES("(float[n,2] x) => (y, c) <" WB "> { y = MatMul(x, w); float16[n,2] c = Cast<to = 10>(x) }",

          "=> (float[n,2] y, float16[n,2] c)\n"
          "<const float[2,2] w = {1, 2, 3, 4},\n"
          " const float[2] b = {1, 2}>\n"
          "{\n"
          "  x_float16 = Cast<to = 10>(x)\n"
          "  w_float16 = Cast<to = 10>(w)\n"
          "  y_float16 = MatMul(x_float16, w_float16) \"MatMul_3\"\n"
          "  y = Cast<to = 1>(y_float16)\n"
          "  c = Cast<to = 10>(x)\n"
          "}\n");
}
