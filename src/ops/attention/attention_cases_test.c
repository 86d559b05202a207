/* ops/attention/attention_cases_test.c: the cases of the attention family (ops/cases.h), the tests that run them, types
 * and refusals. RotaryEmbedding, LinearAttention and CausalConvWithState know no double, so that the cases cannot hold
 * them: they are checked against one another's definitions here and by ONNX's own cases. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_attention_cases[];

#define QKV "float[2,4,s,6] q, float[2,2,t,6] k, float[2,2,t,5] v"
#define ATTENTION(opset, attrs, more, inputs, outs) \
    "<opset: \"\" " opset "> g (" QKV more ") => (" outs ") { " outs " = Attention" attrs "(q, k, v" inputs ") }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
#define BACK(attrs, more, mask, lens)                                                                              \
    "<opset: \"\" 24, \"nacre\" 1> g (" QKV ", float[2,4,s,5] d" more ") => (a, b, c) <const int64[2] n = {3, 5}>" \
    " { a, b, c = nacre.AttentionGrad" attrs "(q, k, v, " mask ", , , " lens ", d) }"

/* Heads of queries, new rows, rows of the caches, columns; where they go and what is seen; attributes of both. */
#define INTO_CACHES(type, heads, new, rows, cols, at, lens, scatter, attrs)                                        \
    "<opset: \"\" 24> g (" type "[2," heads                                                                        \
    "," new "," cols "] q, " type                                                                                  \
            "[2,2," new "," cols "] a, " type                                                                      \
                        "[2,2," new "," cols "] b, " type "[2,2," rows "," cols "] k, " type "[2,2," rows "," cols \
                                    "] v) => (y, x, z) <const int64[2] n = {" at "}, const int64[2] l = {" lens    \
                                    "}> { x = TensorScatter" scatter "(k, a, n) z = TensorScatter" scatter         \
                                    "(v, b, n) y = Attention" attrs "(q, x, z, , , , l) }"
#define AROUND "<mode = \"circular\">"

/* Dropout: operands, attributes, mask. */
#define DROP(ins, attrs, mask)                                                            \
    "<opset: \"\" 24, \"nacre\" 1> g (" ins ") => (y) <const int64[2] z = {5, 9}> { y = " \
    "nacre.AttentionDropout<ratio = 0.3" attrs ">(q, k, v, " mask ", , , , z) @random=7 }"
#define DROP_BACK(ins, attrs, mask)                                                                   \
    "<opset: \"\" 24, \"nacre\" 1> g (" ins ") => (a, b, c) <const int64[2] z = {5, 9}> { a, b, c = " \
    "nacre.AttentionDropoutGrad<ratio = 0.3" attrs ">(q, k, v, " mask ", , , , d, , , z) @random=7 }"

const nc_case nc_attention_cases[] = {
    {"attention", "<opset: \"\" 23> g (float[2,2,s,3] q, float[2,2,t,3] k, float[2,2,t,4] v) => (y) {"
                  " y = Attention(q, k, v) }"},
    {"attention_turned", "<opset: \"\" 23> g (float[2,s,2,6] q, float[2,2,6,t] k, float[2,t,2,5] v) => (y) {"
                         " a = Transpose<perm = [0, 2, 1, 3]>(q) b = Transpose<perm = [0, 1, 3, 2]>(k)"
                         " c = Transpose<perm = [0, 2, 1, 3]>(v) y = Attention(a, b, c) }"},
    {"attention_sliced", "<opset: \"\" 23> g (float[2,s,24] x) => (y) { a, b, c = Split<axis = 2, num_outputs = 3>(x)"
                         " y = Attention<q_num_heads = 2, kv_num_heads = 2>(a, b, c) }"},
    {"attention_groups", ATTENTION("23", "", "", "", "y")},
    {"attention_causal", ATTENTION("23", "<is_causal = 1, scale = 0.5, softcap = 1.5>", "", "", "y")},
    {"attention_mask", ATTENTION("24", "", ", float[s,t] m", ", m", "y")},
    {"attention_short_mask", ATTENTION("24", "", ", float[4,1,3] m", ", m", "y"), VALUE},
    {"attention_seen", ATTENTION("24", "", ", bool[2,1,s,t] m", ", m", "y")},
    {"attention_window", ATTENTION("25", "<left_window_size = 1, right_window_size = 1>", "", "", "y")},
    {"attention_packed", "<opset: \"\" 23> g (float[2,s,8] q, float[2,t,4] k, float[2,t,6] v) => (y) {"
                         " y = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v) }"},
    {"attention_past", "<opset: \"\" 23> g (" QKV ", float[2,2,p,6] pk, float[2,2,p,5] pv) => (y, tk, tv) {"
                       " y, tk, tv = Attention<is_causal = 1>(q, k, v, , pk, pv) }"},
    {"attention_past_of_nothing", "<opset: \"\" 23> g (" QKV ", float[2,2,0,6] pk, float[2,2,0,5] pv) => (y) {"
                                  " y = Attention<is_causal = 1>(q, k, v, , pk, pv) }"},
    {"attention_past_unseen",
     "<opset: \"\" 23> g (" QKV ", float[2,2,p,6] pk, float[2,2,p,5] pv) => (y) {"
     " y = Attention(q, k, v, , pk, pv) }",
     VALUE},
    {"attention_stage_0", ATTENTION("23", "", "", "", "y, tk, tv, qk"), VALUE},
    {"attention_stage_1", ATTENTION("23", "<qk_matmul_output_mode = 1, softcap = 2.0>", "", "", "y, tk, tv, qk"),
     VALUE},
    {"attention_stage_2", ATTENTION("23", "<qk_matmul_output_mode = 2>", ", float[s,t] m", ", m", "y, tk, tv, qk"),
     VALUE},
    {"attention_stage_3", ATTENTION("23", "<qk_matmul_output_mode = 3>", "", "", "y, tk, tv, qk"), VALUE},
    {"attention_lengths", "<opset: \"\" 24> g (" QKV ") => (y) <const int64[2] n = {3, 5}> {"
                          " y = Attention<is_causal = 1>(q, k, v, , , , n) }"},
    {"attention_grad", BACK("", "", "", "")},
    {"attention_grad_causal", BACK("<is_causal = 1, scale = 0.5, softcap = 1.5>", "", "", "")},
    {"attention_grad_mask", BACK("", ", float[s,t] m", "m", ""), VALUE},
    {"attention_grad_seen", BACK("", ", bool[2,1,s,t] m", "m", "")},
    {"attention_grad_int_mask", BACK("", ", int32[s,t] m", "m", ""), VALUE},
    {"attention_grad_window", BACK("<left_window_size = 1, right_window_size = 1>", "", "", "")},
    {"attention_grad_lengths", BACK("<is_causal = 1>", "", "", "n")},
    {"attention_grad_packed",
     "<opset: \"\" 23, \"nacre\" 1> g (float[2,s,8] q, float[2,t,4] k, float[2,t,6] v, float[2,s,12] d) =>"
     " (a, b, c) { a, b, c = nacre.AttentionGrad<q_num_heads = 4, kv_num_heads = 2>"
     "(q, k, v, , , , , d) }"},
    {"attention_grad_turned",
     "<opset: \"\" 23, \"nacre\" 1> g (float[2,s,2,6] q, float[2,2,6,t] k, float[2,t,2,5] v, float[2,s,2,5] d) => (y, "
     "z) {"
     " a = Transpose<perm = [0, 2, 1, 3]>(q) b = Transpose<perm = [0, 1, 3, 2]>(k)"
     " c = Transpose<perm = [0, 2, 1, 3]>(v) e = Transpose<perm = [0, 2, 1, 3]>(d)"
     " y, , z = nacre.AttentionGrad(a, b, c, , , , , e) }",
     VALUE},
    {"attention_grad_half",
     "<opset: \"\" 23, \"nacre\" 1> g (float16[1,2,s,4] q, float16[1,2,t,4] k, float16[1,2,t,4] v, float16[1,2,s,4] d,"
     " float16[s,t] m) => (a, b, c) { a, b, c = nacre.AttentionGrad(q, k, v, m, , , , d) }",
     VALUE},
    {"attention_grad_bfloat16",
     "<opset: \"\" 23, \"nacre\" 1> g (bfloat16[1,2,s,4] q, bfloat16[1,2,t,4] k, bfloat16[1,2,t,4] v, "
     "bfloat16[1,2,s,4] d) =>"
     " (a, b, c) { a, b, c = nacre.AttentionGrad(q, k, v, , , , , d) }",
     VALUE},
    /* Several tiles of queries and keys, the last ones not whole; heads that share keys; the widest ones. */
    {"attention_grad_tiles",
     "<opset: \"\" 25, \"nacre\" 1> g (float[1,4,67,40] q, float[1,2,71,40] k, float[1,2,71,33] v, float[1,4,67,33] d)"
     " => (a, b, c) { a, b, c = nacre.AttentionGrad<is_causal = 1, left_window_size = 40>(q, k, v, , , , , d) }",
     VALUE},
    {"attention_grad_tiles_half",
     "<opset: \"\" 23, \"nacre\" 1> g (float16[1,70,64] q, float16[1,77,32] k, float16[1,77,32] v, float16[1,70,64] d,"
     " float16[70,77] m) => (a, b, c) { a, b, c ="
     " nacre.AttentionGrad<q_num_heads = 2, kv_num_heads = 1>(q, k, v, m, , , , d) }",
     VALUE},
    {"attention_grad_wide",
     "<opset: \"\" 23, \"nacre\" 1> g (float[1,1,9,200] q, float[1,1,41,200] k, float[1,1,41,256] v,"
     " float[1,1,9,256] d) => (a, b, c) { a, b, c = nacre.AttentionGrad(q, k, v, , , , , d) }",
     VALUE},
    {"attention_grad_too_wide",
     "<opset: \"\" 23, \"nacre\" 1> g (float[1,1,s,300] q, float[1,1,t,300] k, float[1,1,t,300] v,"
     " float[1,1,s,300] d) => (a, b, c) { a, b, c = nacre.AttentionGrad(q, k, v, , , , , d) }",
     VALUE},
    {"attention_grad_unseen",
     "<opset: \"\" 23, \"nacre\" 1> g (float[1,1,5,16] q, float[1,1,9,16] k, float[1,1,9,16] v, float[1,1,5,16] e) =>"
     " (a, b, c) <const bool[5,1] n = {0, 1, 0, 1, 1}, const int64[2] d = {5, 9}> { m = Expand(n, d)"
     " a, b, c = nacre.AttentionGrad(q, k, v, m, , , , e) }",
     VALUE},
    {"attention_int_mask", ATTENTION("23", "", ", int32[s,t] m", ", m", "y"), VALUE},
    {"attention_half",
     "<opset: \"\" 23> g (float16[1,2,s,4] q, float16[1,2,t,4] k, float16[1,2,t,4] v, float16[s,t] m) => (y) {"
     " y = Attention(q, k, v, m) }",
     VALUE},
    /* Several tiles of queries and keys, the last ones not whole. */
    {"attention_tiles",
     "<opset: \"\" 23> g (float[1,2,37,40] q, float[1,2,71,40] k, float[1,2,71,33] v) => (y) {"
     " y = Attention<is_causal = 1, softcap = 3.0>(q, k, v) }",
     VALUE},
    {"attention_tiles_half",
     "<opset: \"\" 23> g (float16[1,70,64] q, float16[1,133,32] k, float16[1,133,32] v, float16[70,133] m) => (y) {"
     " y = Attention<q_num_heads = 2, kv_num_heads = 1>(q, k, v, m) }",
     VALUE},
    {"attention_tiles_causal",
     "<opset: \"\" 23> g (float16[1,1,129,72] q, float16[1,1,129,72] k, float16[1,1,129,72] v) => (y) {"
     " y = Attention<is_causal = 1>(q, k, v) }",
     VALUE},
    {"attention_tiles_bfloat16",
     "<opset: \"\" 25> g (bfloat16[1,3,130,24] q, bfloat16[1,1,130,24] k, bfloat16[1,1,130,20] v, bool[3,1,130] m) =>"
     " (y) { y = Attention<left_window_size = 70, right_window_size = 9>(q, k, v, m) }",
     VALUE},
    {"attention_wide_half",
     "<opset: \"\" 23> g (float16[1,1,s,200] q, float16[1,1,41,200] k, float16[1,1,41,256] v) => (y) {"
     " y = Attention(q, k, v) }",
     VALUE},
    {"attention_too_wide",
     "<opset: \"\" 23> g (float[1,1,s,300] q, float[1,1,t,300] k, float[1,1,t,300] v) => (y) {"
     " y = Attention(q, k, v) }",
     VALUE},
    {"attention_unseen_half",
     "<opset: \"\" 23> g (float16[1,1,5,16] q, float16[1,1,9,16] k, float16[1,1,9,16] v) => (y)"
     " <const bool[5,1] n = {0, 1, 0, 1, 1}, const int64[2] d = {5, 9}> { m = Expand(n, d) y = Attention(q, k, v, m) }",
     VALUE},
    {"attention_half_past",
     "<opset: \"\" 23> g (float16[2,4,s,16] q, float16[2,2,t,16] k, float16[2,2,t,8] v, float16[2,2,p,16] pk,"
     " float16[2,2,p,8] pv) => (y, tk, tv) { y, tk, tv = Attention<is_causal = 1>(q, k, v, , pk, pv) }",
     VALUE},
    {"attention_half_lengths",
     "<opset: \"\" 24> g (float16[2,2,s,8] q, float16[2,2,t,8] k, float16[2,2,t,8] v) => (y)"
     " <const int64[2] n = {3, 5}> { y = Attention<is_causal = 1>(q, k, v, , , , n) }",
     VALUE},
    /* Long enough for cuDNN: causal, the last query at the last key, heads that share keys. */
    {"attention_long_half",
     "<opset: \"\" 23> g (float16[1,256,32] q, float16[1,257,32] k, float16[1,257,32] v) => (y) {"
     " y = Attention<q_num_heads = 2, kv_num_heads = 2, is_causal = 1>(q, k, v) }",
     VALUE},
    {"attention_long_past",
     "<opset: \"\" 23> g (bfloat16[1,2,256,16] q, bfloat16[1,1,256,16] k, bfloat16[1,1,256,8] v,"
     " bfloat16[1,1,8,16] pk, bfloat16[1,1,8,8] pv) => (y, tk, tv) {"
     " y, tk, tv = Attention<is_causal = 1>(q, k, v, , pk, pv) }",
     VALUE},
    {"attention_grad_long",
     "<opset: \"\" 23, \"nacre\" 1> g (bfloat16[1,256,32] q, bfloat16[1,256,16] k, bfloat16[1,256,16] v,"
     " bfloat16[1,256,32] d) => (a, b, c) { a, b, c ="
     " nacre.AttentionGrad<q_num_heads = 2, kv_num_heads = 1, is_causal = 1>(q, k, v, , , , , d) }",
     VALUE},
    {"attention_mixed",
     "<opset: \"\" 23> g (bfloat16[1,2,s,4] q, bfloat16[1,2,t,4] k, float16[1,2,t,4] v) => (y) {"
     " y = Attention(q, k, v) }",
     VALUE},
    {"attention_no_keys",
     "<opset: \"\" 23> g (float[1,2,s,4] q, float[1,2,0,4] k, float[1,2,0,4] v) => (y) {"
     " y = Attention(q, k, v) }",
     VALUE},
    {"attention_no_queries",
     "<opset: \"\" 23> g (float[1,2,0,4] q, float[1,2,t,4] k, float[1,2,t,4] v) => (y) {"
     " y = Attention(q, k, v) }",
     VALUE},
    {"dropout", DROP("float[2,4,s,6] q, float[2,2,t,6] k, float[2,2,t,5] v", "", "")},
    {"dropout_causal",
     DROP("float[2,2,s,6] q, float[2,2,t,6] k, float[2,2,t,5] v", ", is_causal = 1, softcap = 1.5", "")},
    {"dropout_mask", DROP("float[2,2,s,6] q, float[2,2,t,6] k, float[2,2,t,5] v, float[2,1,1,t] m", "", "m"), VALUE},
    {"dropout_packed",
     DROP("float[2,s,8] q, float[2,t,8] k, float[2,t,6] v, bool[s,t] m", ", q_num_heads = 2, kv_num_heads = 2", "m")},
    {"dropout_tiles", DROP("float[1,2,37,40] q, float[1,1,72,40] k, float[1,1,72,33] v", ", is_causal = 1", ""), VALUE},
    {"dropout_tiles_half", DROP("float16[1,2,70,64] q, float16[1,2,132,64] k, float16[1,2,132,64] v", "", ""), VALUE},
    {"dropout_odd_half",
     DROP("float16[1,70,64] q, float16[1,133,32] k, float16[1,133,32] v, float16[70,133] m",
          ", q_num_heads = 2, kv_num_heads = 1", "m"),
     VALUE},
    {"dropout_wide_half", DROP("bfloat16[1,2,20,136] q, bfloat16[1,2,44,136] k, bfloat16[1,2,44,200] v", "", ""),
     VALUE},
    {"dropout_too_wide", DROP("float[1,1,s,300] q, float[1,1,t,300] k, float[1,1,t,300] v", "", ""), VALUE},
    {"dropout_no_keys", DROP("float[1,2,s,4] q, float[1,2,0,4] k, float[1,2,0,4] v", "", ""), VALUE},
    {"dropout_no_queries", DROP("float[1,2,0,4] q, float[1,2,t,4] k, float[1,2,t,4] v", "", ""), VALUE},
    {"dropout_of_all", "<opset: \"\" 24, \"nacre\" 1> g (float[1,2,s,4] q) => (y) <const int64[2] z = {5, 9}>"
                       " { y = nacre.AttentionDropout<ratio = 1.0>(q, q, q, , , , , z) @random=7 }"},
    {"dropout_grad", DROP_BACK("float[2,4,s,6] q, float[2,2,t,6] k, float[2,2,t,5] v, float[2,4,s,5] d", "", "")},
    {"dropout_grad_mask",
     DROP_BACK("float[2,2,s,6] q, float[2,2,t,6] k, float[2,2,t,5] v, float[2,2,s,5] d, bool[2,1,1,t] m",
               ", softcap = 1.5", "m")},
    {"dropout_grad_tiles",
     DROP_BACK("float[1,2,37,40] q, float[1,1,72,40] k, float[1,1,72,33] v, float[1,2,37,33] d", ", is_causal = 1", ""),
     VALUE},
    {"dropout_grad_odd_half",
     DROP_BACK("float16[1,70,64] q, float16[1,77,32] k, float16[1,77,32] v, float16[1,70,64] d, float16[70,77] m",
               ", q_num_heads = 2, kv_num_heads = 1", "m"),
     VALUE},
    {"swiglu", "<opset: \"\" 28> g (float[3,n] a, float[3,n] b) => (y) { y = SwiGLU(a, b) }"},
    {"swiglu_alpha", "<opset: \"\" 28> g (float[3,n] a, float[3,n] b) => (y) { y = SwiGLU<alpha = 0.5>(a, b) }"},
    {"swiglu_half", "<opset: \"\" 28> g (float16[3,n] a, float16[3,n] b) => (y) { y = SwiGLU(a, b) }", VALUE},
    {"tensor_scatter",
     "<opset: \"\" 24> g (float[2,3,8,2] x, float[2,3,3,2] u) => (y) <const int64[2] at = {1, 5}> {"
     " y = TensorScatter(x, u, at) }",
     {{0, 0}}},
    {"tensor_scatter_circular",
     "<opset: \"\" 24> g (int32[2,8,3] x, int32[2,5,3] u) => (y) <const int64[2] at = {6, -1}> {"
     " y = TensorScatter<mode = \"circular\">(x, u, at) }",
     {{-9, 9}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"into_caches", INTO_CACHES("float", "4", "1", "150", "16", "5, 149", "6, 150", AROUND, ""), VALUE},
    {"into_caches_half", INTO_CACHES("float16", "16", "1", "140", "64", "0, 700", "1, 140", AROUND, "<softcap = 2.0>"),
     VALUE},
    {"into_caches_causal", INTO_CACHES("float", "2", "3", "37", "20", "36, -2", "37, 37", AROUND, "<is_causal = 1>"),
     VALUE},
    {"into_caches_bfloat16", INTO_CACHES("bfloat16", "2", "2", "40", "128", "38, 0", "40, 2", "", ""), VALUE},
    {"into_caches_many", INTO_CACHES("float", "2", "30", "64", "8", "34, 1", "64, 31", "", "<is_causal = 1>"), VALUE},
    {"into_caches_whole", INTO_CACHES("float16", "2", "5", "5", "7", "3, 4", "5, 2", AROUND, ""), VALUE},
    {"into_caches_nothing", INTO_CACHES("float", "2", "0", "9", "8", "0, 0", "9, 3", "", ""), VALUE},
    {"tensor_scatter_nothing",
     "<opset: \"\" 24> g (float[2,8,3] x, float[2,0,3] u) => (y) { y = TensorScatter(x, u) }",
     {{0, 0}}},
    {0}};

TEST(attention_values) { nc_cases_check_values(nc_attention_cases); }
TEST(attention_isas) { nc_cases_check_isas(nc_attention_cases); }
TEST(attention_gradients) { nc_cases_check_gradients(nc_attention_cases); }

TEST(attention_types) {
    CHECK_INFERS_VALUE("<opset: \"\" 23> g (float[b,s,h] q, float[b,t,8] k, float[b,t,6] v) => (y, a, c, qk) {"
                       " y, a, c, qk = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v) }",
                       "y", "float[b,s,12]");
    CHECK_INFERS_VALUE("<opset: \"\" 23> g (float[b,4,1,8] q, float[b,2,1,8] k, float[b,2,1,6] v, float[b,2,past,8] pk,"
                       " float[b,2,past,6] pv) => (y, a, c) { y, a, c = Attention(q, k, v, , pk, pv) }",
                       "c", "float[b,2,past+1,6]");
    CHECK_INFERS_VALUE(
        "<opset: \"\" 27> g (float16[b,t,8] q, float16[b,t,4] k, float16[b,t,6] v, float[b,2,2,3] s) => (y, n) {"
        " y, n = LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = \"linear\">(q, k, v, s) }",
        "n", "float[b,2,2,3]");
    CHECK_INFERS_VALUE(
        "<opset: \"\" 27> g (float[b,6,l] x, float[6,1,k] w) => (y, n) { y, n = CausalConvWithState(x, w) }", "n",
        "float[b,6,k-1]");
}

TEST(attention_refusals) {
    CHECK_REFUSED(
        "<opset: \"\" 23> g (float[1,s,8] q, float[1,t,8] k, float[1,t,8] v) => (y) { y = Attention(q, k, v) }",
        NC_E_BAD_GRAPH, "q_num_heads");
    CHECK_REFUSED(
        "<opset: \"\" 23> g (float[1,3,s,8] q, float[1,2,t,8] k, float[1,2,t,8] v) => (y) { y = Attention(q, k, v) }",
        NC_E_SHAPE, "3 query heads do not share 2 key heads");
    CHECK_REFUSED(
        "<opset: \"\" 23> g (float[1,2,s,8] q, float[1,2,t,6] k, float[1,2,t,8] v) => (y) { y = Attention(q, k, v) }",
        NC_E_SHAPE, "head sizes of Q and K: 8 and 6 differ");
    CHECK_REFUSED("<opset: \"\" 28> g (float[2,3] a, float[3,3] b) => (y) { y = SwiGLU(a, b) }", NC_E_SHAPE,
                  "A has 2 at dim 0, B has 3");
    CHECK_REFUSED("<opset: \"\" 24> g (float[2,8,3] x, float[2,9,3] u) => (y) { y = TensorScatter(x, u) }", NC_E_SHAPE,
                  "update has 9 at dim 1, past_cache 8");
    CHECK_REFUSED("<opset: \"\" 27> g (float[b,t,4] q, float[b,t,4] k, float[b,t,4] v) => (y, s) {"
                  " y, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = \"gated\">(q, k, v) }",
                  NC_E_BAD_GRAPH, "needs decay");
}
