/* simd/avx2.h: the vector vocabulary on x86-64 with AVX2, FMA and F16C: 8 floats, 4 doubles. Masks are vectors of
 * all-ones elements. MINPS and MAXPS return their second operand for NaN, so v_min and v_max put a NaN of the first
 * back. */
#ifndef NCK_SIMD_AVX2_H
#define NCK_SIMD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define V_LEN_f32 8
#define V_LEN_f64 4

typedef __m256 v_f32;
typedef __m256d v_f64;
typedef __m256 m_f32;
typedef __m256d m_f64;
typedef __m256i v_i32;

static inline v_f32 v_load_f32(const void *p) { return _mm256_castsi256_ps(_mm256_loadu_si256((const __m256i_u *)p)); }
static inline v_f64 v_load_f64(const void *p) { return _mm256_castsi256_pd(_mm256_loadu_si256((const __m256i_u *)p)); }
static inline void v_store_f32(void *p, v_f32 a) { _mm256_storeu_si256((__m256i_u *)p, _mm256_castps_si256(a)); }
static inline void v_store_f64(void *p, v_f64 a) { _mm256_storeu_si256((__m256i_u *)p, _mm256_castpd_si256(a)); }

/* A NaN of x, their second operand, stays. */
#define V_HAS_CLAMP
static inline v_f32 v_clamp_f32(v_f32 x, v_f32 low, v_f32 high) { return _mm256_min_ps(high, _mm256_max_ps(low, x)); }

#define WORDS(S, E, P, CAST)                                                                          \
    static inline v_##S v_set_##S(E a) { return _mm256_set1_##P(a); }                                 \
    static inline v_##S v_add_##S(v_##S a, v_##S b) { return _mm256_add_##P(a, b); }                  \
    static inline v_##S v_sub_##S(v_##S a, v_##S b) { return _mm256_sub_##P(a, b); }                  \
    static inline v_##S v_mul_##S(v_##S a, v_##S b) { return _mm256_mul_##P(a, b); }                  \
    static inline v_##S v_div_##S(v_##S a, v_##S b) { return _mm256_div_##P(a, b); }                  \
    static inline v_##S v_fma_##S(v_##S a, v_##S b, v_##S c) { return _mm256_fmadd_##P(a, b, c); }    \
    static inline m_##S v_lt_##S(v_##S a, v_##S b) { return _mm256_cmp_##P(a, b, _CMP_LT_OQ); }       \
    static inline m_##S v_le_##S(v_##S a, v_##S b) { return _mm256_cmp_##P(a, b, _CMP_LE_OQ); }       \
    static inline m_##S v_eq_##S(v_##S a, v_##S b) { return _mm256_cmp_##P(a, b, _CMP_EQ_OQ); }       \
    static inline m_##S v_and_##S(m_##S a, m_##S b) { return _mm256_and_##P(a, b); }                  \
    static inline m_##S v_or_##S(m_##S a, m_##S b) { return _mm256_or_##P(a, b); }                    \
    static inline m_##S v_not_##S(m_##S a) { return _mm256_xor_##P(a, CAST(_mm256_set1_epi32(-1))); } \
    static inline v_##S v_sel_##S(m_##S m, v_##S a, v_##S b) { return _mm256_blendv_##P(b, a, m); }   \
    static inline v_##S v_min_##S(v_##S a, v_##S b) {                                                 \
        return _mm256_blendv_##P(_mm256_min_##P(a, b), a, _mm256_cmp_##P(a, a, _CMP_UNORD_Q));        \
    }                                                                                                 \
    static inline v_##S v_max_##S(v_##S a, v_##S b) {                                                 \
        return _mm256_blendv_##P(_mm256_max_##P(a, b), a, _mm256_cmp_##P(a, a, _CMP_UNORD_Q));        \
    }                                                                                                 \
    static inline v_##S v_abs_##S(v_##S a) { return _mm256_andnot_##P(_mm256_set1_##P(-(E)0), a); }   \
    static inline v_##S v_neg_##S(v_##S a) { return _mm256_xor_##P(_mm256_set1_##P(-(E)0), a); }      \
    static inline v_##S v_sqrt_##S(v_##S a) { return _mm256_sqrt_##P(a); }                            \
    static inline v_##S v_floor_##S(v_##S a) { return _mm256_floor_##P(a); }                          \
    static inline v_##S v_rint_##S(v_##S a) {                                                         \
        return _mm256_round_##P(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);                    \
    }                                                                                                 \
    static inline v_##S v_copysign_##S(v_##S a, v_##S b) {                                            \
        return _mm256_or_##P(v_abs_##S(a), _mm256_and_##P(_mm256_set1_##P(-(E)0), b));                \
    }

WORDS(f32, float, ps, _mm256_castsi256_ps)
WORDS(f64, double, pd, _mm256_castsi256_pd)
#undef WORDS

static inline bool v_all_f32(m_f32 m) { return _mm256_movemask_ps(m) == 0xff; }
static inline v_i32 v_set_i32(int32_t a) { return _mm256_set1_epi32(a); }
static inline v_i32 v_add_i32(v_i32 a, v_i32 b) { return _mm256_add_epi32(a, b); }
static inline v_i32 v_sub_i32(v_i32 a, v_i32 b) { return _mm256_sub_epi32(a, b); }
static inline v_i32 v_and_i32(v_i32 a, v_i32 b) { return _mm256_and_si256(a, b); }
static inline v_i32 v_shl_i32(v_i32 a, int n) { return _mm256_sll_epi32(a, _mm_cvtsi32_si128(n)); }
static inline v_i32 v_shr_i32(v_i32 a, int n) { return _mm256_sra_epi32(a, _mm_cvtsi32_si128(n)); }
static inline v_i32 v_round_i32(v_f32 a) { return _mm256_cvtps_epi32(a); }
static inline v_f32 v_from_i32(v_i32 a) { return _mm256_cvtepi32_ps(a); }
static inline v_i32 v_to_bits(v_f32 a) { return _mm256_castps_si256(a); }
static inline v_f32 v_from_bits(v_i32 a) { return _mm256_castsi256_ps(a); }

static inline v_f32 v_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)p)); }
static inline void v_store_f16(void *p, v_f32 a) {
    _mm_storeu_si128((__m128i_u *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline v_f32 v_load_bf16(const void *p) {
    __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}
/* Nearest even on the bits; a NaN gets its quiet bit instead, which a carry could otherwise turn into infinity. */
static inline void v_store_bf16(void *p, v_f32 a) {
    __m256i u = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    r = _mm256_srli_epi32(_mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan), 16);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x88);
    _mm_storeu_si128((__m128i_u *)p, _mm256_castsi256_si128(r));
}

/* A square of vectors, transposed in place: inside of the halves of 128 bits first, then the halves. */
static inline void v_turn_f32(v_f32 *r) {
    v_f32 t[8], u[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 8
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        r[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}
static inline void v_turn_f64(v_f64 *r) {
    v_f64 t0 = _mm256_unpacklo_pd(r[0], r[1]), t1 = _mm256_unpackhi_pd(r[0], r[1]);
    v_f64 t2 = _mm256_unpacklo_pd(r[2], r[3]), t3 = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(t0, t2, 0x20);
    r[1] = _mm256_permute2f128_pd(t1, t3, 0x20);
    r[2] = _mm256_permute2f128_pd(t0, t2, 0x31);
    r[3] = _mm256_permute2f128_pd(t1, t3, 0x31);
}

#endif
