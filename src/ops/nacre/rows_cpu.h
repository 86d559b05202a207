/* ops/nacre/rows_cpu.h: the binding of nacre.ChainRows on the CPU. */
#ifndef NC_OPS_NACRE_ROWS_CPU_H
#define NC_OPS_NACRE_ROWS_CPU_H

#include "ops/binding.h"

bool nc_rows_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_rows_prepare(nc_prep *p);
size_t nc_rows_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_rows_run(const nc_call *c);

#endif
