/* cuda/compact.h: the places of what is not zero, in order (NaN is not, -0.0 is), and the slices at them. Their number
 * is found on the GPU and written to device memory. */
#ifndef NCK_CUDA_COMPACT_H
#define NCK_CUDA_COMPACT_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_compact {
    nc_function *count, *add, *write, *take, *behind; /* the last two where slices are taken */
} nck_cuda_compact;

/* The dims of a result, of which `axis` is the number found; mirrors compact_sizes in compact.cu. */
typedef struct nck_cuda_compact_sizes {
    int64_t rank, axis, dims[NC_MAX_RANK];
} nck_cuda_compact_sizes;

/* t: of what is looked at; elem_bytes: of slices, 0: none are taken. */
NC_MUST nc_code nck_cuda_compact_prepare(nc_device *d, nc_dtype t, size_t elem_bytes, nck_cuda_compact *out,
                                         nc_diag *diag);
size_t nck_cuda_nonzero_workspace(void);
size_t nck_cuda_compress_workspace(int64_t n); /* grows with n */

/* places (rank, count), dense; x dense. sizes: written as s says. */
NC_MUST nc_code nck_cuda_nonzero_run(const nck_cuda_compact *k, nck_cuda_at at, const nc_tensor *x, int64_t *places,
                                     const nck_cuda_compact_sizes *s, int64_t *sizes, void *workspace);
/* y (outer, count, inner) = the slices of x (outer, axis, inner) whose flag is set; flags behind the axis are told of
 * by c's stream. */
typedef struct nck_cuda_compress {
    int64_t outer, axis, inner, n_flags;
    const void *x, *flags;
    void *y;
} nck_cuda_compress;
NC_MUST nc_code nck_cuda_compress_run(const nck_cuda_compact *k, const nc_call *c, const nck_cuda_compress *a,
                                      const nck_cuda_compact_sizes *s);

#endif
