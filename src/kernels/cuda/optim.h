/* cuda/optim.h: a step of an optimizer (kernels/cpu/optim/optim.h) over all parameters in place, about a hundred with
 * each launch. */
#ifndef NCK_CUDA_OPTIM_H
#define NCK_CUDA_OPTIM_H

#include "kernels/cpu/optim/optim.h"
#include "kernels/cuda/launch.h"

/* One number each, in device memory; rate and scale f32 or f64. */
typedef struct nck_cuda_optim_numbers {
    const nc_tensor *rate, *step, *scale, *signal; /* signal false: nothing is done */
} nck_cuda_optim_numbers;

/* Of tensor i of n; m of momentum and Adam, v of Adam alone. New ones are in place. */
typedef nck_optim_tensors (*nck_cuda_optim_at)(const nc_call *c, int i);

NC_MUST nc_code nck_cuda_optim_prepare(nc_device *d, nc_function **out, nc_diag *diag);
NC_MUST nc_code nck_cuda_optim_run(nc_function *step, const nc_call *c, const nck_optim_rule *rule,
                                   const nck_cuda_optim_numbers *numbers, int n, nck_cuda_optim_at at);

#endif
