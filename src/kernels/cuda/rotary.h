/* cuda/rotary.h: rotary position embedding on the GPU; f16, bf16 and f32, computed in f32. */
#ifndef NCK_CUDA_ROTARY_H
#define NCK_CUDA_ROTARY_H

#include "kernels/cuda/launch.h"

/* Mirrors rotary_args of rotary.cu, where each is told. */
typedef struct nck_cuda_rotary_args {
    int64_t batches, heads, rows, columns, turned, batch_step, head_step, row_step, interleaved, n_positions;
} nck_cuda_rotary_args;

typedef struct nck_cuda_rotary {
    nc_function *function;
} nck_cuda_rotary;

NC_MUST nc_code nck_cuda_rotary_prepare(nc_device *d, nc_dtype t, nck_cuda_rotary *out, nc_diag *diag);
/* Positions out of range are told by the stream's next synchronisation. ids (batches, rows) or NULL. y may be x. */
NC_MUST nc_code nck_cuda_rotary_run(const nck_cuda_rotary *k, const nc_call *c, const nck_cuda_rotary_args *a,
                                    const void *x, const void *cosine, const void *sine, const void *ids, void *y);

#endif
