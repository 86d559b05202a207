/* cuda/attention_dnn.h: attention and its gradient through cuDNN, where it is there and has an engine: f16 and bf16,
 * causal or not, grouped heads, masks that are added. Sums and softmax are f32. Short sequences, caps, windows, lengths
 * and masks of bools are left to Nacre's own kernels, as is a causal query that sees no key. */
#ifndef NCK_CUDA_ATTENTION_DNN_H
#define NCK_CUDA_ATTENTION_DNN_H

#include "kernels/cuda/attention_grad.h"

/* NULL, or why nothing was queued. t: of the operands; mask: of the mask, UNDEFINED: none. a.stats get natural
 * logarithms. */
const char *nck_cuda_attn_dnn_run(nck_cuda_at at, nc_dtype t, nc_dtype mask, const nck_cuda_attn_args *a);

/* The gradient, forward pass included: all three results, in one order of sums in every run. workspace: as many bytes
 * as nck_cuda_attn_dnn_grad_workspace tells, which grows with each size. */
const char *nck_cuda_attn_dnn_grad_run(nck_cuda_at at, nc_dtype t, nc_dtype mask, const nck_cuda_attn_grad_args *g,
                                       void *workspace);
size_t nck_cuda_attn_dnn_grad_workspace(nc_dtype t, const nck_cuda_attn_args *a);

#endif
