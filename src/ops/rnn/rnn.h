/* ops/rnn/rnn.h: what RNN, GRU and LSTM nodes say in attributes, read once for cards and bindings. */
#ifndef NC_OPS_RNN_H
#define NC_OPS_RNN_H

#include "ir/card.h"
#include "kernels/cpu/rnn/rnn.h"

typedef struct nc_rnn_attrs {
    int n_dirs;
    bool reverse;     /* of the first direction; a second one is always reverse */
    bool batch_first; /* layout 1 */
    nck_rnn_rule rule[2];
} nc_rnn_attrs;

/* The own of their cards is an nck_rnn_kind. Fails with the node's fault in w. rule.peepholes follows from the inputs.
 */
NC_MUST nc_code nc_rnn_read_attrs(nc_work *w, const nc_node *n, nc_rnn_attrs *a);

#endif
