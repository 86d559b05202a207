/* kernels/cpu/optim/optim.h: one step of an optimizer for one parameter, in place or not: SGD, SGD with momentum as
 * PyTorch's, and Adam with decoupled weight decay in its two forms. One tile program does it, so storage types may
 * differ and every ISA serves; Adam of f32 alone has a kernel of its own, of the same bits. Sums and quotients are made
 * in f64 where the weights are f64, else in f32. */
#ifndef NCK_OPTIM_H
#define NCK_OPTIM_H

#include "base/shape.h"
#include "base/threads.h"

typedef struct nck_optim_rule {
    bool adam;         /* else SGD */
    bool momentum;     /* of SGD: alpha of the moment m stays in each step; decay is added to the gradient */
    bool nesterov;     /* of momentum: the step looks ahead */
    double dampening;  /* of momentum: what is not taken of a gradient, from the second step on */
    bool decay_last;   /* weights decay after the step, epsilon is not corrected: Hugging Face; else PyTorch */
    bool correct_bias; /* of the moments, which start at 0 */
    double alpha, beta, epsilon, decay;
} nck_optim_rule;

typedef struct nck_optim_args {
    const nck_optim_rule *rule;
    double rate;
    int64_t step; /* the number of this step, from 1 */
    double scale; /* gradients are multiplied with it */
} nck_optim_args;

/* Tensors of one parameter; m of momentum and Adam, v of Adam alone. A new one may be the memory of the old. Equal
 * dims, dense. */
typedef struct nck_optim_tensors {
    nc_tensor *w, *m, *v, *g;
    nc_tensor *new_w, *new_m, *new_v;
} nck_optim_tensors;

void nck_optim_step(const nck_optim_args *a, const nck_optim_tensors *t, nc_pool *pool);
/* The same, element by element in double. */
void nck_optim_ref(const nck_optim_args *a, const nck_optim_tensors *t);

#endif
