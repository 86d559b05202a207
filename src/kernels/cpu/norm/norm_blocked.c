/* kernels/cpu/norm/norm_blocked.c: batches of channels in blocks normalized, and the gradients; see norm.h. An item is
 * a plane, one block of channels of one image. Planes are summed up around their own means while they lie in a cache;
 * then each block joins its planes in order, in double: with m the mean of a plane of n rows, s its sum and M that of
 * the channel,
 *   sum((x - M)^2) = sum((x - m)^2) + 2 (m - M) (s - n m) + n (m - M)^2
 *   sum(dy (x - M)) = sum(dy (x - m)) + (m - M) sum(dy)
 * so that x and dy come from memory once for the sums and once for the result. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/norm/lanes_kernel.h"

#include <math.h>

enum { RUN = NCK_LANES_RUN, MAX = NCK_CONV_MAX_BLOCK };

/* What is known of a plane, lane by lane. */
typedef struct plane_sums {
    float mean[MAX];
    double sum[MAX], squares[MAX]; /* squares and along around the plane's mean */
    double plain[MAX], along[MAX];
} plane_sums;

/* What an item of the second pass multiplies with, lane by lane. */
typedef struct block_terms {
    float shift[MAX], by[MAX], more[MAX], add[MAX];
} block_terms;

typedef struct blocked_job {
    const nck_lanes_table *table;
    int64_t N, C, size, B, blocks;
    const float *x, *dy; /* dy NULL: of the forward pass */
    const float *mean;   /* (C), given; NULL: planes are summed up around their own means */
    bool finds, sums_dy; /* the statistics of x, the sums over dy are wanted */
    bool follows;        /* the statistics follow x: dx has all its terms */
    float *to;           /* y or dx */
    plane_sums *planes;
    block_terms *terms;
} blocked_job;

static int64_t plane_at(const blocked_job *j, int64_t item) { return item * j->size * j->B; }

static void find_stats(const blocked_job *j, const float *x, plane_sums *p) {
    float part[MAX];
    for (int64_t i = 0; i < j->size; i += RUN) {
        j->table->sum(j->B, x + i * j->B, nc_min64(RUN, j->size - i), part);
        for (int64_t l = 0; l < j->B; l++) p->sum[l] += (double)part[l];
    }
    for (int64_t l = 0; l < j->B; l++) p->mean[l] = (float)(p->sum[l] / (double)nc_max64(1, j->size));
    for (int64_t i = 0; i < j->size; i += RUN) {
        j->table->squares(j->B, x + i * j->B, p->mean, nc_min64(RUN, j->size - i), part);
        for (int64_t l = 0; l < j->B; l++) p->squares[l] += (double)part[l];
    }
}

static void find_sums(const blocked_job *j, const float *x, const float *dy, plane_sums *p) {
    float plain[MAX], along[MAX];
    for (int64_t i = 0; i < j->size; i += RUN) {
        int64_t at = i * j->B;
        j->table->sums(j->B, x + at, dy + at, p->mean, nc_min64(RUN, j->size - i), plain, along);
        for (int64_t l = 0; l < j->B; l++) p->plain[l] += (double)plain[l], p->along[l] += (double)along[l];
    }
}

static void sum_item(void *ctx, int64_t item) {
    const blocked_job *j = ctx;
    plane_sums *p = &j->planes[item];
    int64_t c0 = item % j->blocks * j->B;
    *p = (plane_sums){.mean = {0}};
    for (int64_t l = 0; j->mean && l < nc_min64(j->B, j->C - c0); l++) p->mean[l] = j->mean[c0 + l];
    if (j->finds) find_stats(j, j->x + plane_at(j, item), p);
    if (j->sums_dy) find_sums(j, j->x + plane_at(j, item), j->dy + plane_at(j, item), p);
}

static void affine_item(void *ctx, int64_t item) {
    const blocked_job *j = ctx;
    const block_terms *t = &j->terms[item % j->blocks];
    j->table->affine(j->B, j->x + plane_at(j, item), t->shift, t->by, t->add, j->size, j->to + plane_at(j, item));
}

static void blend_item(void *ctx, int64_t item) {
    const blocked_job *j = ctx;
    const block_terms *t = &j->terms[item % j->blocks];
    int64_t at = plane_at(j, item);
    j->table->blend(j->B, j->x + at, j->dy + at, t->shift, t->by, j->follows ? t->more : NULL, t->add, j->size,
                    j->to + at);
}

static blocked_job job_of(int64_t N, int64_t C, int64_t size, int64_t block, void *workspace) {
    blocked_job j = {.table = nck_isa_get()->lanes, .N = N, .C = C, .size = size, .B = block};
    j.blocks = nc_ceil_div(C, block);
    j.terms = workspace;
    j.planes = (plane_sums *)(void *)((char *)workspace + nc_align64((size_t)j.blocks * sizeof *j.terms));
    return j;
}

size_t nck_norm_blocked_workspace(int64_t N, int64_t C, int64_t block) {
    int64_t blocks = nc_ceil_div(C, block);
    return nc_align64((size_t)blocks * sizeof(block_terms)) + (size_t)(N * blocks) * sizeof(plane_sums);
}

static void each_plane(const blocked_job *j, void (*item)(void *ctx, int64_t item), nc_pool *pool) {
    int64_t planes = j->N * j->blocks;
    blocked_job copy = *j;
    nc_parallel(nc_pool_for(pool, planes * j->size * j->B), planes, item, &copy);
}

/* Of channel c: the mean, and the variance, over all planes. */
static void join_stats(const blocked_job *j, int64_t c, double *mean, double *var) {
    double count = (double)(j->N * j->size), n = (double)j->size, sum = 0, squares = 0;
    int64_t b = c / j->B, l = c % j->B;
    for (int64_t i = 0; i < j->N; i++) sum += j->planes[i * j->blocks + b].sum[l];
    *mean = sum / count;
    for (int64_t i = 0; i < j->N; i++) {
        const plane_sums *p = &j->planes[i * j->blocks + b];
        double m = (double)p->mean[l], off = m - *mean;
        squares += p->squares[l] + 2 * off * (p->sum[l] - n * m) + n * off * off;
    }
    *var = squares / count;
}

void nck_channel_stats_blocked(const nck_norm_channels *a, int64_t block, float *mean, float *var, void *workspace,
                               nc_pool *pool) {
    blocked_job j = job_of(a->N, a->C, a->size, block, workspace);
    j.x = a->x, j.finds = true;
    each_plane(&j, sum_item, pool);
    for (int64_t c = 0; c < a->C; c++) {
        double m, v;
        join_stats(&j, c, &m, &v);
        mean[c] = (float)m, var[c] = (float)v;
    }
}

void nck_norm_by_channel_blocked(const nck_norm_channels *a, int64_t block, void *workspace, nc_pool *pool) {
    blocked_job j = job_of(a->N, a->C, a->size, block, workspace);
    j.x = a->x, j.to = a->y;
    for (int64_t b = 0; b < j.blocks; b++) j.terms[b] = (block_terms){.by = {0}};
    for (int64_t c = 0; c < a->C; c++) {
        block_terms *t = &j.terms[c / block];
        double inv = 1 / sqrt((double)((const float *)a->var)[c] + a->epsilon);
        t->shift[c % block] = ((const float *)a->mean)[c];
        t->by[c % block] = (float)((double)((const float *)a->scale)[c] * inv);
        t->add[c % block] = ((const float *)a->bias)[c];
    }
    each_plane(&j, affine_item, pool);
}

/* Sums of channel c to where they are wanted, and the terms of its dx. */
static void join_sums(const blocked_job *j, const nck_norm_channels_back *a, int64_t c) {
    double count = (double)(j->N * j->size), mean, var, inv, plain = 0, along = 0;
    int64_t b = c / j->B, l = c % j->B;
    if (j->finds) {
        join_stats(j, c, &mean, &var);
        mean = (double)(float)mean;
        inv = 1 / sqrt(var + a->epsilon);
    } else {
        mean = (double)j->mean[c];
        inv = (double)((const float *)a->inv_std)[c];
    }
    for (int64_t i = 0; i < j->N && j->sums_dy && j->size > 0; i++) {
        const plane_sums *p = &j->planes[i * j->blocks + b];
        plain += p->plain[l];
        along += p->along[l] + ((double)p->mean[l] - mean) * p->plain[l];
    }
    if (count > 0) along *= inv;
    if (a->dscale) ((float *)a->dscale)[c] = (float)along;
    if (a->dbias) ((float *)a->dbias)[c] = (float)plain;
    double by = (double)((const float *)a->scale)[c] * inv;
    block_terms *t = &j->terms[b];
    t->shift[l] = (float)mean, t->by[l] = (float)by;
    t->more[l] = a->constant ? 0 : (float)(-by * inv * along / count);
    t->add[l] = a->constant ? 0 : (float)(-by * plain / count);
}

void nck_norm_channels_grad_blocked(const nck_norm_channels_back *a, int64_t block, void *workspace, nc_pool *pool) {
    blocked_job j = job_of(a->N, a->C, a->size, block, workspace);
    j.x = a->x, j.dy = a->dy, j.to = a->dx;
    j.mean = a->mean, j.finds = a->mean == NULL, j.follows = !a->constant;
    j.sums_dy = !a->constant || a->dscale || a->dbias;
    for (int64_t b = 0; b < j.blocks; b++) j.terms[b] = (block_terms){.by = {0}};
    if (j.finds || j.sums_dy) each_plane(&j, sum_item, pool);
    for (int64_t c = 0; c < a->C; c++) join_sums(&j, a, c);
    if (a->dx) each_plane(&j, blend_item, pool);
}
