/* kernels/cpu/quant/nbits_kernel.h: what nbits.simd.c gives nbits.c, one table per ISA: rows of 4-bit weights times a
 * vector, read from front to back as they lie in memory.
 *
 * Codes come in chunks of 32 in 16 bytes, even ones in the low halves, odd ones in the high ones. So that neither is
 * shuffled, the vector lies in the same order: the 16 even elements of a chunk, then the 16 odd ones. */
#ifndef NCK_NBITS_KERNEL_H
#define NCK_NBITS_KERNEL_H

#include <stdint.h>

enum { NCK_NBITS_CHUNK = 32, NCK_NBITS_TOGETHER = 4 };

/* Some rows at a time, so that their sums do not wait for each other. */
typedef struct nck_nbits_dot {
    int64_t blocks, chunks; /* of a row; of a block */
    const uint8_t *codes[NCK_NBITS_TOGETHER];
    const float *scale[NCK_NBITS_TOGETHER]; /* (blocks), of the codes */
    const float *x;                         /* the vector as numbers, in the order above */
    const int8_t *x8;                       /* or as codes: element = code * x_scale of its block */
    const float *x_scale;                   /* (blocks) */
} nck_nbits_dot;

typedef struct nck_nbits_table {
    /* y[r] = sum of scale * code * x of row r; of x8 with each block's sum in int32. */
    void (*numbers)(const nck_nbits_dot *d, float *y);
    void (*codes)(const nck_nbits_dot *d, float *y);
    /* The sum of scale * zero * x_sum over n blocks: what zero points take off a row. */
    float (*zeros)(int64_t n, const float *scale, const float *zero, const float *x_sum);
} nck_nbits_table;

#endif
