/* kernels/cpu/conv/wino_kernel.h: what wino.simd.c gives conv_wino.c, one table per ISA: the transforms of a tile of
 * 4 x 4 outputs of a 3 x 3 convolution, on a block of channels at a time, each channel for itself.
 *
 * Winograd's F(4,3) at the points 0, a, -a, b, -b and infinity, a = sqrt(1/2), b = sqrt(2): six numbers d0...d5 become
 * d0 - 5/2 d2 + d4; (d4 - 2 d2) +- a (d3 - 2 d1); (d4 - d2/2) +- b (d3 - d1/2); d1 - 5/2 d3 + d5; three weights become
 * g0; -2/3 (g0 +- a g1 + g2/2); 1/6 (g0 +- b g1 + 2 g2); g2; products m0...m5 become m0 + m1 + m2 + m3 + m4;
 * a (m1 - m2) + b (m3 - m4); (m1 + m2)/2 + 2 (m3 + m4); a/2 (m1 - m2) + 2b (m3 - m4) + m5. In two dims each is done to
 * the columns and then to the rows. These points, whose powers are near one, give a quarter of the error of the usual
 * +-1 and +-2. */
#ifndef NCK_WINO_KERNEL_H
#define NCK_WINO_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { NCK_WINO_FILTERS = 16 }; /* whose weights are transformed together: a line of the cache */
enum { NCK_WINO_IN = 6, NCK_WINO_OUT = 4, NCK_WINO_POINTS = NCK_WINO_IN * NCK_WINO_IN };

/* The sums of one tile, of one block of channels, on their way to y: y = clamp(transform(m) + bias + add, low, high).
 */
typedef struct nck_wino_out {
    const float *m; /* the first point */
    int64_t m_point;
    const float *bias; /* one block */
    float *y;          /* first pixel */
    int64_t y_pixel, y_row;
    const float *add;   /* laid out like y; NULL: nothing is added */
    int64_t rows, cols; /* of the tile that are written */
    float low, high;
    bool clamps;
} nck_wino_out;

typedef struct nck_wino_table {
    /* 6 x 6 pixels of a block, x_pixel elements apart and rows x_row, to points v_point elements apart. */
    void (*input)(int64_t block, const float *x, int64_t x_pixel, int64_t x_row, float *v, int64_t v_point);
    void (*output)(int64_t block, const nck_wino_out *o);
    /* n <= NCK_WINO_FILTERS filters (3,3), `apart` bytes apart, may be unaligned, to points `step` elements apart, side
     * by side. In double, rounded once. */
    void (*weights)(const char *w, int64_t apart, int n, float *dst, int64_t step);
} nck_wino_table;

#endif
