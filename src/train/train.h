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

/* What to differentiate by what. */
typedef struct nc_train_ask {
    const char *const *ys, *const *xs;
    int n_y, n_x;
    const char *const *stop; /* of nc_train_model_gradients: values through which no gradient passes */
    int n_stop;
    bool cotangents; /* an input "d:<y>" of the same type per y; without it: ones */
    bool standard;   /* of nc_train_model_gradients: ops of domain nacre that can be taken apart are */
} nc_train_ask;

/* Adds an output "grad:<name>" per name of xs: the gradient of the outputs ys, zeros (and a message) where they do not
 * depend on it. */
NC_MUST nc_code nc_train_differentiate(nc_work *w, nc_model *m, const nc_train_ask *a);

/* The same for a model as it was loaded, to be saved or looked at: infers it, ys and xs are any values of the main
 * graph, and what nobody uses goes. */
NC_MUST nc_code nc_train_model_gradients(nc_work *w, nc_model *m, const nc_train_ask *a);

/* The passes in front of gradients: what they find has a gradient of its own. The values of the named constants are not
 * for passes to use, and of what nobody names only inputs, constants and outputs are sure to stay. Infers the model. */
NC_MUST nc_code nc_train_fuse(nc_work *w, nc_model *m, const char *const *held, int n);

/* standard.c: ops of domain nacre are taken apart into those of ONNX. UNSUPPORTED names one that cannot be. */
NC_MUST nc_code nc_train_standard(nc_work *w, nc_model *m);
/* Where gradients hold control flow newer than the model's opset (the loop back of an old Scan), the opset is raised to
 * it: files say nodes of another opset as functions, and those cannot have graphs that capture. */
NC_MUST nc_code nc_train_raise_control(nc_work *w, nc_model *m);
/* standard_tapes.c: its part for g and what is below it: tapes as sequences. any: there were some. */
bool nc_train_is_of_tapes(const nc_node *n);
NC_MUST nc_code nc_train_standard_tapes(nc_work *w, nc_graph *g, bool *any);

/* Adds an output "grad:<name>" per name of `wrt`: the gradient of the loss, zeros where it has no influence. */
NC_MUST nc_code nc_train_gradients(nc_work *w, nc_model *m, const char *loss_output, const char *const *wrt, int n);

/* For a backward pass that is driven from outside: adds an input "d:<output>" of the same type per output, and an
 * output "grad:<name>" per name of `wrt`. */
NC_MUST nc_code nc_train_backward(nc_work *w, nc_model *m, const char *const *outputs, int n_out,
                                  const char *const *wrt, int n);

#endif
