/* kernels/cpu/conv/conv_pack.c: weights into blocks of channels; see conv_blocked.h. Only moves numbers. */
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_wino.h"

#include "base/intmath.h"

#include <string.h>

static bool is_depthwise(const nck_conv_shape *s) { return s->group > 1 && s->C == s->group && s->K == s->group; }

size_t nck_conv_packed_weights_bytes(const nck_conv_shape *s, nck_conv_form form) {
    int64_t B = nck_channel_block(), taps = s->w.k[1] * s->w.k[2];
    if (form == NCK_CONV_WINO) return nck_conv_wino_weights_bytes(s, B);
    if (is_depthwise(s)) return (size_t)(nc_ceil_div(s->K, B) * taps * B) * sizeof(float);
    return (size_t)(s->group * nc_ceil_div(s->K / s->group, B) * (s->C / s->group) * taps * B) * sizeof(float);
}

static void put(float *dst, const void *w, int64_t at) {
    memcpy(dst, (const char *)w + at * (int64_t)sizeof *dst, sizeof *dst);
}

/* (block, tap, lane) */
static void pack_depthwise(const nck_conv_shape *s, int64_t B, const void *w, float *dst) {
    int64_t taps = s->w.k[1] * s->w.k[2];
    for (int64_t k = 0; k < s->K; k++)
        for (int64_t t = 0; t < taps; t++) put(dst + (k / B * taps + t) * B + k % B, w, k * taps + t);
}

/* Pairs of blocks of K of a group; in a pair (block of C, tap, channel, k), the last block of C with its own channels
 * alone. */
void nck_conv_pack_weights(const nck_conv_shape *s, nck_conv_form form, const void *w, float *dst) {
    int64_t B = nck_channel_block(), in = form == NCK_CONV_PLANES ? 1 : B, taps = s->w.k[1] * s->w.k[2];
    int64_t C = s->C / s->group, K = s->K / s->group, Kb = nc_ceil_div(K, B);
    if (form == NCK_CONV_WINO) {
        nck_conv_wino_pack(s, B, w, dst);
        return;
    }
    memset(dst, 0, nck_conv_packed_weights_bytes(s, form));
    if (is_depthwise(s)) {
        pack_depthwise(s, B, w, dst);
        return;
    }
    for (int64_t o = 0; o < s->K; o++) {
        int64_t g = o / K, k = o % K, pair = k / (2 * B), wide = nc_min64(2, Kb - pair * 2) * B;
        float *to = dst + (g * Kb + pair * 2) * B * C * taps + k % (2 * B);
        for (int64_t c = 0; c < C; c++) {
            int64_t c0 = c / in * in, live = nc_min64(in, C - c0);
            for (int64_t t = 0; t < taps; t++)
                put(to + (c0 * taps + t * live + c - c0) * wide, w, (o * C + c) * taps + t);
        }
    }
}
