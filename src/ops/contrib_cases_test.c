/* ops/contrib_cases_test.c: the cases of com.microsoft and com.microsoft.nchwc (ops/cases.h), of whatever family, of
 * ops that left ai.onnx, and the tests that run them. tests/py/test_contrib.py compares values with onnxruntime. */
#include "ops/cases_testing.h"

#include "tests/check.h"

extern const nc_case nc_contrib_cases[];

#define HEAD "<opset: \"\" 17, \"com.microsoft\" 1> g "
#define ONE(op, x) HEAD "(" x " x) => (y) { y = com.microsoft." op "(x) }"
#define TWO(op, x, y) HEAD "(" x " a, " y " b) => (y) { y = com.microsoft." op "(a, b) }"
#define THREE(op, x, y, z) HEAD "(" x " a, " y " b, " z " c) => (y) { y = com.microsoft." op "(a, b, c) }"
#define FOUR(op, x, y, z, u) HEAD "(" x " a, " y " b, " z " c, " u " d) => (y) { y = com.microsoft." op "(a, b, c, d) }"
#define LAST "<opset: \"\" 17, \"com.ms.internal.nhwc\" 1> g "
#define BLOCKED "<opset: \"\" 17, \"com.microsoft.nchwc\" 1> g "
#define OLD "<opset: \"\" 7> g "
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD

const nc_case nc_contrib_cases[] = {
    {"ms_gelu", ONE("Gelu", "float[n,7]")},
    {"ms_gelu_half", ONE("Gelu", "float16[n,7]"), VALUE},
    {"quick_gelu", ONE("QuickGelu", "float[n,7]")},
    {"quick_gelu_alpha", ONE("QuickGelu<alpha = 1.0>", "float[n,33]")},
    {"quick_gelu_bfloat16", ONE("QuickGelu", "bfloat16[n,7]"), VALUE},
    {"bias_gelu", TWO("BiasGelu", "float[n,3,7]", "float[7]")},
    {"fast_gelu", ONE("FastGelu", "float[n,7]")},
    {"fast_gelu_bias", TWO("FastGelu", "float[n,7]", "float[7]")},
    {"fast_gelu_half", TWO("FastGelu", "float16[n,7]", "float16[7]"), VALUE},
    {"bias_add", THREE("BiasAdd", "float[n,7]", "float[7]", "float[n,7]")},
    {"bias_split_gelu", TWO("BiasSplitGelu", "float[n,6]", "float[6]")},
    {"gated_add", THREE("GatedAdd", "float[n,6]", "float[n,6]", "float[n,1]")},
    {"skip_layer",
     FOUR("SkipLayerNormalization<epsilon = 0.001>", "float[n,3,7]", "float[n,3,7]", "float[7]", "float[7]")},
    {"skip_layer_all", HEAD "(float[n,3,7] x, float[3,7] s, float[7] g, float[7] b) => (y, t) "
                            "{ y, , , t = com.microsoft.SkipLayerNormalization<epsilon = 0.001>(x, s, g, b, b) }"},
    {"skip_layer_stats",
     HEAD "(float[n,3,7] x, float[7] g) => (y, m, i) "
          "{ y, m, i = com.microsoft.SkipLayerNormalization<epsilon = 0.001>(x, x, g) }",
     VALUE},
    {"skip_layer_half", THREE("SkipLayerNormalization", "float16[n,7]", "float16[n,7]", "float16[7]"), VALUE},
    {"skip_simple",
     FOUR("SkipSimplifiedLayerNormalization<epsilon = 0.001>", "float[n,3,7]", "float[n,3,7]", "float[7]", "float[7]")},
    {"gated_rms", THREE("GatedRMSNorm", "float[n,7]", "float[7]", "float[n,7]")},
    {"group_norm", THREE("GroupNorm<groups = 2, activation = 1>", "float[n,3,2,4]", "float[4]", "float[4]")},
    {"group_norm_first",
     THREE("GroupNorm<groups = 2, activation = 0, channels_last = 0>", "float[n,4,3,2]", "float[4]", "float[4]")},
    {"skip_group_norm",
     FOUR("SkipGroupNorm<groups = 2, activation = 1>", "float[n,3,2,4]", "float[4]", "float[4]", "float[n,4]")},
    {"fused_matmul", TWO("FusedMatMul<transA = 1, alpha = 0.5>", "float[4,n]", "float[4,5]")},
    {"fused_matmul_batch", TWO("FusedMatMul<transBatchA = 1, transB = 1>", "float[3,2,4]", "float[2,5,4]")},
    {"fused_matmul_constant", HEAD "(float[2,n,3] a) => (y) <const float[2,3] b = {1, -2, 0.5, 4, 3, -1}> "
                                   "{ y = com.microsoft.FusedMatMul<transB = 1, alpha = 2.0>(a, b) }"},
    {"sparse_to_dense", TWO("SparseToDenseMatMul<transB = 1, alpha = 0.5>", "float[4,n]", "float[5,n]")},
    {"fused_gemm", THREE("FusedGemm<transB = 1, activation = \"Tanh\">", "float[n,4]", "float[5,4]", "float[5]")},
    {"gemm_fast_gelu", THREE("GemmFastGelu", "float[2,n,4]", "float[4,5]", "float[5]")},
    {"fused_conv",
     FOUR("FusedConv<activation = \"Tanh\">", "float[n,2,4,5]", "float[3,2,3,3]", "float[3]", "float[n,3,2,3]")},
    {"nhwc_fused_conv", THREE("NhwcFusedConv<activation = \"Sigmoid\", pads = [1, 1, 1, 1]>", "float[n,4,5,2]",
                              "float[3,2,3,3]", "float[3]")},
    {"bias_softmax", TWO("BiasSoftmax<axis = 2, is_inner_broadcast = 0>", "float[2,3,4,5]", "float[3,4,5]")},
    {"ms_attention", THREE("Attention<num_heads = 2>", "float[2,n,5]", "float[5,12]", "float[12]")},
    {"ms_attention_past", HEAD "(float[2,3,5] x, float[5,12] w, float[2,2,2,4,2] p) => (y, z) "
                               "{ y, z = com.microsoft.Attention<num_heads = 2, unidirectional = 1>(x, w, , , p) }"},
    {"ms_attention_buffer",
     HEAD "(float[2,3,5] x, float[5,12] w, float[2,2,2,7,2] p) => (y, z) <const int32[1] l = {2}, const int32[2,5] m = "
          "{1, 1, 1, 1, 1, 0, 1, 1, 1, 1}> { y, z = com.microsoft.Attention<num_heads = 2, unidirectional = 1, "
          "past_present_share_buffer = 1>(x, w, , m, p, , l) }"},
    {"ms_attention_buffer_of_nothing",
     HEAD "(float[2,3,5] x, float[5,12] w, float[2,2,2,3,2] p) => (y, z) <const int32[1] l = {0}> { y, z = "
          "com.microsoft.Attention<num_heads = 2, unidirectional = 1, past_present_share_buffer = 1>(x, w, , , p, , l) "
          "}"},
    {"ms_attention_mask", HEAD "(float[2,3,5] x, float[5,12] w) => (y) <const int32[2,3] m = {1, 1, 0, 1, 0, 1}> "
                               "{ y = com.microsoft.Attention<num_heads = 2>(x, w, , m) }"},
    {"ms_attention_half", TWO("Attention<num_heads = 2>", "float16[2,n,5]", "float16[5,12]"), VALUE},
    {"multi_head",
     FOUR("MultiHeadAttention<num_heads = 2>", "float[2,n,8]", "float[2,3,8]", "float[2,3,6]", "float[22]")},
    {"multi_head_packed", ONE("MultiHeadAttention<num_heads = 2>", "float[n,3,2,3,4]")},
    {"multi_head_heads_first",
     THREE("MultiHeadAttention<num_heads = 2>", "float[n,3,8]", "float[n,2,5,4]", "float[n,2,5,4]")},
    {"group_query_window",
     HEAD "(float[2,1,8] q, float[2,1,4] k, float[2,1,3,4] p) => (y, a, b) "
          "<const int32[2] l = {6, 4}, const int32[1] t = {7}> "
          "{ y, a, b = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, sliding_window_cache = 1, "
          "local_window_size = 2>(q, k, k, p, p, l, t) }",
     VALUE},
    {"matmul_nbits", HEAD
     "(float[2,n,16] a, float[3] s) => (y) <const uint8[3,1,4] b = {1, 2, 3, 250, 77, 9, 130, 200, 64, 3, 99, 17}> "
     "{ y = com.microsoft.MatMulNBits<K = 16, N = 3, block_size = 16, bits = 2>(a, b, s) }"},
    {"ms_trilu", ONE("Trilu", "float[n,4,5]")},
    {"ms_pad", HEAD "(float[n,3] x) => (y) <const int64[4] p = {0, 1, 2, 0}> { y = com.microsoft.Pad(x, p) }"},
    {"ms_grid_sample", TWO("GridSample", "float[2,2,3,4]", "float[2,3,2,2]"), VALUE},
    {"ms_gather_nd", HEAD "(float[3,4] x) => (y) <const int32[2,1] i = {2, 0}> { y = com.microsoft.GatherND(x, i) }"},
    {"expand_dims", HEAD "(float[n,3] x) => (y) <const int32[1] a = {1}> { y = com.microsoft.ExpandDims(x, a) }"},
    {"unfold_tensor", ONE("UnfoldTensor<size = 3, step = 2>", "float[n,8]")},
    {"torch_embedding", HEAD "(float[5,3] x) => (y) <const int64[2,2] i = {0, 4, 2, 2}> "
                             "{ y = com.microsoft.TorchEmbedding(x, i) }"},
    {"remove_padding", HEAD "(float[2,3,4] x) => (y, a, b, d) <const int32[2] c = {2, 3}> "
                            "{ y, a, b, d = com.microsoft.RemovePadding(x, c) }"},
    {"restore_padding", HEAD "(float[3,4] x) => (y) <const int32[2,2] o = {0, 2, 3, 1}> "
                             "{ y = com.microsoft.RestorePadding(x, o) }"},
    {"inverse", ONE("Inverse", "float[n,3,3]")},
    {"inverse_one", ONE("Inverse", "float[1,1]")},
    {"inverse_none", ONE("Inverse", "float[2,0,0]"), VALUE},
    {"inverse_half", ONE("Inverse", "float16[2,2,2]"), VALUE},
    {"bnb4", HEAD "(float[n,16] a, uint8[24] b, float[3] m) => (y) "
                  "{ y = com.microsoft.MatMulBnb4<K = 16, N = 3, block_size = 16, quant_type = 1>(a, b, m) }"},
    {"bnb4_rows", HEAD "(float[9,33] a, uint8[83] b, float[11] m) => (y) "
                       "{ y = com.microsoft.MatMulBnb4<K = 33, N = 5, block_size = 16, quant_type = 0>(a, b, m) }"},
    {"bnb4_half",
     HEAD "(float16[2,64] a, uint8[224] b) => (y) <const float16[4] m = {1, 0.5, 2, 0.25}> "
          "{ y = com.microsoft.MatMulBnb4<K = 64, N = 7, block_size = 128, quant_type = 1>(a, b, m) }",
     VALUE},
    {"cdist", TWO("CDist<metric = \"euclidean\">", "float[n,3]", "float[4,3]")},
    {"complex_mul", TWO("ComplexMul", "float[n,3,2]", "float[3,2]")},
    {"complex_mul_conj", TWO("ComplexMulConj", "float[n,3,2]", "float[3,2]")},
    {"moe", HEAD "(float[3,4] x, float[3,6,4] w, float[3,6] b, float[3,4,6] v) => (y) <const float[3,3] r = "
                 "{1, 2, 4, 3, 1, -1, 0, 5, 2}> "
                 "{ y = com.microsoft.MoE<k = 2, activation_type = \"silu\">(x, r, w, b, v) }"},
    {"qmoe",
     HEAD "(float[3,4] x, float[2,2] s, float[2,4] u) => (y) <const float[3,2] r = {1, 2, 4, 3, 1, -1}, "
          "const uint8[2,2,2] w = {1, 200, 31, 77, 254, 9, 66, 130}, const uint8[2,4,1] v = {7, 80, 99, 255, 0, "
          "18, 170, 201}> { y = com.microsoft.QMoE<k = 1, activation_type = \"silu\">(x, r, w, s, , v, u) }",
     VALUE},
    {"sparse_attention",
     HEAD "(float[2,1,8] q, float[2,1,4] k, float[2,1,4,4] p) => (y, a, b) <const int32[1,3] r = {0, 1, 2}, "
          "const int32[1,3] c = {0, 1, -1}, const int32[1] t = {3}, const int32[2] l = {3, 2}> { y, a, b = "
          "com.microsoft.SparseAttention<num_heads = 2, kv_num_heads = 1, sparse_block_size = 2>(q, k, k, p, p, r, c, "
          "t, l) }",
     VALUE},
    {"packed_attention", HEAD "(float[3,5] x, float[5,12] w, float[12] b) => (y) <const int32[2,2] o = {0, 2, 3, 1}, "
                              "const int32[3] e = {0, 1, 3}> "
                              "{ y = com.microsoft.PackedAttention<num_heads = 2>(x, w, b, o, e) }"},
    {"packed_multi_head", HEAD "(float[3,4] q, float[3,4] k, float[3,6] v, float[1,2,2,2] s) => (y) "
                               "<const int32[2,2] o = {0, 2, 3, 1}, const int32[3] e = {0, 1, 3}> "
                               "{ y = com.microsoft.PackedMultiHeadAttention<num_heads = 2>(q, k, v, , o, e, s) }"},
    {"decoder_masked", HEAD "(float[2,1,4] q, float[2,1,4] k, float[2,2,3,2] p) => (y, a, b) <const int32[1] l = {1}> "
                            "{ y, a, b = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads = 2, "
                            "past_present_share_buffer = 1>(q, k, k, , , p, p, l) }"},
    {"decoder_masked_beams",
     HEAD "(float[2,1,4] q, float[2,1,4] k, float[2,2,3,2] p) => (y, a) <const int32[1] l = {2}, "
          "const int32[1] n = {2}, const int32[1,2,3] i = {1, 0, 0, 1, 1, 0}> { y, a = "
          "com.microsoft.DecoderMaskedMultiHeadAttention<num_heads = 2, past_present_share_buffer = 1>(q, k, k, , , p, "
          "p, l, n, i) }",
     VALUE},
    {"decoder_masked_self", HEAD "(float[2,1,5] x, float[5,12] w, float[12] b, float[2,2,2,3,2] p) => (y, a) "
                                 "<const int32[1] l = {3}> { y, a = com.microsoft.DecoderMaskedSelfAttention<num_heads "
                                 "= 2>(x, w, b, , p, , l) }"},
    {"paged_attention",
     HEAD "(float[3,8] q, float[3,4] k, float[4,2,1,4] c) => (y, a, b) <const int32[3] e = {0, 1, 3}, "
          "const int32[2] p = {2, 0}, const int32[2,2] t = {3, 1, 0, 2}> { y, a, b = "
          "com.microsoft.PagedAttention<num_heads = 2, kv_num_heads = 1>(q, k, k, c, c, e, p, t) }",
     VALUE},
    {"relative_position_bias",
     HEAD "(float[8,2] x) => (y) <const int64[1] n = {5}> { y = "
          "com.microsoft.RelativePositionBias<max_distance = 9, is_bidirectional = 1>(x, n, n) }"},
    {"gated_relative_position_bias",
     HEAD "(float[n,3,4] x, float[4] b, float[1,2,3,3] r, float[2,6] w, float[6] c, float[1,2,1,1] a) => (y) "
          "{ y = com.microsoft.GatedRelativePositionBias<num_heads = 2>(x, b, r, w, c, a) }"},
    {"linear_attention_gate", HEAD "(float[n,3,4] a, float[4] b, float[4] s) => (y, z) "
                                   "{ y, z = com.microsoft.LinearAttentionGate(a, b, s, a) }"},
    {"ms_causal_conv", HEAD "(float[n,3,5] x, float[3,1,2] w, float[3] b, float[n,3,2] p) => (y, z) { y, z = "
                            "com.microsoft.CausalConvWithState<activation = \"silu\", dilation = 2>(x, w, b, p) }"},
    {"ms_causal_conv_last", HEAD "(float[n,5,3] x, float[3,1,2] w) => (y, z) { y, z = "
                                 "com.microsoft.CausalConvWithState<channels_last = 1>(x, w) }"},
    {"gemma_rotary", HEAD "(float[n,3,4] e, float[n,2,3,4] q) => (y, z) "
                          "{ y, z = com.microsoft.GemmaRotaryEmbedding(e, q, q, q, q) }"},
    {"bias_dropout", THREE("BiasDropout", "float[n,7]", "float[7]", "float[n,7]")},
    {"bitmask_dropout", HEAD "(float[3,17] x) => (y, m) { y, m = com.microsoft.BitmaskDropout(x) }", VALUE},
    {"bitmask_bias_dropout",
     HEAD "(float[n,7] x, float[7] b) => (y, m) { y, m = com.microsoft.BitmaskBiasDropout(x, b) }", VALUE},
    {"bitmask_dropout_grad", HEAD
     "(float[3,15] x) => (y) <const uint32[2] m = {3735928559, 4660}> { y = com.microsoft.BitmaskDropoutGrad(x, m) }"},
    {"branchwise_rms", TWO("BranchwiseRMSNorm<num_branches = 2>", "float[n,6]", "float[3]")},
    {"scaled_silu", ONE("ScaledSiLU<alpha = 1.5>", "float[n,7]")},
    {"matmul_nbits_mlp", HEAD "(float[n,16] a, float[16] g, float[2] s) => (y) <const uint8[2,1,8] b = {1, 2, 3, 250, "
                              "77, 9, 130, 200, 64, 3, 99, 17, 5, 6, 7, 8}> { y = com.microsoft.MatMulNBitsMlp<K = 16, "
                              "N = 2, block_size = 16, activation = \"silu\">(a, , g, b, s, , b, s) }"},
    {"matmul_nbits_qkv",
     HEAD "(float[n,16] a, float[16] g, float[2] s) => (y, z, t) <const uint8[2,1,8] b = {1, 2, 3, "
          "250, 77, 9, 130, 200, 64, 3, 99, 17, 5, 6, 7, 8}> { y, z, w, t = "
          "com.microsoft.MatMulNBitsQkv<K = 16, Nq = 2, Nkv = 2, block_size = 16>(a, a, g, b, s, , b, "
          "s, , b, s) }"},
    {"fused_matmul_activation",
     TWO("FusedMatMulActivation<activation = \"Tanh\", transB = 1>", "float[n,4]", "float[5,4]")},
    {"rfft", ONE("Rfft", "float[n,6]")},
    {"rfft_two", ONE("Rfft<signal_ndim = 2>", "float[n,4,5]")},
    {"irfft", ONE("Irfft<signal_ndim = 1>", "float[n,4,2]")},
    {"irfft_two", ONE("Irfft<signal_ndim = 2>", "float[n,3,4,2]")},
    {"mul_integer", HEAD "(int8[n,5] a, int8[] z, int8[5] b) => (y) { y = com.microsoft.MulInteger(a, z, b) }", VALUE},
    {"reduce_sum_integer", ONE("ReduceSumInteger<axes = [1], keepdims = 0>", "uint8[n,5]"), VALUE},
    {"conv_transpose_pads", HEAD "(float[n,2,4,5] x, float[2,3,3,3] w) => (y) <const int64[4] p = {1, 0, 1, 2}> "
                                 "{ y = com.microsoft.ConvTransposeWithDynamicPads(x, w, p) }"},
    {"sample_op", ONE("SampleOp", "float[n,5]")},
    {"affine", OLD "(float[n,7] x) => (y) { y = Affine<alpha = 2.0, beta = -1.0>(x) }"},
    {"parametric_softplus", OLD "(float[n,7] x) => (y) { y = ParametricSoftplus<alpha = 2.0, beta = 0.5>(x) }"},
    {"scaled_tanh", OLD "(float[n,7] x) => (y) { y = ScaledTanh<alpha = 2.0, beta = 0.5>(x) }"},
    {"scale", OLD "(float[n,7] x) => (y) { y = Scale<scale = 3.0>(x) }"},
    {"image_scaler", OLD "(float[n,2,3,3] x) => (y) { y = ImageScaler<scale = 2.0, bias = [1.0, -1.0]>(x) }"},
    {"crop", OLD "(float[n,2,5,6] x) => (y) { y = Crop<border = [1, 2, 3, 1]>(x) }"},
    {"nchwc_reorder", BLOCKED "(float[n,20,2,3] x) => (y) { b = com.microsoft.nchwc.ReorderInput(x) "
                              "y = com.microsoft.nchwc.ReorderOutput<channels = 20>(b) }"},
    {"nchwc_conv", BLOCKED "(float[n,16,3,4] x, float[16,16,2,2] w, float[16] b, float[n,16,2,3] z) => (y) "
                           "{ y = com.microsoft.nchwc.Conv<activation = \"Tanh\">(x, w, b, z) }"},
    {"nchwc_depthwise",
     BLOCKED "(float[n,16,3,4] x, float[16,1,2,2] w) => (y) { y = com.microsoft.nchwc.Conv<group = 16>(x, w) }"},
    {"nchwc_average_pool", BLOCKED "(float[n,16,3,4] x) => (y) "
                                   "{ y = com.microsoft.nchwc.AveragePool<kernel_shape = [2, 2]>(x) }"},
    {"longformer", HEAD "(float[2,4,4] x, float[4,12] w, float[12] b, float[2,4] m, float[4,12] u, float[12] v) => (y) "
                        "<const int32[2,4] g = {1, 0, 0, 0, 0, 0, 1, 0}> "
                        "{ y = com.microsoft.LongformerAttention<num_heads = 2, window = 1>(x, w, b, m, u, v, g) }"},
    {"decoder_attention",
     HEAD "(float[3,2,4] x, float[4,2,4] k, float[4,4] w, float[4,8] u, float[12] b, float[2,2,2,2] c, "
          "float[2,2,2,2] d) => (y) <const bool[1] t = {1}, const bool[1] f = {0}> "
          "{ y = com.microsoft.DecoderAttention<num_heads = 2>(x, k, w, u, b, , c, d, f, t, t, f) }"},
    {"nhwc_average_pool", LAST "(float[n,3,4,2] x) => (y) "
                               "{ y = com.ms.internal.nhwc.AveragePool<kernel_shape = [2, 2]>(x) }"},
    {"nhwc_global_pool", LAST "(float[n,3,4,2] x) => (y) { y = com.ms.internal.nhwc.GlobalAveragePool(x) }"},
    {"nchwc_upsample", BLOCKED "(float[2,16,2,3] x) => (y) "
                               "{ y = com.microsoft.nchwc.Upsample<scales = [1, 1, 2, 2], mode = \"linear\">(x) }"},
    {0}};

TEST(contrib_values) { nc_cases_check_values(nc_contrib_cases); }
TEST(contrib_isas) { nc_cases_check_isas(nc_contrib_cases); }
TEST(contrib_gradients) { nc_cases_check_gradients(nc_contrib_cases); }
