/* ops/reduce/along_cuda.h: CUDA bindings of the ops that walk along one axis, for the table in reduce_cuda.c. */
#ifndef NC_OPS_REDUCE_ALONG_CUDA_H
#define NC_OPS_REDUCE_ALONG_CUDA_H

#include "ops/binding.h"

bool nc_along_cuda_fits(const nc_node *n, const char **why);
size_t nc_along_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_arg_cuda_prepare(nc_prep *p); /* own: nc_arg_row */
NC_MUST nc_code nc_arg_cuda_run(const nc_call *c);
NC_MUST nc_code nc_cumulate_cuda_prepare(nc_prep *p); /* own: nc_cumulate_row */
NC_MUST nc_code nc_cumulate_cuda_run(const nc_call *c);

#endif
