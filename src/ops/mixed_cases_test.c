/* ops/mixed_cases_test.c: graphs in half precision with casts beside what is computed in f32 (ops/cases.h). They run on
 * every device (tests/cases.list), fused and not; the reference of the other tables is no judge here, since it computes
 * in double what the casts are to round. */
#include "ops/cases.h"

#include <stddef.h>

extern const nc_case nc_mixed_cases[];

#define HEAD "<opset: \"\" 22, \"nacre\" 1> g "
/* A sum that is wanted in f32 and in a half type, of which one operand comes in that type and is read twice. */
#define CASTS(type, half, to)                     \
    HEAD "(" type " x, " half " h) => (s, t, u) " \
         "{ c = Cast<to = 1>(h) s = Add(x, c) t = Cast<to = " to ">(s) e = Exp(c) v = Mul(e, x) u = Neg(v) }"
/* Half precision around a normalization and its gradient. */
#define CAST_NORM(type, size, half)                                                 \
    "<opset: \"\" 22> g (" type " x, float[" size "] s, float[" size "] b) => (y) " \
    "{ c = Cast<to = 1>(x) n = LayerNormalization(c, s, b) y = Cast<to = " half ">(n) }"
#define CAST_NORM_GRAD(half_type, type, size, half)                                                  \
    "<opset: \"\" 22, \"nacre\" 1> g (" half_type " d, " type " x, float[" size "] s) => (y, b, c) " \
    "{ e = Cast<to = 1>(d) a, b, c = nacre.NormGrad(e, x, s) y = Cast<to = " half ">(a) }"
/* Half precision around a loss and its gradient. */
#define CAST_LOSS(scores, half)                                                        \
    "<opset: \"\" 13, \"nacre\" 1> g (" scores " x, int64[7] l, float[] d) => (y, g) " \
    "{ c = Cast<to = 1>(x) y, p = SoftmaxCrossEntropyLoss<ignore_index = 1>(c, l) "    \
    "e = nacre.SoftmaxCrossEntropyLossGrad<ignore_index = 1>(d, p, l) g = Cast<to = " half ">(e) }"
#define LOSS_RANGES {{-2, 2}, {0, 4.9}, {-2, 2}}, NC_CASE_NO_GRAD
/* Attention and its gradient, which may take what that left. */
#define ATTENTION(how, dims)                                                                                        \
    "<opset: \"\" 23, \"nacre\" 1> g (float16" dims " q, float16" dims " k, float16" dims " v, float16" dims " d) " \
    "=> (y, a, b, c) { y = Attention<" how ">(q, k, v) "                                                            \
    "a, b, c = nacre.AttentionGrad<" how ">(q, k, v, , , , , d) }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
const nc_case nc_mixed_cases[] = {
    {"chain", CASTS("float[n,9]", "bfloat16[n,9]", "16"), VALUE},
    {"chain_vectors", CASTS("float[5,40]", "float16[5,40]", "10"), VALUE},
    {"chain_many", CASTS("float[20,200]", "bfloat16[20,200]", "16"), VALUE},
    {"chain_none", CASTS("float[0,8]", "bfloat16[0,8]", "16"), VALUE},
    {"chain_spread",
     HEAD "(bfloat16[3,8] x, bfloat16[8] b) => (y) { c = Cast<to = 1>(b) d = Cast<to = 1>(x) e = Add(d, c) "
          "f = Tanh(e) y = Cast<to = 16>(f) }",
     VALUE},
    {"tanh",
     HEAD "(bfloat16[n,9] x) => (y, z) { y = Tanh(x) z = Gelu<approximate = \"tanh\">(x) }",
     {{-5, 5}},
     NC_CASE_NO_GRAD},
    {"tanh_small", HEAD "(float16[n,8] x) => (y) { y = Tanh(x) }", {{-0.06, 0.06}}, NC_CASE_NO_GRAD},
    {"norm", CAST_NORM("bfloat16[5,24]", "24", "16"), VALUE},
    {"norm_odd", CAST_NORM("float16[5,7]", "7", "10"), VALUE},
    {"norm_long", CAST_NORM("bfloat16[2,1032]", "1032", "16"), VALUE},
    {"norm_rms",
     "<opset: \"\" 23> g (float[n,16] x, float[16] s) => (y) { a = RMSNormalization(x, s) y = Cast<to = 10>(a) }",
     VALUE},
    {"norm_grad", CAST_NORM_GRAD("bfloat16[140,24]", "float[140,24]", "24", "16"), VALUE},
    {"norm_grad_odd", CAST_NORM_GRAD("float16[9,5]", "float[9,5]", "5", "10"), VALUE},
    {"norm_grad_long", CAST_NORM_GRAD("bfloat16[3,1032]", "float[3,1032]", "1032", "16"), VALUE},
    {"norm_grad_empty", CAST_NORM_GRAD("bfloat16[0,8]", "float[0,8]", "8", "16"), VALUE},
    {"loss", CAST_LOSS("bfloat16[7,19]", "16"), LOSS_RANGES},
    {"loss_long", CAST_LOSS("float16[7,2056]", "10"), LOSS_RANGES},
    {"loss_long_odd", CAST_LOSS("bfloat16[7,1027]", "16"), LOSS_RANGES},
    {"attention", ATTENTION("is_causal = 1", "[1,2,256,8]"), VALUE},
    {"attention_packed", ATTENTION("q_num_heads = 2, kv_num_heads = 2", "[1,256,16]"), VALUE},
    {"attention_small", ATTENTION("is_causal = 1", "[1,2,20,8]"), VALUE},
    {0}};
