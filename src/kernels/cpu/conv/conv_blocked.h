/* kernels/cpu/conv/conv_blocked.h: convolution of two spatial dims (the last of the window's three) in f32 over
 * channels in blocks of 8, group == 1.
 *
 * x (N, ceil(C/8), H, W, 8), w packed (ceil(K/8), ceil(C/8), kh, kw, 8c, 8k), y (N, ceil(K/8), OH, OW, 8). The lanes
 * past C in the last block of x never touch a result; those past K in y hold anything afterwards.
 * Accumulation: f32, one chain of fused multiply-adds per element in the order channel block, row, column, channel,
 * bias first: the same bits for any threads and ISA. */
#ifndef NCK_CONV_BLOCKED_H
#define NCK_CONV_BLOCKED_H

#include "kernels/cpu/conv/conv.h"

#include <stddef.h>

#define NCK_CONV_BLOCK 8

void nck_conv_blocked(const nck_conv_shape *s, const float *x, const float *w_packed, const float *bias, float *y,
                      nc_pool *pool);

size_t nck_conv_packed_weights_bytes(int64_t K, int64_t C, int64_t kh, int64_t kw);
/* w (K,C,kh,kw) f32, dense, may be unaligned. */
void nck_conv_pack_weights(int64_t K, int64_t C, int64_t kh, int64_t kw, const void *w, float *dst);

/* Between dense (N, C, spatial) and blocked (N, ceil(C/8), spatial, 8), f32; packing puts 0 into the lanes past C. */
size_t nck_packed_channels_bytes(int64_t N, int64_t C, int64_t spatial);
void nck_pack_channels(int64_t N, int64_t C, int64_t spatial, const float *x, float *dst, nc_pool *pool);
void nck_unpack_channels(int64_t N, int64_t C, int64_t spatial, const float *x, float *dst, nc_pool *pool);

#endif
