/* kernels/cpu/conv/conv_tile_test.c: every register tile of every ISA against its sum written out, bit for bit: all
 * widths, one and two blocks of K, channels that end within a block, NaN and infinities in x. */
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { TAPS = 3, CHANNELS = 39, B = NCK_CONV_MAX_BLOCK, ROOM = (NCK_CONV_MAX_PIXELS + TAPS) * B };
static const int64_t channel_counts[] = {0, 1, 4, 7, 16, 21, CHANNELS};

static float x[CHANNELS * ROOM], w[CHANNELS * TAPS * 2 * B], bias[2 * B], y[2 * ROOM];

static void fill(float *p, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) - 8388608.0f) / 8388608.0f;
    }
}

/* Of output k and pixel p. in: channels of a block of x. */
static float tile_sum(const nck_conv_tile *t, int64_t in, int64_t wide, int64_t k, int64_t p) {
    float acc = t->bias[k];
    const float *row = t->w + k;
    for (int64_t c0 = 0; c0 < t->C; c0 += in)
        for (int64_t i = 0; i < t->n_taps; i++)
            for (int64_t c = c0; c < t->C && c < c0 + in; c++, row += wide)
                acc = fmaf(t->x[c0 / in * t->x_block + t->taps[i] + p * in + c - c0], *row, acc);
    return acc;
}

static bool same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

static void check_tile(nck_conv_tile_fn *tile, int64_t block, int64_t in, int kb, int64_t pixels, int64_t channels) {
    int64_t taps[TAPS] = {2 * in, 0, in}; /* in any order */
    nck_conv_tile t = {.x = x, .x_block = (NCK_CONV_MAX_PIXELS + TAPS) * in, .taps = taps, .n_taps = TAPS};
    t.C = channels, t.w = w, t.bias = bias, t.y = y, t.y_k = pixels * block, t.ahead = w;
    tile(&t);
    for (int64_t k = 0; k < kb * block; k++)
        for (int64_t p = 0; p < pixels; p++)
            CHECK(same(y[k / block * t.y_k + p * block + k % block], tile_sum(&t, in, kb * block, k, p)));
}

TEST(conv_tiles_of_every_width) {
    fill(x, sizeof x / sizeof *x, 1), fill(w, sizeof w / sizeof *w, 2), fill(bias, 2 * B, 3);
    for (int special = 0; special < 2; special++) {
        if (special) x[5] = NAN, x[3 * B] = INFINITY, x[7 * B + 1] = -INFINITY;
        for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, conv))
            for (int kb = 1; kb <= 2; kb++)
                for (int pixels = 1; pixels <= nck_isa_at(isa)->conv->pixels; pixels++)
                    for (size_t c = 0; c < sizeof channel_counts / sizeof *channel_counts; c++) {
                        const nck_conv_table *t = nck_isa_at(isa)->conv;
                        check_tile(t->blocked[kb - 1][pixels], t->block, t->block, kb, pixels, channel_counts[c]);
                        check_tile(t->planes[kb - 1][pixels], t->block, 1, kb, pixels, channel_counts[c]);
                    }
    }
}
