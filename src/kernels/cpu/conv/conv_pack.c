/* kernels/cpu/conv/conv_pack.c: weights into blocks of channels; see conv_blocked.h. Only moves numbers. */
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_wino.h"

#include "base/intmath.h"

#include <string.h>

enum { SQUARE = 64 };

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

/* How the weights of one group lie: rows of C * taps numbers for each of K, and what a pair of blocks of K becomes: in
 * blocks of `in` channels, the last with its own alone, (tap, channel, k). */
typedef struct weight_rows {
    int64_t C, taps, in;
} weight_rows;

/* Where number i of a row, (channel, tap), stands in a pair, counted in k. */
static int64_t place_of(const weight_rows *r, int64_t i) {
    int64_t c = i / r->taps, t = i % r->taps, c0 = c / r->in * r->in;
    return c0 * r->taps + t * nc_min64(r->in, r->C - c0) + c - c0;
}

/* n rows from w on to the first n lanes of `wide`. SQUARE numbers of all rows at a time: what they read and write stays
 * in the first cache. */
static void pack_pair(const weight_rows *r, const char *w, int64_t n, int64_t wide, float *dst) {
    int64_t len = r->C * r->taps, to[SQUARE];
    for (int64_t i = 0; i < len; i += SQUARE) {
        int64_t live = nc_min64(SQUARE, len - i);
        for (int64_t k = 0; k < live; k++) to[k] = place_of(r, i + k) * wide;
        for (int64_t o = 0; o < n; o++) {
            float from[SQUARE];
            const char *row = w + (o * len + i) * (int64_t)sizeof *from;
            if (live == SQUARE)
                memcpy(from, row, sizeof from); /* a constant size: no call */
            else
                memcpy(from, row, (size_t)live * sizeof *from);
            for (int64_t k = 0; k < live; k++) dst[to[k] + o] = from[k];
        }
    }
}

void nck_conv_pack_weights(const nck_conv_shape *s, nck_conv_form form, const void *w, float *dst) {
    int64_t B = nck_channel_block(), taps = s->w.k[1] * s->w.k[2];
    int64_t C = s->C / s->group, K = s->K / s->group, Kb = nc_ceil_div(K, B);
    weight_rows r = {C, taps, form == NCK_CONV_PLANES ? 1 : B};
    if (form == NCK_CONV_WINO) {
        nck_conv_wino_pack(s, B, w, dst);
        return;
    }
    if ((is_depthwise(s) ? s->K : K) % B != 0) memset(dst, 0, nck_conv_packed_weights_bytes(s, form));
    if (is_depthwise(s)) {
        pack_depthwise(s, B, w, dst);
        return;
    }
    for (int64_t g = 0; g < s->group; g++)
        for (int64_t b = 0; b < Kb; b += 2)
            pack_pair(&r, (const char *)w + (g * K + b * B) * C * taps * (int64_t)sizeof *dst,
                      nc_min64(2 * B, K - b * B), nc_min64(2, Kb - b) * B, dst + (g * Kb + b) * B * C * taps);
}
