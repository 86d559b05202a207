/* kernels/cpu/gemm/igemm_dot.h: what igemm.simd.c needs of an ISA.
 *   sizes    GROUP terms, VL lanes of int32 in a vector vi, tiles of MR rows and NV vectors, EACH_ROWS(X) X(1) .. X(MR)
 *   kinds    A_SIGNED: A is packed as int8, else as uint8. PAIR_LIMIT: see igemm_kernel.h
 *   dots     vi_dot(acc, a, b) adds to each lane of acc the dot product of its groups, by neighbours in int16 where
 *            PAIR_LIMIT is below 256; vi_dot_wide is exact for all elements
 *   memory   vi_load vi_store (any alignment), vi_splat: one group to all lanes
 *   lanes    DOT_LANES: vi_dot_lane(acc, groups, lane, b) takes one of the groups in a vector, which spares the splats
 *   rows     DOT_ROWS: panels of A are rows as they lie; vi_add_bytes adds bytes to sums of 64 bits: igemm_rows.inc
 *   packing  lines_16(src, ks, flip, dst): 16 lanes of one group from GROUP lines ks apart; lines_few: FEW of them
 *            terms_4x4(src, ls, flip, dst, step), where it is: 4 groups of 4 lanes ls apart, each group's side by side
 *   sums     igemm_sum_lanes: of SUM_LANES lanes whose groups lie `step` bytes apart
 * AVX-512 with VNNI serves AMX as well, which multiplies tiles: igemm_tiles.inc.
 * NEON's matrix instructions (DOT_SQUARES) multiply two rows with two columns at a time: igemm_squares.inc. */
#ifndef NCK_IGEMM_DOT_H
#define NCK_IGEMM_DOT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DOT_INLINE __attribute__((always_inline)) static inline
#define ROWS_4(X) X(1) X(2) X(3) X(4)
#define ROWS_6(X) ROWS_4(X) X(5) X(6)
#define ROWS_8(X) ROWS_6(X) X(7) X(8)
#define ROWS_12(X) ROWS_8(X) X(9) X(10) X(11) X(12)
#define ROWS_14(X) ROWS_12(X) X(13) X(14)

#ifdef __AVX512BW__
#include <immintrin.h>
enum { GROUP = 4, VL = 16, NV = 2, A_SIGNED = false };
#define DOT_ROWS
typedef __m512i vi;
DOT_INLINE vi vi_zero(void) { return _mm512_setzero_si512(); }
DOT_INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
DOT_INLINE void vi_store(int32_t *p, vi v) { _mm512_storeu_si512(p, v); }
DOT_INLINE vi vi_add_bytes(vi acc, vi a) { return _mm512_add_epi64(acc, _mm512_sad_epu8(a, vi_zero())); }
DOT_INLINE vi vi_splat(const void *p) {
    int32_t w;
    memcpy(&w, p, sizeof w);
    return _mm512_set1_epi32(w);
}
#ifdef __AVX512VNNI__
enum { MR = 14 };
#define EACH_ROWS ROWS_14
#define PAIR_LIMIT 256
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) { return _mm512_dpbusd_epi32(acc, a, b); }
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) { return vi_dot(acc, a, b); }
#else
enum { MR = 12 }; /* the dots need registers, too */
#define EACH_ROWS ROWS_12
#define PAIR_LIMIT 128 /* 255 * 128 fits int16 */
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) {
    return _mm512_add_epi32(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1)));
}
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) {
    vi b0 = _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8), b1 = _mm512_srai_epi16(b, 8);
    vi a0 = _mm512_and_si512(a, _mm512_set1_epi16(255)), a1 = _mm512_srli_epi16(a, 8);
    return _mm512_add_epi32(_mm512_add_epi32(acc, _mm512_madd_epi16(a0, b0)), _mm512_madd_epi16(a1, b1));
}
#endif

#elif defined __AVX2__
#include <immintrin.h>
enum { GROUP = 4, VL = 8, MR = 4, NV = 2, A_SIGNED = false };
#define EACH_ROWS ROWS_4
#define DOT_ROWS
typedef __m256i vi;
DOT_INLINE vi vi_zero(void) { return _mm256_setzero_si256(); }
DOT_INLINE vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
DOT_INLINE void vi_store(int32_t *p, vi v) { _mm256_storeu_si256((vi *)p, v); }
DOT_INLINE vi vi_add_bytes(vi acc, vi a) { return _mm256_add_epi64(acc, _mm256_sad_epu8(a, vi_zero())); }
DOT_INLINE vi vi_splat(const void *p) {
    int32_t w;
    memcpy(&w, p, sizeof w);
    return _mm256_set1_epi32(w);
}
#ifdef __AVXVNNI__
#define PAIR_LIMIT 256
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) { return _mm256_dpbusd_avx_epi32(acc, a, b); }
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) { return vi_dot(acc, a, b); }
#else
#define PAIR_LIMIT 128
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) {
    vi b0 = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), b1 = _mm256_srai_epi16(b, 8);
    vi a0 = _mm256_and_si256(a, _mm256_set1_epi16(255)), a1 = _mm256_srli_epi16(a, 8);
    return _mm256_add_epi32(_mm256_add_epi32(acc, _mm256_madd_epi16(a0, b0)), _mm256_madd_epi16(a1, b1));
}
#endif

#elif defined NCK_ISA_neon || defined NCK_ISA_neon_dot
#include "kernels/cpu/simd/neon_codes.h"
enum { GROUP = 4, VL = 4, A_SIGNED = true };
typedef int32x4_t vi;
DOT_INLINE vi vi_zero(void) { return vdupq_n_s32(0); }
DOT_INLINE vi vi_load(const void *p) { return vreinterpretq_s32_s8(vld1q_s8(p)); }
DOT_INLINE void vi_store(int32_t *p, vi v) { vst1q_s32(p, v); }
DOT_INLINE vi vi_splat(const void *p) {
    int32_t w;
    memcpy(&w, p, sizeof w);
    return vdupq_n_s32(w);
}
#ifdef NCK_ISA_neon_dot
enum { MR = 6, NV = 4 };
#define EACH_ROWS ROWS_6
#define PAIR_LIMIT 256
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) { return vdotq_s32(acc, vreinterpretq_s8_s32(b), vreinterpretq_s8_s32(a)); }
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) { return vi_dot(acc, a, b); }
#define DOT_LANES
DOT_INLINE vi vi_dot_lane(vi acc, vi groups, int lane, vi b) {
    return nck_codes_dot(acc, vreinterpretq_s8_s32(b), vreinterpretq_s8_s32(groups), lane);
}
#else
enum { MR = 4, NV = 4 };
#define EACH_ROWS ROWS_4
#define PAIR_LIMIT 255 /* -128 * -128 twice is the only sum that leaves int16 */
DOT_INLINE int16x8_t vi_products(vi a, vi b, bool high) {
    int8x16_t x = vreinterpretq_s8_s32(a), y = vreinterpretq_s8_s32(b);
    return high ? vmull_high_s8(x, y) : vmull_s8(vget_low_s8(x), vget_low_s8(y));
}
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) {
    return vpadalq_s16(acc, vpaddq_s16(vi_products(a, b, false), vi_products(a, b, true)));
}
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) {
    vi low = vpaddlq_s16(vi_products(a, b, false)), high = vpaddlq_s16(vi_products(a, b, true));
    return vaddq_s32(acc, vpaddq_s32(low, high));
}
#endif

#elif defined NCK_ISA_neon_i8mm
#include <arm_neon.h>
enum { GROUP = 8, VL = 2, MR = 8, NV = 4, A_SIGNED = true };
#define EACH_ROWS ROWS_8
#define PAIR_LIMIT 256
#define DOT_SQUARES

#else
enum { GROUP = 4, VL = 4, MR = 4, NV = 2, A_SIGNED = true };
#define EACH_ROWS ROWS_4
#define PAIR_LIMIT 256
typedef struct vi {
    int32_t lane[VL];
} vi;
DOT_INLINE vi vi_zero(void) { return (vi){{0}}; }
DOT_INLINE vi vi_load(const void *p) {
    vi v;
    memcpy(&v, p, sizeof v);
    return v;
}
DOT_INLINE void vi_store(int32_t *p, vi v) { memcpy(p, &v, sizeof v); }
DOT_INLINE vi vi_splat(const void *p) {
    vi v;
    for (int l = 0; l < VL; l++) memcpy(&v.lane[l], p, GROUP);
    return v;
}
DOT_INLINE vi vi_dot(vi acc, vi a, vi b) {
    int8_t x[VL * GROUP], y[VL * GROUP];
    memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y);
    for (int l = 0; l < VL; l++) {
        int32_t sum = 0;
        for (int t = 0; t < GROUP; t++) sum += x[l * GROUP + t] * y[l * GROUP + t];
        acc.lane[l] = (int32_t)((uint32_t)acc.lane[l] + (uint32_t)sum);
    }
    return acc;
}
DOT_INLINE vi vi_dot_wide(vi acc, vi a, vi b) { return vi_dot(acc, a, b); }
#endif

/* ---- packing ---- */

#ifdef DOT_SQUARES
typedef uint64_t group_word;
enum { FEW = 8 };
DOT_INLINE void lines_few(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    uint8x8x4_t low, high;
    uint8_t words[2][32];
    uint32_t out[16];
    for (int t = 0; t < 4; t++) {
        low.val[t] = veor_u8(vld1_u8(src + t * ks), vdup_n_u8(flip));
        high.val[t] = veor_u8(vld1_u8(src + (t + 4) * ks), vdup_n_u8(flip));
    }
    vst4_u8(words[0], low), vst4_u8(words[1], high);
    for (int half = 0; half < 2; half++) { /* of the lanes */
        uint32x4x2_t both = {{vreinterpretq_u32_u8(vld1q_u8(words[0] + 16 * half)),
                              vreinterpretq_u32_u8(vld1q_u8(words[1] + 16 * half))}};
        vst2q_u32(out + 8 * half, both);
    }
    memcpy(dst, out, sizeof out);
}
DOT_INLINE void lines_16(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    lines_few(src, ks, flip, dst);
    lines_few(src + FEW, ks, flip, dst + FEW * GROUP);
}
#else
typedef uint32_t group_word;
enum { FEW = 4 };
#if defined __AVX2__
DOT_INLINE void lines_few(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    int32_t w[4];
    for (int t = 0; t < 4; t++) memcpy(&w[t], src + t * ks, sizeof w[t]);
    __m128i turned = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m128i lanes = _mm_shuffle_epi8(_mm_setr_epi32(w[0], w[1], w[2], w[3]), turned);
    _mm_storeu_si128((__m128i *)dst, _mm_xor_si128(lanes, _mm_set1_epi8((char)flip)));
}
DOT_INLINE void lines_16(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    __m128i l[4], turn = _mm_set1_epi8((char)flip);
    for (int t = 0; t < 4; t++) l[t] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(src + t * ks)), turn);
    __m128i a = _mm_unpacklo_epi8(l[0], l[1]), b = _mm_unpackhi_epi8(l[0], l[1]);
    __m128i c = _mm_unpacklo_epi8(l[2], l[3]), d = _mm_unpackhi_epi8(l[2], l[3]);
    _mm_storeu_si128((__m128i *)dst, _mm_unpacklo_epi16(a, c));
    _mm_storeu_si128((__m128i *)(dst + 16), _mm_unpackhi_epi16(a, c));
    _mm_storeu_si128((__m128i *)(dst + 32), _mm_unpacklo_epi16(b, d));
    _mm_storeu_si128((__m128i *)(dst + 48), _mm_unpackhi_epi16(b, d));
}
#define TERMS_4X4
DOT_INLINE void terms_4x4(const uint8_t *src, int64_t ls, uint8_t flip, uint8_t *dst, int64_t step) {
    __m128i l[4], turn = _mm_set1_epi8((char)flip);
    for (int t = 0; t < 4; t++) l[t] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(src + t * ls)), turn);
    __m128i a = _mm_unpacklo_epi32(l[0], l[1]), b = _mm_unpackhi_epi32(l[0], l[1]);
    __m128i c = _mm_unpacklo_epi32(l[2], l[3]), d = _mm_unpackhi_epi32(l[2], l[3]);
    _mm_storeu_si128((__m128i *)dst, _mm_unpacklo_epi64(a, c));
    _mm_storeu_si128((__m128i *)(dst + step), _mm_unpackhi_epi64(a, c));
    _mm_storeu_si128((__m128i *)(dst + 2 * step), _mm_unpacklo_epi64(b, d));
    _mm_storeu_si128((__m128i *)(dst + 3 * step), _mm_unpackhi_epi64(b, d));
}
#elif defined NCK_ISA_neon || defined NCK_ISA_neon_dot
DOT_INLINE void lines_few(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    static const uint8_t turned[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    uint8_t words[16];
    for (int t = 0; t < 4; t++) memcpy(words + 4 * t, src + t * ks, 4);
    vst1q_u8(dst, veorq_u8(vqtbl1q_u8(vld1q_u8(words), vld1q_u8(turned)), vdupq_n_u8(flip)));
}
DOT_INLINE void lines_16(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    uint8x16x4_t l;
    for (int t = 0; t < 4; t++) l.val[t] = veorq_u8(vld1q_u8(src + t * ks), vdupq_n_u8(flip));
    vst4q_u8(dst, l);
}
#define TERMS_4X4
DOT_INLINE void terms_4x4(const uint8_t *src, int64_t ls, uint8_t flip, uint8_t *dst, int64_t step) {
    uint64x2_t low[2], high[2]; /* groups 0 and 2, 1 and 3 of lanes 0 and 1, 2 and 3 */
    for (int t = 0; t < 2; t++) {
        uint32x4_t a = vreinterpretq_u32_u8(veorq_u8(vld1q_u8(src + 2 * t * ls), vdupq_n_u8(flip)));
        uint32x4_t b = vreinterpretq_u32_u8(veorq_u8(vld1q_u8(src + (2 * t + 1) * ls), vdupq_n_u8(flip)));
        low[t] = vreinterpretq_u64_u32(vtrn1q_u32(a, b)), high[t] = vreinterpretq_u64_u32(vtrn2q_u32(a, b));
    }
    vst1q_u8(dst, vreinterpretq_u8_u64(vtrn1q_u64(low[0], low[1])));
    vst1q_u8(dst + step, vreinterpretq_u8_u64(vtrn1q_u64(high[0], high[1])));
    vst1q_u8(dst + 2 * step, vreinterpretq_u8_u64(vtrn2q_u64(low[0], low[1])));
    vst1q_u8(dst + 3 * step, vreinterpretq_u8_u64(vtrn2q_u64(high[0], high[1])));
}
#else
DOT_INLINE void lines_few(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    for (int l = 0; l < FEW; l++)
        for (int t = 0; t < GROUP; t++) dst[l * GROUP + t] = src[t * ks + l] ^ flip;
}
DOT_INLINE void lines_16(const uint8_t *src, int64_t ks, uint8_t flip, uint8_t *dst) {
    for (int l = 0; l < 16; l += FEW) lines_few(src + l, ks, flip, dst + l * GROUP);
}
#endif
#endif

/* ---- sums ---- */

#ifdef DOT_SQUARES
enum { SUM_LANES = 4 };
DOT_INLINE void igemm_sum_lanes(int64_t groups, int64_t step, const uint8_t *panel, bool a, const uint8_t *ones,
                                int32_t *sums) {
    (void)a, (void)ones;
    for (int l = 0; l < SUM_LANES; l++) {
        int32x4_t acc = vdupq_n_s32(0);
        for (int64_t g = 0; g < groups; g++)
            acc = vpadalq_s16(acc, vmovl_s8(vld1_s8((const int8_t *)panel + g * step + l * GROUP)));
        sums[l] = vaddvq_s32(acc);
    }
}
#else
enum { SUM_LANES = VL };
DOT_INLINE void igemm_sum_lanes(int64_t groups, int64_t step, const uint8_t *panel, bool a, const uint8_t *ones,
                                int32_t *sums) {
    vi acc = vi_zero(), one = vi_splat(ones);
    for (int64_t g = 0; g < groups; g++, panel += step)
        acc = a ? vi_dot(acc, vi_load(panel), one) : vi_dot(acc, one, vi_load(panel));
    vi_store(sums, acc);
}
#endif

#endif
