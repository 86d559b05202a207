/* ops/training/training.h: what the cards of ONNX Runtime's training operators share: gradients, losses, accumulation
 * and optimizers as its training graphs write them (domain com.microsoft, a few in ai.onnx). Nearly all run as ops of
 * the house: the gradient ops of domain nacre, which have the kernels, or plain formulas, which chains join. */
#ifndef NC_OPS_TRAINING_TRAINING_H
#define NC_OPS_TRAINING_TRAINING_H

#include "ops/contrib.h"

/* The op of domain nacre that the card's own names, on the node's inputs and attributes. */
NC_MUST nc_code nc_training_renamed(nc_builder *b, const nc_node *n, nc_value **out);
/* The same with other inputs and attributes. */
NC_MUST nc_code nc_training_as(nc_builder *b, const nc_node *n, const char *op, nc_value *const *in, int n_in,
                               const nc_attr *attrs, int n_attrs, nc_value **out);

NC_MUST nc_code nc_training_like_first(nc_infer *c);  /* output 0 is as input 0 */
NC_MUST nc_code nc_training_like_second(nc_infer *c); /* as input 1 */
NC_MUST nc_code nc_training_like_pair(nc_infer *c);   /* as inputs 0 and 1, which have the same dims */

/* x * y, ..., shorter to write in formulas. */
nc_value *nc_training_op2(nc_builder *b, const char *op, nc_value *x, nc_value *y);
nc_value *nc_training_scaled(nc_builder *b, double k, nc_value *x);
nc_value *nc_training_true(nc_builder *b, int rank);     /* rank 0, or 1 with one element */
nc_value *nc_training_rank0(nc_builder *b, nc_value *x); /* a tensor of one element as a scalar */
nc_dtype nc_training_elem(const nc_value *v);            /* FLOAT where it is not known */

#define NC_TRAINING_CARD(symbol, op, text, rows, ...) \
    const nc_card nc_card_training_##symbol = {       \
        .name = op, .domain = NC_MICROSOFT, .doc = text, .versions = rows, __VA_ARGS__}

#endif
