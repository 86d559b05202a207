/* kernels/cpu/quant/linear.h: numbers to quantized elements and back: y = saturate(round(x / scale) + zero), rounded to
 * nearest even, and y = (x - zero) * scale.
 *
 * x and y are dense and seen as (outer, axis, inner). Scale and zero point are given as doubles; element (o, a, i) has
 * those of place o*s_outer + a/block*s_axis + i*s_inner: all steps 0 is per tensor, s_axis 1 alone per axis. */
#ifndef NCK_QUANT_LINEAR_H
#define NCK_QUANT_LINEAR_H

#include "base/narrow.h"
#include "base/shape.h"
#include "base/threads.h"

typedef struct nck_linear {
    int64_t outer, axis, inner, block; /* block: at least 1 */
    int64_t s_outer, s_axis, s_inner;
    const double *scale, *zero;
    nc_dtype x_type, y_type;
    const void *x;
    void *y;
    nc_dtype precision; /* quantize: the type of the quotient, float, float16, bfloat16 or double */
    nc_narrowing how;   /* quantize: for floats */
} nck_linear;

/* x: f32, f16, bf16 or i32; y: integers of at most 16 bits, or narrow floats. NaN becomes the zero point of integers.
 */
void nck_quantize(const nck_linear *a, nc_pool *pool);
/* x: integers of at most 32 bits, or narrow floats; y: f32, f16, bf16. The product is rounded to f32 first. */
void nck_dequantize(const nck_linear *a, nc_pool *pool);
void nck_quantize_ref(const nck_linear *a);
void nck_dequantize_ref(const nck_linear *a);

/* A kind of codes: NC_UINT8 or NC_INT8 with one scale and zero point. */
typedef struct nck_codes {
    float scale;
    int zero;
} nck_codes;
/* y[i] = saturate(round(a[i] * (a's scale / y's) + (b[i] * (b's / y's) + rest)) + y's zero), all of one type, in f32,
 * where rest is what the zero points take off and each sum is rounded once; of scales that are large beside y's the
 * same with zero points taken off first, NaN counting as 0. Within one code of dequantizing, adding and quantizing:
 * there is no division by element. y may be a or b. */
void nck_add_codes(nc_dtype type, int64_t n, const void *a, nck_codes pa, const void *b, nck_codes pb, void *y,
                   nck_codes py, nc_pool *pool);
void nck_add_codes_ref(nc_dtype type, int64_t n, const void *a, nck_codes pa, const void *b, nck_codes pb, void *y,
                       nck_codes py);

/* y[i] = table[x[i]], of 256 bytes; y may be x. */
void nck_map_codes(int64_t n, const uint8_t *x, const uint8_t *table, uint8_t *y, nc_pool *pool);

/* The least and the largest element of x and of 0; NaN is passed over. */
void nck_range_f32(const float *x, int64_t n, float *low, float *high, nc_pool *pool);
/* x as codes 0 to 255 that reach over the range of x and 0, with scale and zero point. codes NULL: these alone. */
void nck_quantize_dynamic(const float *x, int64_t n, uint8_t *codes, float *scale, uint8_t *zero, nc_pool *pool);

#endif
