/* train/train.h: training graphs made from inference graphs: gradients as outputs, a gradient step as new versions of
 * variables. Works on an inferred model before lowering; runs nothing.
 *
 * Names are those of graph inputs, constants or variables of the main graph; loss and outputs are graph output names.
 * ARGUMENT: a name that is not there. After a failure the model may be half done: give it up. */
#ifndef NC_TRAIN_TRAIN_H
#define NC_TRAIN_TRAIN_H

#include "ir/graph.h"

/* One step of gradient descent: every parameter becomes a variable whose next version is  p - lr * dloss/dp. n_params
 * 0: all floating-point constants of the main graph that influence the loss. lr_input: the name of a new scalar input
 * of the loss's element type. */
NC_MUST nc_code nc_train_sgd(nc_work *w, nc_model *m, const char *loss_output, const char *const *params, int n_params,
                             const char *lr_input);

/* Every parameter becomes a variable that is read, beside a variable "grad:<name>", at first zeros, whose next version
 * is itself + dloss/dp: another program takes the sums. n_params 0: as above. */
NC_MUST nc_code nc_train_accumulate(nc_work *w, nc_model *m, const char *loss_output, const char *const *params,
                                    int n_params);

/* Adds an output "grad:<name>" per name of `wrt`: the gradient of the loss, zeros where it has no influence. */
NC_MUST nc_code nc_train_gradients(nc_work *w, nc_model *m, const char *loss_output, const char *const *wrt, int n);

/* For a backward pass that is driven from outside: adds an input "d:<output>" of the same type per output, and an
 * output "grad:<name>" per name of `wrt`. */
NC_MUST nc_code nc_train_backward(nc_work *w, nc_model *m, const char *const *outputs, int n_out,
                                  const char *const *wrt, int n);

#endif
