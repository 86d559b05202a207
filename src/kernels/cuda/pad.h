/* cuda/pad.h: borders around a tensor on the GPU, elements of 1, 2, 4 or 8 bytes. */
#ifndef NCK_CUDA_PAD_H
#define NCK_CUDA_PAD_H

#include "kernels/cpu/move/pad.h"
#include "kernels/cuda/launch.h"

typedef struct nck_cuda_pad {
    nc_function *pad;
} nck_cuda_pad;

NC_MUST nc_code nck_cuda_pad_prepare(nc_device *d, size_t elem_bytes, nck_cuda_pad *out, nc_diag *diag);

/* As nck_pad; y is dense, x has any strides. given: the constant in device memory, or NULL: *value of the host's. */
NC_MUST nc_code nck_cuda_pad_run(const nck_cuda_pad *k, nck_cuda_at at, nck_pad_mode mode, const nc_tensor *x,
                                 const int64_t *begin, const void *given, const uint64_t *value, const nc_tensor *y);

#endif
