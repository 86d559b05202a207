/* kernels/cpu/quant/nbits_stream.c: few rows of A times 4-bit weights, read once from front to back: what decoding
 * token by token does. Each row of A is laid out once as nbits_kernel.h wants it, with the sums of its blocks and,
 * where A may be rounded, its codes and their scales; then rows of W are dealt to the threads. */
#include "kernels/cpu/quant/nbits.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/nbits_kernel.h"

#include <math.h>

enum { STREAM_M = 4, LANES = 16, ITEM = 32, MAX_BLOCK = 256, MIN_BLOCK = 16, CHUNK = NCK_NBITS_CHUNK };
enum { TOGETHER = NCK_NBITS_TOGETHER };
#define TINY 0x1p-119f /* what is smaller counts as 0: 127 over it may be no number */

/* A row of A. */
typedef struct stream_row {
    float *x, *sum, *scale; /* sum: of each block, of what counts */
    int8_t *codes;          /* NULL: numbers count */
} stream_row;

typedef struct stream_job {
    const nck_nbits *w;
    const float *bias;
    float *y, *zeros; /* zeros: of the blocks of a row, for each lane */
    int64_t M, blocks, bytes_lane;
    stream_row rows[STREAM_M];
} stream_job;

static size_t stream_terms(int64_t K) { return (size_t)nc_round_up(K, MAX_BLOCK); }
static size_t stream_blocks_bytes(int64_t K) { return nc_align64((size_t)nc_ceil_div(K, MIN_BLOCK) * sizeof(float)); }
static size_t stream_row_bytes(int64_t K) {
    return stream_terms(K) * sizeof(float) + nc_align64(stream_terms(K)) + 2 * stream_blocks_bytes(K);
}

size_t nck_nbits_stream_workspace(int64_t M, int64_t K) {
    return (size_t)nc_min64(M, STREAM_M) * stream_row_bytes(K) + LANES * stream_blocks_bytes(K);
}

/* Element k of the row is at this place. */
static int64_t stream_place(int64_t k) { return k / CHUNK * CHUNK + k % 2 * 16 + k % CHUNK / 2; }

/* The block that begins at k0; false: it has an infinity or NaN. */
static bool stream_block(const nck_nbits *w, const float *a, int64_t b, bool rounds, stream_row *r) {
    int64_t k0 = b * w->block, n = nc_min64(w->block, w->K - k0);
    float most = 0, sum = 0, codes = 0;
    for (int64_t k = 0; k < w->block; k++) {
        float v = k < n ? a[k0 + k] : 0;
        r->x[k0 + stream_place(k)] = v;
        sum += v;
        most = fabsf(v) > most ? fabsf(v) : most;
    }
    r->sum[b] = sum;
    if (!rounds) return isfinite(sum);
    r->scale[b] = most / 127;
    float inverse = most > TINY ? 127 / most : 0;
    for (int64_t k = 0; k < w->block && isfinite(sum); k++) {
        float v = (r->x[k0 + k] * inverse + 0x1.8p23f) - 0x1.8p23f; /* to the nearest, and never beyond 127 */
        r->codes[k0 + k] = (int8_t)v;
        codes += v;
    }
    r->sum[b] = codes * r->scale[b];
    return isfinite(sum);
}

static bool stream_lay(const nck_nbits *w, const float *a, char *room, stream_row *r) {
    int64_t blocks = nc_ceil_div(w->K, w->block);
    bool ok = true;
    r->x = (float *)room, room += stream_terms(w->K) * sizeof(float);
    r->sum = (float *)room, room += stream_blocks_bytes(w->K);
    r->scale = (float *)room, room += stream_blocks_bytes(w->K);
    r->codes = w->rounds ? (int8_t *)room : NULL;
    for (int64_t b = 0; b < blocks && ok; b++) ok = stream_block(w, a, b, w->rounds, r);
    return ok;
}

/* The zero points of row n as numbers; where there are none, `room` has the middle already. */
static const float *stream_zeros(const stream_job *j, int64_t n, float *room) {
    const nck_nbits *w = j->w;
    if (w->float_zeros != NULL) return w->float_zeros + n * j->blocks;
    if (w->zeros == NULL) return room;
    const uint8_t *row = w->zeros + n * nc_ceil_div(j->blocks, 2);
    for (int64_t b = 0; b < j->blocks; b++) room[b] = (float)(row[b / 2] >> b % 2 * 4 & 15);
    return room;
}

/* Rows [n, n + TOGETHER) of W; those behind the last are the last again, and are not stored. */
static void stream_rows(const stream_job *j, int64_t n, float *room) {
    const nck_nbits *w = j->w;
    const nck_nbits_table *t = nck_isa_get()->nbits;
    nck_nbits_dot d = {.blocks = j->blocks, .chunks = w->block / CHUNK};
    int64_t rows = nc_min64(TOGETHER, w->N - n);
    float v[TOGETHER];
    for (int64_t r = 0; r < TOGETHER; r++) {
        int64_t row = nc_min64(n + r, w->N - 1) * j->blocks;
        d.codes[r] = w->codes + row * (w->block / 2), d.scale[r] = w->scales + row;
    }
    for (int64_t m = 0; m < j->M; m++) {
        const stream_row *a = &j->rows[m];
        d.x = a->x, d.x8 = a->codes, d.x_scale = a->scale;
        (a->codes != NULL ? t->codes : t->numbers)(&d, v);
        for (int64_t r = 0; r < rows; r++) {
            float y = v[r] - t->zeros(j->blocks, d.scale[r], stream_zeros(j, n + r, room), a->sum);
            j->y[m * w->N + n + r] = j->bias != NULL ? y + j->bias[n + r] : y;
        }
    }
}

static void stream_item(void *ctx, int64_t item) {
    const stream_job *j = ctx;
    float *room = j->zeros + nc_parallel_lane() * j->bytes_lane / (int64_t)sizeof(float);
    for (int64_t b = 0; b < j->blocks; b++) room[b] = 8;
    for (int64_t n = item * ITEM; n < nc_min64(j->w->N, (item + 1) * ITEM); n += TOGETHER) stream_rows(j, n, room);
}

bool nck_nbits_stream(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, void *workspace,
                      nc_pool *pool) {
    stream_job j = {.w = w, .bias = bias, .y = y, .M = M, .blocks = nc_ceil_div(w->K, w->block)};
    char *room = workspace;
    if (w->bits != 4 || w->block % CHUNK != 0 || w->block > MAX_BLOCK || w->group_of_k != NULL || M > STREAM_M)
        return false;
    for (int64_t m = 0; m < M; m++, room += stream_row_bytes(w->K))
        if (!stream_lay(w, a + m * w->K, room, &j.rows[m])) return false;
    j.zeros = (float *)room;
    j.bytes_lane = (int64_t)stream_blocks_bytes(w->K);
    pool = nc_pool_for(pool, nc_min64(w->N, NC_ALONE) * w->K / 8);
    nc_parallel_upto(pool, LANES, nc_ceil_div(w->N, ITEM), stream_item, &j);
    return true;
}
