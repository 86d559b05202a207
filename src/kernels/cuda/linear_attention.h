/* cuda/linear_attention.h: LinearAttention on the GPU: a matrix per key head that each token decays, writes to and
 * reads from; f32 and the half types. */
#ifndef NCK_CUDA_LINEAR_ATTENTION_H
#define NCK_CUDA_LINEAR_ATTENTION_H

#include "kernels/cuda/launch.h"

/* Mirrors linear_attention of linear_attention.cu. */
typedef struct nck_cuda_linear_attention {
    int64_t B, T, q_heads, kv_heads, dk, dv, decay_columns, beta_columns; /* columns 0: none */
    float scale, unused; /* unused: 0, so that no byte of what a kernel is given is left to chance */
} nck_cuda_linear_attention;

/* Dense tensors; past, decay, beta and present may be NULL. state: a float for each element of present. */
typedef struct nck_cuda_linear_attention_data {
    const void *query, *key, *value, *past, *decay, *beta;
    void *state, *present, *y;
} nck_cuda_linear_attention_data;

/* t: of all operands but the states, which are of type `states`. */
NC_MUST nc_code nck_cuda_linear_attention_prepare(nc_device *d, nc_dtype t, nc_dtype states, nc_function **out,
                                                  nc_diag *diag);
NC_MUST nc_code nck_cuda_linear_attention_run(nc_function *f, nck_cuda_at at, const nck_cuda_linear_attention *a,
                                              const nck_cuda_linear_attention_data *p);

#endif
