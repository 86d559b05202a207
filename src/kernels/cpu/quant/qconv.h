/* kernels/cpu/quant/qconv.h: convolution of 8-bit integers summed in int32, any number of spatial dims, the sums stored
 * as kernels/cpu/gemm/igemm.h says: for each image and group one integer product of the patches of x (rows) and the
 * weights (columns). Padding counts as x's zero point. Channels last are what it is fast with. */
#ifndef NCK_QUANT_QCONV_H
#define NCK_QUANT_QCONV_H

#include "base/shape.h"
#include "kernels/cpu/gemm/igemm.h"
#include "kernels/cpu/quant/linear.h"

/* Codes that lie as those of y do and are added to them as nck_add_codes says, while a block of y is in the cache. */
typedef struct nck_qconv_sum {
    const void *other;
    nck_codes of_y, of_other, of_sum;
} nck_qconv_sum;

typedef struct nck_qconv_args {
    int n_spatial;
    int64_t N, C, K, group; /* group divides C and K */
    int64_t in[NC_MAX_RANK], out[NC_MAX_RANK], window[NC_MAX_RANK];
    int64_t stride[NC_MAX_RANK], dilation[NC_MAX_RANK], pad[NC_MAX_RANK]; /* pad: before the first element */
    nc_dtype x_type, w_type;                                              /* NC_INT8 or NC_UINT8 */
    bool last;                                                            /* channels of x and y come last */
    const void *x;                                                        /* (N, C, in...), (N, in..., C); dense */
    const void *x_zero;                                                   /* one number; NULL: 0 */
    const void *w;                                                        /* (K, C/group, window...), dense */
    const void *w_packed;                                                 /* from nck_qconv_pack; NULL: w is read */
    const void *w_zero;                                                   /* one number, or one per K; NULL: 0 */
    int64_t w_zeros;
    /* c is (N, K, out...) or (N, out..., K), dense: strides are not read. A is x, with one scale; B is w, columns are
     * K. */
    nck_igemm_out y;
    const nck_qconv_sum *sum; /* NULL: none; y is codes, group 1, channels last */
} nck_qconv_args;

/* Reads w, its type, the sizes of weights, strides and dilations; room: for the weights in the order of the pack. */
size_t nck_qconv_packed_bytes(const nck_qconv_args *a);
size_t nck_qconv_pack_room(const nck_qconv_args *a);
void nck_qconv_pack(const nck_qconv_args *a, void *dst, void *room);

size_t nck_qconv_workspace(const nck_qconv_args *a, bool packed); /* grows with the sizes of x and y; reads y's type */
void nck_qconv(const nck_qconv_args *a, void *workspace, nc_pool *pool);
void nck_qconv_ref(const nck_qconv_args *a); /* reads w; stores int32 */

#endif
