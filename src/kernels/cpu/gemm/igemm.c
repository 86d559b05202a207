/* kernels/cpu/gemm/igemm.c: blocking, packing and threads of the 8-bit product; see igemm.h for what it computes and
 * igemm_kernel.h for what a panel is.
 *
 * Integer sums need no cuts of K: a tile goes through all of it in registers and is stored once. Packed B is its panels
 * of nr columns, each with all of K, then the sums of all columns and the largest of |b| in each panel, then for each
 * panel and block of terms whether neighbours may be added in 16 bits. Items are tiles of rows by columns.
 * With many rows an item packs its own, and does all columns; with few, all of A is packed first. Rows that are what
 * panels are made of stay where they lie.
 *
 * An example: M 128, N 768, K 768 with tiles of 12 by 32: 11 panels of rows, 24 of columns. Two threads want 8 items,
 * each of all rows and 3 panels of columns. */
#include "kernels/cpu/gemm/igemm.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm_kernel.h"
#include "kernels/cpu/isa.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANES = 16,            /* most threads where items pack A */
    BLOCK_ROWS = 96,       /* most rows that an item packs */
    BLOCK_BYTES = 1 << 17, /* and most bytes, but for one panel */
    TILE_ROWS = 224,       /* most rows of a tile of A that lies there, */
    TILE_BYTES = 3 << 17,  /* and most bytes: all of B comes from memory for each */
    ITEMS = 4,             /* for each thread */
    TILE_WORK = 1 << 19,   /* multiply-adds of the smallest item worth a thread */
    ALONE_WORK = 1 << 18,  /* of a product that wakes no thread */
    PAGE = 4096,
    MOST_A = 128 /* |a| of a panel of int8, the only ones whose sums are said to be small */
};

typedef struct igemm_run {
    const nck_igemm_args *g;
    const nck_igemm_table *u;
    const uint8_t *b; /* packed */
    char *a_pack;     /* all of A, or a block for each lane */
    int64_t row_tiles, column_tiles, panels;
    size_t bytes_lane;
    bool direct; /* rows of A are read where they lie */
} igemm_run;

static const nck_igemm_table *igemm_unit(void) { return nck_isa_get()->igemm; }

static int64_t igemm_terms(const nck_igemm_table *u, int64_t K) { return nc_round_up(K, u->group); }

/* ---- packed B ---- */

typedef struct packed_b {
    uint8_t *panels;
    int32_t *sums;  /* (panels * nr) */
    int32_t *most;  /* (panels): of nck_igemm_most */
    uint8_t *exact; /* (panels, blocks) */
    int64_t bytes_panel, blocks;
} packed_b;

static size_t igemm_layout_b(const nck_igemm_table *u, int64_t K, int64_t N, void *at, packed_b *p) {
    int64_t panels = nc_ceil_div(N, u->nr);
    p->bytes_panel = igemm_terms(u, K) * u->nr;
    p->blocks = nc_ceil_div(K, NCK_IGEMM_BLOCK);
    size_t sums = nc_align64((size_t)(panels * p->bytes_panel) + NCK_IGEMM_OVERREAD);
    size_t exact = sums + nc_align64((size_t)(panels * (u->nr + 1)) * sizeof(int32_t));
    if (at != NULL) {
        p->panels = at;
        p->sums = (int32_t *)((char *)at + sums);
        p->most = p->sums + panels * u->nr;
        p->exact = (uint8_t *)at + exact;
    }
    return exact + nc_align64((size_t)(panels * p->blocks));
}

size_t nck_igemm_packed_b_bytes(int64_t K, int64_t N) {
    packed_b p = {0};
    return igemm_layout_b(igemm_unit(), K, N, NULL, &p);
}

/* Elements of a type that the panel does not hold are moved by 128. */
static uint8_t igemm_flip(nc_dtype t, bool is_signed) { return (t == NC_INT8) == is_signed ? 0 : 0x80; }

/* Are neighbouring products of n bytes, whole groups, exact in 16 bits? */
static bool igemm_is_exact(const nck_igemm_table *u, const int8_t *b, int64_t n) {
    int most = 0;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        int pair = abs(b[i]) + abs(b[i + 1]);
        most = pair > most ? pair : most;
    }
    return most <= u->pair_limit;
}

typedef struct pack_job {
    const nck_igemm_table *u;
    nc_dtype type;
    int64_t K, N, rs, cs;
    const uint8_t *b;
    packed_b to;
} pack_job;

static void igemm_pack_panel(void *ctx, int64_t p) {
    const pack_job *j = ctx;
    const nck_igemm_table *u = j->u;
    int64_t first = p * u->nr, groups = nc_ceil_div(j->K, u->group), block = (int64_t)NCK_IGEMM_BLOCK * u->nr;
    uint8_t *dst = j->to.panels + p * j->to.bytes_panel;
    u->pack(j->K, nc_min64(u->nr, j->N - first), u->nr, j->b + first * j->cs, j->cs, j->rs, igemm_flip(j->type, true),
            dst);
    int32_t sums[NCK_IGEMM_MAX_NR];
    u->sums(groups, u->nr, dst, false, sums);
    memcpy(j->to.sums + first, sums, (size_t)u->nr * sizeof *sums);
    j->to.most[p] = u->most(groups, (const int8_t *)dst);
    for (int64_t k = 0; k < j->to.blocks; k++)
        j->to.exact[p * j->to.blocks + k] =
            u->pair_limit >= 256 ||
            igemm_is_exact(u, (const int8_t *)dst + k * block, nc_min64(block, j->to.bytes_panel - k * block));
}

void nck_igemm_pack_b(nc_dtype type, int64_t K, int64_t N, const void *b, int64_t rs, int64_t cs, void *dst,
                      nc_pool *pool) {
    pack_job j = {.u = igemm_unit(), .type = type, .K = K, .N = N, .b = b, .rs = rs, .cs = cs};
    (void)igemm_layout_b(j.u, K, N, dst, &j.to);
    nc_parallel(nc_pool_for(pool, K * N), nc_ceil_div(N, j.u->nr), igemm_pack_panel, &j);
}

/* ---- rows of A ---- */

/* Panels of equal height: 25 rows with at most 12 are 8, 8 and 9. */
static int64_t igemm_row_at(int64_t rows, int64_t panels, int64_t p) { return rows * p / panels; }

/* The panels of n rows one after the other, without a division for each. */
typedef struct row_walk {
    int64_t at, rows; /* of this panel */
    int64_t each, more, rest, panels;
} row_walk;

static void row_walk_next(row_walk *w) {
    w->at += w->rows;
    w->rows = w->each, w->rest += w->more;
    if (w->rest >= w->panels) w->rest -= w->panels, w->rows++;
}

static row_walk row_walk_of(int64_t n, int64_t panels) {
    row_walk w = {.each = n / panels, .more = n % panels, .panels = panels};
    row_walk_next(&w);
    return w;
}

/* Are rows of A panels as they lie? Tiles read more rows than there are; rows a page apart share lines of the cache. */
static bool igemm_is_direct(const nck_igemm_table *u, const nck_igemm_args *g) {
    return u->lay != NULL && u->tiles == NULL && g->rows == NULL && g->a_cs == 1 && g->K % u->group == 0 &&
           g->a_rs % PAGE != 0 && igemm_flip(g->a_type, u->a_signed) == 0;
}

/* Rows [i, i + n) as they lie. */
static void igemm_lay_block(const igemm_run *r, int64_t i, int64_t n, uint8_t *dst) {
    const nck_igemm_args *g = r->g;
    int64_t step = igemm_terms(r->u, g->K);
    uint8_t flip = igemm_flip(g->a_type, r->u->a_signed);
    if (g->rows == NULL)
        r->u->lay(g->K, n, (const uint8_t *)g->a + i * g->a_rs, g->a_rs, g->a_cs, flip, step, dst);
    else
        g->rows(g->rows_ctx, i, n, step, dst);
    if (g->rows != NULL && flip != 0) r->u->lay(g->K, n, dst, step, 1, flip, step, dst);
}

/* Rows [i, i + n) as panels. room: for them where A comes from a function, else NULL. */
static void igemm_pack_block(const igemm_run *r, int64_t i, int64_t n, uint8_t *dst, uint8_t *room) {
    const nck_igemm_args *g = r->g;
    int64_t panels = nc_ceil_div(n, r->u->mr), terms = igemm_terms(r->u, g->K);
    int64_t rs = room != NULL ? g->K : g->a_rs, cs = room != NULL ? 1 : g->a_cs;
    const uint8_t *from = room != NULL ? room : (const uint8_t *)g->a + i * rs;
    if (r->u->lay != NULL) {
        igemm_lay_block(r, i, n, dst);
        return;
    }
    if (room != NULL) g->rows(g->rows_ctx, i, n, g->K, room);
    row_walk w = row_walk_of(n, panels);
    for (int64_t p = 0; p < panels; p++, row_walk_next(&w))
        r->u->pack(g->K, w.rows, w.rows, from + w.at * rs, rs, cs, igemm_flip(g->a_type, r->u->a_signed),
                   dst + w.at * terms);
}

/* ---- zero points ---- */

/* Mostly without a division, which takes as long as dozens of products. */
static int32_t igemm_zero(nc_dtype t, const void *zero, int64_t n, int64_t i, bool is_signed) {
    int64_t at = n == 1 ? 0 : i < n ? i : i % n;
    int32_t z = zero == NULL ? 0 : t == NC_INT8 ? ((const int8_t *)zero)[at] : ((const uint8_t *)zero)[at];
    return z + (igemm_flip(t, is_signed) == 0 ? 0 : t == NC_INT8 ? 128 : -128);
}

/* Are the zero points of panel p int8, and all 0? What most networks have, seen at a glance. */
static bool igemm_no_zeros(const igemm_run *r, int64_t p) {
    const nck_igemm_args *g = r->g;
    bool each = g->b_zeros == g->N;
    const int8_t *own = g->b_zero;
    int64_t first = each ? p * r->u->nr : 0, end = each ? nc_min64(first + r->u->nr, g->N) : g->b_zeros;
    if (g->b_type != NC_INT8 || own == NULL) return g->b_type == NC_INT8;
    while (first + 8 <= end && memcmp(own + first, "\0\0\0\0\0\0\0", 8) == 0) first += 8;
    while (first < end && own[first] == 0) first++;
    return first == end;
}

/* As of the packed elements; says whether one is not 0, else none is written. */
static bool igemm_b_zeros(const igemm_run *r, int64_t p, int32_t *zeros) {
    const nck_igemm_args *g = r->g;
    int nr = r->u->nr;
    bool any = false;
    if (igemm_no_zeros(r, p)) return false;
    for (int64_t j = 0; j < nr; j++) {
        zeros[j] = igemm_zero(g->b_type, g->b_zero, g->b_zeros, nc_min64(p * nr + j, g->N - 1), true);
        any |= zeros[j] != 0;
    }
    return any;
}

static void igemm_a_zeros(const igemm_run *r, int64_t i, int64_t rows, int32_t *zeros) {
    const nck_igemm_args *g = r->g;
    for (int64_t k = 0; k < rows; k++) zeros[k] = igemm_zero(g->a_type, g->a_zero, g->a_zeros, i + k, r->u->a_signed);
}

/* ---- products ---- */

typedef struct panel_columns {
    const int8_t *b;
    const uint8_t *exact;
    const int32_t *sum;
    int32_t zero[NCK_IGEMM_MAX_NR];
    bool any_zero;
    bool codes; /* tiles may be multiplied and stored at once */
    int64_t j;
    nck_igemm_columns read;
} panel_columns;

static bool igemm_one_zero(const igemm_run *r) { return r->g->a_zero == NULL || r->g->a_zeros == 1; }

/* Panel p of B. */
static void igemm_read_panel(const igemm_run *r, const packed_b *b, int64_t p, panel_columns *c) {
    const nck_igemm_args *g = r->g;
    int32_t zero = 0;
    c->b = (const int8_t *)b->panels + p * b->bytes_panel;
    c->exact = b->exact + p * b->blocks;
    c->sum = b->sums + p * r->u->nr;
    c->j = p * r->u->nr;
    c->any_zero = igemm_b_zeros(r, p, c->zero);
    if (igemm_one_zero(r)) igemm_a_zeros(r, 0, 1, &zero);
    r->u->columns(&g->out, c->j, nc_min64(r->u->nr, g->N - c->j), zero, (float)b->most[p] * MOST_A, c->sum, &c->read);
    bool codes = g->out.type == NC_UINT8 || g->out.type == NC_INT8, alike = igemm_one_zero(r) && g->out.a_scales == 1;
    c->codes = r->u->codes != NULL && codes && c->read.near && !c->any_zero && alike && g->out.c_cs == 1 &&
               c->j + r->u->nr <= g->N;
}

/* The sums of `rows` rows from i on less their zero points: what zero points of B are multiplied with. */
static void igemm_rests(const igemm_run *r, int64_t i, int64_t rows, const uint8_t *a, int64_t step, int32_t *rest) {
    int32_t zero[NCK_IGEMM_MAX_MR];
    if (r->u->lay != NULL)
        r->u->row_sums(r->g->K, rows, a, step, rest);
    else
        r->u->sums(nc_ceil_div(r->g->K, r->u->group), rows, a, true, rest);
    igemm_a_zeros(r, i, rows, zero);
    for (int64_t k = 0; k < rows; k++) rest[k] = (int32_t)((uint32_t)rest[k] - (uint32_t)r->g->K * (uint32_t)zero[k]);
}

/* A panel of `rows` rows from i on with the columns c; rest: where these have zero points. */
static void igemm_tile(const igemm_run *r, int64_t i, int64_t rows, const uint8_t *a, int64_t step,
                       const panel_columns *c, const int32_t *rest, nck_igemm_ahead ahead) {
    const nck_igemm_args *g = r->g;
    _Alignas(64) int32_t acc[NCK_IGEMM_MAX_MR * NCK_IGEMM_MAX_NR];
    int32_t zero[NCK_IGEMM_MAX_MR];
    int64_t groups = nc_ceil_div(g->K, r->u->group), cols = nc_min64(r->u->nr, g->N - c->j);
    bool one = igemm_one_zero(r);
    if (c->codes && rows == r->u->mr) {
        r->u->codes(groups, a, c->b, &c->read, &g->out, (uint8_t *)g->out.c + i * g->out.c_rs + c->j);
        return;
    }
    if (r->u->tiles != NULL)
        r->u->tiles(rows, groups, a, step, c->b, acc);
    else
        r->u->micro[rows](groups, a, step, c->b, c->exact, ahead, acc);
    if (!one) igemm_a_zeros(r, i, rows, zero);
    r->u->store(&(nck_igemm_tile){.acc = acc,
                                  .rows = rows,
                                  .cols = cols,
                                  .i = i,
                                  .j = c->j,
                                  .a_zero = one ? NULL : zero,
                                  .a_rest = c->any_zero ? rest : NULL,
                                  .b_sum = c->sum,
                                  .b_zero = c->zero,
                                  .columns = &c->read,
                                  .out = &g->out});
}

/* Does one row become numbers by one scale and zero point of its own, with nothing else done to them? */
static bool igemm_is_line(const igemm_run *r, int64_t n) {
    const nck_igemm_out *o = &r->g->out;
    bool plain = o->type == NC_FLOAT && o->c_cs == 1 && !o->clamps && o->sum_bias == NULL && o->a_scales == 1;
    return n == 1 && plain && r->u->tiles == NULL && igemm_one_zero(r) && (o->b_scales == 1 || o->b_scales == r->g->N);
}

/* Row i with whole panels from p on whose columns have no zero points, some at a time. Returns the first one left. */
static int64_t igemm_line(const igemm_run *r, const packed_b *b, int64_t i, const uint8_t *a, int64_t step, int64_t p,
                          int64_t end) {
    const nck_igemm_out *o = &r->g->out;
    const float *bias = o->adds ? (const float *)o->c + i * o->c_rs : o->bias;
    int64_t nr = r->u->nr, groups = nc_ceil_div(r->g->K, r->u->group), n;
    _Alignas(64) int32_t acc[NCK_IGEMM_LINE * NCK_IGEMM_MAX_NR];
    int32_t zero;
    igemm_a_zeros(r, 0, 1, &zero);
    for (end = nc_min64(end, r->g->N / nr); p < end; p += n) {
        for (n = 0; n < NCK_IGEMM_LINE && p + n < end && igemm_no_zeros(r, p + n); n++) {
            const int8_t *panel = (const int8_t *)b->panels + (p + n) * b->bytes_panel;
            nck_igemm_ahead ahead = {panel, 0};
            if (p + n + 1 < end) ahead = (nck_igemm_ahead){panel + b->bytes_panel, r->u->group * nr};
            r->u->micro[1](groups, a, step, panel, b->exact + (p + n) * b->blocks, ahead, acc + n * nr);
        }
        if (n == 0) break;
        r->u->line(&(nck_igemm_line){.acc = acc,
                                     .sum = b->sums + p * nr,
                                     .panels = n,
                                     .zero = zero,
                                     .a = o->a_scale[0],
                                     .b = o->b_scales == 1 ? o->b_scale : o->b_scale + p * nr,
                                     .each = o->b_scales > 1,
                                     .bias = bias ? bias + p * nr : NULL,
                                     .y = (float *)o->c + i * o->c_rs + p * nr});
    }
    return p;
}

/* Rows [i, i + n), packed or at a, with panels [p, end) of columns. */
static void igemm_multiply(const igemm_run *r, int64_t i, int64_t n, const uint8_t *a, int64_t p, int64_t end) {
    int64_t panels = nc_ceil_div(n, r->u->mr), groups = nc_ceil_div(r->g->K, r->u->group);
    int64_t step = r->direct ? r->g->a_rs : igemm_terms(r->u, r->g->K);
    int32_t rests[TILE_ROWS + 2 * NCK_IGEMM_MAX_MR]; /* of all rows, once; of more rows than these, for each tile */
    bool fit = n <= (int64_t)(sizeof rests / sizeof *rests), known = false;
    packed_b b = {0};
    (void)igemm_layout_b(r->u, r->g->K, r->g->N, (void *)(uintptr_t)r->b, &b);
    if (r->u->tiles != NULL) r->u->tiles_open();
    if (igemm_is_line(r, n)) p = igemm_line(r, &b, i, a, step, p, end);
    for (; p < end; p++) {
        panel_columns c;
        igemm_read_panel(r, &b, p, &c);
        nck_igemm_ahead ahead = {c.b, 0};
        if (p + 1 < end) ahead = (nck_igemm_ahead){c.b + b.bytes_panel, nc_ceil_div(r->u->group * r->u->nr, panels)};
        row_walk w = row_walk_of(n, panels);
        for (int64_t q = 0; q < panels; q++, row_walk_next(&w)) {
            int32_t *rest = fit ? rests + w.at : rests;
            if (c.any_zero && !known) igemm_rests(r, i + w.at, w.rows, a + w.at * step, step, rest);
            igemm_tile(r, i + w.at, w.rows, a + w.at * step, step, &c, rest, ahead);
            ahead.at += ahead.pace * groups;
        }
        known = known || (fit && c.any_zero);
    }
    if (r->u->tiles != NULL) r->u->tiles_close();
}

static int64_t igemm_rows_within(int64_t K, int64_t most, int64_t bytes) {
    const nck_igemm_table *u = igemm_unit();
    int64_t rows = bytes / nc_max64(1, igemm_terms(u, K)) / u->mr * u->mr;
    return nc_max64(u->mr, nc_min64(most / u->mr * u->mr, rows));
}

int64_t nck_igemm_block_rows(const nck_igemm_args *g) {
    if (igemm_is_direct(igemm_unit(), g)) return igemm_rows_within(g->K, TILE_ROWS, TILE_BYTES);
    return igemm_rows_within(g->K, BLOCK_ROWS, BLOCK_BYTES);
}

int64_t nck_igemm_panel(void) { return igemm_unit()->nr; }

static size_t igemm_rows_bytes(const nck_igemm_table *u, int64_t rows, int64_t K) {
    return nc_align64((size_t)(nc_round_up(rows, u->mr) * igemm_terms(u, K)) + NCK_IGEMM_OVERREAD);
}

/* The least and the largest block have room: fewer rows where K is larger make the bytes of a block go up and down. */
size_t nck_igemm_block_bytes(int64_t K, bool by_rows) {
    const nck_igemm_table *u = igemm_unit();
    size_t one = igemm_rows_bytes(u, u->mr, K), most = (size_t)BLOCK_BYTES + NCK_IGEMM_OVERREAD;
    size_t bytes = one > most ? one : nc_min_size(igemm_rows_bytes(u, BLOCK_ROWS, K), nc_align64(most));
    return bytes * (by_rows && u->lay == NULL ? 2 : 1);
}

void nck_igemm_block(const nck_igemm_args *g, int64_t i, int64_t n, int64_t p, int64_t end, void *room) {
    igemm_run r = {.g = g, .u = igemm_unit(), .b = g->b_packed};
    uint8_t *rows = g->rows != NULL ? (uint8_t *)room + nck_igemm_block_bytes(g->K, false) : NULL;
    r.direct = igemm_is_direct(r.u, g);
    if (!r.direct) igemm_pack_block(&r, i, n, room, rows);
    igemm_multiply(&r, i, n, r.direct ? (const uint8_t *)g->a + i * g->a_rs : room, p, end);
}

/* ---- the whole product ---- */

/* All of A is packed first where that takes no more room than a block for each lane. */
static bool igemm_is_shared(const nck_igemm_table *u, int64_t M, int64_t K) {
    return igemm_rows_bytes(u, M, K) <= LANES * nck_igemm_block_bytes(K, false);
}

size_t nck_igemm_workspace(int64_t M, int64_t N, int64_t K, bool b_packed, bool by_rows) {
    size_t blocks = LANES * nck_igemm_block_bytes(K, by_rows), all = igemm_rows_bytes(igemm_unit(), M, K);
    return (by_rows ? blocks : nc_min_size(all, blocks)) + (b_packed ? 0 : nck_igemm_packed_b_bytes(K, N));
}

static void igemm_block_item(void *ctx, int64_t item) {
    const igemm_run *r = ctx;
    int64_t M = r->g->M, i = igemm_row_at(M, r->row_tiles, item), n = igemm_row_at(M, r->row_tiles, item + 1) - i;
    nck_igemm_args g = *r->g;
    g.b_packed = r->b;
    nck_igemm_block(&g, i, n, 0, r->panels, r->a_pack + (size_t)nc_parallel_lane() * r->bytes_lane);
}

/* Rows of a tile are whole panels of the pack, which spreads the rows of one tile evenly. */
static int64_t igemm_tile_row(const igemm_run *r, int64_t tile) {
    int64_t all = nc_ceil_div(r->g->M, r->u->mr);
    return nc_min64(r->g->M, igemm_row_at(all, r->row_tiles, tile) * r->u->mr);
}

static void igemm_pack_item(void *ctx, int64_t tile) {
    const igemm_run *r = ctx;
    int64_t i = igemm_tile_row(r, tile), n = igemm_tile_row(r, tile + 1) - i;
    igemm_pack_block(r, i, n, (uint8_t *)r->a_pack + i * igemm_terms(r->u, r->g->K), NULL);
}

static void igemm_tile_item(void *ctx, int64_t item) {
    const igemm_run *r = ctx;
    int64_t tile = item % r->row_tiles, column = item / r->row_tiles;
    int64_t i = igemm_tile_row(r, tile), n = igemm_tile_row(r, tile + 1) - i;
    const uint8_t *a = r->direct ? (const uint8_t *)r->g->a + i * r->g->a_rs
                                 : (const uint8_t *)r->a_pack + i * igemm_terms(r->u, r->g->K);
    igemm_multiply(r, i, n, a, igemm_row_at(r->panels, r->column_tiles, column),
                   igemm_row_at(r->panels, r->column_tiles, column + 1));
}

static int64_t igemm_wanted_items(const nck_igemm_args *g, int threads) {
    int64_t most = threads > 1 ? (int64_t)ITEMS * threads : 1;
    double work = (double)g->M * (double)g->N * (double)g->K / TILE_WORK;
    return work < (double)most ? nc_max64(1, (int64_t)work) : most;
}

static void igemm_run_shared(igemm_run *r, nc_pool *pool) {
    int64_t wanted = igemm_wanted_items(r->g, nc_pool_threads(pool)), mr = r->u->mr;
    r->row_tiles = nc_ceil_div(r->g->M, igemm_rows_within(r->g->K, TILE_ROWS, TILE_BYTES));
    r->column_tiles = nc_min64(r->panels, nc_max64(1, nc_ceil_div(wanted, r->row_tiles)));
    if (r->row_tiles * r->column_tiles < wanted)
        r->row_tiles = nc_min64(nc_ceil_div(wanted, r->column_tiles), nc_ceil_div(r->g->M, mr));
    if (!r->direct) nc_parallel(pool, r->row_tiles, igemm_pack_item, r);
    nc_parallel(pool, r->row_tiles * r->column_tiles, igemm_tile_item, r);
}

static bool igemm_is_alone(const nck_igemm_args *g) { return (double)g->M * (double)g->N * (double)g->K < ALONE_WORK; }

void nck_igemm(const nck_igemm_args *g, void *workspace, nc_pool *pool) {
    igemm_run r = {.g = g, .u = igemm_unit(), .a_pack = workspace, .b = g->b_packed};
    if (g->M <= 0 || g->N <= 0) return;
    if (igemm_is_alone(g)) pool = NULL;
    if (r.b == NULL) {
        size_t bytes = nck_igemm_packed_b_bytes(g->K, g->N);
        nck_igemm_pack_b(g->b_type, g->K, g->N, g->b, g->b_rs, g->b_cs, workspace, pool);
        r.b = workspace;
        r.a_pack += bytes;
    }
    r.panels = nc_ceil_div(g->N, r.u->nr);
    r.direct = igemm_is_direct(r.u, g);
    if (g->rows == NULL && igemm_is_shared(r.u, g->M, g->K)) {
        igemm_run_shared(&r, pool);
        return;
    }
    r.bytes_lane = nck_igemm_block_bytes(g->K, g->rows != NULL);
    r.row_tiles = nc_ceil_div(g->M, nck_igemm_block_rows(g));
    nc_parallel_upto(pool, LANES, r.row_tiles, igemm_block_item, &r);
}
