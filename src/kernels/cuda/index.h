/* cuda/index.h: elements picked by indices on the GPU, and updates combined with the elements that indices say, in
 * the order of the updates (sorted by destination, or line by line, so the same bits in every run). Indices are int32
 * or int64 and count from the end below 0; one out of range is reported by the stream's next synchronisation, and
 * what it stands for is left out. Elements of 1, 2, 4 or 8 bytes. */
#ifndef NCK_CUDA_INDEX_H
#define NCK_CUDA_INDEX_H

#include "kernels/cpu/index/index.h"
#include "kernels/cuda/sort.h"

/* How an output index becomes an offset of the data; mirrors `pick` in index.cu. Operands: what is written, the data
 * without the indexed axes, the indices. */
typedef struct nck_cuda_pick {
    int64_t rank, dims[NC_MAX_RANK], strides[3][NC_MAX_RANK];
    int64_t n_axes, wide, sizes[NC_MAX_RANK], steps[NC_MAX_RANK];
} nck_cuda_pick;

/* Gather: y's dims are x's with index's in the place of the axis. Any strides. */
nck_cuda_pick nck_cuda_pick_slices(const nc_tensor *x, const nc_tensor *index, int axis, const nc_tensor *y);
/* GatherElements: y NULL: only places are wanted. Any strides. */
nck_cuda_pick nck_cuda_pick_elements(const nc_tensor *x, const nc_tensor *index, int axis, const nc_tensor *y);
/* GatherND: index rows of m = last dim, behind `batch` shared dims. y NULL: one place for each row. The last dim of
 * index is dense; m + batch is no more than x's rank. */
nck_cuda_pick nck_cuda_pick_rows(const nc_tensor *x, const nc_tensor *index, int batch, const nc_tensor *y);

typedef struct nck_cuda_gather {
    size_t bytes; /* of one element */
    nc_function *gather, *words, *lines;
} nck_cuda_gather;

NC_MUST nc_code nck_cuda_gather_prepare(nc_device *d, size_t elem_bytes, nck_cuda_gather *out, nc_diag *diag);
NC_MUST nc_code nck_cuda_gather_run(const nck_cuda_gather *k, const nc_call *c, const nck_cuda_pick *p, const void *src,
                                    const void *index, void *dst);

typedef struct nck_cuda_scatter {
    size_t bytes; /* of a sum */
    nc_function *keys, *scatter, *lines, *clear, *claim, *put;
    nck_cuda_sort sort;
} nck_cuda_scatter;

NC_MUST nc_code nck_cuda_scatter_prepare(nc_device *d, nc_dtype t, nck_cuda_scatter *out, nc_diag *diag);

/* y (outer, axis, inner), dense, combined with updates (outer, n, inner), dense. p gives n places, as offsets of which
 * `unit` elements are one step along the axis. */
typedef struct nck_cuda_scatter_args {
    nck_combine how;
    int64_t outer, axis, inner, n, unit;
    const void *index, *updates;
    void *y;
} nck_cuda_scatter_args;
size_t nck_cuda_scatter_workspace(nck_combine how, int64_t n, int64_t axis); /* grows with n and axis */
NC_MUST nc_code nck_cuda_scatter_run(const nck_cuda_scatter *k, const nc_call *c, const nck_cuda_pick *p,
                                     const nck_cuda_scatter_args *a, void *workspace);

#endif
