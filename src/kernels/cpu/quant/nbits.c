/* kernels/cpu/quant/nbits.c: products with weights of 2, 4 or 8 bits; see nbits.h. Tiles are dealt to a fixed number of
 * groups, each with a workspace of its own: which group does a tile changes no bit. */
#include "kernels/cpu/quant/nbits.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"

enum { ROWS = NCK_NBITS_ROWS, GROUPS = 16 };

static int64_t blocks_of(const nck_nbits *w) { return nc_ceil_div(w->K, w->block); }

static float zero_of(const nck_nbits *w, int64_t n, int64_t block) {
    int64_t blocks = blocks_of(w);
    if (w->float_zeros != NULL) return w->float_zeros[n * blocks + block];
    if (w->zeros == NULL) return (float)(1 << (w->bits - 1));
    int64_t bytes = nc_ceil_div(blocks * w->bits, 8), bit = block * w->bits;
    return (float)(w->zeros[n * bytes + bit / 8] >> bit % 8 & ((1 << w->bits) - 1));
}

/* `count` codes from `from` on a byte's start, each through a table of what it stands for. */
static void decode_4(const uint8_t *from, const float *table, int64_t count, float *y) {
    for (int64_t i = 0; i < count / 2; i++) {
        y[2 * i] = table[from[i] & 15];
        y[2 * i + 1] = table[from[i] >> 4];
    }
    if (count % 2 != 0) y[count - 1] = table[from[count / 2] & 15];
}

static void decode_2(const uint8_t *from, const float *table, int64_t count, float *y) {
    for (int64_t i = 0; i < count; i++) y[i] = table[from[i / 4] >> i % 4 * 2 & 3];
}

static void decode_8(const uint8_t *from, float scale, float zero, int64_t count, float *y) {
    for (int64_t i = 0; i < count; i++) y[i] = ((float)from[i] - zero) * scale;
}

/* Scales and zero points by k: one code at a time. */
static void row_by_groups(const nck_nbits *w, int64_t n, const uint8_t *row, float *y) {
    int64_t blocks = blocks_of(w);
    for (int64_t k = 0; k < w->K; k++) {
        int64_t g = w->group_of_k[k], bit = k * w->bits;
        int code = row[bit / 8] >> bit % 8 & ((1 << w->bits) - 1);
        y[k] = ((float)code - zero_of(w, n, g)) * w->scales[n * blocks + g];
    }
}

void nck_nbits_row(const nck_nbits *w, int64_t n, float *y) {
    int64_t blocks = blocks_of(w), bytes = w->block * w->bits / 8;
    const uint8_t *row = w->codes + n * blocks * bytes;
    if (w->group_of_k != NULL) {
        row_by_groups(w, n, row, y);
        return;
    }
    for (int64_t b = 0; b < blocks; b++) {
        float table[16], zero = zero_of(w, n, b), scale = w->scales[n * blocks + b];
        int64_t count = nc_min64(w->block, w->K - b * w->block);
        if (w->bits == 8) {
            decode_8(row + b * bytes, scale, zero, count, y + b * w->block);
            continue;
        }
        for (int i = 0; i < 1 << w->bits; i++) table[i] = ((float)i - zero) * scale;
        if (w->bits == 4)
            decode_4(row + b * bytes, table, count, y + b * w->block);
        else
            decode_2(row + b * bytes, table, count, y + b * w->block);
    }
}

typedef struct nbits_job {
    const nck_nbits *w;
    int64_t M, n_tiles, n_groups;
    const float *a, *bias;
    float *y;
    char *workspace;
    size_t bytes_each;
} nbits_job;

static size_t bytes_tile(int64_t K) { return nc_align64((size_t)(ROWS * K) * sizeof(float)); }

static size_t bytes_each(int64_t M, int64_t K) {
    return bytes_tile(K) + nc_align64(nck_gemm_workspace_serial(NC_FLOAT, M, ROWS, K, false));
}

static int64_t n_groups(int64_t N) { return nc_min64(nc_ceil_div(N, ROWS), GROUPS); }

size_t nck_nbits_workspace(int64_t M, int64_t N, int64_t K) {
    return nc_max_size(bytes_each(M, K) * (size_t)n_groups(N), nck_nbits_stream_workspace(M, K));
}

static void run_tile(const nbits_job *j, int64_t tile, char *workspace) {
    const nck_nbits *w = j->w;
    int64_t first = tile * ROWS, rows = nc_min64(ROWS, w->N - first);
    float *numbers = (float *)workspace;
    for (int64_t r = 0; r < rows; r++) nck_nbits_row(w, first + r, numbers + r * w->K);
    nck_gemm(&(nck_gemm_args){.type = NC_FLOAT,
                              .M = j->M,
                              .N = rows,
                              .K = w->K,
                              .alpha = 1,
                              .a = j->a,
                              .a_rs = w->K,
                              .a_cs = 1,
                              .b = numbers,
                              .b_rs = 1,
                              .b_cs = w->K,
                              .c = j->y + first,
                              .c_rs = w->N,
                              .c_cs = 1,
                              .bias = j->bias != NULL ? j->bias + first : NULL,
                              .bias_cs = 1},
             workspace + bytes_tile(w->K), NULL);
}

static void run_group(void *ctx, int64_t group) {
    const nbits_job *j = ctx;
    for (int64_t i = group; i < j->n_tiles; i += j->n_groups)
        run_tile(j, i, j->workspace + (size_t)group * j->bytes_each);
}

void nck_nbits_matmul(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, void *workspace,
                      nc_pool *pool) {
    if (nck_nbits_stream(w, M, a, bias, y, workspace, pool)) return;
    nbits_job j = {.w = w, .M = M, .a = a, .bias = bias, .y = y, .workspace = workspace};
    j.n_tiles = nc_ceil_div(w->N, ROWS);
    j.n_groups = n_groups(w->N);
    j.bytes_each = bytes_each(M, w->K);
    if (M > 0 && w->N > 0) nc_parallel(pool, j.n_groups, run_group, &j);
}
