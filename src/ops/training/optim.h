/* ops/training/optim.h: how the optimizers' nodes say what they do, for cards, bindings and the training session. */
#ifndef NC_OPS_TRAINING_OPTIM_H
#define NC_OPS_TRAINING_OPTIM_H

#include "ir/card.h"
#include "kernels/cpu/optim/optim.h"

/* The operands of nacre.OptimizerStep: n weights, n of each moment (these come out again as the next versions), n
 * gradients, then rate, step, the scale of the gradients and whether to do anything at all. */
typedef struct nc_optim_layout {
    int n, moments;
    int grads, rate; /* where they begin */
} nc_optim_layout;

nc_optim_layout nc_optim_layout_of(const nc_node *n);
nck_optim_rule nc_optim_rule_of(const nc_node *n); /* of the optimizers and nacre.OptimizerStep */

#endif
