/* kernels/cpu/norm/norm_grad.c: gradients of rows normalized by norm.c; mean and variance are computed anew, which is
 * cheaper than keeping them. With g = dy * scale and h the normalized x,
 *   dx = (g - mean(g) - h * mean(g * h)) / std      (without mean(g) where x is not centred)
 *   dscale = sum over rows of dy * h,  dbias = sum over rows of dy
 * Sums over rows: blocks of rows each into a part of the workspace, parts joined in order; blocks depend on the sizes
 * alone. All sums in double. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"

#include <math.h>
#include <string.h>

enum { BLOCKS = 32 };

typedef struct job {
    const nck_norm_args *a;
    const void *dy;
    void *dx, *dscale, *dbias;
    double *parts; /* (blocks, 2, cols) */
    int64_t per_block, blocks;
} job;

static int64_t block_rows(int64_t rows) { return nc_ceil_div(rows, BLOCKS); }

size_t nck_norm_grad_workspace(int64_t rows, int64_t cols) {
    int64_t blocks = nc_min64(rows, BLOCKS);
    return (size_t)blocks * 2 * (size_t)cols * sizeof(double);
}

#define DEFINE(S, T)                                                                              \
    static void row_##S(const job *j, int64_t row, double *part) {                                \
        const nck_norm_args *a = j->a;                                                            \
        const nck_norm_pick *p = &a->pick;                                                        \
        int64_t n = a->cols, base = row % p->mod * p->row_step;                                   \
        const T *x = (const T *)a->x + row * n, *dy = (const T *)j->dy + row * n, *s = a->scale;  \
        T *dx = (T *)j->dx + row * n;                                                             \
        double mean = 0, squares = 0, sum_g = 0, sum_gh = 0;                                      \
        for (int64_t i = 0; a->center && i < n; i++) mean += (double)x[i];                        \
        mean /= (double)n;                                                                        \
        for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean); \
        double inv = 1 / sqrt(squares / (double)n + a->epsilon);                                  \
        for (int64_t i = 0; i < n; i++) {                                                         \
            double d = (double)dy[i], h = ((double)x[i] - mean) * inv;                            \
            double g = s ? d * (double)s[base + i / p->div * p->col_step] : d;                    \
            sum_g += g;                                                                           \
            sum_gh += g * h;                                                                      \
            if (part) part[i] += d * h, part[n + i] += d;                                         \
        }                                                                                         \
        sum_g = a->center ? sum_g / (double)n : 0;                                                \
        sum_gh /= (double)n;                                                                      \
        for (int64_t i = 0; j->dx && i < n; i++) {                                                \
            double h = ((double)x[i] - mean) * inv, g = (double)dy[i];                            \
            if (s) g *= (double)s[base + i / p->div * p->col_step];                               \
            dx[i] = (T)((g - sum_g - h * sum_gh) * inv);                                          \
        }                                                                                         \
    }                                                                                             \
    static void block_##S(void *ctx, int64_t block) {                                             \
        const job *j = ctx;                                                                       \
        int64_t cols = j->a->cols, end = nc_min64((block + 1) * j->per_block, j->a->rows);        \
        double *part = j->dscale || j->dbias ? j->parts + block * 2 * cols : NULL;                \
        if (part) memset(part, 0, 2 * (size_t)cols * sizeof *part);                               \
        for (int64_t r = block * j->per_block; r < end; r++) row_##S(j, r, part);                 \
    }                                                                                             \
    static void join_##S(const job *j) {                                                          \
        int64_t cols = j->a->cols;                                                                \
        for (int64_t i = 0; i < cols; i++) {                                                      \
            double scale = 0, bias = 0;                                                           \
            for (int64_t b = 0; b < j->blocks; b++) {                                             \
                scale += j->parts[b * 2 * cols + i];                                              \
                bias += j->parts[b * 2 * cols + cols + i];                                        \
            }                                                                                     \
            if (j->dscale) ((T *)j->dscale)[i] = (T)scale;                                        \
            if (j->dbias) ((T *)j->dbias)[i] = (T)bias;                                           \
        }                                                                                         \
    }
DEFINE(f32, float)
DEFINE(f64, double)

void nck_norm_grad(const nck_norm_args *a, const void *dy, void *dx, void *dscale, void *dbias, void *workspace,
                   nc_pool *pool) {
    job j = {.a = a, .dy = dy, .dx = dx, .dscale = dscale, .dbias = dbias, .parts = workspace};
    bool f32 = a->type == NC_FLOAT;
    if (a->rows > 0) {
        j.per_block = block_rows(a->rows);
        j.blocks = nc_ceil_div(a->rows, j.per_block);
        nc_parallel(pool, j.blocks, f32 ? block_f32 : block_f64, &j);
    }
    if (dscale || dbias) (f32 ? join_f32 : join_f64)(&j);
}
