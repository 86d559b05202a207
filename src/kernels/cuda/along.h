/* cuda/along.h: walks along one axis of a dense tensor on the GPU, as kernels/cpu/reduce/along.h: the place of the
 * largest or smallest element; running sums and products, those of floats kept in double and rounded per element. */
#ifndef NCK_CUDA_ALONG_H
#define NCK_CUDA_ALONG_H

#include "kernels/cuda/launch.h"

typedef struct nck_cuda_along {
    nc_function *arg, *arg_parts, *arg_join, *cumulate, *cumulate_parts, *cumulate_add, *cumulate_within;
} nck_cuda_along;

NC_MUST nc_code nck_cuda_along_prepare(nc_device *d, nc_dtype t, nck_cuda_along *out, nc_diag *diag);

size_t nck_cuda_along_workspace(int64_t n); /* of x with n elements, along any axis */
/* out: x's dims without the axis, which is not empty. A NaN counts as the most extreme. Of equals the first or last. */
NC_MUST nc_code nck_cuda_arg_run(const nck_cuda_along *k, nck_cuda_at at, const nc_tensor *x, int axis, bool smallest,
                                 bool last, void *workspace, void *out);
/* exclusive: element k holds what comes before it. reverse: from the end. out may be x. */
NC_MUST nc_code nck_cuda_cumulate_run(const nck_cuda_along *k, nck_cuda_at at, const nc_tensor *x, int axis,
                                      bool product, bool exclusive, bool reverse, void *workspace, void *out);

#endif
