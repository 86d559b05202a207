/* cuda/roi.h: RoiAlign, its change in a direction and its gradients on the GPU, as nck_roi_align
 * (kernels/cpu/vision/sample.h) says; all floats, dense. */
#ifndef NCK_CUDA_ROI_H
#define NCK_CUDA_ROI_H

#include "kernels/cuda/launch.h"

/* Mirrors roi_args of roi.cu. x (images, C, H, W), rois (regions, 4), batch (regions), y and dy (regions, C, h, w). */
typedef struct nck_cuda_roi {
    int64_t regions, images, C, H, W, h, w, ratio;
    double scale;
    int max, half_pixel;
} nck_cuda_roi;

typedef struct nck_cuda_roi_kernel {
    nc_function *align, *dx, *dx_max, *drois;
} nck_cuda_roi_kernel;

NC_MUST nc_code nck_cuda_roi_prepare(nc_device *d, nc_dtype t, nck_cuda_roi_kernel *out, nc_diag *diag);
/* of: x, or what moves it. */
NC_MUST nc_code nck_cuda_roi_run(const nck_cuda_roi_kernel *k, const nc_call *c, const nck_cuda_roi *how, const void *x,
                                 const void *of, const void *rois, const void *batch, void *y);
size_t nck_cuda_roi_grad_workspace(int64_t n, nc_dtype t); /* of x with n elements */
/* dx and drois may be NULL. */
NC_MUST nc_code nck_cuda_roi_grad_run(const nck_cuda_roi_kernel *k, const nc_call *c, const nck_cuda_roi *how,
                                      const void *x, const void *rois, const void *batch, const void *dy, void *dx,
                                      void *drois);

/* Where in x the largest pixel of each bin lies, int64, as nck_roi_pool says; rois (regions, 5). */
NC_MUST nc_code nck_cuda_roi_places_prepare(nc_device *d, nc_dtype t, nc_function **out, nc_diag *diag);
NC_MUST nc_code nck_cuda_roi_places_run(nc_function *f, const nc_call *c, const nck_cuda_roi *how, const void *x,
                                        const void *rois, void *y);

#endif
