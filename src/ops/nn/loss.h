/* ops/nn/loss.h: what the losses and their gradients are on every device: their attributes, and a call of them as
 * kernels take it. */
#ifndef NC_OPS_NN_LOSS_H
#define NC_OPS_NN_LOSS_H

#include "kernels/cpu/reduce/loss.h"
#include "ops/binding.h"

typedef struct nc_loss {
    nck_loss_reduction reduction;
    bool has_ignore;
    int64_t ignore_index;
    bool gives_logs; /* somebody reads its log-probabilities */
} nc_loss;

/* The scores whose log-probabilities the gradient n of SoftmaxCrossEntropyLoss reads: nacre.CrossEntropyGrad does the
 * same from those. NULL: it is another node, or the log-probabilities come from elsewhere. */
nc_value *nc_loss_scores(const nc_node *n);
bool nc_loss_from_scores(const nc_node *n); /* n is such a nacre.CrossEntropyGrad */
/* A SoftmaxCrossEntropyLoss with both outputs becomes one that also gives the logarithms of the sums of exp(scores),
 * of labels' dims, for that gradient; its log-probabilities go if nobody reads them. For lowering alone. */
NC_MUST nc_code nc_loss_keep(nc_work *w, nc_node *forward, nc_value **log_sums);

nc_loss nc_loss_read(const nc_node *n);
/* Scores or log_prob x (N, C, ...); labels and weights are inputs i_labels and the one after. SHAPE where they do not
 * fit x. */
NC_MUST nc_code nc_loss_describe(const nc_loss *s, const nc_call *c, const nc_tensor *x, int i_labels,
                                 nck_loss_args *a);

#endif
