/* ops/standard.h: gradient ops in the words of ONNX, for models that others run (train/standard.c). Unlike a card's
 * decompose these never take an op's place here: they are slower, or need what only autodiff can give. */
#ifndef NC_OPS_STANDARD_H
#define NC_OPS_STANDARD_H

#include "ops/build.h"

typedef nc_code (*nc_standard)(nc_builder *b, const nc_node *n, nc_value **out);

/* How the card's nodes are said; NULL: by its decomposition, or not at all. */
nc_standard nc_standard_of(const nc_card *card);

nc_code nc_gelu_standard(nc_builder *b, const nc_node *n, nc_value **out);
nc_code nc_gather_nd_grad_standard(nc_builder *b, const nc_node *n, nc_value **out);
nc_code nc_resize_grad_standard(nc_builder *b, const nc_node *n, nc_value **out);
/* The forms that keep something for a backward pass, when nobody reads what they kept; and those passes. */
nc_code nc_rnn_kept_standard(nc_builder *b, const nc_node *n, nc_value **out);
nc_code nc_rnn_grad_standard(nc_builder *b, const nc_node *n, nc_value **out);

#endif
