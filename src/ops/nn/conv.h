/* ops/nn/conv.h: a convolution's attributes, read once for inference and for kernels. */
#ifndef NC_OPS_NN_CONV_H
#define NC_OPS_NN_CONV_H

#include "ir/card.h"

typedef enum nc_auto_pad { NC_PAD_NOTSET, NC_PAD_SAME_UPPER, NC_PAD_SAME_LOWER, NC_PAD_VALID } nc_auto_pad;

enum { NC_CONV_MAX_SPATIAL = NC_MAX_RANK - 3 };

typedef struct nc_conv_attrs {
    int n_spatial;
    int64_t group;
    nc_auto_pad auto_pad;
    int64_t strides[NC_CONV_MAX_SPATIAL], dilations[NC_CONV_MAX_SPATIAL];
    int64_t pads[2 * NC_CONV_MAX_SPATIAL]; /* all begins, then all ends; 0 with auto_pad */
} nc_conv_attrs;

NC_MUST nc_code nc_conv_read_attrs(nc_work *w, const nc_node *n, int n_spatial, nc_conv_attrs *a);

/* Output 0 as the convolution of input 0 with the windows of input 1, with elements of type elem. */
NC_MUST nc_code nc_conv_infer_as(nc_infer *c, nc_dtype elem);

/* The padding along spatial dim i of an input of size `in` under a window of k. */
void nc_conv_pads(const nc_conv_attrs *a, int i, int64_t in, int64_t k, int64_t *begin, int64_t *end);

#endif
