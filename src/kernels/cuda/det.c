/* cuda/det.c: launchers of det.cu, see det.h. */
#include "kernels/cuda/det.h"

#include "base/intmath.h"

enum { DET_THREADS = 32, INVERSE_THREADS = 256, MAX_MINORS = 1024 };

nc_code nck_cuda_det_prepare(nc_device *d, nc_dtype t, const char *entry, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_det, t, NULL, entry, out, diag);
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

/* Minors that are worked on at a time. */
static int64_t n_minors(int64_t matrices, int64_t n) { return nc_min64(matrices * n * n, MAX_MINORS); }

size_t nck_cuda_det_grad_workspace(int64_t matrices, int64_t n) {
    return (size_t)(n_minors(matrices, n) * n * n) * sizeof(double);
}

nc_code nck_cuda_det_grad_run(nc_function *f, nck_cuda_at at, int64_t matrices, int64_t n, const void *dy,
                              const void *x, void *scratch, void *dx) {
    void *args[] = {&matrices, &n, &dy, &x, &scratch, &dx};
    return nck_cuda_launch(at, f, (uint32_t)n_minors(matrices, n), DET_THREADS, args);
}
