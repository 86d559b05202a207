/* kernels/cpu/quant/linear.simd.c: numbers to 8-bit codes and back, and ranges, for each ISA. Blocks of a constant
 * number of elements, which compilers turn into vectors of that ISA; what is left at the end goes through a padded
 * block. Every ISA does the same operations, so the bits are the same. */
#include "kernels/cpu/quant/linear_kernel.h"
#include "kernels/cpu/simd/simd.h"

#include <string.h>

enum { LEN = 64 };

/* y = saturate(round(x / scale) + zero); NaN counts as 0. Adding 1.5 * 2^23 rounds to nearest even. */
static void linear_to_codes(const float *restrict x, const float *restrict scale, const int32_t *restrict zero, int low,
                            uint8_t *restrict y) {
    int32_t v[LEN];
    float q[LEN];
    for (int i = 0; i < LEN; i++) q[i] = x[i] / scale[i];
    for (int i = 0; i < LEN; i++) q[i] = q[i] == q[i] ? q[i] : 0;
    for (int i = 0; i < LEN; i++) q[i] = q[i] < -65536 ? -65536 : q[i];
    for (int i = 0; i < LEN; i++) q[i] = q[i] > 65536 ? 65536 : q[i];
    for (int i = 0; i < LEN; i++) v[i] = (int32_t)((q[i] + 0x1.8p23f) - 0x1.8p23f);
    for (int i = 0; i < LEN; i++) {
        int32_t c = v[i] + zero[i];
        c = c < low ? low : c;
        v[i] = c > low + 255 ? low + 255 : c;
    }
    for (int i = 0; i < LEN; i++) y[i] = (uint8_t)v[i];
}

static void linear_from_unsigned(const uint8_t *restrict x, const float *restrict scale, const int32_t *restrict zero,
                                 float *restrict y) {
    for (int i = 0; i < LEN; i++) y[i] = (float)(x[i] - zero[i]) * scale[i];
}

static void linear_from_signed(const int8_t *restrict x, const float *restrict scale, const int32_t *restrict zero,
                               float *restrict y) {
    for (int i = 0; i < LEN; i++) y[i] = (float)(x[i] - zero[i]) * scale[i];
}

static void linear_from_codes(const uint8_t *x, const float *scale, const int32_t *zero, int low, float *y) {
    if (low < 0)
        linear_from_signed((const int8_t *)x, scale, zero, y);
    else
        linear_from_unsigned(x, scale, zero, y);
}

static void linear_spread(nck_linear_one p, float *restrict scale, int32_t *restrict zero) {
    for (int i = 0; i < LEN; i++) scale[i] = p.scale, zero[i] = p.zero;
}

static void linear_convert(const double *restrict s, const double *restrict z, float *restrict scale,
                           int32_t *restrict zero) {
    for (int i = 0; i < LEN; i++) scale[i] = (float)s[i];
    for (int i = 0; i < LEN; i++) zero[i] = (int32_t)z[i];
}

/* Scales and zero points of the block that begins at i; those behind the last of n are 1 and 0. */
static void linear_params(nck_linear_each p, int64_t i, int64_t n, float *scale, int32_t *zero) {
    if (n - i >= LEN) {
        linear_convert(p.scale + i, p.zero + i, scale, zero);
        return;
    }
    linear_spread((nck_linear_one){.scale = 1}, scale, zero);
    for (int64_t k = 0; k < n - i; k++) scale[k] = (float)p.scale[i + k], zero[k] = (int32_t)p.zero[i + k];
}

static void linear_codes_end(const float *x, int64_t n, const float *scale, const int32_t *zero, int low, uint8_t *y) {
    float from[LEN] = {0};
    uint8_t to[LEN];
    memcpy(from, x, (size_t)n * sizeof *x);
    linear_to_codes(from, scale, zero, low, to);
    memcpy(y, to, (size_t)n);
}

static void linear_numbers_end(const uint8_t *x, int64_t n, const float *scale, const int32_t *zero, int low,
                               float *y) {
    uint8_t from[LEN] = {0};
    float to[LEN];
    memcpy(from, x, (size_t)n);
    linear_from_codes(from, scale, zero, low, to);
    memcpy(y, to, (size_t)n * sizeof *y);
}

static void linear_quantize(const float *x, int64_t n, nck_linear_one p, uint8_t *y) {
    float scale[LEN];
    int32_t zero[LEN];
    int64_t i = 0;
    linear_spread(p, scale, zero);
    for (; i + LEN <= n; i += LEN) linear_to_codes(x + i, scale, zero, p.low, y + i);
    if (i < n) linear_codes_end(x + i, n - i, scale, zero, p.low, y + i);
}

static void linear_quantize_each(const float *x, int64_t n, nck_linear_each p, uint8_t *y) {
    float scale[LEN];
    int32_t zero[LEN];
    for (int64_t i = 0; i < n; i += LEN) {
        linear_params(p, i, n, scale, zero);
        if (n - i >= LEN)
            linear_to_codes(x + i, scale, zero, p.low, y + i);
        else
            linear_codes_end(x + i, n - i, scale, zero, p.low, y + i);
    }
}

static void linear_dequantize(const uint8_t *x, int64_t n, nck_linear_one p, float *y) {
    float scale[LEN];
    int32_t zero[LEN];
    int64_t i = 0;
    linear_spread(p, scale, zero);
    for (; i + LEN <= n; i += LEN) linear_from_codes(x + i, scale, zero, p.low, y + i);
    if (i < n) linear_numbers_end(x + i, n - i, scale, zero, p.low, y + i);
}

static void linear_dequantize_each(const uint8_t *x, int64_t n, nck_linear_each p, float *y) {
    float scale[LEN];
    int32_t zero[LEN];
    for (int64_t i = 0; i < n; i += LEN) {
        linear_params(p, i, n, scale, zero);
        if (n - i >= LEN)
            linear_from_codes(x + i, scale, zero, p.low, y + i);
        else
            linear_numbers_end(x + i, n - i, scale, zero, p.low, y + i);
    }
}

static void linear_widen(const float *restrict x, float *restrict low, float *restrict high) {
    for (int i = 0; i < LEN; i++) low[i] = x[i] < low[i] ? x[i] : low[i];
    for (int i = 0; i < LEN; i++) high[i] = x[i] > high[i] ? x[i] : high[i];
}

static void linear_range(const float *x, int64_t n, float *low, float *high) {
    float lows[LEN], highs[LEN];
    int64_t i = 0;
    for (int k = 0; k < LEN; k++) lows[k] = *low, highs[k] = *high;
    for (; i + LEN <= n; i += LEN) linear_widen(x + i, lows, highs);
    for (int k = 0; i < n; i++, k++) {
        lows[k] = x[i] < lows[k] ? x[i] : lows[k];
        highs[k] = x[i] > highs[k] ? x[i] : highs[k];
    }
    for (int k = 0; k < LEN; k++) {
        *low = lows[k] < *low ? lows[k] : *low;
        *high = highs[k] > *high ? highs[k] : *high;
    }
}

extern const nck_linear_table NCK_ISA_NAME(nck_linear_);
const nck_linear_table NCK_ISA_NAME(nck_linear_) = {.quantize = linear_quantize,
                                                    .quantize_each = linear_quantize_each,
                                                    .dequantize = linear_dequantize,
                                                    .dequantize_each = linear_dequantize_each,
                                                    .range = linear_range};
