/* cuda/random.c: launchers of dropout.cu, see random.h. */
#include "kernels/cuda/random.h"

#include <math.h>

enum { THREADS = 256 };

uint32_t nck_cuda_drop_limit(double ratio) { return (uint32_t)ceil(ratio * (1 << 24)); }

nc_code nck_cuda_random_prepare(nc_device *d, nc_dtype t, nck_cuda_random *out, nc_diag *diag) {
    *out = (nck_cuda_random){0};
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dropout, t, NULL, "dropout", &out->dropout, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dropout, t, NULL, "dropout_grad", &out->dropout_grad, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_dropout, t, NULL, "random_step", &out->step, diag);
}

nc_code nck_cuda_dropout(const nck_cuda_random *k, nck_cuda_at at, int64_t n, const nck_cuda_draw *draw, double ratio,
                         const void *x, void *y, void *mask) {
    const void *state = draw->state;
    int64_t seed = draw->seed;
    int fixed = draw->fixed_seed;
    uint32_t node = draw->node_id;
    uint32_t limit = nck_cuda_drop_limit(ratio);
    double scale = 1.0 / (1.0 - ratio);
    void *args[] = {&n, &state, &seed, &fixed, &node, &limit, &scale, &x, &y, &mask};
    return nck_cuda_launch(at, k->dropout, nck_cuda_blocks(at.device, (n + 3) / 4, THREADS), THREADS, args);
}

nc_code nck_cuda_dropout_grad(const nck_cuda_random *k, nck_cuda_at at, int64_t n, double ratio, const void *dy,
                              const void *mask, void *dx) {
    double scale = 1.0 / (1.0 - ratio);
    void *args[] = {&n, &scale, &dy, &mask, &dx};
    return nck_cuda_launch(at, k->dropout_grad, nck_cuda_blocks(at.device, (n + 3) / 4, THREADS), THREADS, args);
}

nc_code nck_cuda_random_step(const nck_cuda_random *k, nck_cuda_at at, const void *from, void *to) {
    void *args[] = {&from, &to};
    return nck_cuda_launch(at, k->step, 1, 1, args);
}
