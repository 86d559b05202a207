/* cuda/random.h: dropout and other draws on Philox4x32-10 on the GPU, with the bits of the CPU's (kernels/cpu/random).
 * Tensors are dense; f16, bf16, f32, f64, flags and classes of other types. state (2) = {seed, step} int64 in
 * device memory. */
#ifndef NCK_CUDA_RANDOM_H
#define NCK_CUDA_RANDOM_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_random {
    nc_function *dropout, *dropout_grad, *step;
} nck_cuda_random;

typedef struct nck_cuda_draw {
    const void *state;
    bool fixed_seed; /* seed in place of state[0] */
    int64_t seed;
    uint32_t node_id;
} nck_cuda_draw;

NC_MUST nc_code nck_cuda_random_prepare(nc_device *d, nc_dtype t, nck_cuda_random *out, nc_diag *diag);

/* An element stays where the upper 24 bits of its word are as large: a uniform number not below the ratio. */
uint32_t nck_cuda_drop_limit(double ratio);

/* y = keep ? x / (1 - ratio) : 0, mask = keep; mask may be NULL, y may be x. */
NC_MUST nc_code nck_cuda_dropout(const nck_cuda_random *k, nck_cuda_at at, int64_t n, const nck_cuda_draw *draw,
                                 double ratio, const void *x, void *y, void *mask);
/* dx = mask ? dy / (1 - ratio) : 0; dx may be dy. */
NC_MUST nc_code nck_cuda_dropout_grad(const nck_cuda_random *k, nck_cuda_at at, int64_t n, double ratio, const void *dy,
                                      const void *mask, void *dx);
/* to = {seed, step + 1} of from; to may be from. */
NC_MUST nc_code nck_cuda_random_step(const nck_cuda_random *k, nck_cuda_at at, const void *from, void *to);

typedef enum nck_cuda_draw_kind {
    NCK_DRAW_UNIFORM,
    NCK_DRAW_NORMAL,
    NCK_DRAW_FLAGS,
    NCK_DRAW_CLASSES
} nck_cuda_draw_kind;

/* t: what is drawn; x: of the chances or logits. */
NC_MUST nc_code nck_cuda_draw_prepare(nc_device *d, nck_cuda_draw_kind kind, nc_dtype t, nc_dtype x, nc_function **out,
                                      nc_diag *diag);
/* y (n): uniform from a over a width of b, normal with mean a and deviation b, or 1 with the chance x (n), else 0. */
NC_MUST nc_code nck_cuda_draw_numbers(nc_function *f, nck_cuda_at at, int64_t n, const nck_cuda_draw *draw, double a,
                                      double b, void *y);
NC_MUST nc_code nck_cuda_draw_flags(nc_function *f, nck_cuda_at at, int64_t n, const nck_cuda_draw *draw, const void *x,
                                    void *y);
/* y (rows, samples) by logits (rows, classes). */
size_t nck_cuda_draw_classes_workspace(int64_t rows, int64_t classes);
NC_MUST nc_code nck_cuda_draw_classes(nc_function *f, nck_cuda_at at, int64_t rows, int64_t classes, int64_t samples,
                                      const nck_cuda_draw *draw, const void *logits, void *workspace, void *y);

#endif
