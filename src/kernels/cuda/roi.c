/* cuda/roi.c: launchers of roi.cu, see roi.h. */
#include "kernels/cuda/roi.h"

#include "base/intmath.h"

enum { THREADS = 256, LINE_THREADS = 64, CHANNELS = 16 };

nc_code nck_cuda_roi_prepare(nc_device *d, nc_dtype t, nck_cuda_roi_kernel *out, nc_diag *diag) {
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_roi, t, NULL, "roi_align", &out->align, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_roi, t, NULL, "roi_align_dx", &out->dx, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_roi, t, NULL, "roi_align_dx_max", &out->dx_max, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_roi, t, NULL, "roi_align_drois", &out->drois, diag);
}

nc_code nck_cuda_roi_places_prepare(nc_device *d, nc_dtype t, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_roi, t, NULL, "roi_places", out, diag);
}

nc_code nck_cuda_roi_places_run(nc_function *f, const nc_call *c, const nck_cuda_roi *how, const void *x,
                                const void *rois, void *y) {
    nck_cuda_roi a = *how;
    nck_cuda_site site = nck_cuda_site_of(c);
    void *args[] = {&a, &site, &x, &rois, &y};
    uint32_t blocks = nck_cuda_blocks(c->device, a.regions * a.C * a.h * a.w, THREADS);
    return nck_cuda_launch(nck_cuda_at_call(c), f, blocks, THREADS, args);
}

nc_code nck_cuda_roi_run(const nck_cuda_roi_kernel *k, const nc_call *c, const nck_cuda_roi *how, const void *x,
                         const void *of, const void *rois, const void *batch, void *y) {
    nck_cuda_roi a = *how;
    nck_cuda_site site = nck_cuda_site_of(c);
    void *args[] = {&a, &site, &x, &of, &rois, &batch, &y};
    uint32_t blocks = nck_cuda_blocks(c->device, a.regions * a.C * a.h * a.w, THREADS);
    return nck_cuda_launch(nck_cuda_at_call(c), k->align, blocks, THREADS, args);
}

size_t nck_cuda_roi_grad_workspace(int64_t n, nc_dtype t) {
    return (size_t)n * nc_dtype_bytes(nck_cuda_accumulator(t));
}

nc_code nck_cuda_roi_grad_run(const nck_cuda_roi_kernel *k, const nc_call *c, const nck_cuda_roi *how, const void *x,
                              const void *rois, const void *batch, const void *dy, void *dx, void *drois) {
    nck_cuda_roi a = *how;
    nck_cuda_site site = nck_cuda_site_of(c);
    void *sums = c->workspace, *of_max[] = {&a, &x, &rois, &batch, &dy, &sums, &dx};
    void *of_mean[] = {&a, &rois, &batch, &dy, &dx};
    void *of_rois[] = {&a, &site, &x, &rois, &batch, &dy, &drois};
    uint32_t lines = nck_cuda_blocks(c->device, a.images * a.C * a.H, LINE_THREADS);
    uint32_t pixels = nck_cuda_blocks(c->device, a.images * nc_ceil_div(a.C, CHANNELS) * a.H * a.W, THREADS);
    if (dx != NULL && a.max) NC_TRY(nck_cuda_launch(nck_cuda_at_call(c), k->dx_max, lines, LINE_THREADS, of_max));
    if (dx != NULL && !a.max) NC_TRY(nck_cuda_launch(nck_cuda_at_call(c), k->dx, pixels, THREADS, of_mean));
    uint32_t regions = nck_cuda_blocks(c->device, a.regions, 1);
    return drois != NULL ? nck_cuda_launch(nck_cuda_at_call(c), k->drois, regions, THREADS, of_rois) : NC_OK;
}
