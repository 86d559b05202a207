/* kernels/cpu/conv/conv_depthwise.h: the blocked convolution with one channel per group, a part of conv_blocked.h's,
 * and what both do to their results. */
#ifndef NCK_CONV_DEPTHWISE_H
#define NCK_CONV_DEPTHWISE_H

#include "kernels/cpu/conv/conv_blocked.h"

void nck_conv_blocked_depthwise(const nck_conv_blocked_args *a, nc_pool *pool);

/* Runs after->prog over `pixels` pixels of image n and block kb from number `pixel` on; y: their first element. */
void nck_conv_after_run(const nck_conv_after *after, int64_t n, int64_t kb, int64_t pixel, int64_t pixels, int64_t B,
                        float *y);

#endif
