/* kernels/cpu/quant/nbits_tiles.c: products with weights of few bits by tiles of numbers, see nbits.h: many rows of A
 * that may not be rounded, rows with infinities and NaN, and scales by k. A tile is some columns of Y; some terms of
 * its weights at a time become numbers, which are multiplied while they are in the second cache. Tiles are dealt to a
 * fixed number of groups, each with a workspace of its own: which group does a tile changes no bit.
 *
 * Rows of A are copied first, some hundred at a time, to where they lie GAP elements farther apart than they are long:
 * rows that are a power of two apart would share a place in the first cache. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/nbits_panels.h"

#include <string.h>

enum {
    COLUMNS = 64, /* whole panels of W on every ISA */
    TERMS = 512,  /* but whole blocks */
    ROWS = 256,
    GAP = 16,
    GROUPS = NCK_NBITS_THREADS
};

typedef struct tiles_job {
    const nck_nbits *w;
    int64_t rows, terms, n_tiles, n_groups; /* rows of A at hand; terms at a time */
    const float *a, *bias;
    float *copy; /* (rows, K), GAP farther apart */
    float *y;
    char *workspace;
    size_t bytes_gemm, bytes_each;
} tiles_job;

static int64_t terms_of(const nck_nbits *w) { return nc_min64(w->K, nc_round_up(TERMS, w->block)); }

static size_t bytes_copy(const nck_nbits *w, int64_t M) {
    return nc_align64((size_t)(nc_min64(M, ROWS) * (w->K + GAP)) * sizeof(float));
}

static size_t bytes_tile(const nck_nbits *w) { return nc_align64((size_t)(COLUMNS * terms_of(w)) * sizeof(float)); }

static size_t bytes_gemm(const nck_nbits *w, int64_t M) {
    return nc_align64(nck_gemm_workspace_serial(NC_FLOAT, nc_min64(M, ROWS), COLUMNS, terms_of(w), false));
}

static size_t bytes_each(const nck_nbits *w, int64_t M) {
    return bytes_tile(w) + bytes_gemm(w, M) + nck_nbits_panel_bytes(w);
}

static int64_t n_groups(int64_t N) { return nc_min64(nc_ceil_div(N, COLUMNS), GROUPS); }

size_t nck_nbits_tiles_workspace(const nck_nbits *w, int64_t M) {
    return bytes_copy(w, M) + bytes_each(w, M) * (size_t)n_groups(w->N);
}

static int code_at(const uint8_t *p, int64_t i, int bits) {
    return p[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1);
}

/* Terms [k0, k1) of row n of W as column y, COLUMNS apart: scales and zero points by k, one code at a time. */
static void row_by_groups(const nck_nbits *w, int64_t n, int64_t k0, int64_t k1, float *y) {
    int64_t blocks = nck_nbits_blocks(w), zero_bytes = nc_ceil_div(blocks * w->bits, 8);
    const uint8_t *row = w->codes + n * blocks * (w->block * w->bits / 8);
    for (int64_t k = k0; k < k1; k++, y += COLUMNS) {
        int64_t g = w->group_of_k[k];
        float zero = (float)(1 << (w->bits - 1));
        if (w->float_zeros != NULL)
            zero = w->float_zeros[n * blocks + g];
        else if (w->zeros != NULL)
            zero = (float)code_at(w->zeros + n * zero_bytes, g, w->bits);
        *y = ((float)code_at(row, k, w->bits) - zero) * w->scales[n * blocks + g];
    }
}

/* The same panel from term k on, which begins a block. */
static nck_nbits_panel panel_from(const nck_nbits_panel *p, int64_t lanes, int64_t k) {
    nck_nbits_panel q = *p;
    int64_t b = k / p->block;
    q.codes += k * p->bits / 8 * lanes;
    q.scale += b * lanes;
    if (q.zero != NULL) q.zero += b * lanes;
    if (q.float_zero != NULL) q.float_zero += b * lanes;
    q.blocks -= b;
    return q;
}

/* Terms [k0, k1) of rows [first, first + n) of W as columns of `numbers` (terms, COLUMNS). */
static void decode_tile(const nck_nbits *w, int64_t first, int64_t n, int64_t k0, int64_t k1, float *numbers,
                        char *room) {
    const nck_nbits_table *t = nck_isa_get()->nbits;
    nck_nbits_each e = nck_nbits_each_of(w);
    for (int64_t r = 0; r < n && w->group_of_k != NULL; r++) row_by_groups(w, first + r, k0, k1, numbers + r);
    for (int64_t r = 0; r < n && w->group_of_k == NULL; r += t->lanes) {
        nck_nbits_panel whole = nck_nbits_panel_at(w, &e, (first + r) / t->lanes, room);
        nck_nbits_panel p = panel_from(&whole, t->lanes, k0);
        p.blocks = nc_min64(p.blocks, nc_ceil_div(k1 - k0, p.block));
        t->decode(&p, k1 - k0, numbers + r, COLUMNS);
    }
}

static void run_tile(const tiles_job *j, int64_t tile, char *workspace) {
    const nck_nbits *w = j->w;
    int64_t first = tile * COLUMNS, n = nc_min64(COLUMNS, w->N - first);
    float *numbers = (float *)(void *)workspace;
    char *gemm = workspace + bytes_tile(w);
    for (int64_t k0 = 0; k0 < w->K; k0 += j->terms) {
        int64_t k1 = nc_min64(w->K, k0 + j->terms);
        bool last = k1 == w->K;
        decode_tile(w, first, n, k0, k1, numbers, gemm + j->bytes_gemm);
        nck_gemm(&(nck_gemm_args){.type = NC_FLOAT,
                                  .M = j->rows,
                                  .N = n,
                                  .K = k1 - k0,
                                  .alpha = 1,
                                  .beta = k0 > 0 ? 1 : 0,
                                  .a = j->copy + k0,
                                  .a_rs = w->K + GAP,
                                  .a_cs = 1,
                                  .b = numbers,
                                  .b_rs = COLUMNS,
                                  .b_cs = 1,
                                  .c = j->y + first,
                                  .c_rs = w->N,
                                  .c_cs = 1,
                                  .bias = last && j->bias != NULL ? j->bias + first : NULL,
                                  .bias_cs = 1},
                 gemm, NULL);
    }
}

static void run_group(void *ctx, int64_t group) {
    const tiles_job *j = ctx;
    for (int64_t i = group; i < j->n_tiles; i += j->n_groups)
        run_tile(j, i, j->workspace + (size_t)group * j->bytes_each);
}

static void copy_row(void *ctx, int64_t i) {
    const tiles_job *j = ctx;
    memcpy(j->copy + i * (j->w->K + GAP), j->a + i * j->w->K, (size_t)j->w->K * sizeof *j->a);
}

void nck_nbits_tiles(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, char *workspace,
                     nc_pool *pool) {
    tiles_job j = {.w = w, .terms = terms_of(w), .bias = bias, .copy = (float *)(void *)workspace};
    j.workspace = workspace + bytes_copy(w, M);
    j.n_tiles = nc_ceil_div(w->N, COLUMNS);
    j.n_groups = n_groups(w->N);
    j.bytes_gemm = bytes_gemm(w, M), j.bytes_each = bytes_each(w, M);
    for (int64_t m = 0; m < M && w->N > 0; m += ROWS) {
        j.rows = nc_min64(ROWS, M - m), j.a = a + m * w->K, j.y = y + m * w->N;
        nc_parallel(nc_pool_for(pool, j.rows * w->K), j.rows, copy_row, &j);
        nc_parallel(pool, j.n_groups, run_group, &j);
    }
}
