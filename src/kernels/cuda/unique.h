/* cuda/unique.h: which of the rows of a tensor are new, on the GPU; how many there are is found there. */
#ifndef NCK_CUDA_UNIQUE_H
#define NCK_CUDA_UNIQUE_H

#include "kernels/cuda/compact.h"
#include "kernels/cuda/sort.h"

typedef struct nck_cuda_unique {
    nc_function *words, *sort_few, *begins, *firsts, *count, *add, *number, *name, *take;
    nck_cuda_sort sort;
    int bits; /* of an element */
} nck_cuda_unique;

/* Of x (outer, n, inner), dense, rows are compared along n; sorted: by value (NaN last), else by first appearance. y
 * (outer, count, inner), first, count (count), inverse (n); the last three may be NULL. */
typedef struct nck_cuda_unique_args {
    int64_t outer, n, inner, n_out;
    bool sorted;
    const void *x;
    void *y;
    int64_t *first, *inverse, *count;
} nck_cuda_unique_args;

NC_MUST nc_code nck_cuda_unique_prepare(nc_device *d, nc_dtype t, nck_cuda_unique *out, nc_diag *diag);
size_t nck_cuda_unique_workspace(int64_t n); /* grows with n; SIZE_MAX: too many rows */
/* sizes: of result 0 written as s says, those of the n_out - 1 others behind them, NC_MAX_RANK apart. */
NC_MUST nc_code nck_cuda_unique_run(const nck_cuda_unique *k, nck_cuda_at at, const nck_cuda_unique_args *a,
                                    const nck_cuda_compact_sizes *s, int64_t *sizes, void *workspace);

#endif
