/* cuda/norm.h: normalization of rows on the GPU: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, or without
 * the mean, and its gradients. Dense f16, bf16, f32 and f64; scale, y and the gradients may be of other types with
 * the same accumulator: f32, f64 for f64, by fixed trees. */
#ifndef NCK_CUDA_NORM_H
#define NCK_CUDA_NORM_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_norm {
    int64_t vector; /* elements of one access: 16 bytes of the smallest type of x, y and their gradients */
    size_t widest;  /* bytes of the largest type */
    nc_function *rows, *vectors, *sum_rows, *sum_vectors, *grad_rows, *grad_vectors, *grad_sums, *grad_columns,
        *grad_columns_4, *grad_narrow, *grad_join;
} nck_cuda_norm;

/* Element (row, col) takes scale[row % mod * row_step + where the walk's operand 0 is at col], bias with operand 1. */
typedef struct nck_cuda_norm_args {
    int64_t rows, cols, mod, row_step;
    nck_cuda_walk pick;
    double epsilon;
    int64_t center;
} nck_cuda_norm_args;

/* scale: of scale, bias and their gradients; y: of y and its gradient. All but those of stat, the statistics, have one
 * accumulator. */
typedef struct nck_cuda_norm_types {
    nc_dtype x, scale, y, dx, stat, narrow; /* narrow: UNDEFINED is dx's; dx: of the part of a sum too */
    bool drops;                             /* dropout is on the way */
} nck_cuda_norm_types;
/* An element of a tensor is dropped as nck_cuda_dropout would; state NULL: all stay. */
typedef struct nck_cuda_norm_drop {
    const void *state; /* {seed, step} */
    uint32_t node, limit;
    double scale;
} nck_cuda_norm_drop;
nck_cuda_norm_drop nck_cuda_norm_drop_of(const void *state, int64_t node, double ratio);

/* For nck_cuda_norm_run; for nck_cuda_norm_sum_run and nck_cuda_norm_grad_run, texts of their own, which inference does
 * not compile. */
NC_MUST nc_code nck_cuda_norm_prepare(nc_device *d, const nck_cuda_norm_types *t, nck_cuda_norm *out, nc_diag *diag);
NC_MUST nc_code nck_cuda_norm_sum_prepare(nc_device *d, const nck_cuda_norm_types *t, nck_cuda_norm *out,
                                          nc_diag *diag);
NC_MUST nc_code nck_cuda_norm_grad_prepare(nc_device *d, const nck_cuda_norm_types *t, nck_cuda_norm *out,
                                           nc_diag *diag);

/* bias, mean and inv_std (rows) may be NULL. y may be x. */
NC_MUST nc_code nck_cuda_norm_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *x,
                                  const void *scale, const void *bias, void *y, void *mean, void *inv_std);

/* The norm of sum (rows, cols) = other + what is left of part, which may be of another type. */
typedef struct nck_cuda_norm_sum {
    const void *part, *other;
    void *sum;
    nck_cuda_norm_drop drop;
} nck_cuda_norm_sum;
NC_MUST nc_code nck_cuda_norm_sum_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a,
                                      const nck_cuda_norm_sum *of, const void *scale, const void *bias, void *y,
                                      void *mean, void *inv_std);

size_t nck_cuda_norm_grad_workspace(int64_t rows, int64_t cols);
/* dx (rows, cols), with other, of its type, added unless that is NULL; it may be dx. narrow: the sum once more, in
 * another type and with some of it dropped, or NULL; narrow_sums (cols): that one added up over the rows. dscale and
 * dbias (cols). dx, dscale and dbias may be NULL, as may narrow_sums. mean and inv_std (rows), in the accumulator's
 * type: what the forward pass found of x; both NULL: they are found anew. */
typedef struct nck_cuda_norm_grads {
    void *dx;
    const void *other;
    void *narrow, *narrow_sums;
    const void *mean, *inv_std;
    void *dscale, *dbias;
    nck_cuda_norm_drop drop;
} nck_cuda_norm_grads;
/* Scale is picked by the column alone (mod 1). */
NC_MUST nc_code nck_cuda_norm_grad_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a,
                                       const void *dy, const void *x, const void *scale, const nck_cuda_norm_grads *to,
                                       void *workspace);

#endif
