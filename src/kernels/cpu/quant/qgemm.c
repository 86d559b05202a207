/* kernels/cpu/quant/qgemm.c: blocking, packing and the tile of the integer matrix product, see qgemm.h.
 *
 * As in gemm/: NC columns, KC terms, MB rows from outside in; panels of A (MR rows) and B (NR columns) are packed into
 * the workspace by all threads, as int16 with the zero points taken off, so the tile is a plain product. A tile of
 * MR x NR sums in int32 is kept in registers over a cut of K and then added to C. */
#include "kernels/cpu/quant/qgemm.h"

#include "base/intmath.h"

#include <string.h>

enum { MR = NCK_QGEMM_MR, NR = NCK_QGEMM_NR, KC = 512, MB = 512, NC = 2048, PACK_PANELS = 8, TILE_ROWS = 64 };
enum { PER_ELEMENT = 4 }; /* multiply-adds that count as an element of work */

typedef struct qgemm_run {
    const nck_qgemm_args *g;
    int16_t *a_pack, *b_pack;
    int64_t i0, rows, j0, cols, k0, kc;
    int64_t n_pack_a, n_row_tiles;
} qgemm_run;

static size_t qgemm_a_bytes(int64_t M, int64_t K) {
    return nc_align64((size_t)(nc_ceil_div(nc_min64(M, MB), MR) * MR * nc_min64(K, KC)) * sizeof(int16_t));
}
static size_t qgemm_b_bytes(int64_t N, int64_t K) {
    return nc_align64((size_t)(nc_ceil_div(nc_min64(N, NC), NR) * NR * nc_min64(K, KC)) * sizeof(int16_t));
}

size_t nck_qgemm_workspace(int64_t M, int64_t N, int64_t K) { return qgemm_a_bytes(M, K) + qgemm_b_bytes(N, K); }

static int int_at(nc_dtype t, const void *p, int64_t i) {
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

/* dst[k*width + l] = src[l*lane_stride + k*k_stride] - zero[l] */
static void pack(nc_dtype t, const void *src, int64_t lane_stride, int64_t k_stride, int64_t kc, int64_t lanes,
                 int width, const int16_t *zero, int16_t *dst) {
    if (lanes < width) memset(dst, 0, (size_t)(kc * width) * sizeof *dst);
    for (int64_t k = 0; k < kc; k++)
        for (int64_t l = 0; l < lanes; l++)
            dst[k * width + l] = (int16_t)(int_at(t, src, l * lane_stride + k * k_stride) - zero[l]);
}

/* Zero points of `lanes` rows or columns from `first` on. */
static void zeros(nc_dtype t, const void *zero, int64_t n, int64_t first, int64_t lanes, int16_t *out) {
    for (int64_t l = 0; l < lanes; l++) out[l] = zero ? (int16_t)int_at(t, zero, (first + l) % n) : 0;
}

static void qgemm_pack_a_item(const qgemm_run *r, int64_t item) {
    const nck_qgemm_args *g = r->g;
    int64_t end = nc_min64((item + 1) * PACK_PANELS, nc_ceil_div(r->rows, MR));
    for (int64_t p = item * PACK_PANELS; p < end; p++) {
        int64_t i = r->i0 + p * MR, lanes = nc_min64(MR, r->i0 + r->rows - i);
        int16_t zero[MR];
        zeros(g->a_type, g->a_zero, g->a_zeros, i, lanes, zero);
        pack(g->a_type, (const char *)g->a + i * g->a_rs + r->k0 * g->a_cs, g->a_rs, g->a_cs, r->kc, lanes, MR, zero,
             r->a_pack + p * r->kc * MR);
    }
}

static void qgemm_pack_b_item(const qgemm_run *r, int64_t item) {
    const nck_qgemm_args *g = r->g;
    int64_t end = nc_min64((item + 1) * PACK_PANELS, nc_ceil_div(r->cols, NR));
    for (int64_t p = item * PACK_PANELS; p < end; p++) {
        int64_t j = r->j0 + p * NR, lanes = nc_min64(NR, r->j0 + r->cols - j);
        int16_t *dst = r->b_pack + p * r->kc * NR, zero[NR];
        if (g->panel) {
            g->panel(g->panel_ctx, r->k0, r->kc, j, lanes, dst);
            continue;
        }
        zeros(g->b_type, g->b_zero, g->b_zeros, j, lanes, zero);
        pack(g->b_type, (const char *)g->b + r->k0 * g->b_rs + j * g->b_cs, g->b_cs, g->b_rs, r->kc, lanes, NR, zero,
             dst);
    }
}

static void qgemm_pack_item(void *ctx, int64_t item) {
    const qgemm_run *r = ctx;
    if (item < r->n_pack_a)
        qgemm_pack_a_item(r, item);
    else
        qgemm_pack_b_item(r, item - r->n_pack_a);
}

/* Unsigned sums wrap without harm. */
static void tile(int64_t kc, const int16_t *restrict a, const int16_t *restrict b, uint32_t *restrict acc) {
    uint32_t c0[NR] = {0}, c1[NR] = {0}, c2[NR] = {0}, c3[NR] = {0};
    for (int64_t k = 0; k < kc; k++, a += MR, b += NR)
        for (int j = 0; j < NR; j++) {
            int32_t v = b[j];
            c0[j] += (uint32_t)(a[0] * v);
            c1[j] += (uint32_t)(a[1] * v);
            c2[j] += (uint32_t)(a[2] * v);
            c3[j] += (uint32_t)(a[3] * v);
        }
    memcpy(acc, c0, sizeof c0);
    memcpy(acc + NR, c1, sizeof c1);
    memcpy(acc + 2 * NR, c2, sizeof c2);
    memcpy(acc + 3 * NR, c3, sizeof c3);
}

static void qgemm_store(const qgemm_run *r, const uint32_t *acc, int64_t i, int64_t rows, int64_t j, int64_t cols) {
    for (int64_t x = 0; x < rows; x++) {
        int32_t *c = r->g->c + (i + x) * r->g->c_rs + j;
        for (int64_t y = 0; y < cols; y++) {
            uint32_t before = r->k0 > 0 ? (uint32_t)c[y] : 0;
            c[y] = (int32_t)(before + acc[x * NR + y]);
        }
    }
}

static void qgemm_tile_item(void *ctx, int64_t item) {
    const qgemm_run *r = ctx;
    int64_t i0 = item % r->n_row_tiles * TILE_ROWS, i1 = nc_min64(i0 + TILE_ROWS, r->rows), p = item / r->n_row_tiles;
    int64_t j = p * NR, cols = nc_min64(NR, r->cols - j);
    uint32_t acc[MR * NR];
    for (int64_t i = i0; i < i1; i += MR) {
        tile(r->kc, r->a_pack + i / MR * r->kc * MR, r->b_pack + p * r->kc * NR, acc);
        qgemm_store(r, acc, r->i0 + i, nc_min64(MR, i1 - i), r->j0 + j, cols);
    }
}

static void qgemm_compute(qgemm_run *r, nc_pool *pool) {
    qgemm_run packing = *r;
    pool = nc_pool_for(pool, r->rows * r->cols * r->kc / PER_ELEMENT);
    packing.n_pack_a = nc_ceil_div(nc_ceil_div(r->rows, MR), PACK_PANELS);
    int64_t n_pack_b = r->i0 == 0 ? nc_ceil_div(nc_ceil_div(r->cols, NR), PACK_PANELS) : 0;
    nc_parallel(pool, packing.n_pack_a + n_pack_b, qgemm_pack_item, &packing);
    r->n_row_tiles = nc_ceil_div(r->rows, TILE_ROWS);
    nc_parallel(pool, r->n_row_tiles * nc_ceil_div(r->cols, NR), qgemm_tile_item, r);
}

void nck_qgemm(const nck_qgemm_args *g, void *workspace, nc_pool *pool) {
    qgemm_run r = {.g = g, .a_pack = workspace};
    r.b_pack = (int16_t *)((char *)workspace + qgemm_a_bytes(g->M, g->K));
    if (g->K == 0)
        for (int64_t i = 0; i < g->M && g->N > 0; i++) memset(g->c + i * g->c_rs, 0, (size_t)g->N * sizeof *g->c);
    for (r.j0 = 0; r.j0 < g->N; r.j0 += NC) {
        r.cols = nc_min64(NC, g->N - r.j0);
        for (r.k0 = 0; r.k0 < g->K; r.k0 += KC) {
            r.kc = nc_min64(KC, g->K - r.k0);
            for (r.i0 = 0; r.i0 < g->M; r.i0 += MB) {
                r.rows = nc_min64(MB, g->M - r.i0);
                qgemm_compute(&r, pool);
            }
        }
    }
}
