/* kernels/cpu/quant/nbits.c: rows of A times weights of few bits, which are read once from front to back: what decoding
 * token by token does. Each row of A is laid out once as nbits_kernel.h wants it, with the sums of its blocks; where A
 * may be rounded, as codes. Then panels of W are dealt to the threads, each with all rows of A. */
#include "kernels/cpu/quant/nbits.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/nbits_panels.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { NUMBERS_M = 4, PIECE = NCK_NBITS_PIECE, MAX_BLOCK = 1 << 14, ITEM = 64, TOGETHER = NCK_NBITS_TOGETHER };
#define TINY 0x1p-119f /* what is smaller counts as 0: 127 over it may be no number */

typedef struct nbits_job {
    const nck_nbits *w;
    const float *a, *bias;
    float *y;
    int64_t M;
    atomic_bool *by_tiles;                                  /* weights become numbers first: nbits_tiles.c */
    char *rows, *panels;                                    /* where each row of A begins, and the room of each lane */
    size_t bytes_terms, bytes_sums, bytes_row, bytes_panel; /* a row: terms, then sums once or twice */
    nck_nbits_each each;
    nck_nbits_product *product;
} nbits_job;

static nbits_job job_of(const nck_nbits *w) {
    nbits_job j = {.w = w, .each = nck_nbits_each_of(w), .bytes_panel = nck_nbits_panel_bytes(w)};
    j.bytes_terms = nc_align64((size_t)(j.each.blocks * w->block) * (w->rounds ? 1 : sizeof(float)));
    j.bytes_sums = nc_align64((size_t)j.each.blocks * sizeof(float));
    j.bytes_row = j.bytes_terms + (w->rounds ? 2 : 1) * j.bytes_sums;
    return j;
}

static nck_nbits_row row_at(const nbits_job *j, int64_t m) {
    char *room = j->rows + (size_t)m * j->bytes_row, *sums = room + j->bytes_terms;
    if (!j->w->rounds) return (nck_nbits_row){.x = (float *)room, .sum = (float *)sums};
    return (nck_nbits_row){
        .codes = (int8_t *)room, .scale = (float *)sums, .code_sum = (int32_t *)(sums + j->bytes_sums)};
}

static bool is_direct(const nck_nbits *w, int64_t M) {
    return w->block <= MAX_BLOCK && w->group_of_k == NULL && (w->rounds || M <= NUMBERS_M);
}

size_t nck_nbits_workspace(const nck_nbits *w, int64_t M) {
    size_t rows = w->rounds ? (size_t)M : (size_t)nc_min64(M, NUMBERS_M);
    nbits_job j = job_of(w);
    return nc_max_size(nck_nbits_tiles_workspace(w, M), rows * j.bytes_row + NCK_NBITS_THREADS * j.bytes_panel);
}

/* ---- rows of A ---- */

/* Block b, n numbers at a, as codes; those behind n are 0. A code's place is among the 16 it is one of, so that a block
 * of half a piece is the piece's first half. */
static void lay_codes(const nck_nbits *w, const nck_nbits_table *t, const float *a, int64_t b, int64_t n, float most,
                      nck_nbits_row *r) {
    int8_t *to = r->codes + b * w->block;
    int32_t sum = 0;
    float inverse = most > TINY ? 127 / most : 0;
    for (int64_t k = 0; k < w->block; k += PIECE) {
        float rest[PIECE] = {0};
        int8_t codes[PIECE];
        bool whole = n - k >= PIECE;
        for (int64_t i = k; i < n && !whole; i++) rest[i - k] = a[i];
        sum += t->round(whole ? a + k : rest, inverse, w->bits, whole ? to + k : codes);
        if (!whole) memcpy(to + k, codes, (size_t)nc_min64(PIECE, w->block - k));
    }
    r->scale[b] = most / 127, r->code_sum[b] = sum;
}

/* false: their sum is no number. */
static bool lay_numbers(const nck_nbits *w, const float *a, int64_t b, int64_t n, nck_nbits_row *r) {
    float sum = 0, *to = r->x + b * w->block;
    for (int64_t k = 0; k < w->block; k++) {
        float v = k < n ? a[k] : 0;
        to[nck_nbits_place(k, w->bits)] = v;
        sum += v;
    }
    r->sum[b] = sum;
    return isfinite(sum);
}

/* Row m of A; with an infinity or NaN, which zero points must not meet on their own, the product goes by tiles. */
static void lay_row(void *ctx, int64_t m) {
    const nbits_job *j = ctx;
    const nck_nbits *w = j->w;
    const nck_nbits_table *t = nck_isa_get()->nbits;
    nck_nbits_row r = row_at(j, m);
    bool ok = true;
    for (int64_t b = 0; b < j->each.blocks && ok; b++) {
        int64_t n = nc_min64(w->block, w->K - b * w->block);
        const float *from = j->a + m * w->K + b * w->block;
        float most;
        ok = t->most(from, n, &most);
        if (w->rounds)
            lay_codes(w, t, from, b, n, ok ? most : 0, &r);
        else
            ok = ok && lay_numbers(w, from, b, n, &r);
    }
    if (!ok) atomic_store(j->by_tiles, true);
}

/* ---- products ---- */

/* Rows of A from m on, at most TOGETHER, with the panel whose first row of W is `first`. */
static void multiply(const nbits_job *j, const nck_nbits_panel *p, int64_t m, int64_t first) {
    const nck_nbits *w = j->w;
    _Alignas(64) float out[TOGETHER * NCK_NBITS_LANES];
    nck_nbits_row rows[TOGETHER];
    int64_t lanes = j->each.lanes, n = nc_min64(TOGETHER, j->M - m), columns = nc_min64(lanes, w->N - first);
    float *y = j->y + m * w->N + first;
    for (int64_t r = 0; r < n; r++) rows[r] = row_at(j, m + r);
    j->product(p, rows, (int)n, out);
    for (int64_t r = 0; r < n; r++)
        for (int64_t l = 0; l < columns; l++)
            y[r * w->N + l] = j->bias != NULL ? out[r * lanes + l] + j->bias[first + l] : out[r * lanes + l];
}

/* One row of A, whole packed panels, no bias: what decoding does nearly always, panel by panel with little between.
 * Returns the first row of W that is left. */
static int64_t multiply_straight(const nbits_job *j, int64_t n, int64_t end) {
    const nck_nbits_each *e = &j->each;
    if (j->M != 1 || j->bias != NULL || !j->w->packed) return n;
    nck_nbits_row row = row_at(j, 0);
    nck_nbits_panel p = nck_nbits_panel_at(j->w, e, n / e->lanes, NULL);
    for (; n + e->lanes <= end; n += e->lanes, nck_nbits_next(e, &p)) j->product(&p, &row, 1, j->y + n);
    return n;
}

static void nbits_item(void *ctx, int64_t item) {
    const nbits_job *j = ctx;
    int64_t lanes = j->each.lanes, end = nc_min64(j->w->N, (item + 1) * ITEM);
    char *room = j->panels + (size_t)nc_parallel_lane() * j->bytes_panel;
    for (int64_t n = multiply_straight(j, item * ITEM, end); n < end; n += lanes) {
        nck_nbits_panel p = nck_nbits_panel_at(j->w, &j->each, n / lanes, room);
        for (int64_t m = 0; m < j->M; m += TOGETHER) multiply(j, &p, m, n);
    }
}

void nck_nbits_matmul(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, void *workspace,
                      nc_pool *pool) {
    nbits_job j = job_of(w);
    j.product = w->rounds ? nck_isa_get()->nbits->codes : nck_isa_get()->nbits->numbers;
    j.a = a, j.bias = bias, j.y = y, j.M = M, j.rows = workspace;
    atomic_bool by_tiles = !is_direct(w, M);
    j.by_tiles = &by_tiles;
    if (!by_tiles) nc_parallel(nc_pool_for(pool, M * w->K), M, lay_row, &j);
    if (by_tiles) {
        nck_nbits_tiles(w, M, a, bias, y, workspace, pool);
        return;
    }
    j.panels = j.rows + (size_t)M * j.bytes_row;
    pool = nc_pool_for(pool, nc_min64(w->N, NC_ALONE) * w->K / 8);
    nc_parallel_upto(pool, NCK_NBITS_THREADS, nc_ceil_div(w->N, ITEM), nbits_item, &j);
}
