/* nacre_train.h: differentiate and train what nacre.h runs: as a model with gradients, or by session options, which are
 * set before the session is created; one kind each.
 *
 * A gradient is that of the sum of all elements of what is differentiated, unless the gradient that arrives there is
 * fed as an input (a cotangent). Where y does not depend on x it is zeros, and a warning says so. */
#ifndef NACRE_TRAIN_H
#define NACRE_TRAIN_H

#include "nacre/nacre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What nacre_model_gradients adds. Names are of values of the main graph: outputs, inputs, initializers, or any others.
 * Zero what is not used. */
typedef struct nacre_gradients {
    size_t size;             /* of this struct; set by the caller */
    const char *const *ys;   /* what is differentiated: their sum */
    const char *const *xs;   /* by what */
    const char *const *stop; /* values through which no gradient passes: they count as independent of what made them */
    size_t n_ys, n_xs, n_stop;
    int cotangents; /* not 0: an input "d:<y>" of y's type for each y, the gradient that arrives there */
    int standard;   /* not 0: gradient ops of Nacre's own are taken apart into ONNX's; one that cannot be is an error */
} nacre_gradients;
/* Infers the model and adds an output "grad:<x>" for every x: the gradient of the ys. The model can then be saved,
 * looked at, or made a session. After a failure it is half done: release it. */
NACRE_API nacre_code nacre_model_gradients(nacre_model *m, const nacre_gradients *what, nacre_error *err);

/* Adds an output "grad:<name>" for every name in wrt (inputs or initializers): the gradient of the output `loss`. */
NACRE_API nacre_code nacre_options_gradients(nacre_options *o, const char *loss, const char *const *wrt, size_t n,
                                             nacre_error *err);

/* Adds an input "d:<output>" for each of outputs and an output "grad:<name>" for each of wrt: the caller feeds the
 * gradients of the outputs. With a cut at the outputs, forward and backward are two halves of one frame. */
NACRE_API nacre_code nacre_options_backward(nacre_options *o, const char *const *outputs, size_t n_outputs,
                                            const char *const *wrt, size_t n, nacre_error *err);

/* Every run is one step of stochastic gradient descent on `loss`: params (initializers; n 0: all that the loss depends
 * on) become variables, updated in place with the learning rate fed as the scalar input lr_input. */
NACRE_API nacre_code nacre_options_sgd(nacre_options *o, const char *loss, const char *const *params, size_t n,
                                       const char *lr_input, nacre_error *err);

/* Every run adds the gradients of `loss` to the variables "grad:<param>", which start as zeros: params (initializers;
 * n 0: all that the loss depends on) become variables too, and are only read. A session over the same state takes the
 * sums, updates the parameters and sets the sums back to zeros (a model whose inputs are tied to its outputs). */
NACRE_API nacre_code nacre_options_accumulate(nacre_options *o, const char *loss, const char *const *params, size_t n,
                                              nacre_error *err);

#ifdef __cplusplus
}
#endif

#endif
