/* kernels/cpu/quant/linear_kernel.h: what linear.simd.c gives linear.c, one table per ISA: runs between f32 and 8-bit
 * integers. low: the least code, 0 or -128. Codes and numbers may lie at any address fit for their type. */
#ifndef NCK_QUANT_LINEAR_KERNEL_H
#define NCK_QUANT_LINEAR_KERNEL_H

#include <stdint.h>

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

typedef struct nck_linear_table {
    void (*quantize)(const float *x, int64_t n, nck_linear_one p, uint8_t *y);
    void (*quantize_each)(const float *x, int64_t n, nck_linear_each p, uint8_t *y);
    void (*dequantize)(const uint8_t *x, int64_t n, nck_linear_one p, float *y);
    void (*dequantize_each)(const uint8_t *x, int64_t n, nck_linear_each p, float *y);
    /* y = saturate(round((a - pa.zero) * pa.scale + (b - pb.zero) * pb.scale) + zero), of one kind of codes. */
    void (*add)(const uint8_t *a, nck_linear_one pa, const uint8_t *b, nck_linear_one pb, int64_t n, int zero,
                uint8_t *y);
    /* The least and the largest of x, *low and *high; NaN is passed over. */
    void (*range)(const float *x, int64_t n, float *low, float *high);
} nck_linear_table;

#endif
