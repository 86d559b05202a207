/* cuda/convert.h: elements in another type on the GPU, with the CPU's conversions (kernels/cpu/move/move.h): narrow
 * types on either side, and floats that become integers. All other pairs are chains of one formula. Dense tensors. */
#ifndef NCK_CUDA_CONVERT_H
#define NCK_CUDA_CONVERT_H

#include "base/narrow.h"
#include "kernels/cuda/launch.h"

typedef struct nck_cuda_convert {
    nc_dtype from, to;
    nc_narrowing how;
    nc_function *function;
} nck_cuda_convert;

/* Numbers and bool, narrow ones too. */
bool nck_cuda_convert_takes(nc_dtype from, nc_dtype to);
/* What stands before the text for such a pair, and the type of what is read, as the text has it. */
nc_dtype nck_cuda_convert_define(nc_dtype from, nc_dtype to, char *define, size_t bytes);
NC_MUST nc_code nck_cuda_convert_prepare(nc_device *d, nc_dtype from, nc_dtype to, nc_narrowing how,
                                         nck_cuda_convert *out, nc_diag *diag);
NC_MUST nc_code nck_cuda_convert_run(const nck_cuda_convert *k, nck_cuda_at at, int64_t n, const void *x, void *y);

#endif
