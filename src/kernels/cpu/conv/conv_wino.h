/* kernels/cpu/conv/conv_wino.h: the form NCK_CONV_WINO of the blocked convolution: 3 x 3, stride 1, group 1, by
 * Winograd's F(4,3) (wino_kernel.h), a quarter of the multiplications. Part of conv_blocked.h's. With three dims a
 * depth of the output is an image, and the depths that its window sees are more blocks of channels. With dilations
 * every dil-th row and column of an image, from each of the first dil on, is a picture of its own (a phase).
 *
 * Tiles of 4 x 4 outputs are numbered over all images. Strip after strip of tiles: their inputs are transformed, 36
 * points of each; then an item takes some tiles (a chunk) and two blocks of K, forms 36 products over all channels with
 * the register tiles of conv_kernel.h, and transforms the sums back. Where there are tiles enough, each thread has
 * strips of its own; else all work on one. Where those have few tiles for many weights, an item is one of the 36
 * products instead, and the sums are transformed back when all are there. */
#ifndef NCK_CONV_WINO_H
#define NCK_CONV_WINO_H

#include "kernels/cpu/conv/conv_blocked.h"

/* Can this form do it, and is it worth it? Sizes that are not known are the caller's guess. */
bool nck_conv_wino_fits(const nck_conv_shape *s);
bool nck_conv_wino_wins(const nck_conv_shape *s);

/* How the work is cut; by the threads too, since no cut touches a bit. */
typedef struct nck_wino_cut {
    int64_t phases_h, phases_w; /* of an image */
    int64_t down, across;       /* tiles of a phase; the last ones of some may hold nothing */
    int64_t tiles;              /* of all images */
    bool own;                   /* a strip is one thread's, else all threads share it */
    int64_t strip, n_strips;    /* tiles of a strip */
    int64_t chunk, n_chunks;    /* tiles of an item, items of a strip for each pair of blocks of K */
    bool by_points;             /* items are not chunks but points */
    int64_t pairs;
} nck_wino_cut;
nck_wino_cut nck_conv_wino_cut(const nck_conv_shape *s, int64_t block, int threads);

size_t nck_conv_wino_workspace(const nck_conv_shape *s, int64_t block);
void nck_conv_wino(const nck_conv_blocked_args *a, void *workspace, nc_pool *pool);

/* Weights in the order pair of blocks of K, point, depth, channel, k. */
size_t nck_conv_wino_weights_bytes(const nck_conv_shape *s, int64_t block);
void nck_conv_wino_pack(const nck_conv_shape *s, int64_t block, const void *w, float *dst);

#endif
