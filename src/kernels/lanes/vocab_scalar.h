/* lanes/vocab_scalar.h: the lane vocabulary on one C double with libm, for references. Masks are int. */
#ifndef NCK_LANES_VOCAB_SCALAR_H
#define NCK_LANES_VOCAB_SCALAR_H

#include <math.h>

static inline double l_min(double a, double b) { return a < b || a != a ? a : b; }
static inline double l_max(double a, double b) { return b < a || a != a ? a : b; }

#define L_K(c)         ((double)(c))
#define L_ADD(a, b)    ((a) + (b))
#define L_SUB(a, b)    ((a) - (b))
#define L_MUL(a, b)    ((a) * (b))
#define L_DIV(a, b)    ((a) / (b))
#define L_NEG(a)       (-(a))
#define L_MIN(a, b)    l_min(a, b)
#define L_MAX(a, b)    l_max(a, b)
#define L_ABS(a)       fabs(a)
#define L_SQRT(a)      sqrt(a)
#define L_FLOOR(a)     floor(a)
#define L_EXP(a)       exp(a)
#define L_LOG(a)       log(a)
#define L_TANH(a)      tanh(a)
#define L_ERF(a)       erf(a)
#define L_SIN(a)       sin(a)
#define L_COS(a)       cos(a)
#define L_POW(a, b)    pow(a, b)
#define L_FMOD(a, b)   fmod(a, b)
#define L_LT(a, b)     ((a) < (b))
#define L_LE(a, b)     ((a) <= (b))
#define L_EQ(a, b)     ((a) == (b))
#define L_AND(p, q)    ((p) && (q))
#define L_OR(p, q)     ((p) || (q))
#define L_NOT(p)       (!(p))
#define L_TRUE(a)      ((a) != 0)
#define L_SEL(p, a, b) ((p) ? (a) : (b))
#define L_BOOL(p)      ((p) ? 1.0 : 0.0)

#endif
