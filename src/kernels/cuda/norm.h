/* cuda/norm.h: normalization of rows on the GPU: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, or without
 * the mean, and its gradients. Dense f16, bf16, f32 and f64; scale, bias, y and the statistics may be of other types
 * with the same accumulator: f32, f64 for f64, by fixed trees. */
#ifndef NCK_CUDA_NORM_H
#define NCK_CUDA_NORM_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_norm {
    nc_dtype type;
    int64_t vector; /* elements of 16 bytes */
    nc_function *rows, *vectors, *grad_rows, *grad_columns, *grad_join;
} nck_cuda_norm;

/* Element (row, col) takes scale[row % mod * row_step + where the walk's operand 0 is at col], bias with operand 1. */
typedef struct nck_cuda_norm_args {
    int64_t rows, cols, mod, row_step;
    nck_cuda_walk pick;
    double epsilon;
    int64_t center;
} nck_cuda_norm_args;

/* Types of x; of scale, bias and y; of the statistics. The gradients are of type x alone. */
NC_MUST nc_code nck_cuda_norm_prepare(nc_device *d, nc_dtype x, nc_dtype y, nc_dtype stat, nck_cuda_norm *out,
                                      nc_diag *diag);

/* bias, mean and inv_std (rows) may be NULL. y may be x. */
NC_MUST nc_code nck_cuda_norm_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *x,
                                  const void *scale, const void *bias, void *y, void *mean, void *inv_std);

size_t nck_cuda_norm_grad_workspace(int64_t rows, int64_t cols);
/* Scale is picked by the column alone (mod 1). dx (rows, cols), dscale and dbias (cols): each may be NULL. */
NC_MUST nc_code nck_cuda_norm_grad_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a,
                                       const void *dy, const void *x, const void *scale, void *dx, void *dscale,
                                       void *dbias, void *workspace);

#endif
