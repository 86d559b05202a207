/* kernels/cpu/quant/qconv.h: convolution of 8-bit integers in int32, any number of spatial dims: for each image and
 * group one integer matrix product of the weights and the patches of x. Padding counts as x's zero point. */
#ifndef NCK_QUANT_QCONV_H
#define NCK_QUANT_QCONV_H

#include "base/shape.h"
#include "base/threads.h"

typedef struct nck_qconv_args {
    int n_spatial;
    int64_t N, C, K, group; /* group divides C and K */
    int64_t in[NC_MAX_RANK], out[NC_MAX_RANK], window[NC_MAX_RANK];
    int64_t stride[NC_MAX_RANK], dilation[NC_MAX_RANK], pad[NC_MAX_RANK]; /* pad: before the first element */
    nc_dtype x_type, w_type;                                              /* NC_INT8 or NC_UINT8 */
    const void *x;                                                        /* (N, C, in...), dense */
    const void *x_zero;                                                   /* one number; NULL: 0 */
    const void *w;                                                        /* (K, C/group, window...), dense */
    const void *w_zero;                                                   /* one number, or one per K; NULL: 0 */
    int64_t w_zeros;
    int32_t *y; /* (N, K, out...), dense */
} nck_qconv_args;

size_t nck_qconv_workspace(const nck_qconv_args *a);
void nck_qconv(const nck_qconv_args *a, void *workspace, nc_pool *pool);
void nck_qconv_ref(const nck_qconv_args *a);

#endif
