/* kernels/cpu/conv/conv_kernel.h: what conv.simd.c gives conv_blocked.c, one table per ISA: a register tile of a few
 * neighbouring output pixels times one or two blocks of output channels, summed over all taps and input channels. */
#ifndef NCK_CONV_KERNEL_H
#define NCK_CONV_KERNEL_H

#include <stdint.h>

#define NCK_CONV_MAX_PIXELS 8

typedef struct nck_conv_tile {
    const float *x;             /* first tap of the first pixel, channel 0 */
    int64_t x_pixel;            /* steps in elements: to the next pixel of the tile, */
    int64_t x_block, x_row, x_col; /* the next block of channels, the next tap down and to the right */
    const float *w;             /* first tap's 8c x 8k block of the first block of K */
    int64_t w_k, w_block, w_row; /* to the next block of K, of C, the next row of taps */
    int64_t C, taps_h, taps_w;
    const float *bias; /* 8 or 16 */
    float *y;          /* first pixel */
    int64_t y_k;       /* to the next block of K */
} nck_conv_tile;
typedef void nck_conv_tile_fn(const nck_conv_tile *t);

typedef struct nck_conv_table {
    int pixels;                                              /* of the widest tile */
    nck_conv_tile_fn *tile[2][NCK_CONV_MAX_PIXELS + 1];      /* by blocks of K less one, and pixels 1..pixels */
} nck_conv_table;

#endif
