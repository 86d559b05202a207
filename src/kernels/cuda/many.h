/* cuda/many.h: many tensors of floats stored as other types, or added to others, about a hundred with each launch. */
#ifndef NCK_CUDA_MANY_H
#define NCK_CUDA_MANY_H

#include "kernels/cuda/launch.h"

/* Dense, of as many elements each. */
typedef struct nck_cuda_many {
    const nc_tensor *y, *x;
} nck_cuda_many;

typedef nck_cuda_many (*nck_cuda_many_at)(const nc_call *c, int i);

NC_MUST nc_code nck_cuda_many_prepare(nc_device *d, nc_function **out, nc_diag *diag);
/* y = x of tensors 0 to n - 1. overwrite: a bool in device memory, y = y + x where it is false; NULL: true. */
NC_MUST nc_code nck_cuda_many_run(nc_function *many, const nc_call *c, int n, nck_cuda_many_at at,
                                  const void *overwrite);

#endif
