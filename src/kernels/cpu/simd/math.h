/* simd/math.h: exp, log, tanh, erf, pow, fmod, the normal distribution and the functions of the circle on vectors,
 * written once over the vocabulary of simd.h.
 *
 * f32: exp, log, tanh, erf, sin, cos and atan within 3 units in the last place, pow within 1, denormals included, with
 * the limits of libm at 0, Inf and NaN; tanh and erf never leave [-1, 1] and odd functions keep the sign of zero. The
 * rest, and all of f64, asks libm element by element. */
#ifndef NCK_SIMD_MATH_H
#define NCK_SIMD_MATH_H

#include "kernels/cpu/simd/simd.h"

#include <math.h>

/* fn of every element. const and not inlined: formulas name the same value twice, and the compiler may then call once;
 * one loop for all of them is small. */
#define V_MAP_ATTR __attribute__((unused, const, noinline)) static
#define V_MAP(S)                                                                              \
    V_MAP_ATTR v_##S v_map_##S(v_##S a, v_elem_##S (*fn)(v_elem_##S)) {                       \
        v_elem_##S t[V_LEN_##S];                                                              \
        v_store_##S(t, a);                                                                    \
        for (int i = 0; i < V_LEN_##S; i++) t[i] = fn(t[i]);                                  \
        return v_load_##S(t);                                                                 \
    }                                                                                         \
    V_MAP_ATTR v_##S v_map2_##S(v_##S a, v_##S b, v_elem_##S (*fn)(v_elem_##S, v_elem_##S)) { \
        v_elem_##S t[V_LEN_##S], u[V_LEN_##S];                                                \
        v_store_##S(t, a);                                                                    \
        v_store_##S(u, b);                                                                    \
        for (int i = 0; i < V_LEN_##S; i++) t[i] = fn(t[i], u[i]);                            \
        return v_load_##S(t);                                                                 \
    }
V_MAP(f32)
V_MAP(f64)
#define V_MAP1(word, S, fn) \
    static inline v_##S word(v_##S a) { return v_map_##S(a, fn); }
#define V_MAP2(word, S, fn) \
    static inline v_##S word(v_##S a, v_##S b) { return v_map2_##S(a, b, fn); }

V_MAP1(v_tan_f32, f32, tanf)
V_MAP1(v_asin_f32, f32, asinf)
V_MAP1(v_acos_f32, f32, acosf)
V_MAP1(v_sinh_f32, f32, sinhf)
V_MAP1(v_cosh_f32, f32, coshf)
V_MAP1(v_asinh_f32, f32, asinhf)
V_MAP1(v_acosh_f32, f32, acoshf)
V_MAP1(v_atanh_f32, f32, atanhf)
#ifdef NCK_ISA_portable /* below, fma by fma, are those for processors that have one */
V_MAP2(v_pow_f32, f32, powf)
V_MAP1(v_sin_f32, f32, sinf)
V_MAP1(v_cos_f32, f32, cosf)
V_MAP1(v_atan_f32, f32, atanf)
#endif
V_MAP2(v_fmod_f32, f32, fmodf)
V_MAP1(v_exp_f64, f64, exp)
V_MAP1(v_log_f64, f64, log)
V_MAP1(v_tanh_f64, f64, tanh)
V_MAP1(v_erf_f64, f64, erf)
V_MAP1(v_erfc_f64, f64, erfc)
V_MAP1(v_sin_f64, f64, sin)
V_MAP1(v_cos_f64, f64, cos)
V_MAP1(v_tan_f64, f64, tan)
V_MAP1(v_asin_f64, f64, asin)
V_MAP1(v_acos_f64, f64, acos)
V_MAP1(v_atan_f64, f64, atan)
V_MAP1(v_sinh_f64, f64, sinh)
V_MAP1(v_cosh_f64, f64, cosh)
V_MAP1(v_asinh_f64, f64, asinh)
V_MAP1(v_acosh_f64, f64, acosh)
V_MAP1(v_atanh_f64, f64, atanh)
V_MAP2(v_pow_f64, f64, pow)
V_MAP2(v_fmod_f64, f64, fmod)

#undef V_MAP
#undef V_MAP1
#undef V_MAP2

/* c0 + c1*x + c2*x^2 + ... by Horner's rule; written out, since gcc at -O2 leaves a loop over coefficients a loop. */
static inline v_f32 v_poly5_f32(v_f32 x, float c0, float c1, float c2, float c3, float c4) {
    v_f32 y = v_fma_f32(v_set_f32(c4), x, v_set_f32(c3));
    y = v_fma_f32(y, x, v_set_f32(c2));
    y = v_fma_f32(y, x, v_set_f32(c1));
    return v_fma_f32(y, x, v_set_f32(c0));
}
static inline v_f32 v_poly6_f32(v_f32 x, float c0, float c1, float c2, float c3, float c4, float c5) {
    return v_fma_f32(v_poly5_f32(x, c1, c2, c3, c4, c5), x, v_set_f32(c0));
}
static inline v_f32 v_poly7_f32(v_f32 x, float c0, float c1, float c2, float c3, float c4, float c5, float c6) {
    return v_fma_f32(v_poly6_f32(x, c1, c2, c3, c4, c5, c6), x, v_set_f32(c0));
}

/* exp(x) = 2^k * (1 + p), k whole, |x - k*ln2| <= ln2/2. p is r + r^2*q(r), fitted with a relative error of exp below
 * 3.2e-9; leaving the 1 out keeps all digits of p for tanh. ln2 is split so that k*hi is exact. Added to 1.5 * 2^23 a
 * number is rounded to a whole one, which its last bits then are: no conversion, which few units can do. With 127 more
 * they are the exponent of 2^k, see v_pow2_of_f32. */
static inline v_f32 v_exp_parts_f32(v_f32 x, v_i32 *bits) {
    const v_f32 whole = v_set_f32(0x1.8p+23f + 127);
    v_f32 t = v_fma_f32(x, v_set_f32(0x1.715476p+0f), whole), n = v_sub_f32(t, whole);
    *bits = v_to_bits(t);
    v_f32 r = v_fma_f32(n, v_set_f32(-0x1.62e400p-1f), x);
    r = v_fma_f32(n, v_set_f32(-0x1.7f7d1cp-20f), r);
    v_f32 q = v_poly5_f32(r, 0x1.fffffcp-2f, 0x1.55549p-3f, 0x1.5558f8p-5f, 0x1.123b02p-7f, 0x1.6a2256p-10f);
    return v_fma_f32(v_mul_f32(r, r), q, r);
}

/* 2^k, -126 <= k <= 127. */
static inline v_f32 v_pow2_f32(v_i32 k) { return v_from_bits(v_shl_i32(v_add_i32(k, v_set_i32(127)), 23)); }

/* The same of what v_exp_parts_f32 leaves; the k of that. */
static inline v_f32 v_pow2_of_f32(v_i32 bits) { return v_from_bits(v_shl_i32(bits, 23)); }
static inline v_i32 v_whole_of_f32(v_i32 bits) { return v_sub_i32(bits, v_set_i32(0x4b400000 + 127)); }

/* The clamp keeps k within [-151, 128]; where no instruction does it, 2^k is applied in two halves, so that only the
 * last product can overflow to Inf or round to a denormal. */
static inline v_f32 v_exp_f32(v_f32 x) {
    v_i32 bits;
    x = v_clamp_f32(x, v_set_f32(-104.5f), v_set_f32(89.0f));
    v_f32 p = v_add_f32(v_set_f32(1.0f), v_exp_parts_f32(x, &bits));
#ifdef V_HAS_SCALE
    return v_scale_f32(p, v_sub_f32(v_from_bits(bits), v_set_f32(0x1.8p+23f + 127)));
#else
    v_i32 k = v_whole_of_f32(bits), half = v_shr_i32(k, 1);
    return v_mul_f32(v_mul_f32(p, v_pow2_f32(half)), v_pow2_f32(v_sub_i32(k, half)));
#endif
}

/* The same bits where exp(x) is a normal number, for x that are hardly above 0: shares of a sum. Smaller ones are 0. */
static inline v_f32 v_exp_share_f32(v_f32 x) {
    v_i32 bits;
    x = v_clamp_f32(x, v_set_f32(-88.0f), v_set_f32(88.7f));
    v_f32 p = v_add_f32(v_set_f32(1.0f), v_exp_parts_f32(x, &bits));
    return v_mul_f32(p, v_pow2_of_f32(bits));
}
static inline v_f64 v_exp_share_f64(v_f64 x) { return v_exp_f64(x); }

/* x = 2^k * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)). With s = f/(2 + f) and z = s^2, log(1 + f) = 2*atanh(s) = f -
 * s*(f - R), R = z*(2/3 + 2/5 z + ... + 2/11 z^4): f is exact and the correction small. */
static inline v_f32 v_log_f32(v_f32 x) {
    const v_f32 one = v_set_f32(1.0f), zero = v_set_f32(0.0f);
    m_f32 small = v_lt_f32(x, v_set_f32(0x1p-126f));
    v_f32 a = v_sel_f32(small, v_mul_f32(x, v_set_f32(0x1p+23f)), x);
    /* Adding the distance from sqrt(1/2) to 1 makes the exponent field step at sqrt(1/2) times a power of two. */
    v_i32 bits = v_add_i32(v_to_bits(a), v_set_i32(0x3f800000 - 0x3f3504f3));
    v_i32 k = v_sub_i32(v_shr_i32(bits, 23), v_set_i32(127));
    v_i32 m = v_add_i32(v_and_i32(bits, v_set_i32(0x007fffff)), v_set_i32(0x3f3504f3));
    v_f32 n = v_sub_f32(v_from_i32(k), v_sel_f32(small, v_set_f32(23.0f), zero));
    v_f32 f = v_sub_f32(v_from_bits(m), one);
    v_f32 s = v_div_f32(f, v_add_f32(v_set_f32(2.0f), f));
    v_f32 z = v_mul_f32(s, s);
    v_f32 q = v_poly5_f32(z, 2.0f / 3, 2.0f / 5, 2.0f / 7, 2.0f / 9, 2.0f / 11);
    v_f32 low = v_fma_f32(n, v_set_f32(0x1.7f7d1cp-20f), v_mul_f32(s, v_fma_f32(z, q, v_neg_f32(f))));
    v_f32 y = v_fma_f32(n, v_set_f32(0x1.62e400p-1f), v_add_f32(f, low));
    y = v_sel_f32(v_lt_f32(x, v_set_f32(INFINITY)), y, x);
    y = v_sel_f32(v_lt_f32(x, zero), v_set_f32(NAN), y);
    return v_sel_f32(v_eq_f32(x, zero), v_set_f32(-INFINITY), y);
}

/* tanh(a) = e/(e + 2), e = exp(2a) - 1 = 2^k*p + (2^k - 1), for a = |x|; from a = 9.02 on it rounds to 1. */
static inline v_f32 v_tanh_f32(v_f32 x) {
    v_i32 bits;
    v_f32 a = v_min_f32(v_abs_f32(x), v_set_f32(10.0f));
    v_f32 p = v_exp_parts_f32(v_add_f32(a, a), &bits);
    v_f32 s = v_pow2_of_f32(bits);
    v_f32 e = v_fma_f32(s, p, v_sub_f32(s, v_set_f32(1.0f)));
    v_f32 y = v_div_f32(e, v_add_f32(e, v_set_f32(2.0f)));
    return v_sel_f32(v_eq_f32(x, x), v_copysign_f32(y, x), x);
}

/* |x| < 1: x + x*(2/sqrt(pi) - 1 + z*q(z)), z = x^2. Else 1 - exp(g(|x|)), g fitted to log(erfc) on [0.98, 4]; from 4
 * on it rounds to 1. Both polynomials are weighted minimax fits with relative error of erf below 1.4e-9. */
static inline v_f32 v_erf_f32(v_f32 x) {
    const v_f32 one = v_set_f32(1.0f);
    v_f32 a = v_min_f32(v_abs_f32(x), v_set_f32(4.0f));
    v_f32 q = v_poly7_f32(v_mul_f32(a, a), 0.12837916710f, -0.37612629820f, 0.11283617366f, -0.026854916047f,
                          0.0051901624605f, -0.00080248183945f, 0.0000789869411f);
    v_f32 near = v_fma_f32(a, q, a);
    v_f32 g = v_poly7_f32(a, -0.00030043773320f, -1.1272514168f, -0.63788315350f, -0.10332728702f, 0.021940399620f,
                          -0.0029724339400f, 0.00018882275526f);
    v_i32 bits; /* g is within [-17, 0]: exp needs neither clamp nor halves */
    v_f32 e = v_add_f32(one, v_exp_parts_f32(g, &bits));
    v_f32 far = v_sub_f32(one, v_mul_f32(e, v_pow2_of_f32(bits)));
    v_f32 y = v_sel_f32(v_lt_f32(a, one), near, far);
    return v_sel_f32(v_eq_f32(x, x), v_copysign_f32(y, x), x);
}

/* exp(-x^2/2); 0 from 13.28 on, where 2^k is. */
static inline v_f32 v_bell_f32(v_f32 x) {
    v_i32 bits;
    v_f32 z = v_max_f32(v_mul_f32(v_mul_f32(x, v_set_f32(-0.5f)), x), v_set_f32(-88.0f));
    v_f32 p = v_add_f32(v_set_f32(1.0f), v_exp_parts_f32(z, &bits));
    return v_mul_f32(p, v_pow2_of_f32(bits));
}

/* The normal distribution's integral up to x: exp(-x^2/2)*h(|x|) for negative x, 1 less that of -x for others. h is a
 * quotient of two polynomials without a difference in them, fitted on [0, 13.3] with a relative error of 5e-9: negative
 * x keep their digits, and who needs the density too has its exp at hand. NaN stays one only where x is a factor. */
static inline v_f32 v_cdf_f32(v_f32 x) {
    v_f32 a = v_min_f32(v_abs_f32(x), v_set_f32(14.0f));
    v_f32 p = v_poly5_f32(a, 0.5000000025f, 0.4356859948f, 0.1813065071f, 0.03998408382f, 0.004020176258f);
    v_f32 q = v_poly6_f32(a, 1.0f, 1.669256909f, 1.194483194f, 0.4643796651f, 0.1002326163f, 0.01007694426f);
    v_f32 rest = v_mul_f32(v_bell_f32(x), v_div_f32(p, q));
    return v_sel_f32(v_lt_f32(x, v_set_f32(0.0f)), rest, v_sub_f32(v_set_f32(1.0f), rest));
}

static inline v_f64 v_bell_f64(v_f64 x) { return v_exp_f64(v_mul_f64(v_mul_f64(x, v_set_f64(-0.5)), x)); }
static inline v_f64 v_cdf_f64(v_f64 x) {
    return v_mul_f64(v_set_f64(0.5), v_erfc_f64(v_mul_f64(x, v_set_f64(-0.70710678118654752))));
}

#ifndef NCK_ISA_portable

/* A number as the sum of two floats, the second below half a unit of the first. */
typedef struct v_two_f32 {
    v_f32 hi, lo;
} v_two_f32;

/* a + b + low, |a| >= |b| or a == 0. */
static inline v_two_f32 v_two_sum_f32(v_f32 a, v_f32 b, v_f32 low) {
    v_f32 hi = v_add_f32(a, b);
    return (v_two_f32){hi, v_add_f32(v_add_f32(v_sub_f32(a, hi), b), low)};
}
static inline v_two_f32 v_two_mul_f32(v_two_f32 a, v_two_f32 b) {
    v_f32 hi = v_mul_f32(a.hi, b.hi), lo = v_fma_f32(a.hi, b.hi, v_neg_f32(hi));
    return (v_two_f32){hi, v_fma_f32(a.hi, b.lo, v_fma_f32(a.lo, b.hi, lo))};
}

/* log2(x) of finite x > 0, off by less than 2^-31 of it: as v_log_f32 goes, with s = f/(2 + f), its cube and the first
 * coefficient of the series as two floats each. */
static inline v_two_f32 v_log2_two_f32(v_f32 x) {
    const v_f32 two = v_set_f32(2.0f);
    m_f32 small = v_lt_f32(x, v_set_f32(0x1p-126f));
    v_f32 a = v_sel_f32(small, v_mul_f32(x, v_set_f32(0x1p+23f)), x);
    v_i32 bits = v_add_i32(v_to_bits(a), v_set_i32(0x3f800000 - 0x3f3504f3));
    v_i32 k = v_sub_i32(v_shr_i32(bits, 23), v_set_i32(127));
    v_i32 m = v_add_i32(v_and_i32(bits, v_set_i32(0x007fffff)), v_set_i32(0x3f3504f3));
    v_f32 n = v_sub_f32(v_from_i32(k), v_sel_f32(small, v_set_f32(23.0f), v_set_f32(0.0f)));
    v_f32 f = v_sub_f32(v_from_bits(m), v_set_f32(1.0f));
    v_two_f32 d = v_two_sum_f32(two, f, v_set_f32(0.0f)), s;
    s.hi = v_div_f32(f, d.hi);
    s.lo = v_div_f32(v_fma_f32(v_neg_f32(s.hi), d.lo, v_fma_f32(v_neg_f32(s.hi), d.hi, f)), d.hi);
    v_two_f32 z = v_two_mul_f32(s, s);
    v_f32 q = v_poly5_f32(z.hi, 2.0f / 5, 2.0f / 7, 2.0f / 9, 2.0f / 11, 2.0f / 13);
    v_two_f32 p = v_two_sum_f32(v_set_f32(0x1.555556p-1f), v_mul_f32(z.hi, q), v_set_f32(-0x1.555556p-26f));
    v_two_f32 t = v_two_mul_f32(s, v_two_mul_f32(z, p));
    v_two_f32 l = v_two_sum_f32(v_add_f32(s.hi, s.hi), t.hi, v_fma_f32(two, s.lo, t.lo));
    l = v_two_mul_f32(l, (v_two_f32){v_set_f32(0x1.715476p+0f), v_set_f32(0x1.4ae0c0p-26f)});
    return v_two_sum_f32(n, l.hi, l.lo);
}

/* 2^(y.hi + y.lo), |y| at most 160. The 1 of exp is added to both parts of the rest, so that nearly every result is the
 * float nearest to it. */
static inline v_f32 v_exp2_two_f32(v_two_f32 y) {
    v_i32 k = v_round_i32(y.hi);
    v_two_f32 r = {v_sub_f32(y.hi, v_from_i32(k)), y.lo};
    r = v_two_mul_f32(r, (v_two_f32){v_set_f32(0x1.62e430p-1f), v_set_f32(-0x1.05c610p-29f)});
    v_f32 q = v_poly7_f32(r.hi, 1.0f / 2, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040, 1.0f / 40320);
    v_f32 more = v_mul_f32(v_mul_f32(r.hi, r.hi), q);
    v_f32 low = v_fma_f32(r.lo, v_add_f32(v_set_f32(1.0f), v_add_f32(r.hi, more)), more);
    v_two_f32 e = v_two_sum_f32(v_set_f32(1.0f), r.hi, low);
    v_i32 half = v_shr_i32(k, 1);
    return v_mul_f32(v_mul_f32(v_add_f32(e.hi, e.lo), v_pow2_f32(half)), v_pow2_f32(v_sub_i32(k, half)));
}

/* |x|^b, both numbers: 2^(b*log2|x|). From 160 on the power of two is surely 0 or Inf; there, and at 0 and Inf, the low
 * part means nothing. */
static inline v_f32 v_pow_abs_f32(v_f32 x, v_f32 b) {
    const v_f32 inf = v_set_f32(INFINITY), zero = v_set_f32(0.0f), far = v_set_f32(160.0f);
    v_f32 a = v_abs_f32(x);
    v_two_f32 l = v_log2_two_f32(v_sel_f32(v_and_f32(v_lt_f32(zero, a), v_lt_f32(a, inf)), a, v_set_f32(2.0f)));
    l.hi = v_sel_f32(v_eq_f32(a, zero), v_neg_f32(inf), v_sel_f32(v_eq_f32(a, inf), inf, l.hi));
    v_f32 hi = v_mul_f32(b, l.hi), lo = v_fma_f32(b, l.lo, v_fma_f32(b, l.hi, v_neg_f32(hi)));
    m_f32 near = v_lt_f32(v_abs_f32(hi), far);
    v_two_f32 y = {v_clamp_f32(hi, v_neg_f32(far), far), v_sel_f32(near, lo, zero)};
    return v_sel_f32(v_eq_f32(a, v_set_f32(1.0f)), v_set_f32(1.0f), v_exp2_two_f32(y));
}

/* As C has it: 1 for x = 1 or b = 0, NaN or not; negative x have powers by whole numbers alone, odd ones with their
 * sign; zeros and infinities keep the sign of x by odd whole numbers. From 2^24 on all floats are even. Squares are
 * products, whatever stands beside them. */
static inline v_f32 v_pow_f32(v_f32 x, v_f32 b) {
    const v_f32 square = v_mul_f32(x, x);
    m_f32 two = v_eq_f32(b, v_set_f32(2.0f));
    if (v_all_f32(two)) return square;
    const v_f32 one = v_set_f32(1.0f), zero = v_set_f32(0.0f), even = v_set_f32(0x1p+24f);
    v_f32 c = v_min_f32(v_abs_f32(b), even);
    v_i32 i = v_round_i32(c);
    m_f32 odd = v_eq_f32(v_from_i32(v_and_i32(i, v_set_i32(1))), one), whole = v_eq_f32(v_from_i32(i), c);
    m_f32 minus = v_lt_f32(v_copysign_f32(one, x), zero);
    m_f32 numbers = v_and_f32(v_eq_f32(x, x), v_eq_f32(b, b));
    m_f32 none = v_and_f32(v_lt_f32(x, zero), v_and_f32(v_lt_f32(v_neg_f32(v_set_f32(INFINITY)), x), v_not_f32(whole)));
    v_f32 y = v_pow_abs_f32(x, b);
    y = v_sel_f32(v_and_f32(minus, v_and_f32(whole, odd)), v_neg_f32(y), y);
    y = v_sel_f32(v_and_f32(numbers, v_not_f32(none)), y, v_set_f32(NAN));
    return v_sel_f32(two, square, v_sel_f32(v_or_f32(v_eq_f32(x, one), v_eq_f32(b, zero)), one, y));
}

/* y, with those elements of x that are beyond v_wave_f32 from libm. */
V_MAP_ATTR v_f32 v_wave_far_f32(v_f32 x, v_f32 y, m_f32 near, int quarter) {
    return v_sel_f32(near, y, v_map_f32(x, quarter ? cosf : sinf));
}

/* sin(x + quarter*pi/2). x = n*pi/2 + r, |r| <= pi/4: as n is below 2^17 and pi/2 is the sum of three floats, the first
 * difference is exact and r has the error of two roundings. By n the sine or the cosine of r is taken, with its sign;
 * their polynomials are those of Cephes. The correction of a sine has the other sign, which would spoil -0. */
V_MAP_ATTR v_f32 v_wave_f32(v_f32 x, int quarter) {
    const v_f32 one = v_set_f32(1.0f), whole = v_set_f32(0x1.8p+23f);
    m_f32 near = v_lt_f32(v_abs_f32(x), v_set_f32(0x1p+17f));
    v_f32 t = v_fma_f32(x, v_set_f32(0x1.45f306p-1f), whole), n = v_sub_f32(t, whole);
    v_i32 q = v_add_i32(v_to_bits(t), v_set_i32(quarter));
    v_f32 r = v_fma_f32(n, v_set_f32(-0x1.921fb6p+0f), x);
    r = v_fma_f32(n, v_set_f32(0x1.777a5cp-25f), r);
    r = v_fma_f32(n, v_set_f32(0x1.ee59dap-50f), r);
    v_f32 z = v_mul_f32(r, r);
    v_f32 s = v_fma_f32(v_fma_f32(v_set_f32(-1.9515295891e-4f), z, v_set_f32(8.3321608736e-3f)), z,
                        v_set_f32(-1.6666654611e-1f));
    s = v_sel_f32(v_eq_f32(z, v_set_f32(0.0f)), x, v_fma_f32(v_mul_f32(z, r), s, r));
    v_f32 c = v_poly5_f32(z, 1.0f, -0.5f, 4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f);
    m_f32 odd = v_eq_f32(v_from_i32(v_and_i32(q, v_set_i32(1))), one);
    v_f32 y = v_mul_f32(v_sel_f32(odd, c, s), v_copysign_f32(one, v_from_bits(v_shl_i32(q, 30))));
    return v_all_f32(near) ? y : v_wave_far_f32(x, y, near, quarter);
}
static inline v_f32 v_sin_f32(v_f32 x) { return v_wave_f32(x, 0); }
static inline v_f32 v_cos_f32(v_f32 x) { return v_wave_f32(x, 1); }

/* Of |x|, or of 1/|x| where that is smaller: pi/2 less the angle then. A minimax fit, its relative error 1.7e-8. */
V_MAP_ATTR v_f32 v_atan_f32(v_f32 x) {
    const v_f32 one = v_set_f32(1.0f);
    v_f32 a = v_abs_f32(x);
    m_f32 steep = v_lt_f32(one, a);
    a = v_sel_f32(steep, v_div_f32(one, a), a);
    v_f32 z = v_mul_f32(a, a);
    v_f32 q = v_poly7_f32(z, 0.1999377284f, -0.1421105532f, 0.1066600473f, -0.07552214493f, 0.0432118634f,
                          -0.01636792965f, 0.002920692655f);
    v_f32 y = v_fma_f32(v_mul_f32(z, a), v_fma_f32(q, z, v_set_f32(-0.3333315274f)), a);
    y = v_sel_f32(steep, v_sub_f32(v_set_f32(0x1.921fb6p+0f), y), y);
    return v_copysign_f32(y, x);
}

#endif

#undef V_MAP_ATTR

#endif
