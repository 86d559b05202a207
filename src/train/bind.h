/* train/bind.h: models that onnxruntime.training wrote, bound to a checkpoint: what they take as inputs and change
 * behind the caller's back becomes versioned variables, before a session is made of the model. The graph's dump shows
 * it.
 *
 * An input is told by what it is bound to: parameters are those that the checkpoint names, sums of gradients what an
 * accumulator reads, the flag that resets them what its third operand is. No name's ending says anything. */
#ifndef NC_TRAIN_BIND_H
#define NC_TRAIN_BIND_H

#include "ir/graph.h"
#include "train/checkpoint.h"

/* A parameter of the checkpoint as a training model has it. */
typedef struct nc_bound_param {
    const char *sum; /* the variable that its gradients are added to; NULL: frozen, or nothing depends on it */
    int rank;        /* of the model's input; -1: the model does not have it */
    int64_t dims[NC_MAX_RANK];
} nc_bound_param;

typedef struct nc_bound_model {
    const char *reset;      /* the input that says whether sums start anew; NULL: none */
    const char *scale;      /* the input that all gradients are divided by, the loss scale; NULL: none */
    nc_bound_param *params; /* per parameter of the checkpoint; names are the model's */
} nc_bound_model;

/* Parameters become variables, sums of gradients too, with the accumulators' results as their next versions; outputs
 * that only say so go. params (of as many as the checkpoint has) is filled. SHAPE or TYPE names a parameter that is
 * another one in the checkpoint. */
NC_MUST nc_code nc_bind_training(nc_work *w, nc_model *m, const nc_checkpoint *c, nc_bound_model *out);
/* Parameters become variables. */
NC_MUST nc_code nc_bind_eval(nc_work *w, nc_model *m, const nc_checkpoint *c);

/* What the step of an optimizer's model is fed: inputs by name; NULL: it reads none. */
typedef struct nc_bound_optimizer {
    const char *rate, *step;
    int moments; /* per parameter */
} nc_bound_optimizer;

/* The optimizer's node over sequences becomes nacre.OptimizerStep over the parameters that have a sum (`params`, those
 * of the training model), their moments (nc_bind_moment_name) and their sums. checked: nothing is updated where
 * a sum is no finite number. */
NC_MUST nc_code nc_bind_optimizer(nc_work *w, nc_model *m, const nc_checkpoint *c, const nc_bound_param *params,
                                  bool checked, nc_bound_optimizer *out);

/* The variable of moment k of a parameter, in memory of `a`. NULL: out of memory. */
const char *nc_bind_moment_name(nc_arena *a, const char *param, int k);

#endif
