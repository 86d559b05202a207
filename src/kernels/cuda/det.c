/* cuda/det.c: launchers of det.cu, see det.h. */
#include "kernels/cuda/det.h"

enum { DET_THREADS = 32, INVERSE_THREADS = 256 };

nc_code nck_cuda_det_prepare(nc_device *d, nc_dtype t, bool inverse, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_det, t, NULL, inverse ? "inverse" : "det", out, diag);
}

static nc_code run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x, void *scratch, void *y,
                   uint32_t threads) {
    void *args[] = {&matrices, &n, &x, &scratch, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, matrices, 1), threads, args);
}

nc_code nck_cuda_det_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x, void *scratch,
                         void *y) {
    return run(f, at, matrices, n, x, scratch, y, DET_THREADS);
}

nc_code nck_cuda_inverse_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *x, void *scratch,
                             void *y) {
    return run(f, at, matrices, n, x, scratch, y, INVERSE_THREADS);
}
