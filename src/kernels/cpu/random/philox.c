/* kernels/cpu/random/philox.c: uniform numbers and dropout over dense tensors, see philox.h.
 * Items are ranges of ITEM elements; each draws its words a block at a time into a small buffer. */
#include "kernels/cpu/random/philox.h"

#include "base/intmath.h"
#include "kernels/cpu/random/philox_text.h"

enum { ITEM = 8192, CHUNK = 256 };

typedef struct philox_job {
    nc_dtype type;
    int64_t n;
    nck_rng rng;
    double a, b; /* uniform: low, high - low; dropout: ratio, scale */
    const void *x;
    void *y;
    uint8_t *mask;
    const uint8_t *mask_in;
    void (*chunk)(const struct philox_job *j, int64_t at, int64_t n, const float *u);
} philox_job;

/* u[i] = the uniform number of element first + i, n <= CHUNK. */
static void draw(const nck_rng *rng, uint64_t first, int64_t n, float *u) {
    uint32_t w[4];
    uint64_t end = first + (uint64_t)n;
    for (uint64_t block = first / 4; block * 4 < end; block++) {
        nck_philox4(rng->seed, rng->node_id, rng->step, block, w);
        if (block * 4 >= first && block * 4 + 4 <= end) {
            float *d = u + (block * 4 - first);
            d[0] = nck_philox_uniform(w[0]);
            d[1] = nck_philox_uniform(w[1]);
            d[2] = nck_philox_uniform(w[2]);
            d[3] = nck_philox_uniform(w[3]);
            continue;
        }
        for (uint64_t i = 0; i < 4; i++) {
            uint64_t at = block * 4 + i;
            if (at >= first && at < end) u[at - first] = nck_philox_uniform(w[i]);
        }
    }
}

static void random_item(void *ctx, int64_t item) {
    const philox_job *j = ctx;
    float u[CHUNK];
    int64_t end = nc_min64((item + 1) * ITEM, j->n);
    for (int64_t at = item * ITEM; at < end; at += CHUNK) {
        int64_t n = nc_min64(CHUNK, end - at);
        draw(&j->rng, (uint64_t)(j->rng.first + at), n, u);
        j->chunk(j, at, n, u);
    }
}

static void uniform_chunk(const philox_job *j, int64_t at, int64_t n, const float *u) {
    if (j->type == NC_FLOAT) {
        float *y = (float *)j->y + at, low = (float)j->a, width = (float)j->b;
        for (int64_t i = 0; i < n; i++) y[i] = low + u[i] * width;
    } else {
        double *y = (double *)j->y + at;
        for (int64_t i = 0; i < n; i++) y[i] = j->a + (double)u[i] * j->b;
    }
}

static void dropout_chunk(const philox_job *j, int64_t at, int64_t n, const float *u) {
    if (j->type == NC_FLOAT) {
        const float *x = (const float *)j->x + at;
        float *y = (float *)j->y + at, scale = (float)j->b;
        for (int64_t i = 0; i < n; i++) y[i] = (double)u[i] >= j->a ? x[i] * scale : 0.0f;
    } else {
        const double *x = (const double *)j->x + at;
        double *y = (double *)j->y + at;
        for (int64_t i = 0; i < n; i++) y[i] = (double)u[i] >= j->a ? x[i] * j->b : 0.0;
    }
    if (j->mask)
        for (int64_t i = 0; i < n; i++) j->mask[at + i] = (double)u[i] >= j->a;
}

static void grad_item(void *ctx, int64_t item) {
    const philox_job *j = ctx;
    int64_t end = nc_min64((item + 1) * ITEM, j->n);
    if (j->type == NC_FLOAT) {
        const float *dy = j->x;
        float *dx = j->y, scale = (float)j->b;
        for (int64_t i = item * ITEM; i < end; i++) dx[i] = j->mask_in[i] ? dy[i] * scale : 0.0f;
    } else {
        const double *dy = j->x;
        double *dx = j->y;
        for (int64_t i = item * ITEM; i < end; i++) dx[i] = j->mask_in[i] ? dy[i] * j->b : 0.0;
    }
}

void nck_random_uniform(nc_dtype type, int64_t n, nck_rng rng, double low, double high, void *y, nc_pool *pool) {
    philox_job j = {.type = type, .n = n, .rng = rng, .a = low, .b = high - low, .y = y, .chunk = uniform_chunk};
    nc_parallel(pool, nc_ceil_div(n, ITEM), random_item, &j);
}

void nck_dropout(nc_dtype type, int64_t n, nck_rng rng, double ratio, const void *x, void *y, uint8_t *mask,
                 nc_pool *pool) {
    philox_job j = {.type = type,
                    .n = n,
                    .rng = rng,
                    .a = ratio,
                    .b = 1.0 / (1.0 - ratio),
                    .x = x,
                    .y = y,
                    .mask = mask,
                    .chunk = dropout_chunk};
    nc_parallel(pool, nc_ceil_div(n, ITEM), random_item, &j);
}

void nck_dropout_grad(nc_dtype type, int64_t n, double ratio, const void *dy, const uint8_t *mask, void *dx,
                      nc_pool *pool) {
    philox_job j = {.type = type, .n = n, .b = 1.0 / (1.0 - ratio), .x = dy, .y = dx, .mask_in = mask};
    nc_parallel(pool, nc_ceil_div(n, ITEM), grad_item, &j);
}
