/* cuda/reduce.h: sum, mean, product, max and min over any set of axes of a strided tensor on the GPU. Accumulation:
 * f16, bf16 and f32 in f32, f64 in f64, integers in 64 bits (sums and products wrap), by a fixed tree that depends on
 * dims and strides alone. Over nothing: sum 0, product 1, mean NaN (integers 0), max the smallest value of the type,
 * min the largest. */
#ifndef NCK_CUDA_REDUCE_H
#define NCK_CUDA_REDUCE_H

#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cuda/launch.h"

typedef struct nck_cuda_reduce {
    nck_reduce_op op;
    nc_dtype type;
    nc_function *rows, *columns, *column_vectors, *join;
} nck_cuda_reduce;

/* Every type that kernels hold; of bools only max and min. */
NC_MUST nc_code nck_cuda_reduce_prepare(nc_device *d, nck_reduce_op op, nc_dtype t, nck_cuda_reduce *out,
                                        nc_diag *diag);

/* n_out results of n_reduced elements each. Grows with both. */
size_t nck_cuda_reduce_workspace(int64_t n_out, int64_t n_reduced);

/* Bit d of axes: dim d of x is reduced. out is dense, the kept dims in order. */
NC_MUST nc_code nck_cuda_reduce_run(const nck_cuda_reduce *k, nck_cuda_at at, const nc_tensor *x, nc_axes axes,
                                    void *out, void *workspace);

#endif
