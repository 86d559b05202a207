/* kernels/cpu/conv/outer_kernel.h: what outer.simd.c gives conv_back.c, one table per ISA: sums of outer products over
 * pixels, the core of a convolution's gradient by its weights. Both operands lie in blocks of channels, pixel after
 * pixel; one side enters as vectors, the other an element at a time. */
#ifndef NCK_OUTER_KERNEL_H
#define NCK_OUTER_KERNEL_H

#include <stdint.h>

/* For images x rows x cols pixels: sum (each, 2 * block) += one[pixel][0..each) times many[pixel][0..block), of one
 * block of channels or of two. The sum over these pixels is made in registers, in order, and then added. */
typedef struct nck_outer_run {
    const float *many; /* first pixel; strides in elements */
    int64_t many_block, many_pixel, many_row, many_image;
    const float *one;
    int64_t one_pixel, one_row, one_image;
    int64_t images, rows, cols;
    float *sum;
} nck_outer_run;

typedef struct nck_outer_table {
    int block;                                 /* channels of a block */
    int each;                                  /* elements of the other side; divides block */
    void (*blocks[2])(const nck_outer_run *r); /* by blocks of `many` less one */
} nck_outer_table;

#endif
