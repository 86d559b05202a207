/* kernels/cpu/attn/attn_grad.c: the gradient of attention cut into items of one batch and key head, see attn_grad.h. An
 * item goes through the query heads that share the key head, and through their queries in blocks, in order; a block's
 * shares with all keys that one of its queries may see are held at a time, so there are fewer queries in a block of
 * many keys. dK and dV of an item are its own: no two items write to the same place.
 *
 * Items are dealt to a fixed number of groups, each with a workspace of its own, as in attn.c. */
#include "kernels/cpu/attn/attn_grad.h"

#include "base/intmath.h"
#include "kernels/cpu/attn/attn_item.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = NCK_ATTN_ROWS, /* of a block, at most */
    LEAST = 8,          /* and at least */
    SCORES = 64 * 4096, /* of a block, as long as LEAST allows it */
    GROUPS = NCK_ATTN_GROUPS,
    BUFFERS = 3,    /* shares, their gradients, slopes */
    PER_ELEMENT = 4 /* multiply-adds that count as an element of work */
};

typedef struct grad_job {
    const nck_attn_grad_args *g;
    const nck_reduce_table *table;
    int64_t n_items, n_groups, block;
    size_t bytes_scores, bytes_queries, bytes_each;
    char *workspace;
    nc_pool *pool; /* of a single group; else items are serial inside */
} grad_job;

#define TEXT "kernels/cpu/attn/attn_grad.inc"
#include "kernels/cpu/per_float.inc"

static size_t bytes_scores(nc_dtype type, int64_t S, int64_t T) {
    int64_t most = nc_max64(SCORES, LEAST * T);
    return nc_align64((size_t)nc_min64(nc_min64(S, ROWS) * T, most) * nc_dtype_bytes(type));
}

static size_t bytes_queries(nc_dtype type, int64_t S, int64_t D) {
    return nc_align64((size_t)(nc_min64(S, ROWS) * D) * nc_dtype_bytes(type));
}

typedef size_t gemm_bytes(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed);

static size_t bytes_each(gemm_bytes *gemm, nc_dtype type, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    int64_t rows = nc_min64(S, ROWS), wide = nc_max64(D, Dv);
    size_t scores = gemm(type, rows, T, wide, false), by_rows = gemm(type, rows, wide, T, false),
           by_keys = gemm(type, T, wide, rows, false);
    return BUFFERS * bytes_scores(type, S, T) + bytes_queries(type, S, D) +
           nc_align64(nc_max_size(scores, nc_max_size(by_rows, by_keys)));
}

static int64_t n_groups(int64_t B, int64_t Hkv) { return nc_min64(B * Hkv, GROUPS); }

size_t nck_attn_grad_workspace(nc_dtype type, int64_t B, int64_t Hkv, int64_t S, int64_t T, int64_t D, int64_t Dv) {
    size_t one = bytes_each(nck_gemm_workspace, type, S, T, D, Dv);
    return nc_max_size(one, bytes_each(nck_gemm_workspace_serial, type, S, T, D, Dv) * (size_t)n_groups(B, Hkv));
}

/* ---- matrices ---- */

typedef struct matrix {
    char *p;
    int64_t rs, cs;
} matrix;

static matrix rows_of(const grad_job *j, const nck_attn_operand *o, int64_t b, int64_t h, int64_t row) {
    return (matrix){attn_matrix(&j->g->a, o, b, h, row), o->row, o->column};
}

static matrix turned(matrix m) { return (matrix){m.p, m.cs, m.rs}; }

/* c = a b + beta c, (M,K) by (K,N) */
static void multiply(const grad_job *j, int64_t M, int64_t N, int64_t K, matrix a, matrix b, double beta, matrix c,
                     void *gemm) {
    nck_gemm(&(nck_gemm_args){.type = j->g->a.type,
                              .M = M,
                              .N = N,
                              .K = K,
                              .alpha = 1,
                              .beta = beta,
                              .a = a.p,
                              .a_rs = a.rs,
                              .a_cs = a.cs,
                              .b = b.p,
                              .b_rs = b.rs,
                              .b_cs = b.cs,
                              .c = c.p,
                              .c_rs = c.rs,
                              .c_cs = c.cs},
             gemm, j->pool);
}

static void clear(const grad_job *j, const nck_attn_operand *o, int64_t b, int64_t h, int64_t first, int64_t rows,
                  int64_t columns) {
    size_t bytes = (size_t)columns * nc_dtype_bytes(j->g->a.type);
    for (int64_t r = 0; o->data != NULL && bytes > 0 && r < rows; r++)
        memset(attn_matrix(&j->g->a, o, b, h, first + r), 0, bytes);
}

/* ---- blocks ---- */

/* Where a block's shares P, their gradients, softcap's slopes and scaled queries lie. */
typedef struct buffers {
    matrix p, d, q;
    void *slope, *gemm;
} buffers;

static buffers buffers_of(const grad_job *j, const attn_item *t, char *workspace) {
    int64_t n = t->k1 - t->k0;
    return (buffers){.p = {workspace, n, 1},
                     .d = {workspace + j->bytes_scores, n, 1},
                     .q = {workspace + BUFFERS * j->bytes_scores, j->g->a.D, 1},
                     .slope = workspace + 2 * j->bytes_scores,
                     .gemm = workspace + BUFFERS * j->bytes_scores + j->bytes_queries};
}

/* The keys that some query of the block may see: bounds move with the query. */
static void find_keys(const nck_attn_args *a, attn_item *t) {
    int64_t other;
    seen_keys(a, t->b, t->first, &t->k0, &other);
    seen_keys(a, t->b, t->first + t->rows - 1, &other, &t->k1);
    t->k0 = nc_min64(t->k0, a->T);
    t->k1 = nc_max64(t->k0, t->k1 + 1);
}

static void shares(const grad_job *j, const attn_item *t, const buffers *at) {
    const nck_attn_args *a = &j->g->a;
    if (a->type == NC_FLOAT)
        attn_scaled_f32(j->table, a, t, (float *)(void *)at->q.p);
    else
        attn_scaled_f64(j->table, a, t, (double *)(void *)at->q.p);
    multiply(j, t->rows, t->k1 - t->k0, a->D, at->q, turned(rows_of(j, &a->k, t->b, t->kv, t->k0)), 0, at->p, at->gemm);
    if (a->type == NC_FLOAT)
        attn_shares_f32(j, t, (float *)(void *)at->p.p, at->slope);
    else
        attn_shares_f64(j, t, (double *)(void *)at->p.p, at->slope);
}

static void products_grad(const grad_job *j, const attn_item *t, const buffers *at) {
    const nck_attn_args *a = &j->g->a;
    multiply(j, t->rows, t->k1 - t->k0, a->Dv, rows_of(j, &j->g->dy, t->b, t->h, t->first),
             turned(rows_of(j, &a->v, t->b, t->kv, t->k0)), 0, at->d, at->gemm);
    if (a->type == NC_FLOAT)
        attn_products_grad_f32(j, t, (float *)(void *)at->p.p, at->slope, (float *)(void *)at->d.p);
    else
        attn_products_grad_f64(j, t, (double *)(void *)at->p.p, at->slope, (double *)(void *)at->d.p);
}

static void attn_grad_block(const grad_job *j, attn_item *t, char *workspace) {
    const nck_attn_grad_args *g = j->g;
    const nck_attn_args *a = &g->a;
    find_keys(a, t);
    int64_t n = t->k1 - t->k0;
    if (n == 0) {
        clear(j, &g->dq, t->b, t->h, t->first, t->rows, a->D);
        return;
    }
    buffers at = buffers_of(j, t, workspace);
    shares(j, t, &at);
    if (g->dv.data != NULL)
        multiply(j, n, a->Dv, t->rows, turned(at.p), rows_of(j, &g->dy, t->b, t->h, t->first), 1,
                 rows_of(j, &g->dv, t->b, t->kv, t->k0), at.gemm);
    if (g->dq.data == NULL && g->dk.data == NULL) return;
    products_grad(j, t, &at);
    if (g->dk.data != NULL)
        multiply(j, n, a->D, t->rows, turned(at.d), at.q, 1, rows_of(j, &g->dk, t->b, t->kv, t->k0), at.gemm);
    if (g->dq.data == NULL) return;
    matrix dq = rows_of(j, &g->dq, t->b, t->h, t->first);
    multiply(j, t->rows, a->D, n, at.d, rows_of(j, &a->k, t->b, t->kv, t->k0), 0, dq, at.gemm);
    if (a->type == NC_FLOAT)
        attn_scale_rows_f32(j, t, (float *)(void *)dq.p, dq.rs, dq.cs);
    else
        attn_scale_rows_f64(j, t, (double *)(void *)dq.p, dq.rs, dq.cs);
}

/* ---- items ---- */

static void attn_grad_item(const grad_job *j, int64_t i, char *workspace) {
    const nck_attn_args *a = &j->g->a;
    int64_t share = a->Hq / a->Hkv;
    attn_item t = {.b = i / a->Hkv, .kv = i % a->Hkv};
    clear(j, &j->g->dk, t.b, t.kv, 0, a->T, a->D);
    clear(j, &j->g->dv, t.b, t.kv, 0, a->T, a->Dv);
    for (t.h = t.kv * share; t.h < (t.kv + 1) * share; t.h++)
        for (t.first = 0; t.first < a->S; t.first += j->block) {
            t.rows = nc_min64(j->block, a->S - t.first);
            attn_grad_block(j, &t, workspace);
        }
}

static void attn_grad_group(void *ctx, int64_t group) {
    const grad_job *j = ctx;
    for (int64_t i = group; i < j->n_items; i += j->n_groups)
        attn_grad_item(j, i, j->workspace + (size_t)group * j->bytes_each);
}

void nck_attn_grad(const nck_attn_grad_args *g, void *workspace, nc_pool *pool) {
    const nck_attn_args *a = &g->a;
    grad_job j = {.g = g, .table = nck_isa_get()->reduce, .workspace = workspace, .n_items = a->B * a->Hkv};
    j.block = nc_max64(LEAST, nc_min64(attn_rows(a), SCORES / nc_max64(a->T, 1)));
    j.n_groups = n_groups(a->B, a->Hkv);
    j.bytes_scores = bytes_scores(a->type, a->S, a->T);
    j.bytes_queries = bytes_queries(a->type, a->S, a->D);
    j.pool = j.n_groups == 1 ? pool : NULL;
    j.bytes_each = bytes_each(nck_gemm_workspace_serial, a->type, a->S, a->T, a->D, a->Dv);
    if (j.n_groups == 1)
        attn_grad_group(&j, 0);
    else
        nc_parallel(nc_pool_for(pool, a->B * a->Hq * a->S * a->T * (3 * a->D + 2 * a->Dv) / PER_ELEMENT), j.n_groups,
                    attn_grad_group, &j);
}
