/* cuda/det.h: determinants on the GPU. */
#ifndef NCK_CUDA_DET_H
#define NCK_CUDA_DET_H

#include "kernels/cuda/launch.h"

NC_MUST nc_code nck_cuda_det_prepare(nc_device *d, nc_dtype t, nc_function **out, nc_diag *diag);
/* y (matrices) of x (matrices, n, n), dense; scratch: one double for each element of x. */
NC_MUST nc_code nck_cuda_det_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x,
                                 void *scratch, void *y);

#endif
