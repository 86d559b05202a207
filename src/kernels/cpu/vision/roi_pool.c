/* kernels/cpu/vision/roi_pool.c: where the largest pixel of each bin of a region lies, see sample.h. Regions have whole
 * pixels, ends included; bins overlap where a region does not divide evenly. Sizes of bins are float, as the frameworks
 * that this op comes from have them: they decide which pixels belong to a bin. The first of equal pixels counts. */
#include "kernels/cpu/vision/sample.h"

#include "base/real.h"

#include <math.h>

/* The pixels [from, to) of bin i out of n, of a region from `start` on of `size` pixels, in an image of `length`. */
static void bin_ends(double start, double size, int64_t i, int64_t n, int64_t length, int64_t *from, int64_t *to) {
    float bin = (float)size / (float)n;
    double most = (double)length;
    *from = (int64_t)fmin(fmax(floor((double)((float)i * bin)) + start, 0), most);
    *to = (int64_t)fmin(fmax(ceil((double)((float)(i + 1) * bin)) + start, 0), most);
}

/* The place in x of the largest pixel of rows [top, bottom), columns [left, right) of a plane; -1: there is none. */
static int64_t largest(const nc_tensor *x, int64_t plane, int64_t top, int64_t bottom, int64_t left, int64_t right) {
    int64_t h = x->dims[2], w = x->dims[3], best = -1;
    double most = 0;
    for (int64_t i = top; i < bottom; i++)
        for (int64_t j = left; j < right; j++) {
            int64_t at = (plane * h + i) * w + j;
            double v = nc_tensor_get(x, at);
            if (best < 0 || v > most) best = at, most = v;
        }
    return best;
}

static void pool_item(void *ctx, int64_t i) {
    const nck_roi_pool *r = ctx;
    int64_t c = r->x->dims[1], h = r->y->dims[2], w = r->y->dims[3], roi = i / c,
            *y = (int64_t *)r->y->data + i * h * w;
    double ends[4]; /* left, top, right, bottom */
    for (int k = 0; k < 4; k++) ends[k] = round(nc_tensor_get(r->rois, roi * 5 + 1 + k) * r->scale);
    double width = fmax(ends[2] - ends[0] + 1, 1), height = fmax(ends[3] - ends[1] + 1, 1);
    int64_t plane = (int64_t)nc_tensor_get(r->rois, roi * 5) * c + i % c, top, bottom, left, right;
    for (int64_t k = 0; k < h * w; k++) {
        bin_ends(ends[1], height, k / w, h, r->x->dims[2], &top, &bottom);
        bin_ends(ends[0], width, k % w, w, r->x->dims[3], &left, &right);
        y[k] = largest(r->x, plane, top, bottom, left, right);
    }
}

enum { PIXELS = 16 }; /* elements of work that a result costs */

void nck_roi_pool_run(const nck_roi_pool *r, nc_pool *pool) {
    nc_parallel(nc_pool_for(pool, nc_tensor_numel(r->y) * PIXELS), r->y->dims[0] * r->x->dims[1], pool_item,
                (void *)(uintptr_t)r);
}
