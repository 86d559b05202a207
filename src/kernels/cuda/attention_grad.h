/* cuda/attention_grad.h: the gradient of attention on the GPU, tile by tile, without tensor cores: see
 * attention_grad.cu. The forward pass runs once more, for its result and what it keeps of each query. */
#ifndef NCK_CUDA_ATTENTION_GRAD_H
#define NCK_CUDA_ATTENTION_GRAD_H

#include "kernels/cuda/attention.h"

/* Mirrors grad_args in attention_grad.cu. */
typedef struct nck_cuda_attn_grad_args {
    nck_cuda_attn_args a;                 /* y and stats are in the workspace */
    nck_cuda_attn_operand dy, dq, dk, dv; /* results without data are not wanted */
    void *deltas;
} nck_cuda_attn_grad_args;

typedef struct nck_cuda_attn_grad {
    nck_cuda_attn forward;
    nc_dtype type;
    int64_t own; /* rows of a block */
    uint32_t threads;
    nc_function *queries, *keys, *deltas;
} nck_cuda_attn_grad;

bool nck_cuda_attn_grad_takes(nc_dtype t, int64_t cols);
/* Text that stands in front of the kernel's, as nck_cuda_attn_define. */
void nck_cuda_attn_grad_define(nc_dtype t, const nck_cuda_attn_form *f, char *out, size_t bytes);
NC_MUST nc_code nck_cuda_attn_grad_prepare(nc_device *d, nc_dtype t, const nck_cuda_attn_form *f,
                                           nck_cuda_attn_grad *out, nc_diag *diag);
/* Y, then a number per query twice: for `rows` queries of all heads with cols_v columns. */
size_t nck_cuda_attn_grad_workspace(nc_dtype t, int64_t rows, int64_t cols_v);
/* deltas are the launcher's, as are a.y and a.stats here (attention_dnn.h takes those of the forward pass). */
NC_MUST nc_code nck_cuda_attn_grad_run(const nck_cuda_attn_grad *k, nck_cuda_at at, const nck_cuda_attn_grad_args *g,
                                       void *workspace);

#endif
