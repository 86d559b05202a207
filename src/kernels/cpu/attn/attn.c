/* kernels/cpu/attn/attn.c: attention cut into items of some queries of one head; see attn.h. Items are dealt to a fixed
 * number of groups, each with a workspace of its own: which group does an item changes no bit. */
#include "kernels/cpu/attn/attn.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/softmax.h"

#include <math.h>
#include <string.h>

enum { ROWS = NCK_ATTN_ROWS, GROUPS = 16 };

typedef struct attn_job {
    const nck_attn_args *a;
    int64_t blocks, n_items, n_groups;
    size_t bytes_scores, bytes_each;
    char *workspace;
    nc_pool *pool; /* of a single group; else items are serial inside */
} attn_job;

/* Some queries of one head. */
typedef struct attn_item {
    int64_t b, h, first, rows;
} attn_item;

static size_t bytes_scores(nc_dtype type, int64_t S, int64_t T) {
    return nc_align64((size_t)(nc_min64(S, ROWS) * T) * nc_dtype_bytes(type));
}

static size_t bytes_each(nc_dtype type, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    int64_t rows = nc_min64(S, ROWS);
    size_t qk = nck_gemm_workspace(type, rows, T, D, false), pv = nck_gemm_workspace(type, rows, Dv, T, false);
    return bytes_scores(type, S, T) + nc_align64(nc_max_size(qk, pv));
}

static int64_t n_groups(int64_t B, int64_t Hq, int64_t S) { return nc_min64(B * Hq * nc_ceil_div(S, ROWS), GROUPS); }

size_t nck_attn_workspace(nc_dtype type, int64_t B, int64_t Hq, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    return bytes_each(type, S, T, D, Dv) * (size_t)n_groups(B, Hq, S);
}

/* First and last key that query i of batch b may see. */
static void seen_keys(const nck_attn_args *a, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
    int64_t place = i + (a->offset_by_lens ? a->kv_lens[b] - a->S : a->offset);
    *lo = a->left >= 0 ? nc_max64(0, place - a->left) : 0;
    *hi = a->T - 1;
    if (a->right >= 0) *hi = nc_min64(*hi, place + a->right);
    if (a->causal) *hi = nc_min64(*hi, place);
    if (a->kv_lens) *hi = nc_min64(*hi, a->kv_lens[b] - 1);
    if (a->mask) *hi = nc_min64(*hi, a->mask_cols - 1);
}

static void attn_expose(const nck_attn_args *a, const attn_item *t, nck_attn_stage stage, const void *scores) {
    if (a->qk == NULL || a->qk_stage != stage) return;
    size_t es = nc_dtype_bytes(a->type), row = ((size_t)(t->b * a->Hq + t->h) * (size_t)a->S + (size_t)t->first);
    memcpy((char *)a->qk + row * (size_t)a->T * es, scores, (size_t)(t->rows * a->T) * es);
}

#define TEXT "kernels/cpu/attn/attn_scores.inc"
#include "kernels/cpu/per_float.inc"

static char *attn_matrix(const nck_attn_args *a, const nck_attn_operand *o, int64_t b, int64_t h, int64_t row) {
    return (char *)o->data + (b * o->batch + h * o->head + row * o->row) * (int64_t)nc_dtype_bytes(a->type);
}

static void attn_run_item(const attn_job *j, int64_t i, char *workspace) {
    const nck_attn_args *a = j->a;
    attn_item t = {.b = i / j->blocks / a->Hq, .h = i / j->blocks % a->Hq, .first = i % j->blocks * ROWS};
    t.rows = nc_min64(ROWS, a->S - t.first);
    int64_t kv = t.h / (a->Hq / a->Hkv);
    void *scores = workspace, *gemm = workspace + j->bytes_scores;
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = t.rows,
                              .N = a->T,
                              .K = a->D,
                              .alpha = a->scale,
                              .a = attn_matrix(a, &a->q, t.b, t.h, t.first),
                              .a_rs = a->q.row,
                              .a_cs = 1,
                              .b = attn_matrix(a, &a->k, t.b, kv, 0),
                              .b_rs = 1,
                              .b_cs = a->k.row,
                              .c = scores,
                              .c_rs = a->T,
                              .c_cs = 1},
             gemm, j->pool);
    attn_expose(a, &t, NCK_ATTN_PRODUCT, scores);
    if (a->type == NC_FLOAT)
        attn_weigh_f32(j, &t, scores);
    else
        attn_weigh_f64(j, &t, scores);
    nck_gemm(&(nck_gemm_args){.type = a->type,
                              .M = t.rows,
                              .N = a->Dv,
                              .K = a->T,
                              .alpha = 1,
                              .a = scores,
                              .a_rs = a->T,
                              .a_cs = 1,
                              .b = attn_matrix(a, &a->v, t.b, kv, 0),
                              .b_rs = a->v.row,
                              .b_cs = 1,
                              .c = attn_matrix(a, &a->y, t.b, t.h, t.first),
                              .c_rs = a->y.row,
                              .c_cs = 1},
             gemm, j->pool);
}

static void attn_run_group(void *ctx, int64_t group) {
    const attn_job *j = ctx;
    for (int64_t i = group; i < j->n_items; i += j->n_groups)
        attn_run_item(j, i, j->workspace + (size_t)group * j->bytes_each);
}

void nck_attn(const nck_attn_args *a, void *workspace, nc_pool *pool) {
    attn_job j = {.a = a, .blocks = nc_ceil_div(a->S, ROWS), .workspace = workspace};
    j.n_items = a->B * a->Hq * j.blocks;
    j.n_groups = n_groups(a->B, a->Hq, a->S);
    j.bytes_scores = bytes_scores(a->type, a->S, a->T);
    j.bytes_each = bytes_each(a->type, a->S, a->T, a->D, a->Dv);
    j.pool = j.n_groups == 1 ? pool : NULL;
    if (j.n_groups == 1)
        attn_run_group(&j, 0);
    else
        nc_parallel(pool, j.n_groups, attn_run_group, &j);
}
