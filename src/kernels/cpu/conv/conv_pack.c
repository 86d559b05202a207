/* kernels/cpu/conv/conv_pack.c: weights into blocks of channels; see conv_blocked.h. Only moves numbers. */
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_wino.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/isa.h"

#include <string.h>

enum { SQUARE = 64 };

static bool is_depthwise(const nck_conv_shape *s) { return s->group > 1 && s->C == s->group && s->K == s->group; }

nck_conv_shape nck_conv_merged(const nck_conv_shape *s) {
    nck_conv_shape m = *s;
    if (nck_conv_merges(s->C, s->K, s->group, nck_channel_block())) m.group = s->C / nck_channel_block();
    return m;
}

size_t nck_conv_packed_weights_bytes(const nck_conv_shape *of, nck_conv_form form) {
    nck_conv_shape merged = nck_conv_merged(of), *s = &merged;
    int64_t B = nck_channel_block(), taps = nck_window_n_k(&s->w);
    if (form == NCK_CONV_WINO) return nck_conv_wino_weights_bytes(s, B);
    if (is_depthwise(s)) return (size_t)(nc_ceil_div(s->K, B) * taps * B) * sizeof(float);
    return (size_t)(s->group * nc_ceil_div(s->K / s->group, B) * (s->C / s->group) * taps * B) * sizeof(float);
}

static void put(float *dst, const void *w, int64_t at) {
    memcpy(dst, (const char *)w + at * (int64_t)sizeof *dst, sizeof *dst);
}

/* (block, tap, lane) */
static void pack_depthwise(const nck_conv_shape *s, int64_t B, const void *w, float *dst) {
    int64_t taps = nck_window_n_k(&s->w);
    for (int64_t k = 0; k < s->K; k++)
        for (int64_t t = 0; t < taps; t++) put(dst + (k / B * taps + t) * B + k % B, w, k * taps + t);
}

/* (block, tap, channel, lane), 0 but within the groups of `inner` channels. */
static void pack_merged(const nck_conv_shape *s, int64_t B, int64_t inner, const void *w, float *dst) {
    int64_t taps = nck_window_n_k(&s->w);
    memset(dst, 0, (size_t)(s->K * B * taps) * sizeof *dst);
    for (int64_t k = 0; k < s->K; k++)
        for (int64_t i = 0; i < inner * taps; i++) {
            int64_t c = k % B / inner * inner + i / taps, t = i % taps;
            put(dst + ((k / B * taps + t) * B + c) * B + k % B, w, k * inner * taps + i);
        }
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

/* n rows from w on to the first n lanes of `wide`, the others 0: rows become columns by the GEMM's packing, SQUARE
 * numbers of each at a time, then the columns of a window's taps go where they belong. */
static void pack_pair(const weight_rows *r, const char *w, int64_t n, int64_t wide, float *dst) {
    nck_gemm_pack *turn = nck_isa_get()->gemm->f32->pack;
    int64_t len = r->C * r->taps;
    float square[SQUARE * 2 * NCK_CONV_MAX_BLOCK];
    _Static_assert(2 * NCK_CONV_MAX_BLOCK <= NCK_GEMM_WIDEST, "a pair of blocks is a panel");
    if (r->taps == 1) {
        turn(len, n, wide, w, len, 1, dst);
        return;
    }
    for (int64_t i = 0; i < len; i += SQUARE) {
        int64_t live = nc_min64(SQUARE, len - i);
        turn(live, n, wide, w + i * (int64_t)sizeof *dst, len, 1, square);
        for (int64_t k = 0; k < live; k++)
            memcpy(dst + place_of(r, i + k) * wide, square + k * wide, (size_t)wide * sizeof *dst);
    }
}

void nck_conv_pack_weights(const nck_conv_shape *s, nck_conv_form form, const void *w, float *dst) {
    int64_t B = nck_channel_block(), taps = nck_window_n_k(&s->w);
    int64_t C = s->C / s->group, K = s->K / s->group, Kb = nc_ceil_div(K, B);
    weight_rows r = {C, taps, form == NCK_CONV_PLANES ? 1 : B};
    if (form == NCK_CONV_WINO) {
        nck_conv_wino_pack(s, B, w, dst);
        return;
    }
    if (is_depthwise(s)) {
        if (s->K % B != 0) memset(dst, 0, nck_conv_packed_weights_bytes(s, form));
        pack_depthwise(s, B, w, dst);
        return;
    }
    if (nck_conv_merges(s->C, s->K, s->group, B)) {
        pack_merged(s, B, C, w, dst);
        return;
    }
    for (int64_t g = 0; g < s->group; g++)
        for (int64_t b = 0; b < Kb; b += 2)
            pack_pair(&r, (const char *)w + (g * K + b * B) * C * taps * (int64_t)sizeof *dst,
                      nc_min64(2 * B, K - b * B), nc_min64(2, Kb - b) * B, dst + (g * Kb + b) * B * C * taps);
}
