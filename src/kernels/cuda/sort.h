/* cuda/sort.h: words of 64 bits sorted on the GPU by some of their bits; words that are alike there keep their order,
 * so that a number in the other bits says where each came from. The same bits in every run. */
#ifndef NCK_CUDA_SORT_H
#define NCK_CUDA_SORT_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_sort {
    nc_function *count, *add, *move, *one;
} nck_cuda_sort;

NC_MUST nc_code nck_cuda_sort_prepare(nc_device *d, nck_cuda_sort *out, nc_diag *diag);
/* For n words: room for them twice, and counts. SIZE_MAX where they are too many: UINT32_MAX, or more. */
size_t nck_cuda_sort_workspace(int64_t n);
/* The n words at the begin of the workspace by bits [lo, hi), lo < hi; *sorted: where in the
 * workspace they then lie. */
NC_MUST nc_code nck_cuda_sort_run(const nck_cuda_sort *k, nck_cuda_at at, int64_t n, int lo, int hi, void *workspace,
                                  uint64_t **sorted);
/* The bits that numbers below n take, at least 1. */
int nck_cuda_sort_bits(int64_t n);

#endif
