/* kernels/cpu/simd/neon_codes.h: between 8-bit codes and f32 on NEON, 16 at a time. Conversions of whole vectors take
 * two cycles of one pipe on many cores; where numbers are small enough their bits are put together instead. */
#ifndef NCK_SIMD_NEON_CODES_H
#define NCK_SIMD_NEON_CODES_H

#include "kernels/cpu/simd/unroll.h"

#include <arm_neon.h>
#include <stdbool.h>

#define NCK_CODES_INLINE __attribute__((always_inline)) static inline

#define NCK_CODES_NEAR 0x1.fp14f /* numbers below this are near */
#define NCK_CODES_WHOLE 0x1.8p23f /* leaves no room for a fraction; a whole number added to it is its last bits */
enum { NCK_CODES_BITS = 0x4b400000, NCK_CODES_SMALL = 1 << 22 }; /* its bits, and what may be added to it */

/* A small sum with NCK_CODES_BITS added to it, as a number. */
NCK_CODES_INLINE float32x4_t nck_codes_small(int32x4_t sum) {
    return vsubq_f32(vreinterpretq_f32_s32(sum), vdupq_n_f32(NCK_CODES_WHOLE));
}

/* Rounded, from two vectors; near: a constant where inlined. */
NCK_CODES_INLINE int16x8_t nck_codes_round(float32x4_t a, float32x4_t b, bool near) {
    const float32x4_t whole = vdupq_n_f32(NCK_CODES_WHOLE);
    if (near)
        return vuzp1q_s16(vreinterpretq_s16_f32(vaddq_f32(a, whole)), vreinterpretq_s16_f32(vaddq_f32(b, whole)));
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
}

/* saturate(round(q) + zero); NaN counts as 0, but where all are near. */
NCK_CODES_INLINE uint8x16_t nck_codes_narrow(const float32x4_t *q, int16x8_t zero, bool is_signed, bool near) {
    int16x8_t h[2];
    UNROLL
    for (int k = 0; k < 2; k++) h[k] = vqaddq_s16(nck_codes_round(q[2 * k], q[2 * k + 1], near), zero);
    if (is_signed) return vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(h[0]), h[1]));
    return vqmovun_high_s16(vqmovun_s16(h[0]), h[1]);
}

/* x + 2^23 as f32, exactly: a code is the low bits of that number. */
NCK_CODES_INLINE void nck_codes_widen(uint8x16_t x, float32x4_t *q) {
    const uint16x8_t exponent = vdupq_n_u16(0x4b00);
    uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_high_u8(x);
    q[0] = vreinterpretq_f32_u16(vzip1q_u16(low, exponent)), q[1] = vreinterpretq_f32_u16(vzip2q_u16(low, exponent));
    q[2] = vreinterpretq_f32_u16(vzip1q_u16(high, exponent)), q[3] = vreinterpretq_f32_u16(vzip2q_u16(high, exponent));
}

#ifdef __ARM_FEATURE_DOTPROD
/* To each lane of acc: the dot product of its four bytes of b with those of one lane of x. */
NCK_CODES_INLINE int32x4_t nck_codes_dot(int32x4_t acc, int8x16_t b, int8x16_t x, int lane) {
    switch (lane) { /* the instruction has it as a literal */
    case 0: return vdotq_laneq_s32(acc, b, x, 0);
    case 1: return vdotq_laneq_s32(acc, b, x, 1);
    case 2: return vdotq_laneq_s32(acc, b, x, 2);
    default: return vdotq_laneq_s32(acc, b, x, 3);
    }
}
#endif

#endif
