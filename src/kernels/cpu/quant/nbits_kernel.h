/* kernels/cpu/quant/nbits_kernel.h: what nbits.simd.c gives nbits.c, one table per ISA: a row of 4-bit weights times a
 * vector, read from front to back as it lies in memory.
 *
 * Codes come in chunks of 32 in 16 bytes, even ones in the low halves, odd ones in the high ones. So that neither is
 * shuffled, the vector lies in the same order: the 16 even elements of a chunk, then the 16 odd ones. */
#ifndef NCK_NBITS_KERNEL_H
#define NCK_NBITS_KERNEL_H

#include <stdint.h>

enum { NCK_NBITS_CHUNK = 32 };

typedef struct nck_nbits_dot {
    int64_t blocks, chunks; /* of a row; of a block */
    const uint8_t *codes;
    const float *scale; /* (blocks), of the codes */
    const float *zero;  /* (blocks) */
    const float *x;     /* the vector as numbers, in the order above */
    const float *x_sum; /* (blocks): of its elements; with x8, of its codes */
    const int8_t *x8;   /* or as codes: element = code * x_scale of its block */
    const float *x_scale;
} nck_nbits_dot;

typedef struct nck_nbits_table {
    float (*numbers)(const nck_nbits_dot *d); /* of x */
    float (*codes)(const nck_nbits_dot *d);   /* of x8, each block's sum in int32 */
} nck_nbits_table;

#endif
