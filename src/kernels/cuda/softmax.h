/* cuda/softmax.h: softmax, log-softmax, softmax cross-entropy and their gradients on the GPU; f16, bf16, f32, f64.
 * Tensors are dense (outer, C, inner). Accumulation: half types and f32 in f32, f64 in f64; losses in double. A label
 * out of range makes its loss and gradient NaN: the GPU cannot report it. */
#ifndef NCK_CUDA_SOFTMAX_H
#define NCK_CUDA_SOFTMAX_H

#include "kernels/cpu/reduce/loss.h"
#include "kernels/cuda/launch.h"

typedef struct nck_cuda_softmax {
    nc_dtype type;
    nc_function *softmax, *softmax_vectors, *softmax_grad, *loss_rows, *loss_vectors, *loss_join, *loss_norm,
        *loss_grad;
} nck_cuda_softmax;

NC_MUST nc_code nck_cuda_softmax_prepare(nc_device *d, nc_dtype t, nck_cuda_softmax *out, nc_diag *diag);

typedef struct nck_cuda_rows {
    int64_t outer, C, inner;
} nck_cuda_rows;

/* y may be x; dx may be dy or y. logs: log-softmax. */
NC_MUST nc_code nck_cuda_softmax_run(const nck_cuda_softmax *k, nck_cuda_at at, nck_cuda_rows rows, bool logs,
                                     const void *x, void *y);
NC_MUST nc_code nck_cuda_softmax_grad_run(const nck_cuda_softmax *k, nck_cuda_at at, nck_cuda_rows rows, bool logs,
                                          const void *dy, const void *y, void *dx);

/* Fields of a as in kernels/cpu/reduce/loss.h, pointers on the device. positions = N * D. Workspace of both. */
size_t nck_cuda_loss_workspace(int64_t positions);
/* loss (N, D) for NONE, else one element; log_prob may be NULL. */
NC_MUST nc_code nck_cuda_loss_run(const nck_cuda_softmax *k, nck_cuda_at at, const nck_loss_args *a, const void *logits,
                                  void *loss, void *log_prob, void *workspace);
/* dx may be log_prob. */
NC_MUST nc_code nck_cuda_loss_grad_run(const nck_cuda_softmax *k, nck_cuda_at at, const nck_loss_args *a,
                                       const void *dloss, const void *log_prob, void *dx, void *workspace);

#endif
