/* cuda/random.c: launchers of dropout.cu and draw.cu, see random.h. */
#include "kernels/cuda/random.h"

#include "base/intmath.h"
#include "kernels/cpu/random/philox.h"

#include <math.h>
#include <stdio.h>

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

/* ---- draws ---- */

typedef struct draw_args { /* mirrors that of draw.cu */
    int64_t n;
    const void *state;
    int64_t seed;
    int fixed_seed;
    uint32_t node;
    double a, b;
} draw_args;

static draw_args args_of(const nck_cuda_draw *d, int64_t n, double a, double b) {
    return (draw_args){n, d->state, d->seed, d->fixed_seed, d->node_id, a, b};
}

nc_code nck_cuda_draw_prepare(nc_device *d, nck_cuda_draw_kind kind, nc_dtype t, nc_dtype x, nc_function **out,
                              nc_diag *diag) {
    static const char *const names[] = {"draw_uniform", "draw_normal", "draw_flags", "draw_classes"};
    char define[32];
    snprintf(define, sizeof define, "#define X %s\n", nck_cuda_type_name(x));
    return nck_cuda_find(d, NCK_CUDA_TEXT_draw, t, define, names[kind], out, diag);
}

nc_code nck_cuda_draw_numbers(nc_function *f, nck_cuda_at at, int64_t n, const nck_cuda_draw *draw, double a, double b,
                              void *y) {
    draw_args d = args_of(draw, n, a, b);
    void *args[] = {&d, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, nc_ceil_div(n, 4), THREADS), THREADS, args);
}

nc_code nck_cuda_draw_flags(nc_function *f, nck_cuda_at at, int64_t n, const nck_cuda_draw *draw, const void *x,
                            void *y) {
    draw_args d = args_of(draw, n, 0, 0);
    void *args[] = {&d, &x, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, nc_ceil_div(n, 4), THREADS), THREADS, args);
}

size_t nck_cuda_draw_classes_workspace(int64_t rows, int64_t classes) {
    return (size_t)(rows * (classes + nc_ceil_div(classes, NCK_DRAW_PIECE) + 1)) * sizeof(double);
}

nc_code nck_cuda_draw_classes(nc_function *f, nck_cuda_at at, int64_t rows, int64_t classes, int64_t samples,
                              const nck_cuda_draw *draw, const void *logits, void *workspace, void *y) {
    draw_args d = args_of(draw, rows * samples, 0, 0);
    double *sums = workspace, *before = sums + rows * classes;
    void *args[] = {&d, &rows, &classes, &samples, &logits, &sums, &before, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, rows, 1), THREADS, args);
}
