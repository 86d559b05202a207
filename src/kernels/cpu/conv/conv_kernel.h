/* kernels/cpu/conv/conv_kernel.h: what conv.simd.c gives conv_blocked.c and conv_depthwise.c, one table per ISA:
 * register tiles of a few neighbouring output pixels times one or two blocks of output channels, summed over all taps
 * and input channels, and rows of pixels with one channel per group. Each tile ends with what is done to its result
 * while it is still in registers: y = clamp(sum + add, low, high). */
#ifndef NCK_CONV_KERNEL_H
#define NCK_CONV_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#define NCK_CONV_MAX_PIXELS 14
#define NCK_CONV_MAX_BLOCK 16

/* Of one tile. Pixels lie side by side, in x and in y. */
typedef struct nck_conv_tile {
    const float *x;      /* the first pixel under the first tap, channel 0 */
    int64_t x_block;     /* elements to the next block of channels; to the next plane, where x is in planes */
    const int64_t *taps; /* n_taps: where each tap lies, in elements from x on */
    int64_t n_taps, C;
    const float *w;    /* in the order (block of C, tap, channel of the block, k): read from front to end */
    const float *bias; /* one or two blocks; NULL: the sums go on from what y holds */
    float *y;          /* first pixel */
    int64_t y_k;       /* to the next block of K */
    const float *add;  /* laid out like y; NULL: nothing is added */
    float low, high;
    bool clamps;
    const float *ahead; /* asked for meanwhile, from here on: a line of the cache for a row or two of w; never NULL */
    int64_t share;      /* elements of it that one tile is to ask for */
} nck_conv_tile;
typedef void nck_conv_tile_fn(const nck_conv_tile *t);

/* A run of pixels in tiles of nearly equal width, of at most `most` pixels: 49 in tiles of 14 are 13 + 12 + 12 + 12.
 * fns: by width; x_pixel, y_pixel: elements to the next pixel. */
static inline void nck_conv_run_tiles(nck_conv_tile_fn *const *fns, int64_t most, nck_conv_tile t, int64_t x_pixel,
                                      int64_t y_pixel, int64_t pixels) {
    int64_t n_tiles = (pixels + most - 1) / most;
    for (int64_t i = 0; i < n_tiles; i++) {
        int64_t width = pixels / n_tiles + (i < pixels % n_tiles);
        fns[width](&t);
        t.x += width * x_pixel;
        t.y += width * y_pixel;
        if (t.add) t.add += width * y_pixel;
        t.ahead += t.share;
    }
}

/* A row or a column of n pixels that all see the taps_h x taps_w window from x on, in one block of channels. */
typedef struct nck_conv_row {
    const float *x;                /* first tap of the first pixel */
    int64_t x_pixel, x_row, x_col; /* elements to the next pixel, the next tap down and to the right */
    const float *w;                /* first tap, one block; taps of a row lie side by side */
    int64_t w_row, taps_h, taps_w;
    const float *bias;
    float *y;
    int64_t y_pixel;
    const float *add; /* laid out like y */
    float low, high;
    bool clamps;
    int64_t n;
} nck_conv_row;

typedef struct nck_conv_table {
    int block;  /* channels of a block */
    int pixels; /* of the widest tile */
    /* By blocks of K less one, and pixels 1..pixels; x in blocks of channels, or in planes of one. */
    nck_conv_tile_fn *blocked[2][NCK_CONV_MAX_PIXELS + 1];
    nck_conv_tile_fn *planes[2][NCK_CONV_MAX_PIXELS + 1];
    void (*depthwise)(const nck_conv_row *r);
} nck_conv_table;

#endif
