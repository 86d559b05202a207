/* kernels/cpu/gemm/gemm.c: blocking, packing and threads of the matrix product; see gemm.h for what it computes.
 *
 * A block is as many columns, terms and rows as the workspace holds in packed form; nearly always it is the whole
 * product. For each block panels of A (up to mr rows) and of B (nr columns) are packed, then tiles of C are computed,
 * one item each, with the cuts of K inside of the item. What only one tile needs it packs itself, close to its use:
 * rows of A where a tile has all the columns, and each panel of B, a cut at a time, where it has all the rows. With at
 * most DIRECT_M rows a row-major B is read in place, and with at most DIRECT_PANELS panels of columns a row-major A:
 * packing it would cost more than it brings; two or three rows go through several panels of a packed B at once
 * (gemm_lines.inc). A product of few columns is turned, so that they are rows. One of few multiply-adds skips all of
 * this (gemm_small.inc).
 *
 * Rows are spread evenly: 128 rows are 8 panels of 13 and 2 of 12, not 9 of 14 and a poor one of 2.
 *
 * An example: M 1000, N 100, K 600 with tiles of 6 by 16. B has 7 panels, the last with 4 live columns, A 167 panels,
 * all but two of 6 rows. K has two cuts of 300. A tile has 9 or 10 panels of A, and goes through all panels of B with
 * the first cut, then with the second, which adds to what the first left in C, and adds the bias. */
#include "kernels/cpu/gemm/gemm.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm_panels.h"
#include "kernels/cpu/isa_narrow.h"

#include <limits.h>

enum {
    KC = NCK_GEMM_KC,
    SPAN_CUTS = 32,    /* most cuts of K packed at once */
    LEAST_CUTS = 4,    /* so many at least, where fewer let a block have more of the rows or columns */
    A_BLOCK = 1 << 20, /* most elements of A and B packed at once; */
    B_BLOCK = 9 << 18, /* 1,024 columns and the rest of a panel fit with 2,048 terms */
    TILE_ROW_PANELS = 10,
    TILE_PANELS = 16,    /* most column panels of an item; one row of them fits NCK_GEMM_MAX_TILE */
    WHOLE_PANELS = 48,   /* but so many, where they are all of the columns: each item then packs its own rows of A */
    TILE_WORK = 1 << 18, /* multiply-adds of the smallest item worth a thread */
    LINE_WORK = 1 << 14, /* and for each of few rows, which have as many weights to read */
    ITEMS = 4,           /* for each thread */
    PACK_PANELS = 8,     /* panels of a packing item, or fewer; half as many at least where they may share lines */
    GROUP = 4,           /* panels of B that a tile packs together */
    LANES = 16,          /* most threads where tiles pack B */
    FEW = 4,             /* a product with so many times fewer columns than a panel has is turned, where it has */
    TURN_TERMS = 128,    /* so many terms, or one column: results go to places that lie apart */
    LINE = 64,           /* bytes of the cache */
    DIRECT_M = 8,
    DIRECT_PANELS = 6,
    FAR = 1 << 21,             /* bytes of a C, or of one row's B, that is not in the cache when it is needed */
    SMALL_WORK = 4096,         /* multiply-adds of a product that is neither packed nor blocked */
    ALONE_WORK = 4 * NC_ALONE, /* and of one that wakes no thread */
    ALONE_LINE = 2 * NC_ALONE  /* the same of one row */
};

typedef struct gemm_run {
    const nck_gemm_args *g;
    nck_gemm_form f;
    const nck_gemm_unit *u; /* of f */
    char *a_pack, *b_pack;
    bool direct;   /* B is read in place but for its last, partial panel */
    bool direct_a; /* A is read in place */
    bool lines;    /* by the kernel for two or three rows */
    bool tile_packs_a, tile_packs_b;
    int64_t i0, rows;     /* rows in a_pack */
    int64_t row_panels;   /* their panels */
    int64_t p0, panels;   /* column panels at hand */
    int64_t cut0, n_cuts; /* cuts of K at hand */
    int64_t k0, span;     /* their terms, in whole groups */
    int64_t pack_panels;  /* of a packing item */
    int64_t n_pack_a;     /* packing items of A; those of B follow */
    int64_t n_row_tiles, n_column_tiles;
    int lanes; /* most threads where tiles pack B */
} gemm_run;

/* The terms of K as panels have them: whole groups. */
static int64_t gemm_terms(const nck_gemm_unit *u, int64_t K) { return nc_round_up(K, u->group); }

static int64_t gemm_span(const nck_gemm_unit *u, int64_t K) {
    return nc_min64(gemm_terms(u, K), (int64_t)SPAN_CUTS * KC);
}

static size_t gemm_a_bytes(const nck_gemm_form *f, int64_t M, int64_t K) {
    return nc_align64((size_t)(nc_min64(M * gemm_span(f->u, K), A_BLOCK) * f->held) + NCK_GEMM_OVERREAD);
}

/* One tile has all the rows: it packs B for itself. */
static bool gemm_is_low(const nck_gemm_unit *u, int64_t M, int64_t K) {
    return M <= (int64_t)u->mr * TILE_ROW_PANELS && M * gemm_span(u, K) <= A_BLOCK;
}

/* Elements of one lane's own panels of B. */
static int64_t gemm_lane_room(const nck_gemm_unit *u, int64_t N, int64_t K) {
    return nc_min64(nc_ceil_div(N, u->nr), GROUP) * u->nr * nc_min64(gemm_terms(u, K), KC);
}

static size_t gemm_b_bytes(const nck_gemm_form *f, int64_t M, int64_t N, int64_t K, int lanes) {
    const nck_gemm_unit *u = f->u;
    int64_t low = nc_min64(nc_max64(1, nc_ceil_div(N, u->nr) / GROUP), lanes) * gemm_lane_room(u, N, K);
    int64_t all = nc_min64(nc_round_up(N, u->nr) * gemm_span(u, K), B_BLOCK);
    return nc_align64((size_t)((gemm_is_low(u, M, K) ? low : nc_max64(all, low)) * f->held));
}

static size_t gemm_workspace(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed, int lanes) {
    const nck_gemm_form f = nck_gemm_form_of(type);
    return gemm_a_bytes(&f, M, K) + (b_packed ? 0 : gemm_b_bytes(&f, M, N, K, lanes));
}

size_t nck_gemm_workspace(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed) {
    return gemm_workspace(type, M, N, K, b_packed, LANES);
}

size_t nck_gemm_workspace_serial(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed) {
    return gemm_workspace(type, M, N, K, b_packed, 1);
}

/* Cut c of all cuts of K begins here, with a group: a function of K alone, because the bits depend on it. */
static int64_t gemm_cut_at(const gemm_run *r, int64_t c) {
    int64_t K = r->g->K, group = r->u->group;
    return nc_min64(K, nc_ceil_div(K, group) * c / nc_ceil_div(K, KC) * group);
}

static int64_t gemm_row_at(const gemm_run *r, int64_t panel) { return r->rows * panel / r->row_panels; }

static void gemm_pack_a(const gemm_run *r, int64_t panel, int64_t end) {
    const nck_gemm_args *g = r->g;
    int64_t bytes = (gemm_row_at(r, end) - gemm_row_at(r, panel)) * r->span * r->f.held;
    int64_t terms = nc_min64(r->span, g->K - r->k0);
    int64_t step = g->a_rs == 1 && bytes > NCK_GEMM_NEAR ? nck_gemm_pack_terms(&r->f) : terms;
    for (int64_t t = 0; t < terms; t += step)
        for (int64_t p = panel; p < end; p++) {
            int64_t i = gemm_row_at(r, p), rows = gemm_row_at(r, p + 1) - i;
            nck_gemm_pack_a(&r->f, nc_min64(step, terms - t), rows,
                            (const char *)g->a + ((r->i0 + i) * g->a_rs + (r->k0 + t) * g->a_cs) * r->f.in, g->a_rs,
                            g->a_cs, r->a_pack + (i * r->span + t * rows) * r->f.held);
        }
}

static void gemm_pack_item(void *ctx, int64_t item) {
    const gemm_run *r = ctx;
    int64_t n = r->pack_panels;
    if (item < r->n_pack_a) {
        gemm_pack_a(r, item * n, nc_min64((item + 1) * n, r->row_panels));
        return;
    }
    int64_t p = (item - r->n_pack_a) * n;
    nck_gemm_pack_panels(&r->f, r->g, r->k0, nc_min64(r->span, r->g->K - r->k0), r->p0 + p, nc_min64(n, r->panels - p),
                         r->b_pack + p * r->span * r->u->nr * r->f.held);
}

/* Rows of a panel of packed B. */
static int64_t gemm_packed_k(const gemm_run *r) {
    return gemm_terms(r->u, r->g->b_packed_k > 0 ? r->g->b_packed_k : r->g->K);
}

/* Where the terms from k on of panel p are, of a B that was packed before or for the block at hand. */
static const char *gemm_panel_at(const gemm_run *r, int64_t p, int64_t k) {
    int64_t bytes = r->u->nr * r->f.held; /* of a term */
    if (r->g->b_packed) return (const char *)r->g->b_packed + (p * gemm_packed_k(r) + k) * bytes;
    return r->b_pack + ((p - r->p0) * r->span + (k - r->k0)) * bytes;
}

static bool gemm_in_place(const gemm_run *r, int64_t p) { return r->direct && (p + 1) * r->u->nr <= r->g->N; }

/* Of a B that is read in place one panel at most is packed, by one tile. */
static char *gemm_own_panels(const gemm_run *r) {
    int64_t lane = r->direct ? 0 : nc_parallel_lane();
    return r->b_pack + lane * gemm_lane_room(r->u, r->g->N, r->g->K) * r->f.held;
}

/* Where the cut [k, k + kc) of panel p is, which stands in the group that begins with panel p0. */
static const char *gemm_b_panel(const gemm_run *r, int64_t k, int64_t kc, int64_t p, int64_t p0, int64_t *ldb) {
    const nck_gemm_args *g = r->g;
    int64_t nr = r->u->nr;
    bool in_place = gemm_in_place(r, p);
    *ldb = in_place ? g->b_rs : nr;
    if (in_place) return (const char *)g->b + (k * g->b_rs + p * nr) * r->f.in;
    if (r->tile_packs_b) return gemm_own_panels(r) + (p - p0) * gemm_terms(r->u, kc) * nr * r->f.held;
    return gemm_panel_at(r, p, k);
}

/* The sums of `rows` rows and one panel of columns, or of one row and some panels. */
static void gemm_store(const gemm_run *r, const void *acc, int64_t i, int64_t rows, int64_t p, int64_t panels,
                       bool first, bool last) {
    const nck_gemm_args *g = r->g;
    int64_t es = r->f.out, j = p * r->u->nr;
    nck_gemm_out o = {.acc = acc,
                      .rows = rows,
                      .cols = nc_min64(panels * r->u->nr, g->N - j),
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
    r->f.store(&o);
}

/* One row over a B that is packed, or read in place as far as its panels are whole. Packed panels that lie far away go
 * one by one, each with all cuts, so that memory is read from front to back: 268 MB of weights in 0.83 of the time on a
 * Neoverse-N1, 0.72 with AVX-512. Returns the first panel left to do. */
static int64_t gemm_row_item(const gemm_run *r, int64_t p0, int64_t p1, double *acc) {
    const nck_gemm_args *g = r->g;
    int64_t nr = r->u->nr, es = r->f.held, whole = g->b_packed ? p1 : nc_min64(p1, g->N / nr), ldb;
    int64_t step = g->b_packed && g->N * g->K * es > FAR ? 1 : INT64_MAX, n;
    for (int64_t p = p0; p < whole; p += n) {
        n = nc_min64(step, whole - p);
        for (int64_t c = r->cut0; c < r->cut0 + r->n_cuts; c++) {
            int64_t k = gemm_cut_at(r, c), end = gemm_cut_at(r, c + 1);
            const char *a = r->a_pack + (k - r->k0) * es, *b = gemm_b_panel(r, k, end - k, p, p, &ldb);
            if (g->b_packed)
                r->u->line(end - k, a, b, gemm_packed_k(r) * nr, n, acc);
            else
                r->u->band(end - k, a, b, g->b_rs, n * nr, acc);
            gemm_store(r, acc, 0, 1, p, n, k == 0, end == g->K);
        }
    }
    return nc_max64(p0, whole);
}

/* Two or three rows, read in place, over a packed B that is near, as one row: bits are those of the micro-kernels. */
static void gemm_lines_item(const gemm_run *r, int64_t p0, int64_t p1, void *acc) {
    const nck_gemm_args *g = r->g;
    int64_t nr = r->u->nr, es = r->f.held, n;
    for (int64_t p = p0; p < p1; p += n) {
        n = nc_min64(NCK_GEMM_SIDE, p1 - p);
        for (int64_t c = r->cut0; c < r->cut0 + r->n_cuts; c++) {
            int64_t k = gemm_cut_at(r, c), end = gemm_cut_at(r, c + 1);
            r->u->lines[g->M - 2](end - k, (const char *)g->a + k * es, g->a_rs, gemm_panel_at(r, p, k),
                                  gemm_packed_k(r) * nr, n, acc, n * nr);
            for (int64_t i = 0; i < g->M; i++)
                gemm_store(r, (const char *)acc + i * n * nr * es, i, 1, p, n, k == 0, end == g->K);
        }
    }
}

static bool gemm_takes_lines(const nck_gemm_args *g, const nck_gemm_form *f) {
    return nck_gemm_form_is_plain(f) && g->b_packed && (g->M == 2 || g->M == 3) && f->u->lines[g->M - 2] != NULL &&
           g->a_cs == 1 && (uintptr_t)g->a % (uintptr_t)f->in == 0 && g->N * g->K * f->in <= FAR;
}

/* The panels of rows of a tile: where each begins, and where the last ends. */
typedef struct gemm_tile_rows {
    int64_t n, at[TILE_ROW_PANELS + 1];
} gemm_tile_rows;

/* Where a tile's sums go, and what they are added to. */
typedef struct gemm_target {
    void *c;
    const void *old; /* NULL: nothing */
    int64_t ldc, ld_old;
    int vectors; /* of columns that are wanted; 0: the whole panel */
} gemm_target;

/* The rows [i, i + rows) of the block at hand, terms from k on, times a panel of columns. */
static void gemm_micro(const gemm_run *r, int64_t i, int64_t rows, int64_t k, int64_t kc, const char *b, int64_t ldb,
                       const gemm_target *to, const char *next, int64_t apart) {
    const nck_gemm_args *g = r->g;
    int64_t es = r->f.held;
    if (r->direct_a) {
        r->u->direct[rows](kc, (const char *)g->a + ((r->i0 + i) * g->a_rs + k) * es, g->a_rs, b, ldb, to->c, to->ldc,
                           to->old, to->ld_old, next);
        return;
    }
    const char *a = r->a_pack + (i * r->span + (k - r->k0) * rows) * es;
    if (r->u->tiles) {
        r->u->tiles(rows, kc, a, b, to->c, to->ldc, to->old, to->ld_old, next, apart);
        return;
    }
    nck_gemm_micro *micro = to->vectors > 0 && rows == r->u->mr ? r->u->narrow[to->vectors - 1] : r->u->micro[rows];
    micro(kc, a, b, ldb, to->c, to->ldc, to->old, to->ld_old, next, apart);
}

/* How many vectors of columns of panel p are wanted, if there is a kernel for so few. */
static int gemm_vectors(const gemm_run *r, int64_t p) {
    if (r->direct_a) return 0;
    int64_t lanes = r->u->lanes, n = nc_ceil_div(nc_min64(r->u->nr, r->g->N - p * r->u->nr), lanes);
    return n <= 2 && n * lanes < r->u->nr && r->u->narrow[n - 1] ? (int)n : 0;
}

/* Can the micro-kernels put the sums of a cut where they belong? On top of C or of a bias, not of both. */
static bool gemm_puts(const nck_gemm_args *g, int64_t es, bool first, bool last) {
    bool adds = !first || g->beta != 0, biased = last && g->bias;
    if (g->alpha != 1 || g->c_cs != 1 || (first && adds && g->beta != 1) || (adds && biased)) return false;
    if (biased && (g->bias_cs != 1 || (uintptr_t)g->bias % (uintptr_t)es != 0)) return false;
    return (uintptr_t)g->c % (uintptr_t)es == 0;
}

/* Asks for the lines that a tile is put on, and for those of a bias, before the sums: both lie far away. Rows reach
 * from their first byte to `last`. */
static void gemm_ask(const gemm_target *to, int64_t rows, int64_t es, int64_t last) {
    const char *c = to->c, *old = to->old;
    for (int64_t i = 0; i < rows; i++, c += to->ldc * es) __builtin_prefetch(c, 1), __builtin_prefetch(c + last, 1);
    if (old == to->c || to->ld_old == 0) return;
    for (int64_t i = 0; i < rows; i++, old += to->ld_old * es) __builtin_prefetch(old), __builtin_prefetch(old + last);
}

/* The same for what comes after the sums: its operands wait in the second cache until the tile is complete. */
static void gemm_ask_after(const nck_gemm_args *g, int64_t i, int64_t rows, int64_t j, int64_t cols) {
    for (int k = 1; k < g->after->prog->n_in; k++) {
        const nck_gemm_operand *o = &g->after->in[k];
        const float *x = o->data + i * o->rs + j;
        for (int64_t n = o->rs != 0 && o->cs != 0 ? rows : 0; n > 0; n--, x += o->rs)
            __builtin_prefetch(x, 0, 2), __builtin_prefetch(x + cols - 1, 0, 2);
    }
}

/* Cut [k, k + kc) of the panels of rows times the panel of columns p, whose elements are b. Meanwhile the elements that
 * come after it are asked for, a share with each panel of rows. */
static void gemm_column(const gemm_run *r, int64_t k, int64_t kc, int64_t p, const char *b, int64_t ldb,
                        const char *next, int64_t bytes_next, const gemm_tile_rows *t, void *acc) {
    const nck_gemm_args *g = r->g;
    int64_t nr = r->u->nr, es = r->f.out, share = nc_ceil_div(bytes_next, t->n), cols = g->N - p * nr;
    int64_t apart = nc_round_up(share / nc_max64(1, kc / 2), LINE);
    bool first = k == 0, last = k + kc == g->K, puts = gemm_puts(g, es, first, last);
    bool far = puts && g->M * g->N * es > FAR;
    int vectors = gemm_vectors(r, p);
    for (int64_t q = 0; q < t->n; q++) {
        int64_t i = t->at[q], rows = t->at[q + 1] - i;
        int64_t whole = vectors > 0 && rows == r->u->mr ? vectors * r->u->lanes : nr;
        gemm_target to = {.c = acc, .ldc = nr, .vectors = vectors};
        if (puts && whole <= cols) {
            to.c = (char *)g->c + ((r->i0 + i) * g->c_rs + p * nr) * es, to.ldc = g->c_rs;
            if (!first || g->beta != 0) to.old = to.c, to.ld_old = to.ldc;
            if (last && g->bias)
                to.old = (const char *)g->bias + ((r->i0 + i) * g->bias_rs + p * nr) * es, to.ld_old = g->bias_rs;
            if (far) gemm_ask(&to, rows, es, whole * es - 1);
            if (far && last && g->after) gemm_ask_after(g, r->i0 + i, rows, p * nr, whole);
        }
        gemm_micro(r, i, rows, k, kc, b, ldb, &to, next + q * share, apart);
        if (to.c == acc) gemm_store(r, acc, r->i0 + i, rows, p, 1, first, last);
    }
}

/* What comes after the sums of `rows` rows and `cols` columns from (i, j) on; one run where they lie side by side and
 * no operand begins anew with each row. */
static void gemm_after(const nck_gemm_args *g, int64_t i, int64_t rows, int64_t j, int64_t cols) {
    const nck_gemm_after *f = g->after;
    nck_tile_run_in in[NCK_GEMM_AFTER_IN];
    bool whole = cols == g->N && g->c_rs == g->N;
    for (int k = 1; k < f->prog->n_in; k++) whole &= f->in[k].rs == g->N || (f->in[k].rs == 0 && f->in[k].cs == 0);
    int64_t step = whole ? rows : 1;
    for (int64_t end = i + rows; i < end; i += step) {
        float *c = (float *)g->c + i * g->c_rs + j;
        in[0] = (nck_tile_run_in){.data = c};
        for (int k = 1; k < f->prog->n_in; k++)
            in[k] = (nck_tile_run_in){.data = f->in[k].data + i * f->in[k].rs + j * f->in[k].cs,
                                      .period = f->in[k].cs == 0 ? 1 : 0};
        nck_tile_run_flat(f->prog, in, c, step * cols);
    }
}

/* What a tile of the panels [p0, p1) reads after the cut [k, k + kc) of panel p of packed B: the same cut of the next
 * panel, after the last one the next cut of the first; after the last cut the next tile's first panel. Where there is
 * none what is near anyway: asking for pages that do not exist is slow. */
static const char *gemm_next_panel(const gemm_run *r, int64_t p, int64_t p0, int64_t p1, int64_t k, int64_t kc) {
    if (p + 1 < p1) return gemm_panel_at(r, p + 1, k);
    if (k + kc < r->k0 + r->span) return gemm_panel_at(r, p0, k + kc);
    return p1 < r->p0 + r->panels ? gemm_panel_at(r, p1, r->k0) : r->a_pack;
}

/* Where tiles go through rows of A as they lie, packed or not: those of the next tile, asked for at the end. */
static const char *gemm_next_rows(const gemm_run *r, const gemm_tile_rows *t) {
    return (const char *)r->g->a + (r->i0 + t->at[t->n]) * r->g->a_rs * r->f.in;
}

static void gemm_tile_item(void *ctx, int64_t item) {
    const gemm_run *r = ctx;
    int64_t row_tile = item % r->n_row_tiles, column_tile = item / r->n_row_tiles;
    int64_t q0 = r->row_panels * row_tile / r->n_row_tiles, q1 = r->row_panels * (row_tile + 1) / r->n_row_tiles;
    int64_t p0 = r->p0 + r->panels * column_tile / r->n_column_tiles;
    int64_t p1 = r->p0 + r->panels * (column_tile + 1) / r->n_column_tiles;
    _Alignas(64) double acc[NCK_GEMM_MAX_TILE];
    gemm_tile_rows t = {.n = q1 - q0};
    int64_t first = p0;
    bool asks = !r->tile_packs_b && (row_tile == 0 || !r->u->asks_once);
    for (int64_t q = q0; q <= q1; q++) t.at[q - q0] = gemm_row_at(r, q);
    if (r->tile_packs_a && !r->direct_a) gemm_pack_a(r, q0, q1);
    if (r->lines) gemm_lines_item(r, p0, p1, acc), p0 = p1;
    if (r->u->tiles) r->u->tiles_open(nc_ceil_div(r->rows, r->row_panels));
    if ((r->direct || r->g->b_packed) && r->g->M == 1 && r->u->line) p0 = gemm_row_item(r, p0, p1, acc);
    for (int64_t c = r->cut0; c < r->cut0 + r->n_cuts; c++) {
        int64_t k = gemm_cut_at(r, c), kc = gemm_cut_at(r, c + 1) - k, ldb;
        for (int64_t p = p0; p < p1; p++) {
            int64_t group = r->direct ? p : p0 + (p - p0) / GROUP * GROUP;
            if (r->tile_packs_b && p == group && !gemm_in_place(r, p))
                nck_gemm_pack_panels(&r->f, r->g, k, kc, p, r->direct ? 1 : nc_min64(GROUP, p1 - p),
                                     gemm_own_panels(r));
            const char *b = gemm_b_panel(r, k, kc, p, group, &ldb);
            const char *next = asks ? gemm_next_panel(r, p, p0, p1, k, kc) : r->a_pack;
            bool rows_next = r->tile_packs_a && r->g->a_cs == 1 && p + 1 == p1 && c + 1 == r->cut0 + r->n_cuts &&
                             r->i0 + t.at[t.n] < r->g->M;
            if (rows_next) next = gemm_next_rows(r, &t);
            int64_t bytes_b = asks ? kc * r->u->nr * r->f.held : 0;
            int64_t bytes = rows_next ? (t.at[t.n] - t.at[0]) * r->g->a_rs * r->f.in : bytes_b;
            gemm_column(r, k, kc, p, b, ldb, next, bytes, &t, acc);
        }
    }
    if (r->u->tiles) r->u->tiles_close();
    if (r->g->after == NULL || r->k0 + r->span < r->g->K) return;
    int64_t i = t.at[0], j = first * r->u->nr;
    gemm_after(r->g, r->i0 + i, t.at[t.n] - i, j, nc_min64(p1 * r->u->nr, r->g->N) - j);
}

/* How many tiles there are: about ITEMS for each thread, no smaller than TILE_WORK, first by columns, then by rows. No
 * bit depends on it. */
static void gemm_choose_tiles(gemm_run *r, int threads) {
    const nck_gemm_unit *u = r->u;
    int64_t wanted = threads > 1 ? (int64_t)ITEMS * threads : 1, work = r->rows * r->span * r->panels * u->nr;
    wanted = nc_min64(wanted, nc_max64(1, work / nc_min64(TILE_WORK, LINE_WORK * r->g->M)));
    r->row_panels = nc_ceil_div(r->rows, u->mr);
    r->n_row_tiles = nc_ceil_div(r->row_panels, TILE_ROW_PANELS);
    int64_t least = r->tile_packs_b && !r->direct ? nc_min64(GROUP, r->panels) : 1;
    int64_t most_tiles = r->panels / least, columns = nc_ceil_div(wanted, r->n_row_tiles);
    bool whole = r->g->M > 1 && r->panels <= WHOLE_PANELS;
    r->n_column_tiles = nc_max64(whole ? 1 : nc_ceil_div(r->panels, TILE_PANELS), nc_min64(columns, most_tiles));
    if (!r->tile_packs_b && r->n_row_tiles * r->n_column_tiles < wanted)
        r->n_row_tiles = nc_min64(nc_ceil_div(wanted, r->n_column_tiles), nc_ceil_div(r->row_panels, 2));
}

/* Can the micro-kernels read rows of A where they lie? Rows whole halves of a page apart push each other out of the
 * first cache; one row goes another way. */
static bool gemm_rows_fit(const gemm_run *r) {
    const nck_gemm_args *g = r->g;
    int64_t least = r->rows / r->row_panels, most = nc_ceil_div(r->rows, r->row_panels);
    bool crowded = g->a_rs * r->f.in % 2048 == 0;
    return nck_gemm_form_is_plain(&r->f) && g->M > 1 && g->a_cs == 1 && !crowded &&
           (uintptr_t)g->a % (uintptr_t)r->f.in == 0 && r->u->direct[least] != NULL && r->u->direct[most] != NULL;
}

static void gemm_compute(gemm_run *r, nc_pool *pool) {
    bool pack_b = !r->g->b_packed && !r->tile_packs_b && r->i0 == 0;
    gemm_choose_tiles(r, nc_pool_threads(pool));
    r->tile_packs_a = r->n_column_tiles == 1;
    r->lines = gemm_takes_lines(r->g, &r->f);
    r->direct_a = r->lines || (r->tile_packs_a && r->panels <= DIRECT_PANELS && gemm_rows_fit(r));
    bool pack_a = !r->tile_packs_a && !r->lines;
    int64_t packed = (pack_a ? r->row_panels : 0) + (pack_b ? r->panels : 0);
    r->pack_panels = nc_pool_item(pool, packed, r->g->a_cs == 1 && !pack_b ? 1 : PACK_PANELS / 2, PACK_PANELS);
    r->n_pack_a = pack_a ? nc_ceil_div(r->row_panels, r->pack_panels) : 0;
    nc_parallel(pool, r->n_pack_a + (pack_b ? nc_ceil_div(r->panels, r->pack_panels) : 0), gemm_pack_item, r);
    nc_parallel_upto(pool, r->tile_packs_b ? r->lanes : INT_MAX, r->n_row_tiles * r->n_column_tiles, gemm_tile_item, r);
}

/* K == 0. alpha is put aside: infinite, it would make a NaN of the empty sum. */
static void gemm_scale_only(const nck_gemm_args *g, const nck_gemm_form *f) {
    nck_gemm_args scaled = *g;
    scaled.alpha = 0;
    gemm_run at = {.g = &scaled, .f = *f, .u = f->u}, *r = &at;
    double zero[NCK_GEMM_MAX_TILE] = {0};
    for (int64_t i = 0; i < r->g->M; i++)
        for (int64_t p = 0; p * r->u->nr < r->g->N; p++) gemm_store(r, zero, i, 1, p, 1, true, true);
}

/* How many cuts are packed at once: fewer where K is so long that a block would have part of the rows and of the
 * columns, and each be packed again for every part of the other. */
static int64_t gemm_cuts_at_once(const nck_gemm_args *g, const nck_gemm_unit *u) {
    int64_t columns = g->b_packed ? 1 : nc_round_up(g->N, u->nr), cuts = SPAN_CUTS;
    while (cuts > LEAST_CUTS && (g->M > A_BLOCK / (cuts * KC) || columns > B_BLOCK / (cuts * KC))) cuts /= 2;
    return cuts;
}

/* All rows with the columns and cuts at hand. */
static void gemm_rows(gemm_run *r, nc_pool *pool) {
    const nck_gemm_args *g = r->g;
    r->k0 = gemm_cut_at(r, r->cut0);
    r->span = gemm_terms(r->u, gemm_cut_at(r, r->cut0 + r->n_cuts) - r->k0);
    int64_t rows = A_BLOCK / r->span;
    rows = rows < g->M ? rows / r->u->mr * r->u->mr : g->M; /* whole panels */
    for (r->i0 = 0; r->i0 < g->M; r->i0 += rows) {
        r->rows = nc_min64(rows, g->M - r->i0);
        gemm_compute(r, pool);
    }
}

static bool gemm_is_within(const nck_gemm_args *g, int64_t work) {
    return g->M <= work && g->N <= work && g->K <= work && g->M * g->N <= work && g->M * g->N * g->K <= work;
}

/* A product of few columns fills a panel badly, and is turned: its columns become rows. Each element has the same terms
 * in the same order. What the formulas behind it read must lie as their runs take it. */
static bool gemm_may_turn(const nck_gemm_args *g, const nck_gemm_form *f) {
    const nck_gemm_unit *u = f->u;
    if (g->b_packed && !nck_gemm_form_is_plain(f)) return false; /* rows are packed from what panels do not hold */
    if (g->N * FEW > u->nr || g->M <= u->nr || (g->N > 1 && g->K < TURN_TERMS)) return false;
    if (g->after && (g->N > 1 || g->c_rs != 1)) return false;
    for (int k = 1; g->after && k < g->after->prog->n_in; k++)
        if (g->after->in[k].rs != 0 && g->after->in[k].rs != 1) return false;
    return true;
}

static void gemm_turn(const nck_gemm_args *g, const nck_gemm_unit *u, nck_gemm_args *t, nck_gemm_after *after) {
    *t = *g;
    t->M = g->N, t->N = g->M;
    t->a = g->b_packed ? g->b_packed : g->b;
    t->a_rs = g->b_packed ? 1 : g->b_cs, t->a_cs = g->b_packed ? u->nr : g->b_rs;
    t->b = g->a, t->b_rs = g->a_cs, t->b_cs = g->a_rs, t->b_packed = NULL;
    t->c_rs = g->c_cs, t->c_cs = g->c_rs;
    t->bias_rs = g->bias_cs, t->bias_cs = g->bias_rs;
    if (g->after == NULL) return;
    *after = *g->after;
    t->after = after;
    for (int k = 1; k < after->prog->n_in; k++)
        after->in[k].rs = g->after->in[k].cs, after->in[k].cs = g->after->in[k].rs;
}

/* How many threads have room for panels of their own where the rows of a product would be packed; 0: none. */
static int gemm_lanes_in_a(const nck_gemm_args *g, const nck_gemm_form *f) {
    int64_t room = (int64_t)(gemm_a_bytes(f, g->M, g->K) - gemm_a_bytes(f, g->N, g->K));
    return (int)nc_min64(LANES, room / (gemm_lane_room(f->u, g->M, g->K) * f->held));
}

void nck_gemm(const nck_gemm_args *g, void *workspace, nc_pool *pool) {
    const nck_gemm_form f = nck_gemm_form_of(g->type);
    const nck_gemm_unit *u = f.u;
    nck_gemm_args turned;
    nck_gemm_after after;
    gemm_run r = {.g = g, .f = f, .u = u, .a_pack = workspace, .lanes = LANES};
    bool plain = nck_gemm_form_is_plain(&f);
    if (g->M <= 0 || g->N <= 0) return;
    if (g->K <= 0) {
        gemm_scale_only(g, &f);
        if (g->after) gemm_after(g, 0, g->M, 0, g->N);
        return;
    }
    if (plain && g->K <= NCK_GEMM_SMALL_K && gemm_is_within(g, SMALL_WORK)) {
        const nck_gemm_table *t = nck_narrow_gemm();
        (g->type == NC_FLOAT ? t->f32 : t->f64)->small(g, u->nr);
        if (g->after) gemm_after(g, 0, g->M, 0, g->N);
        return;
    }
    if (gemm_is_within(g, g->M == 1 ? ALONE_LINE : ALONE_WORK)) pool = NULL;
    int lanes = gemm_may_turn(g, &f) ? gemm_lanes_in_a(g, &f) : 0;
    if (lanes > 0) {
        gemm_turn(g, u, &turned, &after);
        r.g = g = &turned, r.lanes = lanes;
    }
    r.b_pack = r.a_pack + gemm_a_bytes(&f, g->M, g->K);
    r.direct = plain && !g->b_packed && g->M <= DIRECT_M && g->b_cs == 1 && (uintptr_t)g->b % (uintptr_t)f.in == 0;
    r.tile_packs_b = !g->b_packed && gemm_is_low(u, g->M, g->K);
    int64_t all_panels = nc_ceil_div(g->N, u->nr), all_cuts = nc_ceil_div(g->K, KC);
    int64_t cuts = nc_min64(all_cuts, r.tile_packs_b ? SPAN_CUTS : gemm_cuts_at_once(g, u));
    int64_t at_once = nc_max64(1, B_BLOCK / (nc_min64(gemm_terms(u, g->K), cuts * KC) * u->nr));
    int64_t panels = g->b_packed || r.tile_packs_b ? all_panels : at_once;
    for (r.p0 = 0; r.p0 < all_panels; r.p0 += panels) {
        r.panels = nc_min64(panels, all_panels - r.p0);
        for (r.cut0 = 0; r.cut0 < all_cuts; r.cut0 += cuts) {
            r.n_cuts = nc_min64(cuts, all_cuts - r.cut0);
            gemm_rows(&r, pool);
        }
    }
}
