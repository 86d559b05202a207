/* kernels/cpu/reduce/reduce_kernel.h: what reduce.simd.c gives reductions, softmax and the loss, one table per ISA.
 * All work on short dense runs (up to a few hundred elements); callers cut long rows, always at the same places.
 * A sum runs in 16 lanes, element i into lane i % 16, joined as a tree: the same bits on every ISA. */
#ifndef NCK_REDUCE_KERNEL_H
#define NCK_REDUCE_KERNEL_H

#include "kernels/cpu/norm/norm.h"

#include <stdint.h>

#define NCK_REDUCE_RUN 512 /* where callers cut */

#define NCK_REDUCE_UNIT(S, T)                                                                                         \
    typedef struct nck_reduce_##S {                                                                                   \
        T (*sum)(const T *x, int64_t n);                                                                              \
        T (*max)(const T *x, int64_t n); /* a NaN gives NaN; n == 0: -inf */                                          \
        T (*min)(const T *x, int64_t n);                                                                              \
        T (*dot)(const T *a, const T *b, int64_t n);                                                                  \
        T (*squares)(const T *x, T shift, int64_t n);                            /* sum of (x - shift)^2 */           \
        T (*dot_shift)(const T *x, const T *b, T shift, int64_t n);              /* sum of (x - shift) * b */         \
        /* acc += each row, in order */                                                                               \
        void (*add_rows)(T * acc, const T *x, int64_t apart, int64_t rows, int64_t n);                                \
        /* the largest or least of acc and each row; a NaN gives NaN */                                               \
        void (*extreme_rows)(bool least, T *acc, const T *x, int64_t apart, int64_t rows, int64_t n);                 \
        void (*exp_shift)(const T *x, T shift, T *y, int64_t n);                 /* y = exp(x - shift) */             \
        void (*divide)(T * y, T by, int64_t n);                                  /* y /= by */                        \
        void (*softmax)(const T *x, T *y, int64_t rows, int64_t n);              /* rows of n, dense; y may be x */   \
        void (*affine)(const T *x, T shift, T by, const T *scale, const T *bias, /* y = (x - shift) * by * scale */   \
                       T *y, int64_t n);                                         /* + bias, where that is not NULL */ \
        void (*norm)(const nck_norm_args *a, int64_t row, int64_t end); /* norm.h's rows: at most NCK_REDUCE_RUN     \
                                 columns, a scale for each and the same in every row; NULL: the longer way */  \
        /* With h = (x - shift) * by and g = dy * scale: dscale += dy * h, dbias += dy, sums = those of g and g * h. */\
        void (*norm_sums)(const T *x, const T *dy, const T *scale, T shift, T by, T *dscale, T *dbias, T sums[2],     \
                          int64_t n);                                                                                 \
        /* dx = (g - mean[0] - h * mean[1]) * by */                                                                   \
        void (*norm_dx)(const T *x, const T *dy, const T *scale, T shift, T by, const T mean[2], T *dx, int64_t n);   \
        void (*blend)(const T *x, const T *dy, T shift, const T k[3], T *y, /* y = dy * k[0] + (x - shift) * k[1] */  \
                      int64_t n);                                           /* + k[2]; dy NULL: no such term */       \
        void (*times)(const T *x, T by, T *y, int64_t n);                   /* y = x * by */                          \
        void (*softmax_grad)(const T *y, const T *dy, T dot, T *dx, int64_t n); /* dx = y * (dy - dot) */             \
        void (*log_grad)(const T *y, const T *dy, T sum, T *dx, int64_t n);     /* dx = dy - exp(y) * sum */          \
    } nck_reduce_##S;
NCK_REDUCE_UNIT(f32, float)
NCK_REDUCE_UNIT(f64, double)
#undef NCK_REDUCE_UNIT

/* A few rows a and n rows b, both so far apart; columns lie side by side, and width is a multiple of a vector. */
typedef struct nck_few {
    const float *a, *b;
    float *y;
    int64_t a_row, b_row, y_row;
    int64_t rows, n, width;
    float by;
    bool adds;
} nck_few;

typedef struct nck_reduce_table {
    int width; /* floats of a vector */
    /* NULL where there are no vectors, and for long ones, which would read no faster: see isa_narrow.h. Bits depend on
     * the ISA. */
    void (*few_dots)(const nck_few *f); /* a (rows, width), b (n, width): y (rows, n) = by * a b' */
    void (*few_sums)(const nck_few *f); /* a (rows, n), b (n, width): y (rows, width) = a b, added to y where it adds */
    nck_reduce_f32 f32;
    nck_reduce_f64 f64;
} nck_reduce_table;

#endif
