/* kernels/cpu/attn/attn.c: attention cut into items of some queries of one head, see attn.h. An item goes through the
 * keys in blocks, each of them packed once with its values, and with each block through its queries, ROWS at a time,
 * with an online softmax: for every query it keeps the largest score m and the sum l of exp(score - m) of the blocks so
 * far; a block that raises m scales l and the row of Y by exp(m_old - m_new) first. Keys before and behind those that
 * some query of those ROWS may see are left out. At the end rows of Y are divided by l. A sink is where m and l begin.
 *
 * Items are dealt to a fixed number of groups, each with a workspace of its own: which group does an item changes no
 * bit. A few queries of floats take scores as dot products and weigh values as they lie, where columns lie side by side
 * and are whole vectors; all others are matrix products, of queries that were scaled before. */
#include "kernels/cpu/attn/attn_item.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/isa_narrow.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = 64,   /* queries whose scores are held */
    CHUNK = 512, /* queries of an item, at most */
    PARTS = CHUNK / ROWS,
    CAUSAL = 256,    /* where later queries see more keys: those items are longer */
    LEAST = 96,      /* queries of an item that are not dealt out further */
    ENOUGH = 9,      /* items */
    KEYS = 512,      /* of a block */
    APART = 16,      /* elements between rows of scores, which then do not share a place in the first cache */
    FEW_QUERIES = 8, /* of an item, which packs nothing */
    GROUPS = NCK_ATTN_GROUPS,
    FEW_KEYS = 64,  /* that few queries go through together, which then stay in the first cache */
    PER_ELEMENT = 4 /* multiply-adds that count as an element of work */
};

typedef struct attn_job {
    const nck_attn_args *a;
    const nck_reduce_table *table, *few; /* few: for a few queries */
    int64_t chunks, rows;                /* of a head's queries; queries of a chunk */
    int64_t n_items, n_groups;
    size_t bytes_scores, bytes_queries, bytes_keys, bytes_values, bytes_each;
    char *workspace;
    nc_pool *pool; /* of a single group; else items are serial inside */
} attn_job;

/* Of each query: the largest score so far, and the sum of exp(score - m). */
typedef struct attn_sums {
    double *m, *l;
} attn_sums;

static size_t bytes_scores(nc_dtype type, int64_t S, int64_t T) {
    return nc_align64((size_t)(nc_min64(S, ROWS) * (nc_min64(T, KEYS) + APART)) * nc_dtype_bytes(type));
}

static size_t bytes_queries(nc_dtype type, int64_t S, int64_t D) {
    return nc_align64((size_t)(nc_min64(S, CHUNK) * D) * nc_dtype_bytes(type));
}

static size_t bytes_keys(nc_dtype type, int64_t S, int64_t T, int64_t D) {
    return S <= FEW_QUERIES ? 0 : nck_gemm_packed_b_bytes(type, D, nc_min64(T, KEYS));
}

static size_t bytes_values(nc_dtype type, int64_t S, int64_t T, int64_t Dv) {
    return S <= FEW_QUERIES ? 0 : nck_gemm_packed_b_bytes(type, nc_min64(T, KEYS), Dv);
}

typedef size_t gemm_bytes(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed);

static size_t bytes_each(gemm_bytes *gemm, nc_dtype type, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    int64_t few = nc_min64(S, FEW_QUERIES), rows = nc_min64(S, ROWS), keys = nc_min64(T, KEYS);
    size_t product = nc_max_size(gemm(type, few, keys, D, false), gemm(type, few, Dv, keys, false));
    product = nc_max_size(product, nc_max_size(gemm(type, rows, keys, D, true), gemm(type, rows, Dv, keys, true)));
    return bytes_scores(type, S, T) + bytes_queries(type, S, D) + bytes_keys(type, S, T, D) +
           bytes_values(type, S, T, Dv) + nc_align64(product);
}

/* Into how many items the queries of a head are cut: each packs the keys that it sees, so into no more than it takes
 * to keep the threads busy. Where queries see all keys no bit depends on it; else their number does not count. */
static int64_t chunks_of(const nck_attn_args *a, int threads) {
    bool all = !a->causal && a->left < 0 && a->right < 0;
    int64_t n = nc_max64(1, nc_ceil_div(a->S, all ? CHUNK : CAUSAL));
    int64_t enough = !all ? ENOUGH : threads > 1 ? nc_min64(2 * threads, GROUPS) : 1;
    while (a->B * a->Hq * n < enough && nc_ceil_div(a->S, n) > LEAST) n++;
    return n;
}

/* No fewer than there are items, up to GROUPS. */
static int64_t n_groups(int64_t B, int64_t Hq, int64_t S) {
    return nc_min64(B * Hq * nc_ceil_div(S, LEAST / 2), GROUPS);
}

size_t nck_attn_workspace(nc_dtype type, int64_t B, int64_t Hq, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    size_t one = bytes_each(nck_gemm_workspace, type, S, T, D, Dv);
    return nc_max_size(one, bytes_each(nck_gemm_workspace_serial, type, S, T, D, Dv) * (size_t)n_groups(B, Hq, S));
}

/* The keys [lo, hi) that some query of the item may see; all of them where the scores are wanted. Bounds move with the
 * query, so those of the first and the last one hold for all between. */
static void attn_range(const nck_attn_args *a, const attn_item *t, int64_t *lo, int64_t *hi) {
    int64_t first_hi, last_lo;
    seen_keys(a, t->b, t->first, lo, &first_hi);
    seen_keys(a, t->b, t->first + t->rows - 1, &last_lo, hi);
    *lo = a->qk != NULL ? 0 : *lo;
    *hi = a->qk != NULL ? a->T : *hi + 1;
}

static char *attn_qk_row(const nck_attn_args *a, const attn_item *t, int64_t r) {
    int64_t row = (t->b * a->Hq + t->h) * a->S + t->first + r;
    return (char *)a->qk + row * a->T * (int64_t)nc_dtype_bytes(a->type);
}

static void attn_expose(const nck_attn_args *a, const attn_item *t, nck_attn_stage stage, const void *scores) {
    if (a->qk == NULL || nc_min64(a->qk_stage, NCK_ATTN_BIASED) != stage) return;
    size_t es = nc_dtype_bytes(a->type), row = (size_t)(t->k1 - t->k0) * es;
    for (int64_t r = 0; r < t->rows; r++)
        memcpy(attn_qk_row(a, t, r) + t->k0 * (int64_t)es, (const char *)scores + (size_t)(r * t->ld) * es, row);
}

#define TEXT "kernels/cpu/attn/attn_scores.inc"
#include "kernels/cpu/per_float.inc"

/* Keys and values of the block at hand, in whole panels; NULL: they are read as they lie. */
typedef struct attn_block {
    void *keys, *values;
    int64_t n;
} attn_block;

/* queries: the item's, scaled and dense. */
static void attn_products(const attn_job *j, const attn_item *t, const attn_block *p, const void *queries, void *scores,
                          void *gemm) {
    const nck_attn_args *a = j->a;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = t->rows,
                              .N = t->k1 - t->k0,
                              .K = a->D,
                              .alpha = 1,
                              .a = queries,
                              .a_rs = a->D,
                              .a_cs = 1,
                              .b = attn_matrix(a, &a->k, t->b, t->kv, t->k0),
                              .b_rs = a->k.column,
                              .b_cs = a->k.row,
                              .b_packed = p->keys,
                              .c = scores,
                              .c_rs = t->ld,
                              .c_cs = 1},
             gemm, j->pool);
}

static void attn_values(const attn_job *j, const attn_item *t, const attn_block *p, const void *scores, void *gemm) {
    const nck_attn_args *a = j->a;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = t->rows,
                              .N = a->Dv,
                              .K = t->k1 - t->k0,
                              .alpha = 1,
                              .beta = t->begun ? 1 : 0,
                              .a = scores,
                              .a_rs = t->ld,
                              .a_cs = 1,
                              .b = attn_matrix(a, &a->v, t->b, t->kv, t->k0),
                              .b_rs = a->v.row,
                              .b_cs = a->v.column,
                              .b_packed = p->values,
                              .b_packed_k = p->n,
                              .c = attn_matrix(a, &a->y, t->b, t->h, t->first),
                              .c_rs = a->y.row,
                              .c_cs = 1},
             gemm, j->pool);
}

/* Where a few queries read keys or values from k on, and until where. */
static const void *attn_few_rows(const attn_job *j, const attn_item *t, bool values, int64_t k, int64_t *end) {
    const nck_attn_args *a = j->a;
    const nck_attn_operand *now = values ? &a->v : &a->k, *past = values ? &a->past_v : &a->past_k;
    *end = k < t->past ? nc_min64(t->past, t->k1) : t->k1;
    return attn_matrix(a, k < t->past ? past : now, t->b, t->kv, k);
}

/* Scores of a few queries of floats, some keys at a time. */
static void attn_few_scores(const attn_job *j, const attn_item *t, float *scores) {
    const nck_attn_args *a = j->a;
    nck_few f = {.a = (const void *)attn_matrix(a, &a->q, t->b, t->h, t->first),
                 .a_row = a->q.row,
                 .b_row = a->k.row,
                 .y_row = t->ld,
                 .rows = t->rows,
                 .width = a->D,
                 .by = (float)a->scale};
    for (int64_t k = t->k0, end; k < t->k1; k += f.n) {
        f.b = attn_few_rows(j, t, false, k, &end);
        f.n = nc_min64(FEW_KEYS, end - k);
        f.y = scores + (k - t->k0);
        j->few->few_dots(&f);
    }
}

static void attn_few_values(const attn_job *j, const attn_item *t, const float *scores) {
    const nck_attn_args *a = j->a;
    nck_few f = {.a_row = t->ld,
                 .b_row = a->v.row,
                 .y = (void *)attn_matrix(a, &a->y, t->b, t->h, t->first),
                 .y_row = a->y.row,
                 .rows = t->rows,
                 .width = a->Dv,
                 .adds = t->begun};
    for (int64_t k = t->k0, end; k < t->k1; k = end, f.adds = true) {
        f.a = scores + (k - t->k0);
        f.b = attn_few_rows(j, t, true, k, &end);
        f.n = end - k;
        j->few->few_sums(&f);
    }
}

static bool attn_is_few(const attn_job *j, const attn_item *t) {
    const nck_attn_args *a = j->a;
    return a->type == NC_FLOAT && t->rows <= FEW_QUERIES && j->few->few_dots != NULL && a->q.column == 1 &&
           a->k.column == 1 && a->v.column == 1 && a->D % j->few->width == 0 && a->Dv % j->few->width == 0;
}

static void attn_pack(const nck_attn_args *a, const attn_item *t, attn_block *p) {
    p->n = t->k1 - t->k0;
    nck_gemm_pack_b(a->type, a->D, p->n, attn_matrix(a, &a->k, t->b, t->kv, t->k0), a->k.column, a->k.row, p->keys);
    nck_gemm_pack_b(a->type, p->n, a->Dv, attn_matrix(a, &a->v, t->b, t->kv, t->k0), a->v.row, a->v.column, p->values);
}

static double attn_sink(const nck_attn_args *a, const attn_item *t, int64_t r) {
    int64_t head = a->joined ? t->h * a->S + t->first + r : t->h;
    return a->sink != NULL ? nc_real_get(a->type, a->sink, head) : -(double)INFINITY;
}

/* Some queries of an item, whose sums and scaled queries these are, with the keys of a block that they may see. */
static void attn_run_part(const attn_job *j, attn_item *t, const attn_block *p, const attn_sums *sums,
                          const void *queries, void *scores, void *gemm) {
    const nck_attn_args *a = j->a;
    bool f32 = a->type == NC_FLOAT;
    if (queries != NULL)
        attn_products(j, t, p, queries, scores, gemm);
    else
        attn_few_scores(j, t, scores);
    (f32 ? attn_weigh_f32 : attn_weigh_f64)(j, t, sums, scores);
    if (queries != NULL)
        attn_values(j, t, p, scores, gemm);
    else
        attn_few_values(j, t, scores);
    t->begun = true;
}

/* Part number n of an item, with the keys that it may see: false where there are none. */
static bool attn_part(const nck_attn_args *a, const attn_item *of, int64_t n, attn_item *t) {
    int64_t lo, hi;
    t->first = of->first + n * ROWS;
    t->rows = nc_min64(ROWS, of->rows - n * ROWS);
    attn_range(a, t, &lo, &hi);
    t->past = of->past;
    t->k0 = of->k0, t->k1 = nc_min64(of->k1, hi), t->ld = nc_max64(0, t->k1 - t->k0) + APART;
    return t->k0 < t->k1 && lo < of->k1;
}

/* What comes after the rows of Y of an item; one run where they lie side by side, and so do all operands. */
static void attn_after(const nck_attn_args *a, const attn_item *t) {
    const nck_attn_after *f = a->after;
    nck_tile_run_in in[NCK_ATTN_AFTER_IN];
    bool whole = a->y.row == a->Dv;
    for (int k = 1; k < f->prog->n_in; k++) whole &= f->in[k].row == (f->in[k].column != 0 ? a->Dv : 0);
    int64_t step = whole ? t->rows : 1;
    for (int64_t i = t->first, end = i + t->rows; i < end; i += step) {
        float *y = (void *)attn_matrix(a, &a->y, t->b, t->h, i);
        in[0] = (nck_tile_run_in){.data = y};
        for (int k = 1; k < f->prog->n_in; k++)
            in[k] = (nck_tile_run_in){.data = (void *)attn_matrix(a, &f->in[k], t->b, t->h, i),
                                      .period = f->in[k].column == 0 ? 1 : 0};
        nck_tile_run_flat(f->prog, in, y, step * a->Dv);
    }
}

static void attn_run_item(const attn_job *j, int64_t i, char *workspace) {
    const nck_attn_args *a = j->a;
    attn_item t = {.b = i / j->chunks / a->Hq, .h = i / j->chunks % a->Hq, .first = i % j->chunks * j->rows};
    t.rows = nc_min64(j->rows, a->S - t.first);
    t.kv = t.h / (a->Hq / a->Hkv);
    if (t.rows <= 0) return;
    attn_item parts[PARTS];
    char *scores = workspace, *queries = scores + j->bytes_scores, *keys = queries + j->bytes_queries;
    attn_block block = {.keys = keys, .values = keys + j->bytes_keys};
    void *gemm = keys + j->bytes_keys + j->bytes_values;
    double m[CHUNK], l[CHUNK];
    for (int64_t r = 0; r < t.rows; r++) {
        double sink = attn_sink(a, &t, r);
        m[r] = sink, l[r] = sink == -(double)INFINITY ? 0 : 1;
    }
    int64_t lo, hi, n_parts = nc_ceil_div(t.rows, ROWS), row = a->D * (int64_t)nc_dtype_bytes(a->type);
    attn_range(a, &t, &lo, &hi);
    bool few = attn_is_few(j, &t);
    if (t.rows <= FEW_QUERIES) block.keys = block.values = NULL;
    if (!few) (a->type == NC_FLOAT ? attn_scaled_f32 : attn_scaled_f64)(j->table, a, &t, (void *)queries);
    for (int64_t n = 0; n < n_parts; n++) parts[n] = t;
    for (t.k0 = lo; t.k0 < hi; t.k0 = t.k1) {
        t.k1 = nc_min64(t.k0 + KEYS, hi);
        if (a->bring) t.past = a->bring(a->ctx, t.b, t.kv, t.k0 == lo ? 0 : t.k0, t.k1);
        if (block.keys != NULL) attn_pack(a, &t, &block);
        for (int64_t n = 0; n < n_parts; n++)
            if (attn_part(a, &t, n, &parts[n]))
                attn_run_part(j, &parts[n], &block, &(attn_sums){m + n * ROWS, l + n * ROWS},
                              few ? NULL : queries + n * ROWS * row, scores, gemm);
    }
    if (a->bring) a->bring(a->ctx, t.b, t.kv, lo < hi ? hi : 0, INT64_MAX);
    for (int64_t n = 0; n < n_parts; n++) {
        (void)attn_part(a, &t, n, &parts[n]);
        (a->type == NC_FLOAT ? attn_finish_f32 : attn_finish_f64)(j, &parts[n],
                                                                  &(attn_sums){m + n * ROWS, l + n * ROWS});
        if (a->after) attn_after(a, &parts[n]);
    }
}

static void attn_run_group(void *ctx, int64_t group) {
    const attn_job *j = ctx;
    for (int64_t i = group; i < j->n_items; i += j->n_groups)
        attn_run_item(j, i, j->workspace + (size_t)group * j->bytes_each);
}

void nck_attn_join_heads(nck_attn_args *a) {
    int64_t each = a->Hq / a->Hkv;
    if (a->S != 1 || each == 1) return;
    a->joined = true;
    a->Hq = a->Hkv, a->S = each;
    a->q.row = a->q.head, a->q.head *= each;
    a->y.row = a->y.head, a->y.head *= each;
    a->mask_strides[2] = a->mask_strides[1], a->mask_strides[1] *= each;
    for (int k = 1; a->after && k < a->after->prog->n_in; k++)
        a->after->in[k].row = a->after->in[k].head, a->after->in[k].head *= each;
}

void nck_attn(const nck_attn_args *a, void *workspace, nc_pool *pool) {
    attn_job j = {.a = a, .table = nck_isa_get()->reduce, .few = nck_narrow_reduce(), .workspace = workspace};
    pool = nc_pool_for(pool, a->B * a->Hq * a->S * a->T * (a->D + a->Dv) / PER_ELEMENT);
    j.chunks = chunks_of(a, nc_pool_threads(pool));
    j.rows = nc_ceil_div(a->S, j.chunks);
    j.n_items = a->B * a->Hq * j.chunks;
    j.n_groups = nc_min64(j.n_items, GROUPS);
    j.bytes_scores = bytes_scores(a->type, a->S, a->T);
    j.bytes_queries = bytes_queries(a->type, a->S, a->D);
    j.bytes_keys = bytes_keys(a->type, a->S, a->T, a->D);
    j.bytes_values = bytes_values(a->type, a->S, a->T, a->Dv);
    j.pool = j.n_groups == 1 ? pool : NULL;
    j.bytes_each = bytes_each(nck_gemm_workspace_serial, a->type, a->S, a->T, a->D, a->Dv);
    if (j.n_groups == 1)
        attn_run_group(&j, 0);
    else
        nc_parallel(pool, j.n_groups, attn_run_group, &j);
}
