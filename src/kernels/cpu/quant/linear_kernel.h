/* kernels/cpu/quant/linear_kernel.h: what linear.simd.c gives linear.c, one table per ISA: runs between f32 and 8-bit
 * integers. low: the least code, 0 or -128. Codes and numbers may lie at any address fit for their type. */
#ifndef NCK_QUANT_LINEAR_KERNEL_H
#define NCK_QUANT_LINEAR_KERNEL_H

#include "kernels/cpu/quant/linear.h"

/* One scale and zero point for all. */
typedef struct nck_linear_one {
    float scale;
    int zero, low;
} nck_linear_one;
/* One of each element. */
typedef struct nck_linear_each {
    const double *scale, *zero;
    int low;
} nck_linear_each;

/* Of two kinds of codes, their scales and zero points in steps of the sum's: rest is -(a's zero * a) - b's zero * b. */
typedef struct nck_linear_sum {
    float a, b, rest;
    int zero, low;
} nck_linear_sum;

/* Says whether scales are small enough for nck_linear_table's add. */
bool nck_linear_sum_of(nc_dtype type, nck_codes pa, nck_codes pb, nck_codes py, nck_linear_sum *s);

typedef struct nck_linear_table {
    void (*quantize)(const float *x, int64_t n, nck_linear_one p, uint8_t *y);
    void (*quantize_each)(const float *x, int64_t n, nck_linear_each p, uint8_t *y);
    void (*dequantize)(const uint8_t *x, int64_t n, nck_linear_one p, float *y);
    void (*dequantize_each)(const uint8_t *x, int64_t n, nck_linear_each p, float *y);
    /* y = saturate(round(a * s->a + (b * s->b + s->rest)) + zero), each sum rounded once and less than 2^15; y may be
     * a or b. */
    void (*add)(const uint8_t *a, const uint8_t *b, int64_t n, const nck_linear_sum *s, uint8_t *y);
    void (*map)(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y); /* y = table[x], of 256; y may be x */
    /* The least and the largest of x, *low and *high; NaN is passed over. */
    void (*range)(const float *x, int64_t n, float *low, float *high);
} nck_linear_table;

#endif
