/* kernels/cpu/conv/window_kernel.h: what window.simd.c gives direct convolution and pools, one table per ISA. Work on
 * lines of neighbouring places one element apart; the same bits on every ISA. */
#ifndef NCK_WINDOW_KERNEL_H
#define NCK_WINDOW_KERNEL_H

#include <stdint.h>

/* Places of `lanes` elements side by side: those that place p sees are at x + p*step + d*depth + a*row + t*col, for
 * depths d, rows a and columns t. */
typedef struct nck_window_grid {
    int64_t depths, rows, cols, depth, row, col, step, lanes;
} nck_window_grid;

#define NCK_WINDOW_UNIT(S, T)                                                                                       \
    typedef struct nck_window_##S {                                                                                 \
        void (*max)(T * acc, const T *x, int64_t n); /* acc = max(acc, x); a NaN in either gives NaN */             \
        /* y (n, lanes): the greatest of what each place sees, -infinity where that is nothing; a NaN gives NaN */  \
        void (*max_lanes)(T * y, const T *x, const nck_window_grid *g, int64_t n);                                  \
        /* acc[i] += sum over rows a < kh and columns t < kw of w[a*kw + t] * x[a*row + t*col + i], by fused      \
         * multiply-adds in that order */ \
        void (*taps)(T * acc, const T *x, int64_t row, int64_t col, const T *w, int64_t kh, int64_t kw, int64_t n); \
        /* y[i] = the greatest x[a*row + t*col + i], a < kh and t < kw, both at least 1; a NaN gives NaN */         \
        void (*max_taps)(T * y, const T *x, int64_t row, int64_t col, int64_t kh, int64_t kw, int64_t n);           \
    } nck_window_##S;
NCK_WINDOW_UNIT(f32, float)
NCK_WINDOW_UNIT(f64, double)
#undef NCK_WINDOW_UNIT

typedef struct nck_window_table {
    nck_window_f32 f32;
    nck_window_f64 f64;
    /* y (n, lanes): the sum of what each place sees, in double, of rows, then of columns, times `inverse` */
    void (*average_lanes)(float *y, const float *x, const nck_window_grid *g, double inverse, int64_t n);
} nck_window_table;

#endif
