/* kernels/cpu/vision/affine_grid.c: AffineGrid, see sample.h. Along a line of places only x changes. */
#include "base/real.h"
#include "kernels/cpu/vision/sample.h"

enum { POINT = 4 /* elements of work that a result costs */ };

typedef struct affine_job {
    const nc_tensor *theta, *y;
    bool align_corners;
    int dims;
    int64_t lines; /* of a grid */
} affine_job;

static double grid_place(int64_t i, int64_t d, bool align_corners) {
    if (align_corners) return d > 1 ? -1 + 2 * (double)i / (double)(d - 1) : -1;
    return (2 * (double)i + 1) / (double)d - 1;
}

/* What theta's row r gives for the places of a line less their x. */
static double without_x(const affine_job *j, int64_t line, int64_t row) {
    int64_t rest = line % j->lines;
    double sum = nc_tensor_get(j->theta, row * (j->dims + 1) + j->dims);
    for (int k = 1; k < j->dims; k++) {
        int64_t d = j->y->dims[j->dims - k];
        sum += grid_place(rest % d, d, j->align_corners) * nc_tensor_get(j->theta, row * (j->dims + 1) + k);
        rest /= d;
    }
    return sum;
}

static void affine_line(void *ctx, int64_t line) {
    const affine_job *j = ctx;
    int64_t d = j->y->dims[j->dims], to = line * d * j->dims;
    double by_x[NCK_SAMPLE_MAX_DIMS], rest[NCK_SAMPLE_MAX_DIMS];
    for (int r = 0; r < j->dims; r++) {
        int64_t row = line / j->lines * j->dims + r;
        by_x[r] = nc_tensor_get(j->theta, row * (j->dims + 1));
        rest[r] = without_x(j, line, row);
    }
    for (int64_t i = 0; i < d; i++) {
        double x = grid_place(i, d, j->align_corners);
        for (int r = 0; r < j->dims; r++, to++) {
            double at = x * by_x[r] + rest[r];
            if (j->y->dtype == NC_FLOAT)
                ((float *)j->y->data)[to] = (float)at;
            else
                ((double *)j->y->data)[to] = at;
        }
    }
}

void nck_affine_grid(const nc_tensor *theta, bool align_corners, const nc_tensor *y, nc_pool *pool) {
    affine_job j = {.theta = theta, .y = y, .align_corners = align_corners, .dims = y->rank - 2, .lines = 1};
    for (int k = 1; k < j.dims; k++) j.lines *= y->dims[k];
    nc_parallel(nc_pool_for(pool, nc_tensor_numel(y) * POINT), y->dims[0] * j.lines, affine_line, &j);
}
