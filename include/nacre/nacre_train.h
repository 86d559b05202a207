/* nacre_train.h: differentiate and train what nacre.h runs. Set on session options before the session is created; one
 * kind each. */
#ifndef NACRE_TRAIN_H
#define NACRE_TRAIN_H

#include "nacre/nacre.h"

#ifdef __cplusplus
extern "C" {
#endif

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
