/* ops/rnn/rnn_args.h: the operands of a recurrent node, direction by direction, as kernels take them: the same for
 * every device. */
#ifndef NC_OPS_RNN_ARGS_H
#define NC_OPS_RNN_ARGS_H

#include "ops/binding.h"
#include "ops/rnn/rnn.h"

typedef struct nc_rnn_layer {
    int n_dirs;
    bool reverse, batch_first;
    bool turned; /* W (dirs,I,G*H) and R (dirs,H,G*H) */
    nck_rnn_cell cell[2];
} nc_rnn_layer;

NC_MUST nc_code nc_rnn_layer_read(nc_work *w, const nc_node *n, nc_rnn_layer *out);

/* The shapes of all operands; lengths are not read. */
NC_MUST nc_code nc_rnn_check(const nc_call *c, const nc_rnn_layer *l);
/* The lengths themselves, where the host has them. */
NC_MUST nc_code nc_rnn_check_lengths(const nc_call *c, const nc_rnn_layer *l);

/* Direction d of a layer, with what it writes; of a gradient op without. Nothing is packed. */
nck_rnn_args nc_rnn_forward(const nc_call *c, const nc_rnn_layer *l, int d);
/* a: filled with how the layer ran forward, and pointed to. The cell is left out. */
nck_rnn_grad_args nc_rnn_backward(const nc_call *c, const nc_rnn_layer *l, int d, nck_rnn_args *a);

#endif
