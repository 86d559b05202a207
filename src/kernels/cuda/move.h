/* cuda/move.h: strided copy and fill on the GPU, elements of 1, 2, 4 or 8 bytes (copy also 16, as pairs of 8). Elements
 * are aligned for their size; written ones are distinct; source and destination do not overlap. */
#ifndef NCK_CUDA_MOVE_H
#define NCK_CUDA_MOVE_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_move {
    size_t bytes; /* of one element */
    nc_function *copy, *copy_rows, *copy_words, *turn, *fill;
} nck_cuda_move;

/* Text that defines U, the word of an element that is only moved; NULL: kernels have none of that size. */
const char *nck_cuda_move_define(size_t elem_bytes);

NC_MUST nc_code nck_cuda_move_prepare(nc_device *d, size_t elem_bytes, nck_cuda_move *out, nc_diag *diag);

/* dst = src, same dims; strides of src may be 0 or negative. Dense to dense is one copy by the device. */
NC_MUST nc_code nck_cuda_copy(const nck_cuda_move *k, nck_cuda_at at, int rank, const int64_t *dims, const void *src,
                              const int64_t *src_strides, void *dst, const int64_t *dst_strides);

/* Matrices turned: y (n, cols, rows) = x (n, rows, cols). */
NC_MUST nc_code nck_cuda_turn(const nck_cuda_move *k, nck_cuda_at at, int64_t n, int64_t rows, int64_t cols,
                              const void *x, void *y);

/* dst = *value (host memory, one element, read before the call returns). */
NC_MUST nc_code nck_cuda_fill(const nck_cuda_move *k, nck_cuda_at at, const nc_tensor *dst, const void *value);

/* The kernel of nck_cuda_at_zero_run. */
NC_MUST nc_code nck_cuda_at_zero_prepare(nc_device *d, size_t elem_bytes, nc_function **out, nc_diag *diag);
/* y = x, dense; c's stream tells of a code of z, float8 and as many, that is not 0. */
NC_MUST nc_code nck_cuda_at_zero_run(nc_function *f, const nc_call *c, const nc_tensor *x, const nc_tensor *z, void *y);

#endif
