/* cuda/pool.h: pools over planes on the GPU; what they give stands in kernels/cpu/pool/pool.h. */
#ifndef NCK_CUDA_POOL_H
#define NCK_CUDA_POOL_H

#include "kernels/cpu/pool/pool.h"
#include "kernels/cuda/launch.h"

typedef struct nck_cuda_pool {
    nc_function *max, *max_last, *average, *average_grad, *lp; /* those that were asked for */
} nck_cuda_pool;

typedef enum nck_cuda_pool_kind { NCK_CUDA_POOL_MAX, NCK_CUDA_POOL_SUMS } nck_cuda_pool_kind;

/* Floats; MAX also int8 and uint8. SUMS: averages, their gradient, p-norms. */
NC_MUST nc_code nck_cuda_pool_prepare(nc_device *d, nc_dtype t, nck_cuda_pool_kind kind, nck_cuda_pool *out,
                                      nc_diag *diag);

/* As nck_pool_max, nck_pool_average, ..., with the same arguments. */
NC_MUST nc_code nck_cuda_pool_max(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a, int64_t *index,
                                  bool column_major);
NC_MUST nc_code nck_cuda_pool_average(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a,
                                      nck_pool_divide by);
NC_MUST nc_code nck_cuda_pool_average_grad(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a,
                                           nck_pool_divide by);
NC_MUST nc_code nck_cuda_pool_lp(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a, double p);

#endif
