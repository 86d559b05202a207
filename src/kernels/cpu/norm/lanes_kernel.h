/* kernels/cpu/norm/lanes_kernel.h: what lanes.simd.c gives normalizations of channels in blocks, one table per ISA:
 * rows of `block` lanes, dense, each lane for itself. Sums run in four chains, row i into chain i % 4, the last rows %
 * 4 into the first, joined as a tree. Callers cut at NCK_LANES_RUN rows, always at the same places. */
#ifndef NCK_LANES_KERNEL_H
#define NCK_LANES_KERNEL_H

#include <stdint.h>

#define NCK_LANES_RUN 256

/* block is a multiple of V_LEN_f32; shift, by, add and sums are one row. */
typedef struct nck_lanes_table {
    void (*sum)(int64_t block, const float *x, int64_t rows, float *sum);
    void (*squares)(int64_t block, const float *x, const float *shift, int64_t rows, float *sum); /* (x - shift)^2 */
    /* plain: of dy; along: of dy * (x - shift) */
    void (*sums)(int64_t block, const float *x, const float *dy, const float *shift, int64_t rows, float *plain,
                 float *along);
    /* y = (x - shift) * by + add; y may be x */
    void (*affine)(int64_t block, const float *x, const float *shift, const float *by, const float *add, int64_t rows,
                   float *y);
    /* dx = dy * by + (x - shift) * more + add; dx may be x or dy. more NULL: dx = dy * by */
    void (*blend)(int64_t block, const float *x, const float *dy, const float *shift, const float *by,
                  const float *more, const float *add, int64_t rows, float *dx);
} nck_lanes_table;

#endif
