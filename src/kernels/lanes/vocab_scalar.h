/* lanes/vocab_scalar.h: the lane vocabulary on one C number with libm, for references. Define L_T as float or double
 * before a formula is used: every word is computed in double and rounded to it. Masks are int. */
#ifndef NCK_LANES_VOCAB_SCALAR_H
#define NCK_LANES_VOCAB_SCALAR_H

#include <math.h>

static inline double l_min(double a, double b) { return a < b || a != a ? a : b; }
static inline double l_max(double a, double b) { return b < a || a != a ? a : b; }

#define L_K(c)         ((L_T)(c))
#define L_ADD(a, b)    ((L_T)((double)(a) + (double)(b)))
#define L_SUB(a, b)    ((L_T)((double)(a) - (double)(b)))
#define L_MUL(a, b)    ((L_T)((double)(a) * (double)(b)))
#define L_DIV(a, b)    ((L_T)((double)(a) / (double)(b)))
#define L_NEG(a)       (-(a))
#define L_MIN(a, b)    ((L_T)l_min(a, b))
#define L_MAX(a, b)    ((L_T)l_max(a, b))
#define L_ABS(a)       ((L_T)fabs(a))
#define L_SQRT(a)      ((L_T)sqrt(a))
#define L_FLOOR(a)     ((L_T)floor(a))
#define L_RINT(a)      ((L_T)rint(a))
#define L_EXP(a)       ((L_T)exp(a))
#define L_LOG(a)       ((L_T)log(a))
#define L_TANH(a)      ((L_T)tanh(a))
#define L_TANH_1(a)    L_TANH(a)
#define L_ERF(a)       ((L_T)erf(a))
#define L_CDF(a)       ((L_T)(0.5 * erfc(-0.70710678118654752 * (double)(a))))
#define L_BELL(a)      ((L_T)exp(-0.5 * (double)(a) * (double)(a)))
#define L_SIN(a)       ((L_T)sin(a))
#define L_COS(a)       ((L_T)cos(a))
#define L_TAN(a)      ((L_T)tan(a))
#define L_ASIN(a)     ((L_T)asin(a))
#define L_ACOS(a)     ((L_T)acos(a))
#define L_ATAN(a)     ((L_T)atan(a))
#define L_SINH(a)     ((L_T)sinh(a))
#define L_COSH(a)     ((L_T)cosh(a))
#define L_ASINH(a)    ((L_T)asinh(a))
#define L_ACOSH(a)    ((L_T)acosh(a))
#define L_ATANH(a)    ((L_T)atanh(a))
#define L_POW(a, b)    ((L_T)pow(a, b))
#define L_FMOD(a, b)   ((L_T)fmod(a, b))
#define L_LT(a, b)     ((a) < (b))
#define L_LE(a, b)     ((a) <= (b))
#define L_EQ(a, b)     ((a) == (b))
#define L_AND(p, q)    ((p) && (q))
#define L_OR(p, q)     ((p) || (q))
#define L_NOT(p)       (!(p))
#define L_TRUE(a)      ((a) != 0)
#define L_SEL(p, a, b) ((L_T)((p) ? (a) : (b)))
#define L_BOOL(p)      ((L_T)((p) ? 1 : 0))

#endif
