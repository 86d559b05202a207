/* ops/matmul/matmul_cpu.h: Gemm's kernel functions, for the family's table of bindings. */
#ifndef NC_OPS_MATMUL_CPU_H
#define NC_OPS_MATMUL_CPU_H

#include "ops/binding.h"

NC_MUST nc_code nc_gemm_prepare(nc_prep *p);
size_t nc_gemm_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_gemm_run(const nc_call *c);
size_t nc_gemm_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_gemm_half_run(const nc_call *c);
NC_MUST nc_code nc_gemm_onto_prepare(nc_prep *p);
NC_MUST nc_code nc_gemm_onto_run(const nc_call *c);

#endif
