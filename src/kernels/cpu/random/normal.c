/* kernels/cpu/random/normal.c: normal numbers from the words of a Philox block (normal_text.h), and
 * draws from rows of unnormalised log-probabilities; see philox.h. */
#include "kernels/cpu/random/philox.h"

#include "base/intmath.h"
#include "kernels/cpu/random/normal_text.h"
#include "kernels/cpu/random/philox_text.h"

enum { ITEM_BLOCKS = 2048 };

typedef struct normal_job {
    nc_dtype type;
    int64_t n;
    nck_rng rng;
    double mean, scale;
    void *y;
} normal_job;

static void four_normals(const nck_rng *rng, uint64_t block, double out[4]) {
    uint32_t w[4];
    nck_philox4(rng->seed, rng->node_id, rng->step, block, w);
    nck_draw_normals(w, out);
}

static void normal_item(void *ctx, int64_t item) {
    const normal_job *j = ctx;
    uint64_t first = (uint64_t)j->rng.first, end = first + (uint64_t)j->n;
    uint64_t lo = first / 4 + (uint64_t)item * ITEM_BLOCKS;
    for (uint64_t block = lo; block < lo + ITEM_BLOCKS && block * 4 < end; block++) {
        double z[4];
        four_normals(&j->rng, block, z);
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t at = block * 4 + k;
            if (at < first || at >= end) continue;
            if (j->type == NC_FLOAT)
                ((float *)j->y)[at - first] = (float)(j->mean + j->scale * z[k]);
            else
                ((double *)j->y)[at - first] = j->mean + j->scale * z[k];
        }
    }
}

void nck_random_normal(nc_dtype type, int64_t n, nck_rng rng, double mean, double scale, void *y, nc_pool *pool) {
    normal_job j = {type, n, rng, mean, scale, y};
    int64_t blocks = n / 4 + 2;
    if (n > 0) nc_parallel(pool, nc_ceil_div(blocks, ITEM_BLOCKS), normal_item, &j);
}

void nck_random_classes(int64_t n_rows, int64_t n_classes, int64_t n_samples, nck_rng rng, const double *logits,
                        double *sums, int64_t *y) {
    for (int64_t r = 0; r < n_rows; r++, logits += n_classes) {
        double most = -INFINITY, total = 0, before = 0, piece = 0;
        for (int64_t k = 0; k < n_classes; k++) most = fmax(most, logits[k]);
        for (int64_t k = 0; k < n_classes; k++) {
            if (k % NCK_DRAW_PIECE == 0) before = total, piece = 0;
            sums[k] = total = before + (piece += nck_draw_exp(logits[k] - most));
        }
        for (int64_t i = 0; i < n_samples; i++) {
            uint32_t w[4];
            uint64_t at = (uint64_t)(rng.first + r * n_samples + i);
            int64_t lo = 0, hi = n_classes - 1;
            nck_philox4(rng.seed, rng.node_id, rng.step, at / 4, w);
            double u = (double)nck_philox_uniform(w[at % 4]) * total;
            while (lo < hi) { /* the first class whose sum is larger */
                int64_t mid = lo + (hi - lo) / 2;
                if (sums[mid] > u)
                    hi = mid;
                else
                    lo = mid + 1;
            }
            y[r * n_samples + i] = lo;
        }
    }
}
