/* kernels/cpu/quant/nbits_stream.c: few rows of A times 4-bit weights, read once from front to back: what decoding
 * token by token does. Each row of A is laid out once as nbits_kernel.h wants it, with the sums of its blocks and,
 * where A may be rounded, its codes and their scales; then rows of W are dealt to the threads. */
#include "kernels/cpu/quant/nbits.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/nbits_kernel.h"

#include <math.h>

enum { STREAM_M = 4, LANES = 16, ITEM = 32, MAX_BLOCK = 256, MIN_BLOCK = 16, CHUNK = NCK_NBITS_CHUNK };

/* A row of A. */
typedef struct stream_row {
    float *x, *sum, *scale;
    int8_t *codes; /* NULL: numbers count */
} stream_row;

typedef struct stream_job {
    const nck_nbits *w;
    const float *bias;
    float *y, *zeros; /* zeros: blocks for each lane */
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
    float inverse = most > 0 ? 127 / most : 0;
    for (int64_t k = 0; k < w->block && isfinite(sum); k++) {
        float v = rintf(fminf(fmaxf(r->x[k0 + k] * inverse, -127), 127));
        r->codes[k0 + k] = (int8_t)v;
        codes += v;
    }
    r->sum[b] = codes;
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

static void stream_item(void *ctx, int64_t item) {
    const stream_job *j = ctx;
    const nck_nbits *w = j->w;
    const nck_nbits_table *t = nck_isa_get()->nbits;
    float *zeros = j->zeros + nc_parallel_lane() * j->bytes_lane / (int64_t)sizeof(float);
    nck_nbits_dot d = {.blocks = j->blocks, .chunks = w->block / CHUNK, .zero = zeros};
    for (int64_t n = item * ITEM; n < nc_min64(w->N, (item + 1) * ITEM); n++) {
        d.codes = w->codes + n * j->blocks * (w->block / 2);
        d.scale = w->scales + n * j->blocks;
        for (int64_t b = 0; b < j->blocks; b++) zeros[b] = nck_nbits_zero(w, n, b);
        for (int64_t m = 0; m < j->M; m++) {
            const stream_row *r = &j->rows[m];
            d.x = r->x, d.x_sum = r->sum, d.x8 = r->codes, d.x_scale = r->scale;
            float v = r->codes != NULL ? t->codes(&d) : t->numbers(&d);
            j->y[m * w->N + n] = j->bias != NULL ? v + j->bias[n] : v;
        }
    }
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
