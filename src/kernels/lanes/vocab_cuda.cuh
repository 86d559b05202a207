/* lanes/vocab_cuda.cuh: the lane vocabulary as CUDA scalar code. L_T names float or double where a formula is used (a
 * typedef, or a template parameter). No #include: this text, arith.h, activation.h and compare.h are joined and given
 * to NVRTC, whose exp, log and so on are overloaded for both types. */
#ifndef NCK_LANES_VOCAB_CUDA_H
#define NCK_LANES_VOCAB_CUDA_H

template <class T> __device__ __forceinline__ T l_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ __forceinline__ T l_max(T a, T b) { return b < a || a != a ? a : b; }

/* What is added to 1: its absolute error counts, 2^-23. Half types hold less. */
#ifdef NARROW
__device__ __forceinline__ float l_tanh_1(float x) {
    float e, r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(x * 2.885390081777927f));
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
    return fma(-2.0f, r, 1.0f);
}
#else
#define l_tanh_1 tanh
#endif

#define L_K(c)         ((L_T)(c))
#define L_ADD(a, b)    ((a) + (b))
#define L_SUB(a, b)    ((a) - (b))
#define L_MUL(a, b)    ((a) * (b))
#define L_DIV(a, b)    ((a) / (b))
#define L_NEG(a)       (-(a))
#define L_MIN(a, b)    l_min<L_T>(a, b)
#define L_MAX(a, b)    l_max<L_T>(a, b)
#define L_ABS(a)       fabs((L_T)(a))
#define L_SQRT(a)      sqrt((L_T)(a))
#define L_FLOOR(a)     floor((L_T)(a))
#define L_RINT(a)      rint((L_T)(a))
#define L_EXP(a)       exp((L_T)(a))
#define L_LOG(a)       log((L_T)(a))
#define L_TANH(a)      tanh((L_T)(a))
#define L_TANH_1(a)    l_tanh_1((L_T)(a))
#define L_ERF(a)       erf((L_T)(a))
#define L_CDF(a)       (L_K(0.5) * (L_K(1) + erf(L_K(0.70710678118654752) * (L_T)(a))))
#define L_BELL(a)      exp(L_K(-0.5) * (L_T)(a) * (L_T)(a))
#define L_SIN(a)       sin((L_T)(a))
#define L_COS(a)       cos((L_T)(a))
#define L_TAN(a)      tan((L_T)(a))
#define L_ASIN(a)     asin((L_T)(a))
#define L_ACOS(a)     acos((L_T)(a))
#define L_ATAN(a)     atan((L_T)(a))
#define L_SINH(a)     sinh((L_T)(a))
#define L_COSH(a)     cosh((L_T)(a))
#define L_ASINH(a)    asinh((L_T)(a))
#define L_ACOSH(a)    acosh((L_T)(a))
#define L_ATANH(a)    atanh((L_T)(a))
#define L_POW(a, b)    pow((L_T)(a), (L_T)(b))
#define L_FMOD(a, b)   fmod((L_T)(a), (L_T)(b))
#define L_LT(a, b)     ((a) < (b))
#define L_LE(a, b)     ((a) <= (b))
#define L_EQ(a, b)     ((a) == (b))
#define L_AND(p, q)    ((p) && (q))
#define L_OR(p, q)     ((p) || (q))
#define L_NOT(p)       (!(p))
#define L_TRUE(a)      ((a) != L_K(0))
#define L_SEL(p, a, b) ((p) ? (L_T)(a) : (L_T)(b))
#define L_BOOL(p)      ((L_T)((p) ? 1 : 0))

#endif
