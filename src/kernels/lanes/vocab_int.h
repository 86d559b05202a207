/* lanes/vocab_int.h: the lane vocabulary on one 64-bit integer. Define L_T as int64_t or uint64_t before a formula is
 * used. Everything wraps and nothing traps: a quotient or remainder by 0 is 0, INT64_MIN / -1 is INT64_MIN. Only
 * words that integers have; formulas of kind F do not compile against it. C, and CUDA as NVRTC compiles it. */
#ifndef NCK_LANES_VOCAB_INT_H
#define NCK_LANES_VOCAB_INT_H

#ifdef __CUDACC_RTC__
#define L_INT_FN __device__ inline
#else
#include <stdint.h>
#define L_INT_FN static inline
#endif

/* Processors divide 32 bits several times as fast as 64. */
L_INT_FN int l_short(int64_t a, int64_t b) { return a == (int32_t)a && b == (int32_t)b; }
L_INT_FN int64_t l_div_int64_t(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)-(uint64_t)a;
    return l_short(a, b) ? (int32_t)a / (int32_t)b : a / b;
}
L_INT_FN uint64_t l_div_uint64_t(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
L_INT_FN int64_t l_fmod_int64_t(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    return l_short(a, b) ? (int32_t)a % (int32_t)b : a % b;
}
L_INT_FN uint64_t l_fmod_uint64_t(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }

L_INT_FN uint64_t l_pow_uint64_t(uint64_t a, uint64_t n) {
    uint64_t y = 1;
    for (; n != 0; n >>= 1, a *= a)
        if (n & 1) y *= a;
    return y;
}
/* A negative exponent gives the quotient 1/a^n towards zero. */
L_INT_FN int64_t l_pow_int64_t(int64_t a, int64_t n) {
    if (n >= 0) return (int64_t)l_pow_uint64_t((uint64_t)a, (uint64_t)n);
    if (a == 1) return 1;
    if (a == -1) return n & 1 ? -1 : 1;
    return 0;
}

/* Counts of 64 and more, negative ones among them, leave the sign alone: 0 or -1. */
L_INT_FN int64_t l_shr_int64_t(int64_t a, uint64_t n) { return a >> (n < 64 ? n : 63); }
L_INT_FN uint64_t l_shr_uint64_t(uint64_t a, uint64_t n) { return n < 64 ? a >> n : 0; }

/* Functions, not operators: formulas compare with 0, and compilers warn of an unsigned number below it. */
L_INT_FN int l_lt_int64_t(int64_t a, int64_t b) { return a < b; }
L_INT_FN int l_le_int64_t(int64_t a, int64_t b) { return a <= b; }
L_INT_FN int l_lt_uint64_t(uint64_t a, uint64_t b) { return a < b; }
L_INT_FN int l_le_uint64_t(uint64_t a, uint64_t b) { return a <= b; }

#define L_INT_PASTE2(a, b) a##b
#define L_INT_PASTE(a, b)  L_INT_PASTE2(a, b)

#define L_K(c)         ((L_T)(c))
#define L_ADD(a, b)    ((L_T)((uint64_t)(a) + (uint64_t)(b)))
#define L_SUB(a, b)    ((L_T)((uint64_t)(a) - (uint64_t)(b)))
#define L_MUL(a, b)    ((L_T)((uint64_t)(a) * (uint64_t)(b)))
#define L_DIV(a, b)    L_INT_PASTE(l_div_, L_T)(a, b)
#define L_FMOD(a, b)   L_INT_PASTE(l_fmod_, L_T)(a, b)
#define L_POW(a, b)    L_INT_PASTE(l_pow_, L_T)(a, b)
#define L_NEG(a)       ((L_T)(0 - (uint64_t)(a)))
#define L_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define L_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define L_ABS(a)       ((a) > 0 ? (a) : L_NEG(a))
#define L_FLOOR(a)     (a)
#define L_RINT(a)      (a)
#define L_SHL(a, n)    ((L_T)((uint64_t)(n) < 64 ? (uint64_t)(a) << (n) : 0))
#define L_SHR(a, n)    L_INT_PASTE(l_shr_, L_T)(a, (uint64_t)(n))
#define L_BAND(a, b)   ((a) & (b))
#define L_BOR(a, b)    ((a) | (b))
#define L_BXOR(a, b)   ((a) ^ (b))
#define L_BNOT(a)      (~(a))
#define L_LT(a, b)     L_INT_PASTE(l_lt_, L_T)(a, b)
#define L_LE(a, b)     L_INT_PASTE(l_le_, L_T)(a, b)
#define L_EQ(a, b)     ((a) == (b))
#define L_AND(p, q)    ((p) && (q))
#define L_OR(p, q)     ((p) || (q))
#define L_NOT(p)       (!(p))
#define L_TRUE(a)      ((a) != 0)
#define L_SEL(p, a, b) ((p) ? (a) : (b))
#define L_BOOL(p)      ((L_T)((p) ? 1 : 0))

#endif
