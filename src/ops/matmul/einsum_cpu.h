/* ops/matmul/einsum_cpu.h: kernel functions of Einsum, Det and Inverse, for the family's table of bindings. */
#ifndef NC_OPS_EINSUM_CPU_H
#define NC_OPS_EINSUM_CPU_H

#include "ops/binding.h"

NC_MUST nc_code nc_einsum_prepare(nc_prep *p);
size_t nc_einsum_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_einsum_run(const nc_call *c); /* f32, f64, i32, i64, u64 */
bool nc_einsum_few(const nc_node *n, const char **why);

size_t nc_det_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_det_run(const nc_call *c); /* f32, f64 */
NC_MUST nc_code nc_det_grad_run(const nc_call *c);
size_t nc_inverse_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_inverse_run(const nc_call *c); /* f32, f64 */

#endif
