/* ops/attention/attention_cpu.h: kernel functions of the attention family, for the table in attention_cpu.c. */
#ifndef NC_OPS_ATTENTION_CPU_H
#define NC_OPS_ATTENTION_CPU_H

#include "ops/binding.h"

bool nc_attention_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_attention_prepare(nc_prep *p);
NC_MUST nc_code nc_attention_chain_prepare(nc_prep *p);
NC_MUST nc_code nc_attention_chain_run(const nc_call *c); /* its workspace is Attention's */
size_t nc_attention_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_attention_run(const nc_call *c);
NC_MUST nc_code nc_attention_grad_prepare(nc_prep *p);
size_t nc_attention_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_attention_grad_run(const nc_call *c);

NC_MUST nc_code nc_rotary_prepare(nc_prep *p);
NC_MUST nc_code nc_rotary_run(const nc_call *c);

NC_MUST nc_code nc_linear_attention_prepare(nc_prep *p);
size_t nc_linear_attention_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_linear_attention_run(const nc_call *c);

NC_MUST nc_code nc_causal_conv_prepare(nc_prep *p);
NC_MUST nc_code nc_causal_conv_run(const nc_call *c);

NC_MUST nc_code nc_tensor_scatter_prepare(nc_prep *p);
NC_MUST nc_code nc_tensor_scatter_run(const nc_call *c);

NC_MUST nc_code nc_cached_prepare(nc_prep *p);
size_t nc_cached_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_cached_run(const nc_call *c);

#endif
