/* ops/matmul/group_cuda.h: MatMulGroup on CUDA, for the row of matmul_cuda.c. */
#ifndef NC_OPS_MATMUL_GROUP_CUDA_H
#define NC_OPS_MATMUL_GROUP_CUDA_H

#include "ops/binding.h"

NC_MUST nc_code nc_matmul_group_prepare(nc_prep *p);
size_t nc_matmul_group_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_matmul_group_run(const nc_call *c);

#endif
