/* cuda/sample.h: images read at the places of a grid, and the gradients of that, on the GPU, as nck_grid_sample
 * (kernels/cpu/vision/sample.h) says; x of any float, the grid of any other; dense. */
#ifndef NCK_CUDA_SAMPLE_H
#define NCK_CUDA_SAMPLE_H

#include "kernels/cpu/vision/sample.h"
#include "kernels/cuda/sort.h"

/* Mirrors sample_args of sample.cu. */
typedef struct nck_cuda_sample {
    int64_t N, C, P, pixels, d[NCK_SAMPLE_MAX_DIMS];
    int padding, align_corners, in_pixels, bits;
} nck_cuda_sample;

typedef struct nck_cuda_sample_kernel {
    nc_function *sample, *words, *begins, *dx, *dgrid;
    nck_cuda_sort sort;
    int taps; /* that a place has in all */
    size_t bytes_weight;
} nck_cuda_sample_kernel;

/* axes: x's rank - 2. The functions of the gradient are found where `gradient`. */
NC_MUST nc_code nck_cuda_sample_prepare(nc_device *d, nc_dtype x, nc_dtype grid, const nck_grid_sample *s, int axes,
                                        bool gradient, nck_cuda_sample_kernel *out, nc_diag *diag);
NC_MUST nc_code nck_cuda_sample_run(const nck_cuda_sample_kernel *k, nck_cuda_at at, const nck_grid_sample *s);

/* Of the gradient by x; SIZE_MAX: too many places. */
size_t nck_cuda_sample_workspace(const nck_cuda_sample_kernel *k, const nc_tensor *x, const nc_tensor *grid);
NC_MUST nc_code nck_cuda_sample_grad_run(const nck_cuda_sample_kernel *k, nck_cuda_at at, const nck_grid_sample *s,
                                         void *workspace);

#endif
