/* lanes/vocab_simd.h: the lane vocabulary over the vector words of cpu/simd. Define L_SUFFIX as f32 or f64 before a
 * formula is used; it may be redefined between formulas. The includer brings cpu/simd/math.h. */
#ifndef NCK_LANES_VOCAB_SIMD_H
#define NCK_LANES_VOCAB_SIMD_H

#define L_PASTE2(a, b) a##b
#define L_PASTE(a, b)  L_PASTE2(a, b)
#define L_WORD(word)   L_PASTE(word, L_SUFFIX)

#define L_K(c)         L_WORD(v_set_)((L_WORD(v_elem_))(c))
#define L_ADD(a, b)    L_WORD(v_add_)(a, b)
#define L_SUB(a, b)    L_WORD(v_sub_)(a, b)
#define L_MUL(a, b)    L_WORD(v_mul_)(a, b)
#define L_DIV(a, b)    L_WORD(v_div_)(a, b)
#define L_NEG(a)       L_WORD(v_neg_)(a)
#define L_MIN(a, b)    L_WORD(v_min_)(a, b)
#define L_MAX(a, b)    L_WORD(v_max_)(a, b)
#define L_ABS(a)       L_WORD(v_abs_)(a)
#define L_SQRT(a)      L_WORD(v_sqrt_)(a)
#define L_FLOOR(a)     L_WORD(v_floor_)(a)
#define L_EXP(a)       L_WORD(v_exp_)(a)
#define L_LOG(a)       L_WORD(v_log_)(a)
#define L_TANH(a)      L_WORD(v_tanh_)(a)
#define L_TANH_1(a)    L_TANH(a)
#define L_ERF(a)       L_WORD(v_erf_)(a)
#define L_SIN(a)       L_WORD(v_sin_)(a)
#define L_COS(a)       L_WORD(v_cos_)(a)
#define L_TAN(a)      L_WORD(v_tan_)(a)
#define L_ASIN(a)     L_WORD(v_asin_)(a)
#define L_ACOS(a)     L_WORD(v_acos_)(a)
#define L_ATAN(a)     L_WORD(v_atan_)(a)
#define L_SINH(a)     L_WORD(v_sinh_)(a)
#define L_COSH(a)     L_WORD(v_cosh_)(a)
#define L_ASINH(a)    L_WORD(v_asinh_)(a)
#define L_ACOSH(a)    L_WORD(v_acosh_)(a)
#define L_ATANH(a)    L_WORD(v_atanh_)(a)
#define L_POW(a, b)    L_WORD(v_pow_)(a, b)
#define L_FMOD(a, b)   L_WORD(v_fmod_)(a, b)
#define L_LT(a, b)     L_WORD(v_lt_)(a, b)
#define L_LE(a, b)     L_WORD(v_le_)(a, b)
#define L_EQ(a, b)     L_WORD(v_eq_)(a, b)
#define L_AND(p, q)    L_WORD(v_and_)(p, q)
#define L_OR(p, q)     L_WORD(v_or_)(p, q)
#define L_NOT(p)       L_WORD(v_not_)(p)
#define L_TRUE(a)      L_NOT(L_EQ(a, L_K(0)))
#define L_SEL(p, a, b) L_WORD(v_sel_)(p, a, b)
#define L_BOOL(p)      L_SEL(p, L_K(1), L_K(0))

#endif
