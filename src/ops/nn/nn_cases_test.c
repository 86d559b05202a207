/* ops/nn/nn_cases_test.c: the cases of the nn family (ops/cases.h), the tests that run them, types and refusals. */
#include "ops/cases_testing.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "kernels/cpu/isa.h"
#include "tests/graph_testing.h"

extern const nc_case nc_nn_cases[];

#define ONE(op, x) "<opset: \"\" 22> g (" x " x) => (y) { y = " op "(x) }"
#define CONV(attrs, x, w) "<opset: \"\" 22> g (" x " x, " w " w) => (y) { y = Conv" attrs "(x, w) }"
#define BIAS(attrs, x, w, b) "<opset: \"\" 22> g (" x " x, " w " w, " b " b) => (y) { y = Conv" attrs "(x, w, b) }"
#define TRANSPOSE(attrs, x, w) "<opset: \"\" 22> g (" x " x, " w " w) => (y) { y = ConvTranspose" attrs "(x, w) }"
#define LOSS(op, attrs, x, l) "<opset: \"\" 22> g (" x " x, " l " l) => (y) { y = " op attrs "(x, l) }"
#define WEIGHTED(op, attrs, x, l, w) \
    "<opset: \"\" 22> g (" x " x, " l " l, " w " w) => (y) { y = " op attrs "(x, l, w) }"
/* The gradient from scores. */
#define SCORES_GRAD(attrs, scores, labels, loss)                         \
    "<opset: \"\" 13, \"nacre\" 1> g (" loss " d, " scores " x, " labels \
    " l) => (y) { y = nacre.CrossEntropyGrad" attrs "(d, x, l) }"
#define BOTH(attrs, scores, labels, loss)                                \
    "<opset: \"\" 13, \"nacre\" 1> g (" loss " d, " scores " x, " labels \
    " l) => (y, z) { y, z = nacre.CrossEntropyBoth" attrs "(d, x, l) }"
#define TWO_LABELS {{-2, 2}, {-2, 2}, {0, 4.9}}, NC_CASE_NO_GRAD
#define SCE "SoftmaxCrossEntropyLoss"
#define NLL "NegativeLogLikelihoodLoss"
#define DEFORM(attrs, t)                                                                                              \
    "<opset: \"\" 22> g (" t "[2,2,5,4] x, " t "[3,2,2,2] w, " t "[2,8,4,3] o, " t "[3] b, " t "[2,4,4,3] m) => (y) " \
    "{ y = DeformConv" attrs "(x, w, o, b, m) }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
#define LABELS                        \
    {                                 \
        {-2, 2}, {0, 4.9}, { 0.5, 2 } \
    }

const nc_case nc_nn_cases[] = {
    {"softmax", ONE("Softmax", "float[3,n]")},
    {"softmax_axis", ONE("Softmax<axis = 1>", "float[3,n,4]")},
    {"softmax_first", ONE("Softmax<axis = -2>", "float[n,3]")},
    {"softmax_old", "<opset: \"\" 11> g (float[2,n,3] x) => (y) { y = Softmax(x) }"},
    {"softmax_old_all", "<opset: \"\" 11> g (float[2,n,3] x) => (y) { y = Softmax<axis = 0>(x) }"},
    {"softmax_wide", ONE("Softmax", "float[2,1037]"), {{-30, 30}}, NC_CASE_NO_GRAD},
    {"softmax_empty", ONE("Softmax", "float[0,3]"), VALUE},
    {"softmax_empty_axis", ONE("Softmax", "float[3,0]"), VALUE},
    {"softmax_half", ONE("Softmax", "float16[3,n]"), VALUE},
    {"log_softmax", ONE("LogSoftmax", "float[3,n]")},
    {"log_softmax_axis", ONE("LogSoftmax<axis = 0>", "float[3,n]")},
    {"log_softmax_old", "<opset: \"\" 7> g (float[2,n,3] x) => (y) { y = LogSoftmax(x) }"},
    {"log_softmax_bfloat16", ONE("LogSoftmax", "bfloat16[3,n]"), VALUE},
    {"dropout_inference", "<opset: \"\" 22> g (float[3,n] x) => (y, m) { y, m = Dropout(x) }"},
    {"dropout_off",
     "<opset: \"\" 13> g (float[3,n] x) => (y, m) <const float[] r = {0.25}, const bool[] t = {0}> { y, m = Dropout(x, "
     "r, t) }",
     VALUE},
    {"dropout_7", "<opset: \"\" 7> g (float[3,n] x) => (y, m) { y, m = Dropout(x) }"},
    {"dropout_10", "<opset: \"\" 10> g (float16[3,n] x) => (y, m) { y, m = Dropout(x) }", VALUE},
    {"dropout_grad",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,n] d, bool[3,n] m) => (y) <const float[] r = {0.25}, const bool[] t = "
     "{1}> "
     "{ y = nacre.DropoutGrad(d, m, r, t) }",
     {{-2, 2}, {-1, 1}},
     NC_CASE_NO_GRAD},
    {"cross_entropy", LOSS(SCE, "", "float[n,5]", "int64[n]"), LABELS},
    {"cross_entropy_sum", LOSS(SCE, "<reduction = \"sum\">", "float[n,5]", "int32[n]"), LABELS},
    {"cross_entropy_none", LOSS(SCE, "<reduction = \"none\">", "float[2,5,3]", "int64[2,3]"), LABELS},
    {"cross_entropy_ignore", LOSS(SCE, "<ignore_index = 2>", "float[n,5]", "int64[n]"), LABELS},
    {"cross_entropy_weights", WEIGHTED(SCE, "<ignore_index = 1>", "float[2,5,2,3]", "int64[2,2,3]", "float[5]"),
     LABELS},
    {"cross_entropy_log_prob",
     "<opset: \"\" 13> g (float[n,5] x, int64[n] l) => (y, p) { y, p = SoftmaxCrossEntropyLoss(x, l) }", LABELS},
    {"cross_entropy_empty", LOSS(SCE, "<reduction = \"sum\">", "float[0,5]", "int64[0]"), VALUE},
    {"cross_entropy_half", LOSS(SCE, "", "float16[n,5]", "int64[n]"), {{-2, 2}, {0, 4.9}}, NC_CASE_NO_GRAD},
    {"cross_entropy_scores", SCORES_GRAD("", "float[n,5]", "int64[n]", "float[]"), TWO_LABELS},
    {"cross_entropy_scores_sum",
     SCORES_GRAD("<reduction = \"sum\", ignore_index = 3>", "float[4,1003]", "int32[4]", "float[]"), TWO_LABELS},
    {"cross_entropy_scores_none",
     SCORES_GRAD("<reduction = \"none\", ignore_index = 1>", "double[2,5,3]", "int64[2,3]", "double[2,3]"), TWO_LABELS},
    {"cross_entropy_scores_half", SCORES_GRAD("", "bfloat16[3,530]", "int64[3]", "bfloat16[]"), TWO_LABELS},
    {"cross_entropy_scores_one",
     SCORES_GRAD("", "float16[1,1]", "int64[1]", "float16[]"),
     {{-2, 2}, {-2, 2}, {0, 0.9}},
     NC_CASE_NO_GRAD},
    {"cross_entropy_scores_empty", SCORES_GRAD("", "float[0,5]", "int64[0]", "float[]"), TWO_LABELS},
    {"cross_entropy_scores_weights",
     "<opset: \"\" 13, \"nacre\" 1> g (float[] d, float[6,5] x, int64[6] l, float[5] w) => (y) "
     "{ y = nacre.CrossEntropyGrad<ignore_index = 2>(d, x, l, w) }",
     {{-2, 2}, {-2, 2}, {0, 4.9}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"cross_entropy_both", BOTH("<reduction = \"sum\", ignore_index = 3>", "float[5,1037]", "int32[5]", "float[]"),
     TWO_LABELS},
    {"cross_entropy_both_none",
     BOTH("<reduction = \"none\", ignore_index = 1>", "double[2,5,3]", "int64[2,3]", "double[2,3]"), TWO_LABELS},
    {"cross_entropy_both_empty", BOTH("<reduction = \"sum\">", "float[0,5]", "int64[0]", "float[]"), TWO_LABELS},
    {"cross_entropy_both_half", BOTH("", "float16[3,5]", "int64[3]", "float16[]"), TWO_LABELS},
    {"cross_entropy_both_weights",
     "<opset: \"\" 13, \"nacre\" 1> g (float[] d, float[6,5] x, int64[6] l, float[5] w) => (y, z) "
     "{ y, z = nacre.CrossEntropyBoth<ignore_index = 2>(d, x, l, w) }",
     {{-2, 2}, {-2, 2}, {0, 4.9}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"nll", LOSS(NLL, "", "float[n,5]", "int64[n]"), LABELS},
    {"nll_none", WEIGHTED(NLL, "<reduction = \"none\", ignore_index = 0>", "float[2,5,3]", "int32[2,3]", "float[5]"),
     LABELS},
    {"nll_weights", WEIGHTED(NLL, "", "float[2,5,3]", "int64[2,3]", "float[5]"), LABELS},
    {"nll_half", LOSS(NLL, "<ignore_index = 3>", "float16[n,5]", "int64[n]"), {{-2, 2}, {0, 4.9}}, NC_CASE_NO_GRAD},
    {"nll_bfloat16",
     LOSS(NLL, "<reduction = \"sum\">", "bfloat16[1,5,1]", "int32[1,1]"),
     {{-2, 2}, {0, 4.9}},
     NC_CASE_NO_GRAD},
    {"nll_empty", LOSS(NLL, "<reduction = \"sum\">", "float[0,5]", "int64[0]"), VALUE},
    {"nll_grad",
     "<opset: \"\" 22, \"nacre\" 1> g (float[3,2] d, float[3,5,2] p, int64[3,2] l, float[5] w) => (y) "
     "{ y = nacre.NegativeLogLikelihoodLossGrad<reduction = \"none\", ignore_index = 1>(d, p, l, w) }",
     {{-2, 2}, {-2, 2}, {0, 4.9}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"deform_conv", DEFORM("", "float"), {{0, 0}}},
    {"deform_conv_groups",
     "<opset: \"\" 22> g (float[2,4,5,6] x, float[6,2,3,2] w, float[2,24,3,4] o) => (y) "
     "{ y = DeformConv<group = 2, offset_group = 2, strides = [2, 2], pads = [1, 1, 1, 2]>(x, w, o) }",
     {{0, 0}}},
    {"deform_conv_grad_half",
     "<opset: \"\" 22, \"nacre\" 1> g (float16[2,2,5,4] x, float16[3,2,2,2] w, float16[2,8,4,3] o, float16[3] b, "
     "float16[2,4,4,3] m, float16[2,3,4,3] d) => (dx, dw, do, db, dm) { dx, dw, do, db, dm = "
     "nacre.DeformConvGrad(x, w, o, b, m, d) }",
     VALUE},
    {"deform_conv_half", DEFORM("<pads = [0, 0, 0, 0]>", "float16"), VALUE},
    {"deform_conv_double", DEFORM("<dilations = [1, 1]>", "double"), {{0, 0}}},
    {"dropout_6", "<opset: \"\" 6> g (float[3,n] x) => (y) { y = Dropout<is_test = 1>(x) }", VALUE},
    {"conv", CONV("", "float[2,3,n,6]", "float[4,3,3,2]")},
    {"conv_bias", BIAS("<pads = [1, 0, 2, 1], strides = [2, 1]>", "float[1,2,5,4]", "float[3,2,3,3]", "float[3]")},
    {"conv_groups", BIAS("<group = 2, dilations = [2, 1]>", "float[1,4,6,5]", "float[6,2,2,2]", "float[6]")},
    {"conv_depthwise", CONV("<group = 3, pads = [1, 1, 1, 1]>", "float[2,3,4,4]", "float[3,1,3,3]")},
    {"conv_line", BIAS("<strides = [2], pads = [1, 1]>", "float[2,3,n]", "float[4,3,3]", "float[4]")},
    {"conv_line_of_one", BIAS("<strides = [3], pads = [2, 1]>", "float[2,1,9]", "float[9,1,5]", "float[9]")},
    {"conv_many_of_one", CONV("<group = 2, pads = [1, 1, 0, 1]>", "float[1,2,4,5]", "float[16,1,2,3]")},
    {"conv_same_upper", CONV("<auto_pad = \"SAME_UPPER\", strides = [2, 2]>", "float[1,2,5,6]", "float[2,2,3,2]")},
    {"conv_same_lower", CONV("<auto_pad = \"SAME_LOWER\">", "float[1,2,5,6]", "float[2,2,2,4]")},
    {"conv_valid", CONV("<auto_pad = \"VALID\", kernel_shape = [3, 3]>", "float[1,2,5,6]", "float[2,2,3,3]")},
    {"conv_opset_1",
     "<opset: \"\" 7> g (float[1,2,5,6] x, float[2,2,3,3] w) => (y) { y = Conv<strides = [1, 2]>(x, w) }"},
    {"conv_empty", CONV("", "float[0,3,5,5]", "float[4,3,3,3]"), VALUE},
    {"conv_half", CONV("", "float16[1,3,5,5]", "float16[4,3,3,3]"), VALUE},
    {"conv_3d", BIAS("<strides = [1,2,1], pads = [1,0,0,0,1,1], dilations = [1,1,2]>", "float[2,4,3,4,5]",
                     "float[6,4,2,2,2]", "float[6]")},
    {"conv_3d_groups", CONV("<group = 2>", "float[1,4,3,3,3]", "float[4,2,2,1,2]")},
    {"conv_depthwise", BIAS("<group = 4, pads = [1,1,1,1]>", "float[2,4,5,n]", "float[4,1,3,3]", "float[4]")},
    {"conv_depthwise_step",
     CONV("<group = 3, strides = [2,2], dilations = [1,2]>", "float[1,3,7,19]", "float[6,1,3,2]")},
    {"conv_depthwise_line", CONV("<group = 2, pads = [3,0]>", "float[2,2,150]", "float[2,1,4]"), VALUE},
    {"conv_many_places", BIAS("<pads = [1,1,1,1]>", "float[2,3,29,31]", "float[5,3,3,3]", "float[5]"), VALUE},
    {"conv_no_channels", CONV("", "float[1,0,3,3]", "float[2,0,2,2]"), VALUE},
    {"transpose", TRANSPOSE("", "float[n,2,3,3]", "float[2,3,3,2]")},
    {"transpose_1d", TRANSPOSE("<strides = [2], output_padding = [1], pads = [1,0]>", "float[2,2,4]", "float[2,3,3]")},
    {"transpose_3d", TRANSPOSE("<strides = [1,2,1]>", "float[1,2,2,2,3]", "float[2,2,2,1,2]")},
    {"transpose_groups", TRANSPOSE("<group = 2, dilations = [2,1]>", "float[1,4,3,2]", "float[4,3,2,2]")},
    {"transpose_same", TRANSPOSE("<strides = [2,2], auto_pad = \"SAME_UPPER\">", "float[1,2,3,2]", "float[2,2,3,3]")},
    {"transpose_shape", TRANSPOSE("<strides = [3,2], output_shape = [10,8]>", "float[1,1,3,3]", "float[1,2,3,3]")},
    {"transpose_bias",
     "<opset: \"\" 22> g (float[2,2,3] x, float[2,3,2] w, float[3] b) => (y) { y = ConvTranspose(x, w, b) }"},
    {"transpose_half", TRANSPOSE("", "float16[1,2,3]", "float16[2,3,2]"), VALUE},
    {"transpose_one_place", TRANSPOSE("<strides = [2,3]>", "float[n,5,1,1]", "float[5,3,4,2]")},
    {"transpose_one_place_bias",
     "<opset: \"\" 22> g (double[3,4,1] x, double[4,3,5] w, double[3] b) => (y) { y = ConvTranspose(x, w, b) }"},
    {"col2im",
     "<opset: \"\" 18> g (float[2,12,9] x) => (y) <const int64[2] i = {4, 5}, const int64[2] b = {2, 3}> "
     "{ y = Col2Im(x, i, b) }",
     {{0, 0}}},
    {"col2im_line",
     "<opset: \"\" 18> g (float16[2,6,4] x) => (y) <const int64[1] i = {7}, const int64[1] b = {3}> "
     "{ y = Col2Im<strides = [2], pads = [1,1], dilations = [1]>(x, i, b) }",
     {{0, 0}}},
    {"transpose_empty", TRANSPOSE("", "float[0,2,3]", "float[2,3,2]"), VALUE},
    {0}};

TEST(nn_values) { nc_cases_check_values(nc_nn_cases); }
TEST(nn_isas) { nc_cases_check_isas(nc_nn_cases); }
TEST(nn_gradients) { nc_cases_check_gradients(nc_nn_cases); }

/* There is no wide form of the blocked convolution: the plain one is its yardstick. Every ISA, packed before and in
 * the run. */
enum { PIXELS = 5 * 6, OUT_PIXELS = 5 * 7 };

static nc_code run_blocked(const nc_node *n, bool no_packs, nc_tensor *in, nc_tensor *out, nc_work *w) {
    char why[128];
    const nc_binding *b = nc_binding_find(n, "cpu", why, sizeof why);
    nc_prep prep = {.w = w, .arena = &w->scratch, .node = n, .no_packs = no_packs};
    if (b == NULL || nc_binding_prepare(b, &prep) != NC_OK || prep.n_packs != !no_packs) return NC_E_FAIL;
    size_t bytes = b->workspace(prep.state, in, 3, out, 1), more = no_packs ? 0 : prep.pack[0].bytes;
    void *block = nc_arena_alloc(&w->scratch, bytes + 64), *weights = nc_arena_alloc(&w->scratch, more + 64);
    NC_NEED(w, block);
    NC_NEED(w, weights);
    void *aligned = nc_align64_pointer(weights);
    if (!no_packs) NC_TRY(prep.pack[0].fill(prep.state, &in[1], aligned));
    const void *packed[1] = {aligned};
    nc_call c = {.state = prep.state,
                 .in = NC_OPERANDS(in, 3),
                 .out = NC_OPERANDS(out, 1),
                 .n_in = 3,
                 .n_out = 1,
                 .workspace = nc_align64_pointer(block),
                 .bytes_workspace = bytes,
                 .packed = packed,
                 .diag = &w->diag};
    return b->run(&c);
}

/* On the ISA in use: channels in and out of blocks by hand. */
static void check_blocked_conv(const float *x, const float *bias, const float *want, bool no_packs) {
    char text[512];
    int64_t B = nc_channel_blocking("cpu").block;
    snprintf(text, sizeof text,
             "<opset: \"\" 22, \"nacre\" 1> g (float[2,3,5,6] x, float[2] b) => (u) <const float[2,3,1,2] w = "
             "{1, -2, 3, 0.5, 2, 1, -1, 4, 0.25, 2, -3, 1}> { p = nacre.PackChannels<block = %lld>(x) "
             "q = nacre.ConvBlocked<pads = [0, 1, 0, 1], block = %lld>(p, w, b) u = nacre.UnpackChannels(q) }",
             (long long)B, (long long)B);
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    REQUIRE(m != NULL);
    CHECK_TYPE(nc_graph_find(m->main, "u")->type, "float[2,2,5,7]");
    const nc_literal *lit = nc_graph_find(m->main, "w")->lit;
    float blocked[2 * PIXELS * 16], got[2 * OUT_PIXELS * 16];
    nck_pack_channels(&(nck_channels){B, 2, 3, PIXELS, false}, x, blocked, NULL);
    nc_tensor in[3] = {{.data = blocked, .dtype = NC_FLOAT, .rank = 5, .dims = {2, 1, 5, 6, B}},
                       {.data = (void *)(uintptr_t)lit->data, .dtype = NC_FLOAT, .rank = 4, .dims = {2, 3, 1, 2}},
                       {.data = (void *)(uintptr_t)bias, .dtype = NC_FLOAT, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out = {.data = got, .dtype = NC_FLOAT, .rank = 5, .dims = {2, 1, 5, 7, B}};
    CHECK_INT(run_blocked(nc_graph_find(m->main, "q")->def, no_packs, in, &out, &w), NC_OK);
    for (int i = 0; i < 2 * 2 * OUT_PIXELS; i++) {
        int image = i / (2 * OUT_PIXELS), k = i / OUT_PIXELS % 2, at = i % OUT_PIXELS;
        CHECK_CLOSE(got[(image * OUT_PIXELS + at) * B + k], want[i], nc_tol_device_f32);
    }
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(nn_blocked_conv_is_the_plain_one) {
    static const float weights[] = {1, -2, 3, 0.5, 2, 1, -1, 4, 0.25, 2, -3, 1};
    float x[2 * 3 * PIXELS], bias[2] = {0.5f, -1}, want[2 * 2 * OUT_PIXELS];
    for (int i = 0; i < 2 * 3 * PIXELS; i++) x[i] = (float)(i * 7 % 19) - 9;
    conv_2d sizes = {2, 3, 5, 6, 2, 1, 2, 1, 1, 1, 1, 1, 0, 1, 0, 1};
    nck_conv_args plain = {.shape = conv_2d_shape(NC_FLOAT, &sizes),
                           .x = x,
                           .w = weights,
                           .bias = bias,
                           .y = want,
                           .x_strides = {3 * PIXELS, PIXELS, 0, 6, 1},
                           .y_strides = {2 * OUT_PIXELS, OUT_PIXELS, 0, 7, 1}};
    nck_conv_plain(&plain, NULL);
    for (int isa = 0; nck_isa_at(isa) != NULL; isa++) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        check_blocked_conv(x, bias, want, false);
        check_blocked_conv(x, bias, want, true);
    }
    nck_isa_set_for_test(NULL);
}

TEST(nn_types) {
    CHECK_INFERS(CONV("<pads = [1, 1, 1, 1]>", "float[batch,3,h,w]", "float[8,3,3,3]"), "float[batch,8,h,w]");
    CHECK_INFERS(CONV("", "float[1,3,7,9]", "float[8,3,3,3]"), "float[1,8,5,7]");
    CHECK_INFERS(CONV("<auto_pad = \"SAME_UPPER\", strides = [2, 2]>", "float[1,3,7,8]", "float[8,3,3,3]"),
                 "float[1,8,4,4]");
    CHECK_INFERS(CONV("", "float[...]", "float[8,3,3,3]"), "float[...]");
    CHECK_INFERS(CONV("", "float[1,2,5,6,7]", "float[4,2,3,3,3]"), "float[1,4,3,4,5]");
    CHECK_INFERS(LOSS(SCE, "", "float[batch,10]", "int64[batch]"), "float[]");
    CHECK_INFERS(LOSS(SCE, "<reduction = \"none\">", "float[batch,10,d]", "int64[batch,d]"), "float[batch,d]");
    CHECK_INFERS("<opset: \"\" 13> g (float[b,4] x) => (y) { z, y = Dropout(x) }", "bool[b,4]");
    CHECK_INFERS("<opset: \"\" 7> g (float[b,4] x) => (y) { z, y = Dropout(x) }", "float[b,4]");
}

TEST(nn_layouts_pass_through_element_formulas) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m =
        test_model(&w, nc_ops_registry(),
                   "<opset: \"\" 22, \"nacre\" 1> g (float[n,3,h,6] x) => (y) { p = nacre.PackChannels<block = 8>(x) "
                   "t = Tanh(p) s = Add(t, p) y = nacre.UnpackChannels(s) }");
    REQUIRE(m != NULL);
    const nc_type *s = nc_graph_find(m->main, "s")->type, *y = nc_graph_find(m->main, "y")->type;
    int64_t c = 0;
    CHECK_INT(s->layout.block, 8);
    CHECK_INT(s->rank, 5);
    CHECK(nc_dim_is_const(s->layout.logical, &c) && c == 3);
    CHECK(nc_type_equal(y, nc_graph_find(m->main, "x")->type));
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(nn_refuses_what_does_not_fit) {
    CHECK_REFUSED(CONV("", "float[1,4,5,5]", "float[8,3,3,3]"), NC_E_SHAPE, "4 channels");
    CHECK_REFUSED(CONV("", "float[1,3,5]", "float[8,3,3,3]"), NC_E_SHAPE, "weight has 4 dims");
    CHECK_REFUSED(CONV("<pads = [1]>", "float[1,3,5,5]", "float[8,3,3,3]"), NC_E_SHAPE, "pads");
    CHECK_REFUSED(CONV("<group = 3>", "float[1,3,5,5]", "float[8,1,3,3]"), NC_E_SHAPE, "groups");
    CHECK_REFUSED(LOSS(SCE, "", "float[3,5]", "int64[4]"), NC_E_SHAPE, "labels");
    CHECK_REFUSED(LOSS(SCE, "<reduction = \"max\">", "float[3,5]", "int64[3]"), NC_E_BAD_GRAPH, "max");
    CHECK_REFUSED(ONE("Softmax<axis = 2>", "float[3,5]"), NC_E_SHAPE, "axis 2");
}

TEST(nn_dropout_knows_when_it_is_the_identity) {
    static const struct {
        const char *text;
        bool identity, random;
    } rows[] = {{"<opset: \"\" 13> g (float[3] x) => (y) { y = Dropout(x) }", true, false},
                {"<opset: \"\" 10> g (float[3] x) => (y) { y = Dropout(x) }", true, false},
                {"<opset: \"\" 13> g (float[3] x) => (y, m) { y, m = Dropout(x) }", false, false},
                {"<opset: \"\" 13> g (float[3] x) => (y) <const bool[] t = {0}> { y = Dropout(x, , t) }", true, false},
                {"<opset: \"\" 13> g (float[3] x) => (y) <const bool[] t = {1}> { y = Dropout(x, , t) }", false, true},
                {"<opset: \"\" 13> g (float[3] x, bool[] t) => (y) { y = Dropout(x, , t) }", false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        nc_work w;
        nc_work_init(&w);
        nc_model *m = test_model(&w, nc_ops_registry(), rows[i].text);
        REQUIRE(m != NULL);
        const nc_node *n = m->main->first;
        CHECK_INT(n->card->is_identity(n), rows[i].identity);
        CHECK_INT(n->card->is_random(n), rows[i].random);
        CHECK(n->random_id > 0);
        char why[256];
        CHECK((nc_binding_find(n, "cpu", why, sizeof why) != NULL) == !rows[i].random);
        nc_model_destroy(m);
        nc_work_release(&w);
    }
}

static nc_value *itself(nc_grad *g, nc_value *v) {
    (void)g;
    return v;
}

TEST(nn_dropout_gradient_asks_for_the_mask) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m =
        test_model(&w, nc_ops_registry(),
                   "<opset: \"\" 13> g (float[b,3] x, float[b,3] dy, bool[] t) => (y) { y = Dropout(x, , t) }");
    REQUIRE(m != NULL);
    nc_node *n = m->main->first;
    nc_value *dy[2] = {nc_graph_find(m->main, "dy")}, *dx[3] = {NULL};
    nc_builder b = {.w = &w, .graph = m->main, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    nc_grad g = {
        .b = &b, .node = n, .dy = dy, .dx = dx, .wants = (const bool[]){true, false, false}, .forward = itself};
    CHECK_INT(n->card->grad(&g), NC_OK);
    REQUIRE(dx[0] != NULL);
    CHECK_STR(dx[0]->def->card->name, "DropoutGrad");
    CHECK_INT(n->n_out, 2);
    CHECK(dx[0]->def->in[1] == n->out[1]);
    CHECK_TYPE(n->out[1]->type, "bool[b,3]");
    nc_model_destroy(m);
    nc_work_release(&w);
}

static void check_expr(const nc_value *v, const char *want) {
    nc_text t = {0};
    test_print_expr(&t, v);
    CHECK_STR(t.s, want);
    nc_text_release(&t);
}

TEST(nn_conv_gradient_has_a_gradient) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(
        &w, nc_ops_registry(),
        "<opset: \"\" 22, \"nacre\" 1> g (float[1,4,3,3] d, float[1,2,3,3] x, float[4,2,1,1] w, "
        "float[1,2,3,3] u, float[4,2,1,1] v, float[4] t) => (a, b, c) { a, b, c = nacre.ConvGrad(d, x, w) }");
    REQUIRE(m != NULL);
    nc_node *n = m->main->first;
    nc_value *dy[3], *dx[3] = {NULL};
    for (int i = 0; i < 3; i++) dy[i] = m->main->inputs.v[3 + i];
    nc_builder b = {.w = &w, .graph = m->main, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    nc_grad g = {.b = &b, .node = n, .dy = dy, .dx = dx, .wants = (const bool[]){true, true, true}, .forward = itself};
    CHECK_INT(n->card->grad(&g), NC_OK);
    check_expr(dx[0], "Add(Conv(u, w), Conv(x, v, t))");
    check_expr(dx[1], "nacre.ConvGrad(d, x, v)");
    check_expr(dx[2], "nacre.ConvGrad(d, u, w)");
    CHECK(dx[1] == dx[1]->def->out[0] && dx[1]->def->out[1] == NULL);
    CHECK(dx[2] == dx[2]->def->out[1] && dx[2]->def->out[0] == NULL);
    nc_model_destroy(m);
    nc_work_release(&w);
}
