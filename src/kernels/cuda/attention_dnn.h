/* cuda/attention_dnn.h: attention and its gradient through cuDNN, where it is there and has an engine: f16 and bf16,
 * causal or not, windows, grouped heads, masks, a number of keys per batch and a cap (both without a gradient),
 * dropout. Sums and softmax are f32. Short sequences are left to Nacre's own kernels. Which shares are dropped is drawn
 * as everywhere and given as a mask; or, if the caller wants it, drawn by cuDNN itself. */
#ifndef NCK_CUDA_ATTENTION_DNN_H
#define NCK_CUDA_ATTENTION_DNN_H

#include "kernels/cuda/attention_grad.h"

/* NULL, or why nothing was queued. a.stats get natural logarithms. room: for which shares stay and who is seen, as many
 * bytes as nck_cuda_attn_dnn_room tells for a mask of that many rows. */
const char *nck_cuda_attn_dnn_run(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_args *a, void *room);
size_t nck_cuda_attn_dnn_room(const nck_cuda_attn *k, const nck_cuda_attn_args *a, int64_t mask_rows);

/* What nck_cuda_attn_dnn_grad_run answers where only cuDNN knows what the forward pass dropped, and it has no way back:
 * no other kernel can serve it. */
extern const char nck_cuda_attn_dnn_drew[];

/* The gradient, forward pass included: all three results, in one order of sums in every run. workspace: as many bytes
 * as nck_cuda_attn_dnn_grad_workspace tells, which grows with each size. */
const char *nck_cuda_attn_dnn_grad_run(nck_cuda_at at, const nck_cuda_attn *k, const nck_cuda_attn_grad_args *g,
                                       void *workspace);
size_t nck_cuda_attn_dnn_grad_workspace(const nck_cuda_attn *k, const nck_cuda_attn_args *a, int64_t mask_rows);

#endif
