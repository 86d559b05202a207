/* kernels/cpu/quant/nbits_tiles.c: products with weights of few bits by tiles of numbers, see nbits.h: many rows of A
 * that may not be rounded, rows with infinities and NaN, and scales by k. Tiles are dealt to a fixed number of groups,
 * each with a workspace of its own: which group does a tile changes no bit. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/nbits_panels.h"

enum { ROWS = 32, GROUPS = NCK_NBITS_THREADS }; /* ROWS of W: whole panels on every ISA */

typedef struct tiles_job {
    const nck_nbits *w;
    int64_t M, n_tiles, n_groups;
    const float *a, *bias;
    float *y;
    char *workspace;
    size_t bytes_each;
} tiles_job;

static size_t bytes_tile(int64_t K) { return nc_align64((size_t)(ROWS * K) * sizeof(float)); }

static size_t bytes_gemm(int64_t M, int64_t K) {
    return nc_align64(nck_gemm_workspace_serial(NC_FLOAT, M, ROWS, K, false));
}

static size_t bytes_each(const nck_nbits *w, int64_t M) {
    return bytes_tile(w->K) + bytes_gemm(M, w->K) + nck_nbits_panel_bytes(w);
}

static int64_t n_groups(int64_t N) { return nc_min64(nc_ceil_div(N, ROWS), GROUPS); }

size_t nck_nbits_tiles_workspace(const nck_nbits *w, int64_t M) { return bytes_each(w, M) * (size_t)n_groups(w->N); }

static int code_at(const uint8_t *p, int64_t i, int bits) {
    return p[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1);
}

/* Row n of W as column y, ROWS apart: scales and zero points by k, one code at a time. */
static void row_by_groups(const nck_nbits *w, int64_t n, float *y) {
    int64_t blocks = nck_nbits_blocks(w), zero_bytes = nc_ceil_div(blocks * w->bits, 8);
    const uint8_t *row = w->codes + n * blocks * (w->block * w->bits / 8);
    for (int64_t k = 0; k < w->K; k++) {
        int64_t g = w->group_of_k[k];
        float zero = (float)(1 << (w->bits - 1));
        if (w->float_zeros != NULL)
            zero = w->float_zeros[n * blocks + g];
        else if (w->zeros != NULL)
            zero = (float)code_at(w->zeros + n * zero_bytes, g, w->bits);
        y[k * ROWS] = ((float)code_at(row, k, w->bits) - zero) * w->scales[n * blocks + g];
    }
}

/* Rows [first, first + rows) of W as columns of `numbers` (K, ROWS). */
static void decode_tile(const nck_nbits *w, int64_t first, int64_t rows, float *numbers, char *room) {
    const nck_nbits_table *t = nck_isa_get()->nbits;
    nck_nbits_each e = nck_nbits_each_of(w);
    for (int64_t r = 0; r < rows && w->group_of_k != NULL; r++) row_by_groups(w, first + r, numbers + r);
    for (int64_t r = 0; r < rows && w->group_of_k == NULL; r += t->lanes) {
        nck_nbits_panel p = nck_nbits_panel_at(w, &e, (first + r) / t->lanes, room);
        t->decode(&p, w->K, numbers + r, ROWS);
    }
}

static void run_tile(const tiles_job *j, int64_t tile, char *workspace) {
    const nck_nbits *w = j->w;
    int64_t first = tile * ROWS, rows = nc_min64(ROWS, w->N - first);
    float *numbers = (float *)workspace;
    char *gemm = workspace + bytes_tile(w->K);
    decode_tile(w, first, rows, numbers, gemm + bytes_gemm(j->M, w->K));
    nck_gemm(&(nck_gemm_args){.type = NC_FLOAT,
                              .M = j->M,
                              .N = rows,
                              .K = w->K,
                              .alpha = 1,
                              .a = j->a,
                              .a_rs = w->K,
                              .a_cs = 1,
                              .b = numbers,
                              .b_rs = ROWS,
                              .b_cs = 1,
                              .c = j->y + first,
                              .c_rs = w->N,
                              .c_cs = 1,
                              .bias = j->bias != NULL ? j->bias + first : NULL,
                              .bias_cs = 1},
             gemm, NULL);
}

static void run_group(void *ctx, int64_t group) {
    const tiles_job *j = ctx;
    for (int64_t i = group; i < j->n_tiles; i += j->n_groups)
        run_tile(j, i, j->workspace + (size_t)group * j->bytes_each);
}

void nck_nbits_tiles(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, char *workspace,
                     nc_pool *pool) {
    tiles_job j = {.w = w, .M = M, .a = a, .bias = bias, .y = y, .workspace = workspace};
    j.n_tiles = nc_ceil_div(w->N, ROWS);
    j.n_groups = n_groups(w->N);
    j.bytes_each = bytes_each(w, M);
    if (M > 0 && w->N > 0) nc_parallel(pool, j.n_groups, run_group, &j);
}
