/* kernels/cpu/conv/conv_blocked.h: convolution of up to three spatial dims in f32 over channels in blocks,
 * of as many as the table of kernels says (nck_channel_block): 16 with AVX-512, else 8. B below.
 *
 * x (N, ceil(C/B), [D,] H, W, B), y (N, ceil(K/B), [OD,] OH, OW, B). The lanes past C in the last block of x never
 * touch a result; those past K in y hold anything afterwards. Where group is 1, x may also be in planes (N, C, [D,] H,
 * W): the first layer of a network, whose few channels would leave blocks nearly empty.
 * Three kinds: group 1; groups of whole blocks (C/group and K/group multiples of B); one channel per group (C == K ==
 * group), of two dims. Group 1 with 3 x 3 taps and stride 1 has a form of fewer multiplications (conv_wino.h): a NaN or
 * an infinity spreads over the 4 x 4 outputs of each tile that sees it, rounding errors are some two times as large.
 *
 * Padding counts as zeros, so an infinite weight over it gives NaN; with one channel per group only where the image is
 * copied (conv_depthwise.c).
 * Accumulation: f32, one chain of fused multiply-adds per element in the order channel block, depth, row, column,
 * channel, bias first: the same bits for any threads, other ones where blocks have another size. */
#ifndef NCK_CONV_BLOCKED_H
#define NCK_CONV_BLOCKED_H

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/tile.h"

#include <stddef.h>

/* Channels of a block, as the kernels in use want them. */
int64_t nck_channel_block(void);

/* Do groups of so many channels, which fill no block, go several to a block? Their weights for each other are 0 then,
 * so that a NaN or an infinity spreads over the groups of its block. */
static inline bool nck_conv_merges(int64_t C, int64_t K, int64_t group, int64_t block) {
    int64_t inner = C / group;
    return inner > 1 && inner < block && C == K && block % inner == 0 && C % block == 0;
}

/* An operand of what is done to the sums: element (n, block, pixel, lane) is at data + n * image + block * block_step,
 * and then at pixel * B + lane (period 0), at the lane alone (period B) or nowhere else (period 1). */
typedef struct nck_conv_operand {
    const float *data;
    int64_t image, block_step;
    int64_t period;
} nck_conv_operand;

/* What is done to each sum before it is written: y = clamp(sum + add, low, high), then y = prog(y, in[1], ...). */
typedef struct nck_conv_after {
    const float *add; /* laid out like y; NULL: nothing is added. May be y itself */
    bool clamps;
    float low, high;
    const nck_tile_prog *prog; /* NULL: none; of floats, one output, its input 0 is y */
    nck_conv_operand in[NCK_TILE_MAX_REG];
} nck_conv_after;

/* How x lies and w is packed. */
typedef enum nck_conv_form {
    NCK_CONV_BLOCKS,
    NCK_CONV_PLANES, /* x is (N, C, H, W) */
    NCK_CONV_WINO    /* x in blocks, weights transformed */
} nck_conv_form;

typedef struct nck_conv_blocked_args {
    nck_conv_shape shape;
    nck_conv_form form;
    const float *x, *w; /* w as packed below */
    const float *bias;  /* (K) or NULL */
    float *y;
    const nck_conv_after *after; /* NULL: nothing */
} nck_conv_blocked_args;

/* Vectors that are multiplied where blocks have that size; not of NCK_CONV_WINO. */
static inline int64_t nck_conv_vectors(const nck_conv_shape *s, int64_t block) {
    int64_t blocks = (s->K + block - 1) / block;
    return s->N * blocks * nck_window_n_out(&s->w) * (s->C / s->group) * nck_window_n_k(&s->w);
}

/* 64-byte aligned; grows with every size. */
size_t nck_conv_blocked_workspace(const nck_conv_shape *s, nck_conv_form form);
void nck_conv_blocked(const nck_conv_blocked_args *a, void *workspace, nc_pool *pool);
/* How many items the smallest of its parallel loops over products has; not of NCK_CONV_WINO, nor with one channel per
 * group. */
int64_t nck_conv_blocked_items(const nck_conv_shape *s, nck_conv_form form, int threads);

/* Weights (K, C/group, kd, kh, kw), f32, dense, may be unaligned, in the order that the kernel reads them. */
size_t nck_conv_packed_weights_bytes(const nck_conv_shape *s, nck_conv_form form);
void nck_conv_pack_weights(const nck_conv_shape *s, nck_conv_form form, const void *w, float *dst);
/* The same convolution with blocks for groups, where those merge. */
nck_conv_shape nck_conv_merged(const nck_conv_shape *s);

/* Between dense (N, C, spatial), or (N, spatial, C) with `last`, and blocked (N, ceil(C/B), spatial, B), f32; packing
 * puts 0 into the lanes past C. */
typedef struct nck_channels {
    int64_t block, N, C, spatial;
    bool last;
} nck_channels;
size_t nck_packed_channels_bytes(int64_t block, int64_t N, int64_t C, int64_t spatial);
void nck_pack_channels(const nck_channels *k, const float *x, float *dst, nc_pool *pool);
void nck_unpack_channels(const nck_channels *k, const float *x, float *dst, nc_pool *pool);

#endif
