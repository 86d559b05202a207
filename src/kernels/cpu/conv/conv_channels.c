/* kernels/cpu/conv/conv_channels.c: activations into blocks of channels and out of them; see conv_blocked.h. Only moves
 * numbers. An item is some pixels of one image, of one block of channels where these come first, else of all blocks. */
#include "kernels/cpu/conv/conv_blocked.h"

#include "base/intmath.h"
#include "kernels/cpu/move/move.h"

#include <string.h>

/* PIXELS of an item with channels first. SQUARE: pixels whose lines of all channels stay in the first cache; MOVED:
 * elements of an item with channels last. */
enum { PIXELS = 4096, SQUARE = 16, MOVED = 1 << 16 };

typedef struct channels_job {
    int64_t B, C, spatial, n_blocks, parts, pixels;
    const float *x;
    float *dst;
} channels_job;

size_t nck_packed_channels_bytes(int64_t block, int64_t N, int64_t C, int64_t spatial) {
    return (size_t)(N * nc_ceil_div(C, block) * block * spatial) * sizeof(float);
}

/* Some pixels of one block, in planes and in a block. */
typedef struct channels_run {
    int64_t live, n, plane, block; /* channels, pixels; where they begin */
} channels_run;

static channels_run run_of(const channels_job *j, int64_t item) {
    int64_t i0 = item % j->parts * j->pixels, plane = item / j->parts, n = plane / j->n_blocks;
    int64_t c0 = plane % j->n_blocks * j->B;
    return (channels_run){.live = nc_min64(j->B, j->C - c0),
                          .n = nc_min64(j->pixels, j->spatial - i0),
                          .plane = (n * j->C + c0) * j->spatial + i0,
                          .block = (plane * j->spatial + i0) * j->B};
}

static void pack_item(void *ctx, int64_t item) {
    const channels_job *j = ctx;
    channels_run r = run_of(j, item);
    float *d = j->dst + r.block;
    nck_turn_words(r.live, r.n, j->x + r.plane, j->spatial, d, j->B);
    for (int64_t k = 0; r.live < j->B && k < r.n; k++)
        memset(d + k * j->B + r.live, 0, (size_t)(j->B - r.live) * sizeof *d);
}

static void unpack_item(void *ctx, int64_t item) {
    const channels_job *j = ctx;
    channels_run r = run_of(j, item);
    nck_turn_words(r.n, r.live, j->x + r.block, j->B, j->dst + r.plane, j->spatial);
}

/* A whole block of 16 is a constant size, one register wide: no call. */
static inline void copy_block(float *to, const float *from, int64_t live) {
    if (live == 16)
        memcpy(to, from, 16 * sizeof *to);
    else
        memcpy(to, from, (size_t)live * sizeof *to);
}

static void pack_rows(void *ctx, int64_t item) {
    const channels_job *j = ctx;
    int64_t i0 = item % j->parts * j->pixels, n = item / j->parts, B = j->B, C = j->C;
    int64_t i1 = nc_min64(j->spatial, i0 + j->pixels);
    const float *x = j->x + n * j->spatial * C;
    float *d = j->dst + n * j->n_blocks * j->spatial * B;
    for (int64_t i = i0; i < i1; i += SQUARE) {
        int64_t end = nc_min64(i1, i + SQUARE);
        for (int64_t b = 0; b < j->n_blocks; b++) {
            int64_t live = nc_min64(B, C - b * B);
            float *to = d + b * j->spatial * B;
            for (int64_t k = i; k < end; k++) {
                copy_block(to + k * B, x + k * C + b * B, live);
                if (live < B) memset(to + k * B + live, 0, (size_t)(B - live) * sizeof *to);
            }
        }
    }
}

static void unpack_rows(void *ctx, int64_t item) {
    const channels_job *j = ctx;
    int64_t i0 = item % j->parts * j->pixels, n = item / j->parts, B = j->B, C = j->C;
    int64_t i1 = nc_min64(j->spatial, i0 + j->pixels);
    const float *x = j->x + n * j->n_blocks * j->spatial * B;
    float *d = j->dst + n * j->spatial * C;
    for (int64_t i = i0; i < i1; i += SQUARE) {
        int64_t end = nc_min64(i1, i + SQUARE);
        for (int64_t b = 0; b < j->n_blocks; b++)
            for (int64_t k = i; k < end; k++)
                copy_block(d + k * C + b * B, x + (b * j->spatial + k) * B, nc_min64(B, C - b * B));
    }
}

static void move_channels(const nck_channels *k, const float *x, float *dst, void (*planes)(void *, int64_t),
                          void (*rows)(void *, int64_t), nc_pool *pool) {
    channels_job j = {.B = k->block, .C = k->C, .spatial = k->spatial, .x = x, .dst = dst, .pixels = PIXELS};
    j.n_blocks = nc_ceil_div(k->C, k->block);
    if (k->last) j.pixels = nc_max64(1, MOVED / SQUARE / nc_max64(1, k->C)) * SQUARE;
    j.parts = nc_ceil_div(k->spatial, j.pixels);
    pool = nc_pool_for(pool, k->N * k->C * k->spatial);
    nc_parallel(pool, k->N * j.parts * (k->last ? 1 : j.n_blocks), k->last ? rows : planes, &j);
}

void nck_pack_channels(const nck_channels *k, const float *x, float *dst, nc_pool *pool) {
    move_channels(k, x, dst, pack_item, pack_rows, pool);
}

void nck_unpack_channels(const nck_channels *k, const float *x, float *dst, nc_pool *pool) {
    move_channels(k, x, dst, unpack_item, unpack_rows, pool);
}
