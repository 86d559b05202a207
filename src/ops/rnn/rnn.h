/* ops/rnn/rnn.h: what RNN, GRU and LSTM nodes say in attributes, read once for cards and bindings. */
#ifndef NC_OPS_RNN_H
#define NC_OPS_RNN_H

#include "ir/card.h"
#include "kernels/cpu/rnn/rnn.h"

typedef struct nc_rnn_attrs {
    int n_dirs;
    bool reverse;     /* of the first direction; a second one is always reverse */
    bool batch_first; /* layout 1 */
    bool more;        /* one direction has activations for two */
    nck_rnn_rule rule[2];
} nc_rnn_attrs;

/* The own of the cards of this family: the layers, the forms that keep what a gradient needs, and the gradients. */
typedef struct nc_rnn_own {
    nck_rnn_kind kind;
    const char *grad; /* name of the gradient op, for forms that keep something; else NULL */
} nc_rnn_own;

/* Operands of a layer. Gradient ops have them first, then the gradients of Y, Y_h and (LSTM) Y_c, then what was kept.
 */
enum { NC_RNN_X, NC_RNN_W, NC_RNN_R, NC_RNN_B, NC_RNN_LENS, NC_RNN_H0, NC_RNN_C0, NC_RNN_P };
int nc_rnn_n_in(nck_rnn_kind kind);
int nc_rnn_n_out(nck_rnn_kind kind);
nck_rnn_kind nc_rnn_kind_of(const nc_node *n);

/* The types of a layer's outputs; *hidden gets H. */
NC_MUST nc_code nc_rnn_infer(nc_infer *c, const nc_dim **hidden);

/* A layer as a Loop of simple ops, for gradients of its gradient. */
NC_MUST nc_code nc_rnn_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out);

/* The own of their cards is an nc_rnn_own. Fails with the node's fault in w. rule.peepholes follows from the inputs.
 */
NC_MUST nc_code nc_rnn_read_attrs(nc_work *w, const nc_node *n, nc_rnn_attrs *a);

#endif
