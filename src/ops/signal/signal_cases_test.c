/* ops/signal/signal_cases_test.c: the cases of signals and of the optimizers (ops/cases.h), and the transform against
 * its definition. */
#include "kernels/cpu/signal/dft.h"
#include "ops/cases_testing.h"

#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

extern const nc_case nc_signal_cases[];

#define ONE(op, x) "<opset: \"\" 19> g (" x " x) => (y) { y = " op "(x) }"
#define OF_RUN(op, x) "<opset: \"\" 20> g (" x " x, int64[] a) => (y) { y = " op "(x, , a) }"
#define LENGTH(op, x, n) "<opset: \"\" 19> g (" x " x) => (y) <const int64[] n = {" n "}> { y = " op "(x, n) }"
#define WINDOW(op, n) "<opset: \"\" 17> g (float[1] x) => (y) <const int32[] n = {" n "}> { y = " op "(n) }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
#define TRAIN(in, out, op)                                                                                      \
    "<opset: \"\" 20, \"ai.onnx.preview.training\" 1> g (" in ") => (" out ") <const float[] r = {0.1}, const " \
    "int64[] t = {3}> { " out " = ai.onnx.preview.training." op " }"

const nc_case nc_signal_cases[] = {
    {"dft", ONE("DFT", "float[2,8,1]")},
    {"dft_complex", ONE("DFT", "float[2,7,2]")},
    {"dft_onesided", ONE("DFT<onesided = 1>", "float[2,9,1]")},
    {"dft_inverse", ONE("DFT<inverse = 1>", "float[2,6,2]")},
    {"dft_half_inverse", ONE("DFT<inverse = 1, onesided = 1>", "float[2,5,2]")},
    {"dft_half_inverse_odd", LENGTH("DFT<inverse = 1, onesided = 1>", "float[2,4,2]", "7")},
    {"dft_half_inverse_cut", LENGTH("DFT<inverse = 1, onesided = 1>", "float[2,6,2]", "6")},
    {"dft_half_inverse_padded", LENGTH("DFT<inverse = 1, onesided = 1>", "float[2,3,1]", "9")},
    {"dft_half_inverse_one", LENGTH("DFT<inverse = 1, onesided = 1>", "float[1,1,2]", "1")},
    {"dft_cut", LENGTH("DFT", "float[2,8,1]", "5")},
    {"dft_padded", LENGTH("DFT<onesided = 1>", "float[2,5,1]", "12")},
    {"dft_of_run", ONE("DFT", "float[2,n,2]")},
    {"dft_long", ONE("DFT", "float[2,2048,2]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_passes", ONE("DFT", "float[2,8192,2]"), {{-0.1, 0.1}}, NC_CASE_NO_GRAD},
    {"dft_passes_wide", ONE("DFT<inverse = 1>", "double[1,4096,3,2]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_passes_odd", ONE("DFT", "float[2,2500,1]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_lines_of_run", ONE("DFT", "float[n,n,2]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_long_half", ONE("DFT<onesided = 1>", "float16[3,512,1]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_long_inverse", ONE("DFT<inverse = 1>", "float[2,128,3,2]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_long_odd", ONE("DFT", "float[2,1501,1]"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_long_half_inverse",
     LENGTH("DFT<inverse = 1, onesided = 1>", "float[2,700,2]", "1333"),
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"dft_long_padded", LENGTH("DFT<onesided = 1>", "double[2,5,1]", "1100"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"dft_axis", ONE("DFT<axis = 0>", "float[5,3,2]")},
    {"dft_axis_half", ONE("DFT<axis = 1, onesided = 1>", "float[2,6,3,2,1]")},
    {"dft_axis_half_inverse", LENGTH("DFT<axis = 0, inverse = 1, onesided = 1>", "float[4,3,2,2]", "9")},
    {"dft_half_complex", ONE("DFT<onesided = 1>", "float[2,7,2]")},
    {"dft_inverse_real", LENGTH("DFT<inverse = 1>", "double[2,7,1]", "5")},
    {"dft_inverse_padded", LENGTH("DFT<inverse = 1>", "float[2,5,2]", "8")},
    {"dft_axis_of_run", OF_RUN("DFT", "float[3,5,4,2]"), {{-1, 1}, {0, 2}}},
    {"dft_axis_of_run_half", OF_RUN("DFT<onesided = 1>", "float[3,8,1]"), {{-1, 1}, {-3, -2}}},
    {"dft_symbol", ONE("DFT", "float[2,n,1]")},
    {"dft_float16", ONE("DFT", "float16[2,8,1]"), {{-0.1, 0.1}}, NC_CASE_NO_GRAD},
    {"stft_flat",
     "<opset: \"\" 19> g (float[2,16] x, float[6] w) => (y) <const int64[] s = {3}> { y = STFT(x, s, w) }"},
    {"stft", "<opset: \"\" 19> g (float[2,16,1] x, float[6] w) => (y) <const int64[] s = {3}> { y = STFT(x, s, w) }"},
    {"stft_no_window", "<opset: \"\" 17> g (float[2,16,1] x) => (y) <const int64[] s = {4}, const int64[] n = {8}> "
                       "{ y = STFT<onesided = 0>(x, s, , n) }"},
    {"stft_opset_20", "<opset: \"\" 20> g (float[1,n,1] x) => (y) <const int64[] s = {2}, const int64[] n = {3}> "
                      "{ y = STFT(x, s, , n) }"},
    {"hann", WINDOW("HannWindow", "9"), VALUE},
    {"hamming", WINDOW("HammingWindow<periodic = 0>", "8"), VALUE},
    {"blackman", WINDOW("BlackmanWindow<output_datatype = 11>", "1"), VALUE},
    {"window_empty", WINDOW("HannWindow", "0"), VALUE},
    {"mel",
     "<opset: \"\" 17> g (float[1] x) => (y) <const int64[] m = {8}, const int64[] n = {16}, const int64[] r = "
     "{8192}, const float[] lo = {0}, const float[] hi = {4096}> { y = MelWeightMatrix(m, n, r, lo, hi) }",
     VALUE},
    {"adagrad",
     TRAIN("float[n] x, float[n] g, float[n] h", "a, b", "Adagrad<norm_coefficient = 0.1>(r, t, x, g, h)"),
     {{-2, 2}, {-2, 2}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"adam",
     TRAIN("float[n] x, float[n] g, float[n] v, float[n] h", "a, b, c", "Adam(r, t, x, g, v, h)"),
     {{-2, 2}, {-2, 2}, {-2, 2}, {0.5, 2}},
     NC_CASE_NO_GRAD},
    {"momentum",
     TRAIN("float[n] x, float[n] g, float[n] v", "a, b",
           "Momentum<norm_coefficient = 0.1, alpha = 0.9, beta = 0.8, mode = \"nesterov\">(r, t, x, g, v)"),
     VALUE},
    {0}};

TEST(signal_values) { nc_cases_check_values(nc_signal_cases); }
TEST(signal_isas) { nc_cases_check_isas(nc_signal_cases); }
TEST(signal_gradients) { nc_cases_check_gradients(nc_signal_cases); }

static void check_dft(int64_t n) {
    double x[2 * 40], y[2 * 40];
    void *workspace = malloc(nck_dft_workspace(n));
    nc_tensor in = {.data = x, .dtype = NC_DOUBLE, .rank = 2, .dims = {n, 2}, .strides = {2, 1}}, out = in;
    out.data = y;
    REQUIRE(workspace != NULL);
    for (int64_t i = 0; i < 2 * n; i++) x[i] = (double)(i * 37 % 23) - 11;
    nck_dft(&in, 0, n, false, false, &out, workspace, NULL);
    for (int64_t k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (int64_t i = 0; i < n; i++) {
            double a = -2 * 3.14159265358979323846 * (double)(i * k % n) / (double)n;
            re += x[2 * i] * cos(a) - x[2 * i + 1] * sin(a);
            im += x[2 * i] * sin(a) + x[2 * i + 1] * cos(a);
        }
        nc_tolerance tol = nc_tol_of_sum(nc_tol_kernel_f64, (double)(2 * n)); /* of numbers up to 11 */
        CHECK_CLOSE(y[2 * k] / 11, re / 11, tol);
        CHECK_CLOSE(y[2 * k + 1] / 11, im / 11, tol);
    }
    free(workspace);
}

TEST(dft_of_every_length) {
    for (int64_t n = 1; n <= 40; n++) check_dft(n);
}
