/* cuda/resize.h: resizing along several axes (kernels/cpu/vision/resize.h), one or two at a time, the innermost first,
 * with numbers between two axes in the type of sums; nearest moves elements of any type. */
#ifndef NCK_CUDA_RESIZE_H
#define NCK_CUDA_RESIZE_H

#include "kernels/cpu/vision/resize.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/move.h"

typedef enum nck_cuda_resize_pass {
    NCK_RESIZE_ONLY,
    NCK_RESIZE_FIRST,
    NCK_RESIZE_BETWEEN,
    NCK_RESIZE_LAST
} nck_cuda_resize_pass;

typedef struct nck_cuda_resize {
    nc_dtype type;
    nc_function *pass[4]; /* by nck_cuda_resize_pass; moves: the first alone */
    nc_function *table; /* forward */
    nc_function *outside;
    nck_cuda_move move; /* where no axis changes */
    bool moves, gradient;
} nck_cuda_resize;

/* moves: mode nearest, no gradient. Else floats. */
NC_MUST nc_code nck_cuda_resize_prepare(nc_device *d, nc_dtype t, bool moves, bool gradient, nck_cuda_resize *out,
                                        nc_diag *diag);
size_t nck_cuda_resize_workspace(const nc_tensor *x, const nc_tensor *y, nc_dtype t);
/* From x to y, dense, of which the axes (their `taps` filled) say how lines of the small tensor and of the resized one
 * belong together: forward x is the small one, of the gradient y. */
NC_MUST nc_code nck_cuda_resize_run(const nck_cuda_resize *k, nck_cuda_at at, const nck_resize_rule *rule,
                                    const nck_resize_axis *axes, int n, const nc_tensor *x, const nc_tensor *y,
                                    void *workspace);
/* y = value (one element, in host memory) where any axis is outside of a crop. */
NC_MUST nc_code nck_cuda_resize_fill_outside(const nck_cuda_resize *k, nck_cuda_at at, const nck_resize_rule *rule,
                                             const nck_resize_axis *axes, int n, const nc_tensor *y, const void *value);

#endif
