/* cuda/det.h: determinants, their gradients and inverses on the GPU. */
#ifndef NCK_CUDA_DET_H
#define NCK_CUDA_DET_H

#include "kernels/cuda/launch.h"

/* entry: of det.cu, one of those below. */
NC_MUST nc_code nck_cuda_det_prepare(nc_device *d, nc_dtype t, const char *entry, nc_function **out, nc_diag *diag);
/* y (matrices) of x (matrices, n, n), dense; scratch: one double for each element of x. */
NC_MUST nc_code nck_cuda_det_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x,
                                 void *scratch, void *y);
/* y (matrices, n, n); scratch: two doubles for each element of x. A singular matrix gives infinities and NaN. */
NC_MUST nc_code nck_cuda_inverse_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x,
                                     void *scratch, void *y);
/* dx = dy (matrices) times the cofactors of x. */
size_t nck_cuda_det_grad_workspace(int64_t matrices, int64_t n);
NC_MUST nc_code nck_cuda_det_grad_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *dy,
                                      const void *x, void *scratch, void *dx);

#endif
