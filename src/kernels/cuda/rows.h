/* cuda/rows.h: rows that move to where their batch says, on the GPU. Elements of 1, 2, 4 or 8 bytes; all tensors are
 * dense, lengths and places lie in device memory. */
#ifndef NCK_CUDA_ROWS_H
#define NCK_CUDA_ROWS_H

#include "kernels/cuda/launch.h"

/* entry: "reverse" or "put_rows". */
NC_MUST nc_code nck_cuda_rows_prepare(nc_device *d, const char *entry, size_t elem_bytes, nc_function **out,
                                      nc_diag *diag);

/* y (time, batch, inner), or (batch, time, inner), = x with the first lens[b] steps of batch b in opposite order. */
NC_MUST nc_code nck_cuda_reverse_run(nc_function *f, const nc_call *c, int64_t n_time, int64_t n_batch, int64_t inner,
                                     bool time_first, const void *lens, const void *x, void *y);

/* u (batch, outer, n, inner) into the rows of y (batch, outer, rows, inner) from at[b] on; at NULL: 0. circular: row
 * numbers count around. */
typedef struct nck_cuda_put {
    int64_t n_batch, outer, rows, inner, n;
    bool circular;
    const void *at, *u;
    void *y;
} nck_cuda_put;
NC_MUST nc_code nck_cuda_put_rows_run(nc_function *f, const nc_call *c, const nck_cuda_put *p);

#endif
