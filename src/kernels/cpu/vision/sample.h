/* kernels/cpu/vision/sample.h: reading images between their pixels: grids of places, regions of interest, and which
 * boxes remain when the overlapping ones are taken away. Dense tensors; type is NC_FLOAT or NC_DOUBLE. */
#ifndef NCK_SAMPLE_H
#define NCK_SAMPLE_H

#include "base/shape.h"
#include "base/threads.h"

typedef enum nck_sample_mode { NCK_SAMPLE_LINEAR, NCK_SAMPLE_NEAREST, NCK_SAMPLE_CUBIC } nck_sample_mode;
typedef enum nck_sample_padding { NCK_SAMPLE_ZEROS, NCK_SAMPLE_BORDER, NCK_SAMPLE_REFLECTION } nck_sample_padding;

enum { NCK_SAMPLE_MAX_DIMS = 3 };

/* x (N, C, D...), grid (N, P..., dims) with the innermost axis first, in -1..1; y (N, C, P...). grid is of either
 * type. dims = x's rank - 2, at most 3. */
typedef struct nck_grid_sample {
    nck_sample_mode mode;
    nck_sample_padding padding;
    bool align_corners, in_pixels; /* in_pixels: the grid counts in pixels, the first is at 0 */
    const nc_tensor *x, *grid, *y;
    const nc_tensor *dx, *dgrid; /* of the gradient, as x and grid; NULL: not asked for. y is then what arrives */
} nck_grid_sample;
void nck_grid_sample_run(const nck_grid_sample *s, nc_pool *pool);
void nck_grid_sample_grad(const nck_grid_sample *s, nc_pool *pool);

/* y (N, H, W, 2) = theta (N, 2, 3) times (x, y, 1), or (N, D, H, W, 3) = theta (N, 3, 4) times (x, y, z, 1). */
void nck_affine_grid(const nc_tensor *theta, bool align_corners, const nc_tensor *y, nc_pool *pool);

/* x (N, C, H, W), rois (R, 4) as x1 y1 x2 y2, batch (R): y (R, C, h, w). */
typedef struct nck_roi_align {
    bool max, half_pixel;
    int64_t sampling_ratio; /* 0: as many as the bin is large */
    double scale;
    const nc_tensor *x, *rois, *y;
    const int64_t *batch;
    const nc_tensor *along;      /* as x; not NULL: y is how the result changes when x moves that way */
    const nc_tensor *dx, *drois; /* of the gradient; NULL: not asked for. y is then what arrives */
} nck_roi_align;
void nck_roi_align_run(const nck_roi_align *r, nc_pool *pool);
void nck_roi_align_grad(const nck_roi_align *r, nc_pool *pool);

/* x (N, C, H, W), rois (R, 5) as image x1 y1 x2 y2: y (R, C, h, w) int64, the place in x of the largest pixel of a bin,
 * -1 where the bin lies outside. The images that rois name are there. */
typedef struct nck_roi_pool {
    double scale;
    const nc_tensor *x, *rois, *y;
} nck_roi_pool;
void nck_roi_pool_run(const nck_roi_pool *r, nc_pool *pool);

/* boxes (N, 4), scores (N): the kept ones by falling score into kept, at most max of them; returns how many. */
typedef struct nck_nms {
    bool center; /* x, y, width, height; else two corners y1 x1 y2 x2 */
    bool has_threshold;
    float iou, threshold;
    int64_t n, max;
    const float *boxes, *scores;
} nck_nms;
size_t nck_nms_workspace(int64_t n);
int64_t nck_nms_run(const nck_nms *s, int64_t *kept, void *workspace);

#endif
