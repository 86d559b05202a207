/* cuda/det.c: launcher of det.cu, see det.h. */
#include "kernels/cuda/det.h"

nc_code nck_cuda_det_prepare(nc_device *d, nc_dtype t, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_det, t, NULL, "det", out, diag);
}

nc_code nck_cuda_det_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x, void *scratch,
                         void *y) {
    void *args[] = {&matrices, &n, &x, &scratch, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, matrices, 1), 32, args);
}
