/* ops/norm/norm_cpu.h: kernel functions of the norm family that the table in norm_cpu.c takes from other files, and
 * what those share with it. */
#ifndef NC_OPS_NORM_CPU_H
#define NC_OPS_NORM_CPU_H

#include "kernels/cpu/norm/norm.h"
#include "ops/binding.h"

/* BatchNormalization's outputs 1 and 2 move from inputs 3 and 4 towards the batch's statistics (C), 3 and 4 are those;
 * by c's state, an nc_norm_how. */
NC_MUST nc_code nc_batch_put_stats(const nc_call *c, int64_t C, const void *mean, const void *var);

/* What a gradient of BatchNormalization over C channels of `size` places computes; its operands are checked. */
NC_MUST nc_code nc_norm_batch_back(const nc_call *c, int64_t C, int64_t size, nck_norm_channels_back *out);

/* batch_blocked_cpu.c; rows of nc_batch_blocked_prepare say whether they are the gradient. */
typedef struct nc_batch_blocked_row {
    bool is_grad;
} nc_batch_blocked_row;
NC_MUST nc_code nc_batch_blocked_prepare(nc_prep *p);
size_t nc_batch_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_batch_blocked_run(const nc_call *c);
size_t nc_batch_grad_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                       int n_out);
NC_MUST nc_code nc_batch_grad_blocked_run(const nc_call *c);

#endif
