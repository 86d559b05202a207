/* ops/nn/nn_cuda.h: launchers of the nn family, one file of them per topic, for the table in nn_cuda.c. */
#ifndef NC_OPS_NN_CUDA_H
#define NC_OPS_NN_CUDA_H

#include "ops/binding.h"

#define NC_CUDA_CONV(name)                                                                                        \
    size_t nc_conv_cuda_##name##workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, \
                                          int n_out);                                                             \
    NC_MUST nc_code nc_conv_cuda_##name##run(const nc_call *c);
NC_CUDA_CONV()
NC_CUDA_CONV(grad_)
NC_CUDA_CONV(transpose_)
NC_CUDA_CONV(transpose_grad_)
#undef NC_CUDA_CONV

/* conv_last_cuda.c: nacre.ConvBlocked with all channels in one block. */
bool nc_conv_last_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_conv_last_prepare(nc_prep *p);
size_t nc_conv_last_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_conv_last_run(const nc_call *c);

NC_MUST nc_code nc_conv_cuda_prepare(nc_prep *p); /* rows are nc_conv_row */

#endif
