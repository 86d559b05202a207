/* kernels/cpu/gemm/gemm_batch.c: batches of products, see gemm_batch.h. Small products run side by side, dealt in order
 * to at most GROUPS groups that have a piece of the workspace each; larger ones follow one another, each on all
 * threads. */
#include "kernels/cpu/gemm/gemm_batch.h"

#include "base/intmath.h"

enum {
    GROUPS = 16,
    SMALL_WORKSPACE = 1 << 18,
    PER_ELEMENT = 4 /* multiply-adds that count as one element of work */
};

typedef struct batch_job {
    const nck_gemm_batch *b;
    char *workspace;
    size_t bytes_each;
    int64_t n, n_groups;
} batch_job;

/* For a product that one thread does. */
static size_t batch_bytes_each(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed) {
    return nc_dtype_is_float(type) ? nc_align64(nck_gemm_workspace_serial(type, M, N, K, b_packed)) : 0;
}

size_t nck_gemm_batch_workspace(nc_dtype type, int64_t n, int64_t M, int64_t N, int64_t K, bool b_packed) {
    if (!nc_dtype_is_float(type)) return 0;
    size_t each = batch_bytes_each(type, M, N, K, b_packed), one = nck_gemm_workspace(type, M, N, K, b_packed);
    return nc_max_size(one, (size_t)nc_min64(n, GROUPS) * nc_min_size(each, SMALL_WORKSPACE));
}

static void batch_product(const nck_gemm_batch *b, const nck_walk_at *w, void *workspace, nc_pool *pool) {
    nck_gemm_args g = b->one;
    int64_t es = (int64_t)nc_dtype_bytes(g.type), bytes_c = nc_dtype_is_float(g.type) && es < 4 ? 4 : es;
    g.a = (const char *)g.a + w->offset[0] * es;
    if (g.b_packed == NULL) g.b = (const char *)g.b + w->offset[1] * es;
    g.c = (char *)g.c + w->offset[2] * bytes_c;
    nck_gemm_after after;
    if (g.after != NULL) {
        after = *g.after;
        for (int k = 1; k < after.prog->n_in; k++)
            if (after.in[k].rs != 0) after.in[k].data += w->offset[2];
        g.after = &after;
    }
    nck_gemm_any(&g, workspace, pool);
}

static void batch_group(void *ctx, int64_t group) {
    const batch_job *j = ctx;
    int64_t i = j->n * group / j->n_groups, end = j->n * (group + 1) / j->n_groups;
    nck_walk_at w;
    for (nck_walk_start(&w, j->b->walk, i); i < end; i++, nck_walk_next(&w))
        batch_product(j->b, &w, j->workspace + (size_t)group * j->bytes_each, NULL);
}

/* In elements, as nc_pool_for counts; sizes beyond its bound are cut to it, so that nothing overflows. */
static int64_t batch_work(const nck_gemm_args *g, int64_t n) {
    const int64_t most = NC_ALONE * PER_ELEMENT;
    int64_t one = nc_min64(nc_min64(g->M, most) * nc_min64(g->N, most), most) * nc_min64(g->K, most);
    return nc_min64(one, most) * nc_min64(n, most) / PER_ELEMENT;
}

void nck_gemm_batch_run(const nck_gemm_batch *b, void *workspace, size_t bytes, nc_pool *pool) {
    const nck_gemm_args *g = &b->one;
    batch_job j = {.b = b, .workspace = workspace, .n = nck_walk_rows(b->walk)};
    if (j.n == 1) {
        nck_gemm_any(g, workspace, pool);
        return;
    }
    pool = nc_pool_for(pool, batch_work(g, j.n));
    j.n_groups = nc_min64(j.n, GROUPS);
    j.bytes_each = batch_bytes_each(g->type, g->M, g->N, g->K, g->b_packed != NULL);
    if (j.bytes_each <= SMALL_WORKSPACE && (size_t)j.n_groups * j.bytes_each <= bytes) {
        nc_parallel(pool, j.n_groups, batch_group, &j);
        return;
    }
    nck_walk_at w;
    nck_walk_start(&w, b->walk, 0);
    for (int64_t i = 0; i < j.n; i++, nck_walk_next(&w)) batch_product(b, &w, workspace, pool);
}
