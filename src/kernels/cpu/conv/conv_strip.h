/* kernels/cpu/conv/conv_strip.h: the input of a convolution cut into strips, for conv_blocked.c. A strip is what a
 * range of output rows (or of columns of one row) at one depth sees of all channels; it stays in the second cache while
 * all output channels pass over it.
 *
 * Where every tap of every pixel lies inside the input and pixels lie side by side, a strip is read where it is. Else
 * it is copied first: padded with zeros, and so that neighbouring pixels see neighbours. An example, along one row with
 * stride 2, window 3 and pad 1: the copy holds columns -1 1 3 5 ... and then 0 2 4 ...; tap 0 begins at the first
 * column of the one, tap 1 of the other, and tap 2 at the second column of the first. Narrow images get a copy per
 * column of the window instead, as wide as the output: then rows follow each other without a gap, and a tile of pixels
 * may run from one into the next. Few rows whose window reaches far, by dilation, get a copy per row of the window. */
#ifndef NCK_CONV_STRIP_H
#define NCK_CONV_STRIP_H

#include "kernels/cpu/conv/conv_blocked.h"

/* How the strips of a convolution lie; sizes in pixels. */
typedef struct nck_strips {
    nck_window w;
    int64_t in;                         /* channels of a block of x: B, or 1 in planes */
    int64_t blocks;                     /* of x, all groups */
    bool copies, flat;                  /* flat: pixels of all rows of a strip are one run */
    int64_t rows, cols, n_rows, n_cols; /* output rows and columns of a strip, and how many strips there are of each */
    bool by_row;                        /* copied: a group of rows is one row of the window's */
    int64_t phases_h, phases_w;         /* copied: groups of rows and of columns (flat: one per column of taps) */
    int64_t height, width;              /* copied: of one such group */
} nck_strips;

/* Elements of a copied strip: with the weights of two blocks of K it fits a second cache of 1 MB; smaller caches see
 * the next level, which such a stream of few bytes per multiplication bears. Several threads share a strip, each with
 * some of its rows in its own cache, or have strips for themselves. */
enum { NCK_STRIP_OWN = 400 << 8, NCK_STRIP_SHARED = 4 * NCK_STRIP_OWN, NCK_STRIP_LANES = 16 };

/* pixels: of the widest tile. budget: one of the above; most: outputs of a strip. No sum depends on these. */
nck_strips nck_strips_of(const nck_conv_shape *s, bool planes, int64_t block, int64_t pixels, int64_t budget,
                         int64_t most);
int64_t nck_strip_elements(const nck_strips *t);
/* Room for copies, in elements, of every shape of no larger dims: for one strip that threads share, and for some of
 * threads' own. */
int64_t nck_strip_room(const nck_conv_shape *s, bool planes, int64_t block);

/* Elements of a block of channels of a copy: for each depth of the window what a picture's copy holds. */
int64_t nck_strip_block(const nck_strips *t);
/* taps (k[0] * k[1] * k[2]): where each tap of the first pixel of a strip lies, in elements. */
void nck_strip_taps(const nck_strips *t, int64_t *taps);
/* Block `block` of the strip at depth `od` from row `oh`, column `ow` on. */
typedef struct nck_strip_place {
    int64_t block, od, oh, ow;
} nck_strip_place;
int64_t nck_strip_rows(const nck_strips *t); /* of the copy of a block */
/* Copies rows [row, end) of a block of x (x: the first element of the N) into their places. */
void nck_strip_copy(const nck_strips *t, const float *x, const nck_strip_place *p, int64_t row, int64_t end,
                    float *strip);

#endif
