/* kernels/cpu/attn/attn.c: attention cut into items of some queries of one head, see attn.h. An item goes through the
 * keys in blocks with an online softmax: for every query it keeps the largest score m and the sum l of exp(score - m)
 * of the blocks so far; a block that raises m scales l and the row of Y by exp(m_old - m_new) first. Keys before and
 * behind those that some query of the item may see are left out. At the end rows of Y are divided by l. A sink is where
 * m and l begin.
 *
 * Items are dealt to a fixed number of groups, each with a workspace of its own: which group does an item changes no
 * bit. A single query, of a few heads at most, takes its scores as dot products with the keys as they lie, where the
 * columns of both lie side by side; all other scores are a matrix product, of queries that were scaled before. */
#include "kernels/cpu/attn/attn_item.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = NCK_ATTN_ROWS,
    KEYS = 512, /* of a block */
    GROUPS = NCK_ATTN_GROUPS,
    FEW = 8,        /* heads that share keys and take dot products */
    DOT_KEYS = 64,  /* that they go through one after the other while the keys are in the cache */
    PER_ELEMENT = 4 /* multiply-adds that count as an element of work */
};

typedef struct attn_job {
    const nck_attn_args *a;
    const nck_reduce_table *table;
    int64_t blocks, n_items, n_groups;
    size_t bytes_scores, bytes_queries, bytes_each;
    char *workspace;
    nc_pool *pool; /* of a single group; else items are serial inside */
} attn_job;

/* Of each query: the largest score so far, and the sum of exp(score - m). */
typedef struct attn_sums {
    double m[ROWS], l[ROWS];
} attn_sums;

static size_t bytes_scores(nc_dtype type, int64_t S, int64_t T) {
    return nc_align64((size_t)(nc_min64(S, ROWS) * nc_min64(T, KEYS)) * nc_dtype_bytes(type));
}

static size_t bytes_queries(nc_dtype type, int64_t S, int64_t D) {
    return nc_align64((size_t)(nc_min64(S, ROWS) * D) * nc_dtype_bytes(type));
}

typedef size_t gemm_bytes(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed);

static size_t bytes_each(gemm_bytes *gemm, nc_dtype type, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    int64_t rows = nc_min64(S, ROWS), keys = nc_min64(T, KEYS);
    size_t qk = gemm(type, rows, keys, D, false), pv = gemm(type, rows, Dv, keys, false);
    return bytes_scores(type, S, T) + bytes_queries(type, S, D) + nc_align64(nc_max_size(qk, pv));
}

static int64_t n_groups(int64_t B, int64_t Hq, int64_t S) {
    return nc_min64(B * Hq * nc_ceil_div(S, NCK_ATTN_FEW), GROUPS);
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
        memcpy(attn_qk_row(a, t, r) + t->k0 * (int64_t)es, (const char *)scores + (size_t)r * row, row);
}

#define TEXT "kernels/cpu/attn/attn_scores.inc"
#include "kernels/cpu/per_float.inc"

/* queries: the item's, scaled and dense. */
static void attn_products(const attn_job *j, const attn_item *t, const void *queries, void *scores, void *gemm) {
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
                              .c = scores,
                              .c_rs = t->k1 - t->k0,
                              .c_cs = 1},
             gemm, j->pool);
}

static void attn_values(const attn_job *j, const attn_item *t, const void *scores, void *gemm) {
    const nck_attn_args *a = j->a;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = t->rows,
                              .N = a->Dv,
                              .K = t->k1 - t->k0,
                              .alpha = 1,
                              .beta = t->begun ? 1 : 0,
                              .a = scores,
                              .a_rs = t->k1 - t->k0,
                              .a_cs = 1,
                              .b = attn_matrix(a, &a->v, t->b, t->kv, t->k0),
                              .b_rs = a->v.row,
                              .b_cs = a->v.column,
                              .c = attn_matrix(a, &a->y, t->b, t->h, t->first),
                              .c_rs = a->y.row,
                              .c_cs = 1},
             gemm, j->pool);
}

static double attn_sink(const nck_attn_args *a, const attn_item *t, int64_t r) {
    int64_t head = a->joined ? t->h * a->S + t->first + r : t->h;
    return a->sink != NULL ? nc_real_get(a->type, a->sink, head) : -(double)INFINITY;
}

static void attn_run_item(const attn_job *j, int64_t i, char *workspace) {
    const nck_attn_args *a = j->a;
    attn_item t = {.b = i / j->blocks / a->Hq, .h = i / j->blocks % a->Hq, .first = i % j->blocks * attn_rows(a)};
    t.rows = nc_min64(attn_rows(a), a->S - t.first);
    t.kv = t.h / (a->Hq / a->Hkv);
    void *scores = workspace, *queries = workspace + j->bytes_scores, *gemm = (char *)queries + j->bytes_queries;
    attn_sums sums;
    for (int64_t r = 0; r < t.rows; r++) {
        double sink = attn_sink(a, &t, r);
        sums.m[r] = sink, sums.l[r] = sink == -(double)INFINITY ? 0 : 1;
    }
    int64_t lo, hi;
    attn_range(a, &t, &lo, &hi);
    bool dots = (t.rows == 1 || (a->joined && t.rows <= FEW)) && a->q.column == 1 && a->k.column == 1;
    if (!dots && a->type == NC_FLOAT)
        attn_scaled_f32(j->table, a, &t, queries);
    else if (!dots)
        attn_scaled_f64(j->table, a, &t, queries);
    for (t.k0 = lo; t.k0 < hi; t.k0 = t.k1) {
        t.k1 = nc_min64(t.k0 + KEYS, hi);
        if (!dots)
            attn_products(j, &t, queries, scores, gemm);
        else if (a->type == NC_FLOAT)
            attn_dots_f32(j, &t, scores);
        else
            attn_dots_f64(j, &t, scores);
        if (a->type == NC_FLOAT)
            attn_weigh_f32(j, &t, &sums, scores);
        else
            attn_weigh_f64(j, &t, &sums, scores);
        attn_values(j, &t, scores, gemm);
        t.begun = true;
    }
    if (a->type == NC_FLOAT)
        attn_finish_f32(j, &t, &sums);
    else
        attn_finish_f64(j, &t, &sums);
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
}

void nck_attn(const nck_attn_args *a, void *workspace, nc_pool *pool) {
    attn_job j = {.a = a, .table = nck_isa_get()->reduce, .workspace = workspace};
    j.blocks = nc_ceil_div(a->S, attn_rows(a));
    j.n_items = a->B * a->Hq * j.blocks;
    j.n_groups = n_groups(a->B, a->Hq, a->S);
    j.bytes_scores = bytes_scores(a->type, a->S, a->T);
    j.bytes_queries = bytes_queries(a->type, a->S, a->D);
    j.pool = j.n_groups == 1 ? pool : NULL;
    j.bytes_each = bytes_each(nck_gemm_workspace_serial, a->type, a->S, a->T, a->D, a->Dv);
    if (j.n_groups == 1)
        attn_run_group(&j, 0);
    else
        nc_parallel(nc_pool_for(pool, a->B * a->Hq * a->S * a->T * (a->D + a->Dv) / PER_ELEMENT), j.n_groups,
                    attn_run_group, &j);
}
