/* cuda/topk.h: the first k of every line along an axis, as nck_topk (kernels/cpu/index/index.h) says, of any type. */
#ifndef NCK_CUDA_TOPK_H
#define NCK_CUDA_TOPK_H

#include "kernels/cpu/index/index.h"
#include "kernels/cuda/sort.h"

typedef struct nck_cuda_topk {
    nc_function *pick, *sort, *begin, *count, *choose, *tally, *add, *gather, *words, *put;
    nck_cuda_sort by_digits;
    int bits; /* of an element */
} nck_cuda_topk;

NC_MUST nc_code nck_cuda_topk_prepare(nc_device *d, nc_dtype t, nck_cuda_topk *out, nc_diag *diag);
size_t nck_cuda_topk_workspace(int64_t lines, int64_t axis, int64_t k); /* grows with all of them */
NC_MUST nc_code nck_cuda_topk_run(const nck_cuda_topk *k, nck_cuda_at at, const nck_topk *t, void *workspace);

#endif
