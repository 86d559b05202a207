/* ops/reduce/along_cpu.h: CPU kernels of the ops that walk along one axis: ArgMax, ArgMin, CumSum, CumProd. */
#ifndef NC_OPS_REDUCE_ALONG_CPU_H
#define NC_OPS_REDUCE_ALONG_CPU_H

#include "ops/reduce/along.h"

NC_MUST nc_code nc_arg_prepare(nc_prep *p); /* own: nc_arg_row */
NC_MUST nc_code nc_arg_run(const nc_call *c);
NC_MUST nc_code nc_arg_narrow_run(const nc_call *c);
size_t nc_arg_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

NC_MUST nc_code nc_cumulate_prepare(nc_prep *p); /* own: nc_cumulate_row */
NC_MUST nc_code nc_cumulate_run(const nc_call *c);
NC_MUST nc_code nc_cumulate_narrow_run(const nc_call *c);
size_t nc_cumulate_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

#endif
