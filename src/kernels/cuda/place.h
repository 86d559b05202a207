/* cuda/place.h: elements that follow from where they stand, on the GPU: triangles and diagonals of matrices, one-hot
 * rows, ranges, triangles over columns. Elements that are only moved have 1, 2, 4 or 8 bytes; all tensors are dense. */
#ifndef NCK_CUDA_PLACE_H
#define NCK_CUDA_PLACE_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_place {
    nc_dtype type; /* of ranges */
    nc_function *function;
} nck_cuda_place;

/* entry: "trilu" and "eye" (t: of the diagonal, NC_INT64), "one_hot" (t: of the indices) or "range" (t: of the range,
 * elem_bytes its size), "triangles" (NC_DOUBLE). */
NC_MUST nc_code nck_cuda_place_prepare(nc_device *d, const char *entry, nc_dtype t, size_t elem_bytes,
                                       nck_cuda_place *out, nc_diag *diag);

/* Of matrices (rows, cols): what lies at or above diagonal *k (device memory; NULL: 0), or at or below; else 0. */
NC_MUST nc_code nck_cuda_trilu_run(const nck_cuda_place *k, nck_cuda_at at, int64_t n, int64_t rows, int64_t cols,
                                   bool upper, const void *diagonal, const void *x, void *y);
/* one (the bits of an element) on a diagonal of a matrix of n elements, 0 elsewhere. */
NC_MUST nc_code nck_cuda_eye_run(const nck_cuda_place *k, nck_cuda_at at, int64_t n, int64_t cols, int64_t diagonal,
                                 uint64_t one, void *y);
/* y (outer, depth, inner) of values {off, on} and index (outer, inner), in device memory. */
NC_MUST nc_code nck_cuda_one_hot_run(const nck_cuda_place *k, nck_cuda_at at, int64_t outer, int64_t depth,
                                     int64_t inner, const void *index, const void *values, void *y);
/* start and delta: one element each, in host memory. Half types count in float. */
NC_MUST nc_code nck_cuda_range_run(const nck_cuda_place *k, nck_cuda_at at, int64_t n, const void *start,
                                   const void *delta, void *y);

/* Columns first..first + n - 1 of y (rows, cols), doubles: column i rises from 0 at edge[i] to 1 at edge[i + 1] and
 * falls to 0 at edge[i + 2], all in order; edges that are one are 1 there. Mirrors triangle_edges in place.cu. */
#define NCK_CUDA_TRIANGLES 128
typedef struct nck_cuda_triangles {
    int64_t first, n, edge[NCK_CUDA_TRIANGLES + 2];
} nck_cuda_triangles;
NC_MUST nc_code nck_cuda_triangles_run(const nck_cuda_place *k, nck_cuda_at at, int64_t rows, int64_t cols,
                                       const nck_cuda_triangles *t, double *y);

#endif
