/* cuda/dft.h: the discrete Fourier transform of lines of a dense tensor on the GPU, as kernels/cpu/signal/dft.h says.
 * Powers of two of f32 and the half types in float, all else in double. */
#ifndef NCK_CUDA_DFT_H
#define NCK_CUDA_DFT_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_dft {
    nc_dtype type;
    nc_function *pass[2]; /* in float, in double */
} nck_cuda_dft;

NC_MUST nc_code nck_cuda_dft_prepare(nc_device *d, nc_dtype t, nck_cuda_dft *out, nc_diag *diag);
/* For lines of `length`, `rows` of them. */
size_t nck_cuda_dft_workspace(nc_dtype t, int64_t rows, int64_t length);
NC_MUST nc_code nck_cuda_dft_run(const nck_cuda_dft *k, nck_cuda_at at, const nc_tensor *x, int axis, int64_t length,
                                 bool inverse, bool onesided, const nc_tensor *y, void *workspace);

#endif
