/* cuda/nms.h: non-maximum suppression on the GPU, as nck_nms (kernels/cpu/vision/sample.h) says, of all classes of all
 * images. How many boxes remain is written to device memory. */
#ifndef NCK_CUDA_NMS_H
#define NCK_CUDA_NMS_H

#include "kernels/cuda/topk.h"

/* Mirrors nms_args of nms.cu. most: kept of one class of one image. */
typedef struct nck_cuda_nms {
    int64_t images, classes, n, most;
    int center, has_threshold;
    float iou, threshold;
} nck_cuda_nms;

typedef struct nck_cuda_nms_kernel {
    nck_cuda_topk sort;
    nc_function *begin, *cover, *settle, *write;
} nck_cuda_nms_kernel;

NC_MUST nc_code nck_cuda_nms_prepare(nc_device *d, nck_cuda_nms_kernel *out, nc_diag *diag);
/* most of a run is at most n; grows with all three. */
size_t nck_cuda_nms_workspace(int64_t images, int64_t classes, int64_t n);
/* boxes (images, n, 4), scores (images, classes, n), dense; y (found, 3), sizes its dims. */
NC_MUST nc_code nck_cuda_nms_run(const nck_cuda_nms_kernel *k, nck_cuda_at at, const nck_cuda_nms *how,
                                 const void *boxes, const void *scores, int64_t *y, int64_t *sizes, void *workspace);

#endif
