/* kernels/cpu/conv/conv_pack.c: weights and activations into and out of blocks of 8 channels; see conv_blocked.h.
 * Only moves numbers. An item of the activations is one block of channels of one image. */
#include "kernels/cpu/conv/conv_blocked.h"

#include "base/intmath.h"

#include <string.h>

enum { B = NCK_CONV_BLOCK };

typedef struct conv_job {
    int64_t C, spatial, n_blocks;
    const float *x;
    float *dst;
} conv_job;

size_t nck_conv_packed_weights_bytes(int64_t K, int64_t C, int64_t kh, int64_t kw) {
    return (size_t)(nc_ceil_div(K, B) * nc_ceil_div(C, B) * kh * kw * B * B) * sizeof(float);
}

void nck_conv_pack_weights(int64_t K, int64_t C, int64_t kh, int64_t kw, const void *w, float *dst) {
    int64_t taps = kh * kw, Cb = nc_ceil_div(C, B);
    memset(dst, 0, nck_conv_packed_weights_bytes(K, C, kh, kw));
    for (int64_t k = 0; k < K; k++)
        for (int64_t c = 0; c < C; c++)
            for (int64_t t = 0; t < taps; t++)
                memcpy(dst + (((k / B * Cb + c / B) * taps + t) * B + c % B) * B + k % B,
                       (const char *)w + ((k * C + c) * taps + t) * (int64_t)sizeof(float), sizeof(float));
}

size_t nck_packed_channels_bytes(int64_t N, int64_t C, int64_t spatial) {
    return (size_t)(N * nc_ceil_div(C, B) * B * spatial) * sizeof(float);
}

static void conv_pack_item(void *ctx, int64_t item) {
    const conv_job *j = ctx;
    int64_t n = item / j->n_blocks, c0 = item % j->n_blocks * B, live = j->C - c0 < B ? j->C - c0 : B;
    const float *x = j->x + (n * j->C + c0) * j->spatial;
    float *d = j->dst + item * j->spatial * B;
    for (int64_t i = 0; i < j->spatial; i++, d += B)
        for (int64_t c = 0; c < B; c++) d[c] = c < live ? x[c * j->spatial + i] : 0;
}

static void conv_unpack_item(void *ctx, int64_t item) {
    const conv_job *j = ctx;
    int64_t n = item / j->n_blocks, c0 = item % j->n_blocks * B, live = j->C - c0 < B ? j->C - c0 : B;
    const float *x = j->x + item * j->spatial * B;
    float *d = j->dst + (n * j->C + c0) * j->spatial;
    for (int64_t i = 0; i < j->spatial; i++, x += B)
        for (int64_t c = 0; c < live; c++) d[c * j->spatial + i] = x[c];
}

void nck_pack_channels(int64_t N, int64_t C, int64_t spatial, const float *x, float *dst, nc_pool *pool) {
    conv_job j = {.C = C, .spatial = spatial, .n_blocks = nc_ceil_div(C, B), .x = x, .dst = dst};
    nc_parallel(pool, N * j.n_blocks, conv_pack_item, &j);
}

void nck_unpack_channels(int64_t N, int64_t C, int64_t spatial, const float *x, float *dst, nc_pool *pool) {
    conv_job j = {.C = C, .spatial = spatial, .n_blocks = nc_ceil_div(C, B), .x = x, .dst = dst};
    nc_parallel(pool, N * j.n_blocks, conv_unpack_item, &j);
}
