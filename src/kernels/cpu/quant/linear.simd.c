/* kernels/cpu/quant/linear.simd.c: numbers to 8-bit codes and back, and ranges, for each ISA. Blocks of a constant
 * number of elements, which compilers turn into vectors of that ISA; what is left at the end goes through a padded
 * block. Every ISA does the same operations, so the bits are the same. */
#include "kernels/cpu/quant/linear_kernel.h"
#include "kernels/cpu/simd/simd.h"

#include <stdbool.h>
#include <string.h>
#ifdef NCK_ISA_avx512
#include "kernels/cpu/simd/unroll.h"

#include <immintrin.h>
#elif defined NCK_ISA_neon
#include "kernels/cpu/simd/neon_codes.h"
#endif

enum { LEN = 64 };

#ifdef NCK_ISA_avx512
/* The same as below in instructions that round and saturate by themselves. */
static void linear_to_codes(const float *x, const float *scale, const int32_t *zero, int low, uint8_t *y) {
    const __m512 most = _mm512_set1_ps(65536), least = _mm512_set1_ps(-65536);
    for (int i = 0; i < LEN; i += 16) {
        __m512 q = _mm512_div_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(scale + i));
        q = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(q, q, _CMP_ORD_Q), q);
        q = _mm512_min_ps(_mm512_max_ps(q, least), most);
        __m512i v = _mm512_add_epi32(_mm512_cvtps_epi32(q), _mm512_loadu_si512(zero + i));
        __m128i c = _mm512_cvtsepi32_epi8(v);
        if (low == 0) c = _mm512_cvtusepi32_epi8(_mm512_max_epi32(v, _mm512_setzero_si512()));
        _mm_storeu_si128((__m128i *)(y + i), c);
    }
}
#else
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
#endif

/* One scale for all. A quotient is its estimate x * (1 / scale), mended by what that leaves: the nearest number, as
 * division finds it (Markstein), where neither 1 / scale nor the rest leaves the range of f32. What is past all codes
 * is cut before, so that an infinity leaves no NaN. */
#if defined NCK_ISA_neon || defined NCK_ISA_avx512
static bool linear_is_quick(float scale) { return scale > 0x1p-60f && scale < 0x1p60f; }
#endif

#ifdef NCK_ISA_avx512
/* saturate(v + zero) as 64 codes. */
__attribute__((always_inline)) static inline void linear_narrow(const __m512i *v, int zero, int low, uint8_t *y) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i more = _mm512_set1_epi16((int16_t)zero);
    __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), more);
    __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), more);
    __m512i codes = low < 0 ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
    _mm512_storeu_si512(y, _mm512_permutexvar_epi32(order, codes));
}

static void linear_to_codes_one(const float *x, nck_linear_one p, uint8_t *y) {
    const __m512 by = _mm512_set1_ps(1 / p.scale), scale = _mm512_set1_ps(p.scale);
    const __m512 most = _mm512_set1_ps(65536 * p.scale), least = _mm512_set1_ps(-65536 * p.scale);
    __m512i v[4];
    UNROLL
    for (int k = 0; k < 4; k++) {
        __m512 n = _mm512_loadu_ps(x + 16 * k), cut = _mm512_min_ps(_mm512_max_ps(n, least), most);
        __m512 q = _mm512_mul_ps(cut, by);
        q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, scale, cut), by, q);
        v[k] = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(n, n, _CMP_ORD_Q), q);
    }
    linear_narrow(v, p.zero, p.low, y);
}
#elif defined NCK_ISA_neon
static void linear_to_codes_one(const float *x, nck_linear_one p, uint8_t *y) {
    const float32x4_t by = vdupq_n_f32(1 / p.scale), scale = vdupq_n_f32(p.scale);
    const float32x4_t most = vdupq_n_f32(65536), least = vdupq_n_f32(-65536);
    const int16x8_t zero = vdupq_n_s16((int16_t)p.zero);
    for (int i = 0; i < LEN; i += 16) {
        float32x4_t q[4];
        UNROLL
        for (int k = 0; k < 4; k++) {
            float32x4_t v = vld1q_f32(x + i + 4 * k);
            q[k] = vminq_f32(vmaxq_f32(vmulq_f32(v, by), least), most);
            q[k] = vfmaq_f32(q[k], vfmsq_f32(v, q[k], scale), by);
        }
        vst1q_u8(y + i, nck_codes_narrow(q, zero, p.low < 0, false));
    }
}

/* Codes as (code - zero) * scale: the exponent of 2^23 and the zero point are taken off together, exactly. */
typedef struct linear_v {
    float32x4_t zero, scale;
    uint8x16_t flip;
} linear_v;

static inline linear_v linear_v_of(nck_linear_one p) {
    return (linear_v){vdupq_n_f32(0x1p23f + (float)(p.zero - p.low)), vdupq_n_f32(p.scale),
                      vdupq_n_u8((uint8_t)(p.low < 0 ? 0x80 : 0))};
}

static inline void linear_numbers(const uint8_t *x, linear_v p, float32x4_t *q) {
    nck_codes_widen(veorq_u8(vld1q_u8(x), p.flip), q);
    UNROLL
    for (int k = 0; k < 4; k++) q[k] = vmulq_f32(vsubq_f32(q[k], p.zero), p.scale);
}

static void linear_from_codes_one(const uint8_t *x, nck_linear_one p, float *y) {
    const linear_v v = linear_v_of(p);
    for (int i = 0; i < LEN; i += 16) {
        float32x4_t q[4];
        linear_numbers(x + i, v, q);
        UNROLL
        for (int k = 0; k < 4; k++) vst1q_f32(y + i + 4 * k, q[k]);
    }
}
#else
static bool linear_is_quick(float scale) {
    (void)scale;
    return false;
}

static void linear_to_codes_one(const float *x, nck_linear_one p, uint8_t *y) { (void)x, (void)p, (void)y; }
#endif

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
    for (bool quick = linear_is_quick(p.scale); i + LEN <= n; i += LEN) {
        if (quick)
            linear_to_codes_one(x + i, p, y + i);
        else
            linear_to_codes(x + i, scale, zero, p.low, y + i);
    }
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
#ifdef NCK_ISA_neon
    for (; i + LEN <= n; i += LEN) linear_from_codes_one(x + i, p, y + i);
#endif
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

#ifdef NCK_ISA_avx512
__attribute__((always_inline)) static inline __m512 linear_numbers(const uint8_t *x, int low) {
    __m128i c = _mm_loadu_si128((const __m128i *)x);
    return _mm512_cvtepi32_ps(low < 0 ? _mm512_cvtepi8_epi32(c) : _mm512_cvtepu8_epi32(c));
}

/* low: s->low, a constant where inlined. */
__attribute__((always_inline)) static inline void linear_add_as(const uint8_t *a, const uint8_t *b, int64_t blocks,
                                                                const nck_linear_sum *s, int low, uint8_t *y) {
    const __m512 by_a = _mm512_set1_ps(s->a), by_b = _mm512_set1_ps(s->b), rest = _mm512_set1_ps(s->rest);
    for (; blocks > 0; blocks--, a += LEN, b += LEN, y += LEN) {
        __m512i v[4];
        UNROLL
        for (int k = 0; k < 4; k++) {
            __m512 q = _mm512_fmadd_ps(linear_numbers(b + 16 * k, low), by_b, rest);
            v[k] = _mm512_cvtps_epi32(_mm512_fmadd_ps(linear_numbers(a + 16 * k, low), by_a, q));
        }
        linear_narrow(v, s->zero, low, y);
    }
}

static void linear_add_blocks(const uint8_t *a, const uint8_t *b, int64_t blocks, const nck_linear_sum *s, uint8_t *y) {
    if (s->low < 0)
        linear_add_as(a, b, blocks, s, -1, y);
    else
        linear_add_as(a, b, blocks, s, 0, y);
}
#elif defined NCK_ISA_neon
static void linear_add_blocks(const uint8_t *a, const uint8_t *b, int64_t blocks, const nck_linear_sum *s, uint8_t *y) {
    const uint8x16_t flip = vdupq_n_u8((uint8_t)(s->low < 0 ? 0x80 : 0));
    const float32x4_t zero = vdupq_n_f32(0x1p23f + (s->low < 0 ? 128 : 0)), rest = vdupq_n_f32(s->rest);
    const int16x8_t z = vdupq_n_s16((int16_t)s->zero);
    for (int64_t i = 0; i < blocks * LEN; i += 16) {
        float32x4_t q[4], more[4];
        nck_codes_widen(veorq_u8(vld1q_u8(a + i), flip), q);
        nck_codes_widen(veorq_u8(vld1q_u8(b + i), flip), more);
        UNROLL
        for (int k = 0; k < 4; k++) {
            more[k] = vfmaq_n_f32(rest, vsubq_f32(more[k], zero), s->b);
            q[k] = vfmaq_n_f32(more[k], vsubq_f32(q[k], zero), s->a);
        }
        vst1q_u8(y + i, nck_codes_narrow(q, z, s->low < 0, true));
    }
}
#else
/* A sum of products, rounded once; where there is no such instruction in doubles, which hold the product, so that one
 * in about 2^29 is rounded to its other neighbour. */
#ifdef FP_FAST_FMAF
#define SUM(x, y, z) __builtin_fmaf(x, y, z)
#else
#define SUM(x, y, z) ((float)((double)(x) * (y) + (z)))
#endif

static void linear_add_block(const uint8_t *a, const uint8_t *b, const nck_linear_sum *s, uint8_t *y) {
    float one[LEN], x[LEN], more[LEN], by_a = s->a, by_b = s->b, rest = s->rest;
    int32_t none[LEN], v[LEN], zero = s->zero, low = s->low;
    linear_spread((nck_linear_one){.scale = 1}, one, none);
    linear_from_codes(a, one, none, low, x);
    linear_from_codes(b, one, none, low, more);
    for (int i = 0; i < LEN; i++) more[i] = SUM(more[i], by_b, rest);
    for (int i = 0; i < LEN; i++) x[i] = SUM(x[i], by_a, more[i]);
    for (int i = 0; i < LEN; i++) {
        int32_t c = (int32_t)((x[i] + 0x1.8p23f) - 0x1.8p23f) + zero;
        c = c < low ? low : c;
        v[i] = c > low + 255 ? low + 255 : c;
    }
    for (int i = 0; i < LEN; i++) y[i] = (uint8_t)v[i];
}

static void linear_add_blocks(const uint8_t *a, const uint8_t *b, int64_t blocks, const nck_linear_sum *s, uint8_t *y) {
    for (; blocks > 0; blocks--, a += LEN, b += LEN, y += LEN) linear_add_block(a, b, s, y);
}
#endif

static void linear_add(const uint8_t *a, const uint8_t *b, int64_t n, const nck_linear_sum *s, uint8_t *y) {
    uint8_t ends[3][LEN] = {{0}};
    int64_t i = n / LEN * LEN;
    linear_add_blocks(a, b, n / LEN, s, y);
    if (i == n) return;
    memcpy(ends[0], a + i, (size_t)(n - i)), memcpy(ends[1], b + i, (size_t)(n - i));
    linear_add_blocks(ends[0], ends[1], 1, s, ends[2]);
    memcpy(y + i, ends[2], (size_t)(n - i));
}

#ifdef NCK_ISA_neon
/* Kept in registers, which compilers do not do. NaN is passed over. */
static int64_t linear_range_blocks(const float *x, int64_t n, float *lows, float *highs) {
    enum { VECTORS = 4 };
    float32x4_t low[VECTORS], high[VECTORS];
    int64_t i = 0;
    for (int k = 0; k < VECTORS; k++) low[k] = vld1q_f32(lows + 4 * k), high[k] = vld1q_f32(highs + 4 * k);
    for (; i + 4 * VECTORS <= n; i += 4 * VECTORS) {
        UNROLL
        for (int k = 0; k < VECTORS; k++) {
            float32x4_t v = vld1q_f32(x + i + 4 * k);
            low[k] = vbslq_f32(vcltq_f32(v, low[k]), v, low[k]);
            high[k] = vbslq_f32(vcgtq_f32(v, high[k]), v, high[k]);
        }
    }
    for (int k = 0; k < VECTORS; k++) vst1q_f32(lows + 4 * k, low[k]), vst1q_f32(highs + 4 * k, high[k]);
    return i;
}
#else
static void linear_widen(const float *restrict x, float *restrict low, float *restrict high) {
    for (int i = 0; i < LEN; i++) low[i] = x[i] < low[i] ? x[i] : low[i];
    for (int i = 0; i < LEN; i++) high[i] = x[i] > high[i] ? x[i] : high[i];
}

static int64_t linear_range_blocks(const float *x, int64_t n, float *lows, float *highs) {
    int64_t i = 0;
    for (; i + LEN <= n; i += LEN) linear_widen(x + i, lows, highs);
    return i;
}
#endif

static void linear_range(const float *x, int64_t n, float *low, float *high) {
    float lows[LEN], highs[LEN];
    for (int k = 0; k < LEN; k++) lows[k] = *low, highs[k] = *high;
    int64_t i = linear_range_blocks(x, n, lows, highs);
    for (int k = 0; i < n; i++, k++) {
        lows[k] = x[i] < lows[k] ? x[i] : lows[k];
        highs[k] = x[i] > highs[k] ? x[i] : highs[k];
    }
    for (int k = 0; k < LEN; k++) {
        *low = lows[k] < *low ? lows[k] : *low;
        *high = highs[k] > *high ? highs[k] : *high;
    }
}

/* NEON looks 16 codes up in a quarter of the table at a time: codes outside of it keep what they have. */
static void linear_map(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y) {
    int64_t i = 0;
#ifdef NCK_ISA_neon
    uint8x16x4_t quarter[4];
    for (int q = 0; q < 4; q++) quarter[q] = vld1q_u8_x4(table + 64 * q);
    for (; i + 16 <= n; i += 16) {
        uint8x16_t at = vld1q_u8(x + i), found = vqtbl4q_u8(quarter[0], at);
        found = vqtbx4q_u8(found, quarter[1], vsubq_u8(at, vdupq_n_u8(64)));
        found = vqtbx4q_u8(found, quarter[2], vsubq_u8(at, vdupq_n_u8(128)));
        found = vqtbx4q_u8(found, quarter[3], vsubq_u8(at, vdupq_n_u8(192)));
        vst1q_u8(y + i, found);
    }
#endif
    for (; i < n; i++) y[i] = table[x[i]];
}

extern const nck_linear_table NCK_ISA_NAME(nck_linear_);
const nck_linear_table NCK_ISA_NAME(nck_linear_) = {.quantize = linear_quantize,
                                                    .quantize_each = linear_quantize_each,
                                                    .dequantize = linear_dequantize,
                                                    .dequantize_each = linear_dequantize_each,
                                                    .add = linear_add,
                                                    .map = linear_map,
                                                    .range = linear_range};
