/* simd/neon.h: the vector vocabulary on AArch64 Advanced SIMD: 4 floats, 2 doubles. FMIN and FMAX already give NaN
 * for NaN. */
#ifndef NCK_SIMD_NEON_H
#define NCK_SIMD_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

#define V_LEN_f32 4
#define V_LEN_f64 2
#define V_SIDE 4

typedef float32x4_t v_f32;
typedef float64x2_t v_f64;
typedef uint32x4_t m_f32;
typedef uint64x2_t m_f64;
typedef int32x4_t v_i32;

/* Loads and stores go through bytes: no alignment is promised. */
static inline v_f32 v_load_f32(const void *p) { return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p)); }
static inline v_f64 v_load_f64(const void *p) { return vreinterpretq_f64_u8(vld1q_u8((const uint8_t *)p)); }
static inline void v_store_f32(void *p, v_f32 a) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_f32(a)); }
static inline void v_store_f64(void *p, v_f64 a) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_f64(a)); }

#define WORDS(S, E, M, U)                                                                                      \
    static inline v_##S v_set_##S(E a) { return vdupq_n_##S(a); }                                              \
    static inline v_##S v_add_##S(v_##S a, v_##S b) { return vaddq_##S(a, b); }                                \
    static inline v_##S v_sub_##S(v_##S a, v_##S b) { return vsubq_##S(a, b); }                                \
    static inline v_##S v_mul_##S(v_##S a, v_##S b) { return vmulq_##S(a, b); }                                \
    static inline v_##S v_div_##S(v_##S a, v_##S b) { return vdivq_##S(a, b); }                                \
    static inline v_##S v_fma_##S(v_##S a, v_##S b, v_##S c) { return vfmaq_##S(c, a, b); }                    \
    static inline v_##S v_min_##S(v_##S a, v_##S b) { return vminq_##S(a, b); }                                \
    static inline v_##S v_max_##S(v_##S a, v_##S b) { return vmaxq_##S(a, b); }                                \
    static inline v_##S v_abs_##S(v_##S a) { return vabsq_##S(a); }                                            \
    static inline v_##S v_neg_##S(v_##S a) { return vnegq_##S(a); }                                            \
    static inline v_##S v_sqrt_##S(v_##S a) { return vsqrtq_##S(a); }                                          \
    static inline v_##S v_floor_##S(v_##S a) { return vrndmq_##S(a); }                                         \
    static inline v_##S v_rint_##S(v_##S a) { return vrndnq_##S(a); }                                          \
    static inline v_##S v_copysign_##S(v_##S a, v_##S b) { return vbslq_##S(vdupq_n_##U(M), b, a); }           \
    static inline m_##S v_lt_##S(v_##S a, v_##S b) { return vcltq_##S(a, b); }                                 \
    static inline m_##S v_le_##S(v_##S a, v_##S b) { return vcleq_##S(a, b); }                                 \
    static inline m_##S v_eq_##S(v_##S a, v_##S b) { return vceqq_##S(a, b); }                                 \
    static inline m_##S v_and_##S(m_##S a, m_##S b) { return vandq_##U(a, b); }                                \
    static inline m_##S v_or_##S(m_##S a, m_##S b) { return vorrq_##U(a, b); }                                 \
    static inline m_##S v_not_##S(m_##S a) { return veorq_##U(a, vdupq_n_##U(M | (M - 1))); }                      \
    static inline v_##S v_sel_##S(m_##S m, v_##S a, v_##S b) { return vbslq_##S(m, a, b); }

WORDS(f32, float, 0x80000000u, u32)
WORDS(f64, double, UINT64_C(0x8000000000000000), u64)
#undef WORDS

static inline bool v_all_f32(m_f32 m) { return vminvq_u32(m) != 0; }
static inline v_i32 v_set_i32(int32_t a) { return vdupq_n_s32(a); }
/* Unsigned, since these wrap: gcc's vaddq_s32 is C's + on signed elements. */
static inline v_i32 v_add_i32(v_i32 a, v_i32 b) {
    return vreinterpretq_s32_u32(vaddq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)));
}
static inline v_i32 v_sub_i32(v_i32 a, v_i32 b) {
    return vreinterpretq_s32_u32(vsubq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)));
}
static inline v_i32 v_and_i32(v_i32 a, v_i32 b) { return vandq_s32(a, b); }
static inline v_i32 v_shl_i32(v_i32 a, int n) { return vshlq_s32(a, vdupq_n_s32(n)); }
static inline v_i32 v_shr_i32(v_i32 a, int n) { return vshlq_s32(a, vdupq_n_s32(-n)); }
static inline v_i32 v_round_i32(v_f32 a) { return vcvtnq_s32_f32(a); }
static inline v_f32 v_from_i32(v_i32 a) { return vcvtq_f32_s32(a); }
static inline v_i32 v_to_bits(v_f32 a) { return vreinterpretq_s32_f32(a); }
static inline v_f32 v_from_bits(v_i32 a) { return vreinterpretq_f32_s32(a); }

static inline v_f32 v_load_f16(const void *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)p)));
}
static inline void v_store_f16(void *p, v_f32 a) { vst1_u8((uint8_t *)p, vreinterpret_u8_f16(vcvt_f16_f32(a))); }

static inline v_f32 v_load_bf16(const void *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8((const uint8_t *)p)), 16));
}
/* Nearest even on the bits; a NaN gets its quiet bit instead, which a carry could otherwise turn into infinity. */
static inline void v_store_bf16(void *p, v_f32 a) {
    uint32x4_t u = vreinterpretq_u32_f32(a);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    uint32x4_t r = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t q = vbslq_u32(vceqq_f32(a, a), r, vorrq_u32(u, vdupq_n_u32(0x400000)));
    vst1_u8((uint8_t *)p, vreinterpret_u8_u16(vshrn_n_u32(q, 16)));
}

/* A square of vectors, transposed in place. */
static inline void v_turn_f32(v_f32 *r) {
    float64x2_t t0 = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])), t1 = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    float64x2_t t2 = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])), t3 = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(t0, t2));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(t1, t3));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(t0, t2));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(t1, t3));
}
static inline void v_turn_f64(v_f64 *r) {
    v_f64 t = vtrn1q_f64(r[0], r[1]);
    r[1] = vtrn2q_f64(r[0], r[1]);
    r[0] = t;
}

#endif
