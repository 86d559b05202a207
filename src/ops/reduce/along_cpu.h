/* ops/reduce/along_cpu.h: CPU kernels of the ops that walk along one axis: ArgMax, ArgMin, CumSum, CumProd. */
#ifndef NC_OPS_REDUCE_ALONG_CPU_H
#define NC_OPS_REDUCE_ALONG_CPU_H

#include "ops/binding.h"

typedef enum nc_arg_row { NC_ARG_MAX, NC_ARG_MIN } nc_arg_row; /* rows of nc_arg_prepare */
NC_MUST nc_code nc_arg_prepare(nc_prep *p);
NC_MUST nc_code nc_arg_run(const nc_call *c);
NC_MUST nc_code nc_arg_narrow_run(const nc_call *c);
size_t nc_arg_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

typedef enum nc_cumulate_row { NC_CUMULATE_SUM, NC_CUMULATE_PRODUCT } nc_cumulate_row; /* rows of nc_cumulate_prepare */
NC_MUST nc_code nc_cumulate_prepare(nc_prep *p);
NC_MUST nc_code nc_cumulate_run(const nc_call *c);
NC_MUST nc_code nc_cumulate_narrow_run(const nc_call *c);
size_t nc_cumulate_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

#endif
