/* simd/avx512.h: the vector vocabulary on x86-64 with AVX-512 F, DQ, BW and VL: 16 floats, 8 doubles. Masks are mask
 * registers. MINPS and MAXPS return their second operand for NaN, so v_min and v_max put a NaN of the first back. */
#ifndef NCK_SIMD_AVX512_H
#define NCK_SIMD_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define V_LEN_f32 16
#define V_LEN_f64 8

typedef __m512 v_f32;
typedef __m512d v_f64;
typedef __mmask16 m_f32;
typedef __mmask8 m_f64;
typedef __m512i v_i32;

static inline v_f32 v_load_f32(const void *p) { return _mm512_loadu_ps(p); }
static inline v_f64 v_load_f64(const void *p) { return _mm512_loadu_pd(p); }
static inline void v_store_f32(void *p, v_f32 a) { _mm512_storeu_ps(p, a); }
static inline void v_store_f64(void *p, v_f64 a) { _mm512_storeu_pd(p, a); }

/* A NaN of x, their second operand, stays. */
#define V_HAS_CLAMP
static inline v_f32 v_clamp_f32(v_f32 x, v_f32 low, v_f32 high) { return _mm512_min_ps(high, _mm512_max_ps(low, x)); }
#define V_HAS_SCALE
static inline v_f32 v_scale_f32(v_f32 a, v_f32 n) { return _mm512_scalef_ps(a, n); }

#define WORDS(S, E, P)                                                                                  \
    static inline v_##S v_set_##S(E a) { return _mm512_set1_##P(a); }                                   \
    static inline v_##S v_add_##S(v_##S a, v_##S b) { return _mm512_add_##P(a, b); }                    \
    static inline v_##S v_sub_##S(v_##S a, v_##S b) { return _mm512_sub_##P(a, b); }                    \
    static inline v_##S v_mul_##S(v_##S a, v_##S b) { return _mm512_mul_##P(a, b); }                    \
    static inline v_##S v_div_##S(v_##S a, v_##S b) { return _mm512_div_##P(a, b); }                    \
    static inline v_##S v_fma_##S(v_##S a, v_##S b, v_##S c) { return _mm512_fmadd_##P(a, b, c); }      \
    static inline m_##S v_lt_##S(v_##S a, v_##S b) { return _mm512_cmp_##P##_mask(a, b, _CMP_LT_OQ); }  \
    static inline m_##S v_le_##S(v_##S a, v_##S b) { return _mm512_cmp_##P##_mask(a, b, _CMP_LE_OQ); }  \
    static inline m_##S v_eq_##S(v_##S a, v_##S b) { return _mm512_cmp_##P##_mask(a, b, _CMP_EQ_OQ); }  \
    static inline m_##S v_and_##S(m_##S a, m_##S b) { return (m_##S)(a & b); }                          \
    static inline m_##S v_or_##S(m_##S a, m_##S b) { return (m_##S)(a | b); }                           \
    static inline m_##S v_not_##S(m_##S a) { return (m_##S) ~a; }                                       \
    static inline v_##S v_sel_##S(m_##S m, v_##S a, v_##S b) { return _mm512_mask_blend_##P(m, b, a); } \
    static inline v_##S v_min_##S(v_##S a, v_##S b) {                                                   \
        return _mm512_mask_mov_##P(_mm512_min_##P(a, b), _mm512_cmp_##P##_mask(a, a, _CMP_UNORD_Q), a); \
    }                                                                                                   \
    static inline v_##S v_max_##S(v_##S a, v_##S b) {                                                   \
        return _mm512_mask_mov_##P(_mm512_max_##P(a, b), _mm512_cmp_##P##_mask(a, a, _CMP_UNORD_Q), a); \
    }                                                                                                   \
    static inline v_##S v_abs_##S(v_##S a) { return _mm512_andnot_##P(_mm512_set1_##P(-(E)0), a); }     \
    static inline v_##S v_neg_##S(v_##S a) { return _mm512_xor_##P(_mm512_set1_##P(-(E)0), a); }        \
    static inline v_##S v_sqrt_##S(v_##S a) { return _mm512_sqrt_##P(a); }                              \
    static inline v_##S v_floor_##S(v_##S a) {                                                          \
        return _mm512_roundscale_##P(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);                     \
    }                                                                                                   \
    static inline v_##S v_rint_##S(v_##S a) {                                                           \
        return _mm512_roundscale_##P(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);                 \
    }                                                                                                   \
    static inline v_##S v_copysign_##S(v_##S a, v_##S b) {                                              \
        return _mm512_or_##P(v_abs_##S(a), _mm512_and_##P(_mm512_set1_##P(-(E)0), b));                  \
    }

WORDS(f32, float, ps)
WORDS(f64, double, pd)
#undef WORDS

static inline bool v_all_f32(m_f32 m) { return m == 0xffff; }
static inline v_i32 v_set_i32(int32_t a) { return _mm512_set1_epi32(a); }
static inline v_i32 v_add_i32(v_i32 a, v_i32 b) { return _mm512_add_epi32(a, b); }
static inline v_i32 v_sub_i32(v_i32 a, v_i32 b) { return _mm512_sub_epi32(a, b); }
static inline v_i32 v_and_i32(v_i32 a, v_i32 b) { return _mm512_and_si512(a, b); }
static inline v_i32 v_shl_i32(v_i32 a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
static inline v_i32 v_shr_i32(v_i32 a, int n) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(n)); }
static inline v_i32 v_round_i32(v_f32 a) { return _mm512_cvtps_epi32(a); }
static inline v_f32 v_from_i32(v_i32 a) { return _mm512_cvtepi32_ps(a); }
static inline v_i32 v_to_bits(v_f32 a) { return _mm512_castps_si512(a); }
static inline v_f32 v_from_bits(v_i32 a) { return _mm512_castsi512_ps(a); }

static inline v_f32 v_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)p)); }
static inline void v_store_f16(void *p, v_f32 a) {
    _mm256_storeu_si256((__m256i_u *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline v_f32 v_load_bf16(const void *p) {
    __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
}
/* Nearest even on the bits; a NaN gets its quiet bit instead, which a carry could otherwise turn into infinity. */
static inline void v_store_bf16(void *p, v_f32 a) {
    __m512i u = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i_u *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

/* A square of vectors, transposed in place: pairs, then quarters of 128 bits inside of four rows, then quarters between
 * the groups of four. */
__attribute__((always_inline)) static inline void v_turn_f32(v_f32 *r) {
    v_f32 t[16], u[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 4) {
        __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]), c = _mm512_castps_pd(t[i + 2]),
                d = _mm512_castps_pd(t[i + 3]);
        u[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        u[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        u[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        u[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
#pragma GCC unroll 8
    for (int c = 0; c < 4; c++) {
        v_f32 a = u[c], b = u[4 + c], d = u[8 + c], e = u[12 + c];
        v_f32 even0 = _mm512_shuffle_f32x4(a, b, 0x88), even1 = _mm512_shuffle_f32x4(d, e, 0x88);
        v_f32 odd0 = _mm512_shuffle_f32x4(a, b, 0xdd), odd1 = _mm512_shuffle_f32x4(d, e, 0xdd);
        r[c] = _mm512_shuffle_f32x4(even0, even1, 0x88);
        r[4 + c] = _mm512_shuffle_f32x4(odd0, odd1, 0x88);
        r[8 + c] = _mm512_shuffle_f32x4(even0, even1, 0xdd);
        r[12 + c] = _mm512_shuffle_f32x4(odd0, odd1, 0xdd);
    }
}
__attribute__((always_inline)) static inline void v_turn_f64(v_f64 *r) {
    v_f64 t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int c = 0; c < 2; c++) {
        v_f64 a = t[c], b = t[2 + c], d = t[4 + c], e = t[6 + c];
        v_f64 even0 = _mm512_shuffle_f64x2(a, b, 0x88), even1 = _mm512_shuffle_f64x2(d, e, 0x88);
        v_f64 odd0 = _mm512_shuffle_f64x2(a, b, 0xdd), odd1 = _mm512_shuffle_f64x2(d, e, 0xdd);
        r[c] = _mm512_shuffle_f64x2(even0, even1, 0x88);
        r[2 + c] = _mm512_shuffle_f64x2(odd0, odd1, 0x88);
        r[4 + c] = _mm512_shuffle_f64x2(even0, even1, 0xdd);
        r[6 + c] = _mm512_shuffle_f64x2(odd0, odd1, 0xdd);
    }
}

#define V_HAS_PARTS /* mask registers do loads and stores of a part; see parts.inc */
static inline v_f32 v_load_part_f32(const void *p, int64_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline v_f64 v_load_part_f64(const void *p, int64_t n) {
    return _mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
}
static inline v_f32 v_load_part_or_f32(const void *p, int64_t n, v_f32 rest) {
    return _mm512_mask_loadu_ps(rest, (__mmask16)((1u << n) - 1), p);
}
static inline v_f64 v_load_part_or_f64(const void *p, int64_t n, v_f64 rest) {
    return _mm512_mask_loadu_pd(rest, (__mmask8)((1u << n) - 1), p);
}
static inline v_f32 v_keep_part_f32(v_f32 a, int64_t n) { return _mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), a); }
static inline v_f64 v_keep_part_f64(v_f64 a, int64_t n) { return _mm512_maskz_mov_pd((__mmask8)((1u << n) - 1), a); }
static inline void v_store_part_f32(void *p, v_f32 a, int64_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a);
}
static inline void v_store_part_f64(void *p, v_f64 a, int64_t n) {
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), a);
}

#endif
