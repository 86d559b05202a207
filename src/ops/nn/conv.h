/* ops/nn/conv.h: a convolution's attributes, read once for inference and for kernels, and the gradients that Conv and
 * ConvTranspose share. */
#ifndef NC_OPS_NN_CONV_H
#define NC_OPS_NN_CONV_H

#include "ops/window.h"

typedef nc_window nc_conv_attrs;

NC_MUST nc_code nc_conv_read_attrs(nc_work *w, const nc_node *n, int n_spatial, nc_conv_attrs *a);

/* Output 0 as the convolution of input 0 with the windows of input 1, with elements of type elem. */
NC_MUST nc_code nc_conv_infer_as(nc_infer *c, nc_dtype elem);

/* dims[2..] of the output; x has `extra` dims more than the weight. known: both ranks are. */
NC_MUST nc_code nc_conv_spatial_dims(nc_infer *c, int extra, nc_conv_attrs *a, const nc_dim **dims, bool *known);

double nc_conv_cost(const nc_node *n, const int64_t *const *in_dims);

#define NC_CONV_ATTRS                                                                                    \
    A_STR("auto_pad", "NOTSET"), A_INTS_OPT("dilations"), A_INT("group", 1), A_INTS_OPT("kernel_shape"), \
        A_INTS_OPT("pads"), A_INTS_OPT("strides")

/* Hooks of Conv for the channel-blocked layout (conv_blocked.c). */
bool nc_conv_blocks(const nc_node *n, nc_blocking *b);
nc_value *nc_conv_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in);

/* Hooks of ConvGrad for it (conv_grad_blocked.c). */
bool nc_conv_grad_blocks(const nc_node *n, nc_blocking *b);
nc_value *nc_conv_grad_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in);

/* The own of cards with these hooks: the convolution and its gradient, by name. */
typedef struct nc_conv_names {
    const char *op, *grad;
} nc_conv_names;
/* Gradient hooks of Conv and ConvTranspose, and of the gradient ops themselves. */
NC_MUST nc_code nc_conv_card_grad(nc_grad *g);
NC_MUST nc_code nc_conv_grad_card_grad(nc_grad *g);
/* dY, input 0, against what `forward` infers from the others. */
NC_MUST nc_code nc_conv_grad_expect(nc_infer *c, nc_code (*forward)(nc_infer *c));

/* conv_parts.c: ConvGrad as what ONNX has. */
NC_MUST nc_code nc_conv_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out);

/* ConvTranspose: what the sizes of the result follow from. */
typedef struct nc_conv_transpose {
    nc_conv_attrs attrs;
    bool shaped;      /* output_shape is given */
    bool no_winograd; /* of a binding: the session wants sums as they are defined */
    int64_t out_padding[NC_WINDOW_MAX_SPATIAL], out_shape[NC_WINDOW_MAX_SPATIAL];
} nc_conv_transpose;

NC_MUST nc_code nc_conv_transpose_read(nc_work *w, const nc_node *n, int n_spatial, nc_conv_transpose *a);
/* What is cut off in front of spatial dim i of a result of size `out`, from an input of size `in` under a window of k.
 */
int64_t nc_conv_transpose_pad(const nc_conv_transpose *a, int i, int64_t in, int64_t k, int64_t out);
/* Spatial dim i of the result. */
const nc_dim *nc_conv_transpose_dim(nc_dims *t, const nc_conv_transpose *a, int i, const nc_dim *in, const nc_dim *k);

/* Its hooks for the channel-blocked layout (conv_transpose_blocked.c). */
bool nc_conv_transpose_blocks(const nc_node *n, nc_blocking *k);
nc_value *nc_conv_transpose_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in);

#endif
