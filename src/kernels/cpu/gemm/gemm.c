/* kernels/cpu/gemm/gemm.c: blocking, packing and threads of the matrix product; see gemm.h for what it computes.
 *
 * Loops, outside in: NC columns, a span of K, MB rows. For each, panels of A (mr rows) and of B (nr columns) are packed
 * into the workspace by all threads, then tiles of C are computed, one item each. A span is one cut of K; when only A
 * needs packing and it has few rows the span is all of K, so a vector times a packed matrix is one parallel step.
 * With at most DIRECT_M rows a row-major B is read in place: packing it would cost more than the product.
 *
 * An example: M 1000, N 100, K 600 with tiles of 6 by 16. N is one step of 7 panels of B, the last with 4 live columns.
 * K has the cuts 256, 256 and 88. For the first cut 768 rows of A become 128 panels; 96 rows are a tile's rows, so that
 * 8 row tiles times the column tiles are the items. Then the other 232 rows, with the same panels of B. Each later cut
 * adds to C what the ones before left there; the last one adds the bias. */
#include "kernels/cpu/gemm/gemm.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/gemm_pack.h"
#include "kernels/cpu/isa.h"

enum {
    KC = NCK_GEMM_KC,
    MB = 768,            /* rows packed at once */
    NC = 3072,           /* columns packed at once */
    TILE_ROWS = 96,      /* rows of an item */
    TILE_PANELS = 16,    /* most column panels of an item; one row of them fits NCK_GEMM_MAX_TILE */
    TILE_WORK = 1 << 20, /* multiply-adds an item aims at */
    PACK_PANELS = 8,     /* panels of a packing item */
    SMALL_M = 64,
    DIRECT_M = 8
};

typedef struct gemm_run {
    const nck_gemm_args *g;
    const nck_gemm_unit *u;
    size_t es;
    char *a_pack, *b_pack;
    bool direct;        /* B is read in place but for its last, partial panel */
    int64_t i0, rows;   /* rows in a_pack */
    int64_t p0, panels; /* column panels at hand */
    int64_t k0, span;   /* terms at hand */
    int64_t n_pack_a;   /* packing items of A; those of B follow */
    int64_t tile_rows, tile_panels, n_row_tiles;
} gemm_run;

static const nck_gemm_unit *gemm_unit_for(nc_dtype type) {
    const nck_gemm_table *t = nck_isa_get()->gemm;
    return type == NC_FLOAT ? &t->f32 : &t->f64;
}

/* Columns per step: a multiple of nr, so that panels never straddle two steps. */
static int64_t step_panels(const nck_gemm_unit *u) { return nc_max64(1, NC / u->nr); }

static size_t gemm_a_bytes(const nck_gemm_unit *u, size_t es, int64_t M, int64_t K) {
    int64_t wide = nc_round_up(nc_min64(M, MB), u->mr) * nc_min64(K, KC);
    int64_t tall = nc_round_up(nc_min64(M, SMALL_M), u->mr) * K;
    return nc_align64((size_t)nc_max64(wide, tall) * es);
}

static size_t gemm_b_bytes(const nck_gemm_unit *u, size_t es, int64_t N, int64_t K) {
    int64_t panels = nc_min64(nc_ceil_div(N, u->nr), step_panels(u));
    return nc_align64((size_t)(nc_max64(panels * nc_min64(K, KC), nc_min64(panels, 1) * K) * u->nr) * es);
}

size_t nck_gemm_workspace(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed) {
    const nck_gemm_unit *u = gemm_unit_for(type);
    size_t es = nc_dtype_bytes(type);
    return gemm_a_bytes(u, es, M, K) + (b_packed ? 0 : gemm_b_bytes(u, es, N, K));
}

size_t nck_gemm_packed_b_bytes(nc_dtype type, int64_t K, int64_t N) {
    const nck_gemm_unit *u = gemm_unit_for(type);
    return nc_align64((size_t)(nc_round_up(N, u->nr) * K) * nc_dtype_bytes(type));
}

/* Packed B: cuts of K in order; inside a cut its panels in order; so cut k0 starts at k0 * nc_round_up(N, nr). */
void nck_gemm_pack_b(nc_dtype type, int64_t K, int64_t N, const void *b, int64_t rs, int64_t cs, void *dst) {
    const nck_gemm_unit *u = gemm_unit_for(type);
    int64_t es = (int64_t)nc_dtype_bytes(type);
    char *d = dst;
    for (int64_t k = 0; k < K; k += KC) {
        int64_t kc = nc_min64(KC, K - k);
        for (int64_t j = 0; j < N; j += u->nr) {
            nck_gemm_pack_panel((size_t)es, kc, nc_min64(u->nr, N - j), u->nr, (const char *)b + (k * rs + j * cs) * es,
                                cs, rs, d);
            d += kc * u->nr * es;
        }
    }
}

static char *gemm_a_panel(const gemm_run *r, int64_t k, int64_t kc, int64_t panel) {
    int64_t at = (k - r->k0) * nc_round_up(r->rows, r->u->mr) + panel * kc * r->u->mr;
    return r->a_pack + at * (int64_t)r->es;
}

static void gemm_pack_a_item(const gemm_run *r, int64_t item) {
    const nck_gemm_args *g = r->g;
    int mr = r->u->mr;
    int64_t es = (int64_t)r->es, end = nc_min64((item + 1) * PACK_PANELS, nc_ceil_div(r->rows, mr));
    for (int64_t k = r->k0; k < r->k0 + r->span; k += KC) {
        int64_t kc = nc_min64(KC, r->k0 + r->span - k);
        for (int64_t p = item * PACK_PANELS; p < end; p++) {
            int64_t i = r->i0 + p * mr;
            nck_gemm_pack_panel(r->es, kc, nc_min64(mr, r->i0 + r->rows - i), mr,
                                (const char *)g->a + (i * g->a_rs + k * g->a_cs) * es, g->a_rs, g->a_cs,
                                gemm_a_panel(r, k, kc, p));
        }
    }
}

static void gemm_pack_b_item(const gemm_run *r, int64_t item) {
    const nck_gemm_args *g = r->g;
    int nr = r->u->nr;
    int64_t es = (int64_t)r->es, end = nc_min64((item + 1) * PACK_PANELS, r->panels);
    for (int64_t p = item * PACK_PANELS; p < end; p++) {
        int64_t j = (r->p0 + p) * nr;
        nck_gemm_pack_panel(r->es, r->span, nc_min64(nr, g->N - j), nr,
                            (const char *)g->b + (r->k0 * g->b_rs + j * g->b_cs) * es, g->b_cs, g->b_rs,
                            r->b_pack + p * r->span * nr * es);
    }
}

static void gemm_pack_item(void *ctx, int64_t item) {
    const gemm_run *r = ctx;
    if (item < r->n_pack_a)
        gemm_pack_a_item(r, item);
    else
        gemm_pack_b_item(r, item - r->n_pack_a);
}

static const char *gemm_b_panel(const gemm_run *r, int64_t k, int64_t kc, int64_t p, int64_t *ldb) {
    const nck_gemm_args *g = r->g;
    int64_t nr = r->u->nr, es = (int64_t)r->es;
    *ldb = nr;
    if (g->b_packed) return (const char *)g->b_packed + (k * nc_round_up(g->N, nr) + p * kc * nr) * es;
    if (!r->direct) return r->b_pack + ((p - r->p0) * r->span + (k - r->k0)) * nr * es;
    if ((p + 1) * nr > g->N) return r->b_pack + (k - r->k0) * nr * es;
    *ldb = g->b_rs;
    return (const char *)g->b + (k * g->b_rs + p * nr) * es;
}

static void gemm_store(const gemm_run *r, const void *acc, int64_t i, int64_t rows, int64_t p, bool first, bool last) {
    const nck_gemm_args *g = r->g;
    int64_t es = (int64_t)r->es, j = p * r->u->nr;
    nck_gemm_out o = {.acc = acc,
                      .rows = rows,
                      .cols = nc_min64(r->u->nr, g->N - j),
                      .c = (char *)g->c + (i * g->c_rs + j * g->c_cs) * es,
                      .c_rs = g->c_rs,
                      .c_cs = g->c_cs,
                      .bias_rs = g->bias_rs,
                      .bias_cs = g->bias_cs,
                      .alpha = g->alpha,
                      .beta = g->beta,
                      .first = first,
                      .last = last};
    if (g->bias) o.bias = (const char *)g->bias + (i * g->bias_rs + j * g->bias_cs) * es;
    r->u->store(&o);
}

/* One row over a B read in place: all whole panels of the item at once. Returns the first panel left to do. */
static int64_t gemm_band_item(const gemm_run *r, int64_t p0, int64_t p1, double *acc) {
    const nck_gemm_args *g = r->g;
    int64_t nr = r->u->nr, es = (int64_t)r->es, whole = nc_min64(p1, g->N / nr), ldb;
    for (int64_t k = 0; k < g->K && p0 < whole; k += KC) {
        int64_t kc = nc_min64(KC, g->K - k);
        r->u->band(kc, gemm_a_panel(r, k, kc, 0), gemm_b_panel(r, k, kc, p0, &ldb), g->b_rs, (whole - p0) * nr, acc);
        for (int64_t p = p0; p < whole; p++)
            gemm_store(r, (const char *)acc + (p - p0) * nr * es, 0, 1, p, k == 0, k + kc == g->K);
    }
    return nc_max64(p0, whole);
}

static void gemm_tile_item(void *ctx, int64_t item) {
    const gemm_run *r = ctx;
    int mr = r->u->mr;
    int64_t i0 = item % r->n_row_tiles * r->tile_rows, i1 = nc_min64(i0 + r->tile_rows, r->rows);
    int64_t p0 = r->p0 + item / r->n_row_tiles * r->tile_panels, p1 = nc_min64(p0 + r->tile_panels, r->p0 + r->panels);
    _Alignas(64) double acc[NCK_GEMM_MAX_TILE];
    if (r->direct && r->g->M == 1) p0 = gemm_band_item(r, p0, p1, acc);
    for (int64_t k = r->k0; k < r->k0 + r->span; k += KC) {
        int64_t kc = nc_min64(KC, r->k0 + r->span - k), ldb;
        for (int64_t p = p0; p < p1; p++) {
            const char *b = gemm_b_panel(r, k, kc, p, &ldb);
            for (int64_t i = i0; i < i1; i += mr) {
                int64_t rows = nc_min64(mr, i1 - i);
                r->u->micro[rows](kc, gemm_a_panel(r, k, kc, i / mr), b, ldb, acc);
                gemm_store(r, acc, r->i0 + i, rows, p, k == 0, k + kc == r->g->K);
            }
        }
    }
}

static void gemm_compute(gemm_run *r, bool pack_b, nc_pool *pool) {
    const nck_gemm_unit *u = r->u;
    int64_t row_panels = nc_ceil_div(r->rows, u->mr), b_panels = pack_b ? r->panels : 0;
    gemm_run packing = *r;
    if (r->direct) {
        b_panels = r->g->N % u->nr ? 1 : 0;
        packing.p0 = r->p0 + r->panels - b_panels;
        packing.panels = b_panels;
    }
    packing.n_pack_a = nc_ceil_div(row_panels, PACK_PANELS);
    nc_parallel(pool, packing.n_pack_a + nc_ceil_div(b_panels, PACK_PANELS), gemm_pack_item, &packing);

    r->tile_rows = nc_min64(TILE_ROWS / u->mr * u->mr, row_panels * u->mr);
    r->tile_panels = nc_max64(1, nc_min64(TILE_PANELS, TILE_WORK / (r->tile_rows * r->span * u->nr)));
    r->n_row_tiles = nc_ceil_div(r->rows, r->tile_rows);
    nc_parallel(pool, r->n_row_tiles * nc_ceil_div(r->panels, r->tile_panels), gemm_tile_item, r);
}

/* K == 0. alpha is put aside: infinite, it would make a NaN of the empty sum. */
static void gemm_scale_only(const nck_gemm_args *g, const nck_gemm_unit *u) {
    nck_gemm_args scaled = *g;
    scaled.alpha = 0;
    gemm_run at = {.g = &scaled, .u = u, .es = nc_dtype_bytes(g->type)}, *r = &at;
    double zero[NCK_GEMM_MAX_TILE] = {0};
    for (int64_t i = 0; i < r->g->M; i++)
        for (int64_t p = 0; p * r->u->nr < r->g->N; p++) gemm_store(r, zero, i, 1, p, true, true);
}

void nck_gemm(const nck_gemm_args *g, void *workspace, nc_pool *pool) {
    const nck_gemm_unit *u = gemm_unit_for(g->type);
    gemm_run r = {.g = g, .u = u, .es = nc_dtype_bytes(g->type), .a_pack = workspace};
    if (g->M <= 0 || g->N <= 0) return;
    if (g->K <= 0) {
        gemm_scale_only(g, u);
        return;
    }
    r.b_pack = r.a_pack + gemm_a_bytes(u, r.es, g->M, g->K);
    int64_t all_panels = nc_ceil_div(g->N, u->nr);
    r.direct = !g->b_packed && g->M <= DIRECT_M && g->b_cs == 1 && (uintptr_t)g->b % r.es == 0;
    bool whole_k = r.direct || (g->b_packed && g->M <= SMALL_M);
    int64_t panels = g->b_packed || r.direct ? all_panels : step_panels(u);
    int64_t span = whole_k ? g->K : KC;
    for (r.p0 = 0; r.p0 < all_panels; r.p0 += panels) {
        r.panels = nc_min64(panels, all_panels - r.p0);
        for (r.k0 = 0; r.k0 < g->K; r.k0 += span) {
            r.span = nc_min64(span, g->K - r.k0);
            for (r.i0 = 0; r.i0 < g->M; r.i0 += MB) {
                r.rows = nc_min64(MB, g->M - r.i0);
                gemm_compute(&r, !g->b_packed && !r.direct && r.i0 == 0, pool);
            }
        }
    }
}
