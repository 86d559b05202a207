/* ops/training/layer.h: words for LSTMTraining, GRUTraining and their gradients, which are made of the house's own
 * layers (ops/rnn/rnn_grad.c). Theirs give (steps, 1, batch, hidden), the house keeps (1, steps, batch, ...). */
#ifndef NC_OPS_TRAINING_LAYER_H
#define NC_OPS_TRAINING_LAYER_H

#include "ops/contrib.h"

/* One direction, no clip, the activations `expected` (ended by NULL): what ONNX Runtime's own kernels take. */
NC_MUST nc_code nc_layer_check(nc_work *w, const nc_node *n, const char *const *expected);
/* Output i as (first, 1, batch, gates * hidden); first NULL: without it. */
NC_MUST nc_code nc_layer_rows_out(nc_infer *c, int i, const nc_dim *first, int gates);
NC_MUST nc_code nc_layer_size(nc_builder *b, const nc_node *n, int64_t *H);
/* The attributes that the house's layer has. */
int nc_layer_attrs(const nc_node *n, nc_attr *to);

nc_value *nc_layer_part(nc_builder *b, nc_value *x, int64_t H, int from, int to); /* of the last axis: [from, to) * H */
nc_value *nc_layer_joined(nc_builder *b, nc_value *const *in, int n);             /* along the last axis */
nc_value *nc_layer_turned(nc_builder *b, nc_value *x);                            /* the first two axes */
nc_value *nc_layer_logit(nc_builder *b, nc_value *x);                             /* the inverse of Sigmoid */

#endif
