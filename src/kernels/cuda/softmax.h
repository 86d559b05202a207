/* cuda/softmax.h: softmax, log-softmax, softmax cross-entropy, negative log-likelihood and their gradients on the GPU;
 * f16, bf16, f32, f64.
 * Tensors are dense (outer, C, inner). Accumulation: half types and f32 in f32, f64 in f64; losses in double. A label
 * out of range makes its loss and gradient NaN: the GPU cannot report it. */
#ifndef NCK_CUDA_SOFTMAX_H
#define NCK_CUDA_SOFTMAX_H

#include "kernels/cpu/reduce/loss.h"
#include "kernels/cuda/launch.h"

typedef struct nck_cuda_softmax {
    nc_dtype type;
    nc_function *all, *vectors, *grad;
} nck_cuda_softmax;

typedef struct nck_cuda_loss {
    nc_function *rows, *join, *norm, *grad, *scores_grad, *picked;
} nck_cuda_loss;

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
/* Types of the scores, of losses, weights and log_prob, of the scores' gradient: all summed in one type. */
NC_MUST nc_code nck_cuda_loss_prepare(nc_device *d, nc_dtype scores, nc_dtype loss, nc_dtype dx, nck_cuda_loss *out,
                                      nc_diag *diag);
/* How scores lie: from one of N to the next, from class to class; D lie side by side. */
typedef struct nck_cuda_lines {
    int64_t line, step;
} nck_cuda_lines;
/* loss (N, D) for NONE, else one element. log_prob, dense, may be NULL, and so may log_sums (N, D): the logarithms of
 * the sums of exp(scores), of the accumulator's type. */
NC_MUST nc_code nck_cuda_loss_run(const nck_cuda_loss *k, nck_cuda_at at, const nck_loss_args *a, nck_cuda_lines lines,
                                  const void *logits, void *loss, void *log_prob, void *log_sums, void *workspace);
/* Of log-probabilities as they are. */
NC_MUST nc_code nck_cuda_nll_run(const nck_cuda_loss *k, nck_cuda_at at, const nck_loss_args *a, const void *log_prob,
                                 void *loss, void *workspace);
/* By the scores, from their log-probabilities x or from themselves; by log-probabilities x that the loss is of. dx may
 * be x, where both are of one size. Scores and dx alone may have longer lines than classes: the rest is not read, its
 * gradient is 0 (D is 1 there). log_sums: what the loss gave, of scores alone; NULL: they are found anew. */
typedef enum nck_cuda_loss_from {
    NCK_CUDA_LOSS_FROM_LOGS,
    NCK_CUDA_LOSS_FROM_SCORES,
    NCK_CUDA_LOSS_OF_LOGS
} nck_cuda_loss_from;
NC_MUST nc_code nck_cuda_loss_grad_run(const nck_cuda_loss *k, nck_cuda_at at, const nck_loss_args *a,
                                       nck_cuda_loss_from from, const void *dloss, nck_cuda_lines lines, const void *x,
                                       const void *log_sums, void *dx, void *workspace);

#endif
