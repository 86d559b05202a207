/* lanes/arith.h: arithmetic on one element, each formula beside its derivative.
 *
 * LANE_f(x) is the value; LANE_f_D(s) its derivative, s being x or y as lanes.list says. Binary lanes have LANE_f_D0
 * and LANE_f_D1, functions of both inputs and the result y. Only words of the L_ vocabulary may appear (README.md
 * lists them); no #include: the text is also part of generated CUDA source. A formula may name its arguments more
 * than once. */
#ifndef NCK_LANES_ARITH_H
#define NCK_LANES_ARITH_H

#define LANE_identity(x)   (x)
#define LANE_identity_D(x) L_K(1)

#define LANE_neg(x)   L_NEG(x)
#define LANE_neg_D(x) L_K(-1)

#define LANE_abs(x)   L_ABS(x)
#define LANE_abs_D(x) L_SEL(L_LT(x, L_K(0)), L_K(-1), L_SEL(L_EQ(x, L_K(0)), L_K(0), L_K(1)))

#define LANE_square(x)   L_MUL(x, x)
#define LANE_square_D(x) L_MUL(L_K(2), x)

#define LANE_floor(x) L_FLOOR(x)

#define LANE_reciprocal(x)   L_DIV(L_K(1), x)
#define LANE_reciprocal_D(y) L_NEG(L_MUL(y, y))

#define LANE_sqrt(x)   L_SQRT(x)
#define LANE_sqrt_D(y) L_DIV(L_K(0.5), y)

#define LANE_exp(x)   L_EXP(x)
#define LANE_exp_D(y) (y)

#define LANE_log(x)   L_LOG(x)
#define LANE_log_D(x) L_DIV(L_K(1), x)

#define LANE_sin(x)   L_SIN(x)
#define LANE_sin_D(x) L_COS(x)

#define LANE_cos(x)   L_COS(x)
#define LANE_cos_D(x) L_NEG(L_SIN(x))

#define LANE_tan(x)   L_TAN(x)
#define LANE_tan_D(y) L_ADD(L_K(1), L_MUL(y, y))

/* (1 - x)(1 + x) keeps the digits of 1 - x*x near 1. */
#define LANE_asin(x)   L_ASIN(x)
#define LANE_asin_D(x) L_DIV(L_K(1), L_SQRT(L_MUL(L_SUB(L_K(1), x), L_ADD(L_K(1), x))))
#define LANE_acos(x)   L_ACOS(x)
#define LANE_acos_D(x) L_DIV(L_K(-1), L_SQRT(L_MUL(L_SUB(L_K(1), x), L_ADD(L_K(1), x))))
#define LANE_atan(x)   L_ATAN(x)
#define LANE_atan_D(x) L_DIV(L_K(1), L_ADD(L_K(1), L_MUL(x, x)))

#define LANE_sinh(x)    L_SINH(x)
#define LANE_sinh_D(x)  L_COSH(x)
#define LANE_cosh(x)    L_COSH(x)
#define LANE_cosh_D(x)  L_SINH(x)
#define LANE_asinh(x)   L_ASINH(x)
#define LANE_asinh_D(x) L_DIV(L_K(1), L_SQRT(L_ADD(L_MUL(x, x), L_K(1))))
#define LANE_acosh(x)   L_ACOSH(x)
#define LANE_acosh_D(x) L_DIV(L_K(1), L_SQRT(L_MUL(L_SUB(x, L_K(1)), L_ADD(x, L_K(1)))))
#define LANE_atanh(x)   L_ATANH(x)
#define LANE_atanh_D(x) L_DIV(L_K(1), L_MUL(L_SUB(L_K(1), x), L_ADD(L_K(1), x)))

#define LANE_ceil(x) L_NEG(L_FLOOR(L_NEG(x)))

#define LANE_round(x) L_RINT(x)

/* NaN passes. */
#define LANE_sign(x) L_SEL(L_LT(x, L_K(0)), L_K(-1), L_SEL(L_LT(L_K(0), x), L_K(1), x))

#define LANE_bit_not(x)        L_BNOT(x)
#define LANE_bit_and(a, b)     L_BAND(a, b)
#define LANE_bit_or(a, b)      L_BOR(a, b)
#define LANE_bit_xor(a, b)     L_BXOR(a, b)
#define LANE_shift_left(a, b)  L_SHL(a, b)
#define LANE_shift_right(a, b) L_SHR(a, b)

#define LANE_add(a, b)       L_ADD(a, b)
#define LANE_add_D0(a, b, y) L_K(1)
#define LANE_add_D1(a, b, y) L_K(1)

#define LANE_sub(a, b)       L_SUB(a, b)
#define LANE_sub_D0(a, b, y) L_K(1)
#define LANE_sub_D1(a, b, y) L_K(-1)

#define LANE_mul(a, b)       L_MUL(a, b)
#define LANE_mul_D0(a, b, y) (b)
#define LANE_mul_D1(a, b, y) (a)

/* Integers: quotient towards zero; x/0 is 0. */
#define LANE_div(a, b)       L_DIV(a, b)
#define LANE_div_D0(a, b, y) L_DIV(L_K(1), b)
#define LANE_div_D1(a, b, y) L_NEG(L_DIV(y, b))

/* The selections keep 0 * Inf and 0 * log(0) out of the derivatives where they are plainly 0. */
#define LANE_pow(a, b)       L_POW(a, b)
#define LANE_pow_D0(a, b, y) L_SEL(L_EQ(b, L_K(0)), L_K(0), L_MUL(b, L_POW(a, L_SUB(b, L_K(1)))))
#define LANE_pow_D1(a, b, y) L_SEL(L_AND(L_EQ(a, L_K(0)), L_LE(L_K(0), b)), L_K(0), L_MUL(y, L_LOG(a)))

/* NaN in either input gives NaN. Equal inputs share the gradient. */
#define LANE_min(a, b)       L_MIN(a, b)
#define LANE_min_D0(a, b, y) L_SEL(L_LT(b, a), L_K(0), L_SEL(L_EQ(a, b), L_K(0.5), L_K(1)))
#define LANE_min_D1(a, b, y) L_SEL(L_LT(a, b), L_K(0), L_SEL(L_EQ(a, b), L_K(0.5), L_K(1)))
#define LANE_max(a, b)       L_MAX(a, b)
#define LANE_max_D0(a, b, y) L_SEL(L_LT(a, b), L_K(0), L_SEL(L_EQ(a, b), L_K(0.5), L_K(1)))
#define LANE_max_D1(a, b, y) L_SEL(L_LT(b, a), L_K(0), L_SEL(L_EQ(a, b), L_K(0.5), L_K(1)))

/* fmod has the sign of a, mod the sign of b. Integers: x mod 0 is 0. (y - a)/b is minus the whole quotient. */
#define LANE_fmod(a, b)       L_FMOD(a, b)
#define LANE_fmod_D0(a, b, y) L_K(1)
#define LANE_fmod_D1(a, b, y) L_DIV(L_SUB(y, a), b)
#define LANE_mod(a, b)    LANE_mod_of_(L_FMOD(a, b), b)
#define LANE_mod_of_(r, b) \
    L_SEL(L_OR(L_AND(L_LT(r, L_K(0)), L_LT(L_K(0), b)), L_AND(L_LT(L_K(0), r), L_LT(b, L_K(0)))), L_ADD(r, b), r)
#define LANE_mod_D0(a, b, y) L_K(1)
#define LANE_mod_D1(a, b, y) L_DIV(L_SUB(y, a), b)

#endif
