/* ops/attention/attention_cuda.h: CUDA kernel functions of Attention and its gradient, for attention_cuda.c. */
#ifndef NC_OPS_ATTENTION_CUDA_H
#define NC_OPS_ATTENTION_CUDA_H

#include "kernels/cuda/attention_few.h"
#include "ops/binding.h"

/* Rows that are put into K and V of a call before, by the function put_rows (kernels/cuda/rows.h) or on the way. */
typedef struct nc_attention_new {
    nck_cuda_attn_new rows;
    nc_function *put;
    bool ahead; /* what was launched last writes neither K nor V */
} nc_attention_new;

bool nc_attention_cuda_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_attention_cuda_prepare(nc_prep *p);
size_t nc_attention_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_attention_cuda_run(const nc_call *c);
NC_MUST nc_code nc_attention_cuda_run_new(const nc_call *c, const nc_attention_new *fresh); /* NULL: none */
void nc_attention_cuda_tell(const void *state, char *text, size_t bytes);

/* AttentionPut. */
bool nc_attention_put_cuda_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_attention_put_cuda_prepare(nc_prep *p);
size_t nc_attention_put_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                       int n_out);
NC_MUST nc_code nc_attention_put_cuda_run(const nc_call *c);
void nc_attention_put_cuda_tell(const void *state, char *text, size_t bytes);

bool nc_attention_grad_cuda_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_attention_grad_cuda_prepare(nc_prep *p);
size_t nc_attention_grad_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                        int n_out);
NC_MUST nc_code nc_attention_grad_cuda_run(const nc_call *c);
void nc_attention_grad_cuda_tell(const void *state, char *text, size_t bytes);

#endif
