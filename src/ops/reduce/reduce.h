/* ops/reduce/reduce.h: what cards and bindings of the reduce family share, and the kernel of nacre.SumTo. */
#ifndef NC_OPS_REDUCE_H
#define NC_OPS_REDUCE_H

#include "ops/binding.h"

/* Bit i: axis i is reduced. `axes` may be negative; false: one is out of range. A scalar counts as one with the axes 0
 * and -1, of which nothing is left to reduce: no bit. */
bool nc_reduce_mask(const int64_t *axes, int n, int rank, nc_axes *mask);

size_t nc_reduce_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);

/* nacre.SumTo on the CPU, in f32, f64 and integers of 32 and 64 bits; and in narrower types through those. */
NC_MUST nc_code nc_reduce_sum_to_prepare(nc_prep *p);
NC_MUST nc_code nc_reduce_sum_to_run(const nc_call *c);
size_t nc_reduce_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_reduce_sum_to_narrow_run(const nc_call *c);

#endif
