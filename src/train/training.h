/* train/training.h: a training session: the programs of training, evaluation and optimizer, made of models that
 * onnxruntime.training or train/artifacts.h wrote, over one checkpoint. All bind to one state, to which the
 * checkpoint's tensors are lent: what is read there is what trains.
 *
 * Not for several threads at once. The checkpoint outlives the session. Objects in `in` are borrowed, dense and on the
 * host; out[i] is the caller's own tensor, or NULL and gets a new reference. After the first step with the same sizes
 * nothing is allocated but outputs that the caller does not bring.
 *
 * Files: training.c (life, steps), optimizer.c (the optimizer's program, rate and schedule), parameters.c (all
 * parameters as one buffer, contents by name), export.c (a model for inference), nan.c (which tensor went bad). */
#ifndef NC_TRAIN_TRAINING_H
#define NC_TRAIN_TRAINING_H

#include "run/frame.h"
#include "train/bind.h"

/* A model in a file, or as bytes. */
typedef struct nc_model_source {
    const char *path; /* NULL: bytes */
    const void *bytes;
    size_t n;
} nc_model_source;

/* A program and what the caller feeds it. */
typedef struct nc_stage_program {
    nc_session *session; /* NULL: none */
    nc_model_source source;
    nc_buffer *keeps;    /* the bytes of source */
    const char **inputs; /* names of what the caller feeds, in order; the model's arena has them */
    int *places;         /* which input of the program each is */
    int n_inputs, n_outputs;
} nc_stage_program;

/* One of a session's optimizers. All of them work on the checkpoint's one rate, step and moments. */
typedef struct nc_optimizer {
    nc_stage_program program;
    int i_rate, i_step; /* which of its inputs they are; -1: none */
    int moments;        /* per parameter */
} nc_optimizer;

typedef struct nc_training {
    nc_env *env;
    nc_arena arena;
    nc_checkpoint *checkpoint; /* borrowed */
    nc_state *state;
    char device[32];
    uint64_t seed;
    bool recompute, dnn_draws;
    nc_stage_program train, eval;
    NC_VEC(nc_optimizer *) optimizers;
    nc_optimizer *optimizer; /* the one that makes the next step; NULL: there is none */
    nc_bound_param *params;  /* per parameter of the checkpoint */
    nc_object **sums;        /* likewise: its gradients; NULL: none */
    nc_object *reset;        /* bool [1]: the next step's gradients replace the sums */
    int i_reset;             /* which input of the training program it is; -1: none */
    nc_object *scale;        /* the loss scale, of the checkpoint's number */
    int i_scale;             /* likewise */
    int64_t grow_every;      /* updates in a row after which the scale doubles; 0: it stays */
    nc_object *rate, *step;  /* what an optimizer is fed */
    nc_object *done;         /* and what it says */
    bool lent;               /* the state has the parameters: false while they are nominal */
    bool told_of_nan;
} nc_training;

typedef struct nc_training_models {
    nc_model_source train, eval, optimizer; /* eval and optimizer: path and bytes NULL: none */
    const char *device;                     /* NULL: the processor */
    uint64_t seed;                          /* of the random state, unless the checkpoint has one */
    bool recompute;                         /* what is cheap is taken anew in the backward pass, not kept */
    bool dnn_draws;                         /* attention's dropout may draw cuDNN's numbers */
} nc_training_models;

NC_MUST nc_code nc_training_create(nc_work *w, nc_env *env, nc_checkpoint *borrows, const nc_training_models *m,
                                   nc_training **out);
void nc_training_release(nc_training *t);
/* It makes the steps from now on. */
NC_MUST nc_code nc_training_add_optimizer(nc_work *w, nc_training *t, const nc_model_source *s);
NC_MUST nc_code nc_training_use_optimizer(nc_work *w, nc_training *t, int i); /* in the order they were added */

/* Adds the gradients of one batch to the sums, or replaces them after nc_training_reset. */
NC_MUST nc_code nc_training_step(nc_work *w, nc_training *t, nc_object *const *in, int n_in, nc_object **out,
                                 int n_out);
NC_MUST nc_code nc_training_eval(nc_work *w, nc_training *t, nc_object *const *in, int n_in, nc_object **out,
                                 int n_out);
void nc_training_reset(nc_training *t); /* lazily: the next step does it */
/* *done: the step was made (an optimizer may skip one). */
NC_MUST nc_code nc_training_update(nc_work *w, nc_training *t, bool *done);

/* ---- optimizer.c ---- */
NC_MUST nc_code nc_training_rate(nc_work *w, const nc_training *t, float *out);
NC_MUST nc_code nc_training_set_rate(nc_work *w, nc_training *t, float rate);
/* From 0 up to `initial` over `warmup` steps, then down to 0 at step `total`. */
NC_MUST nc_code nc_training_set_schedule(nc_work *w, nc_training *t, int64_t warmup, int64_t total, float initial);
NC_MUST nc_code nc_training_schedule(nc_work *w, nc_training *t); /* the rate for the step that comes next */

/* 0: the training model has no loss scale. */
float nc_training_loss_scale(const nc_training *t);
NC_MUST nc_code nc_training_set_loss_scale(nc_work *w, nc_training *t, float scale, int64_t grow_every);

/* ---- parameters.c ---- */
NC_MUST nc_code nc_training_size(nc_work *w, const nc_training *t, bool trainable, int64_t *out); /* elements */
/* Parameters behind each other, in the order of the training model's inputs: f32 [n]. */
NC_MUST nc_code nc_training_to_buffer(nc_work *w, nc_training *t, bool trainable, nc_object *into);
NC_MUST nc_code nc_training_from_buffer(nc_work *w, nc_training *t, bool trainable, const nc_object *from);
/* Fills the checkpoint from the state where memory is not shared with it: before it is read or saved. */
NC_MUST nc_code nc_training_sync(nc_work *w, nc_training *t);
/* The state takes what the checkpoint holds of parameter i. */
NC_MUST nc_code nc_training_put(nc_work *w, nc_training *t, int i);
/* The gradients of parameter i so far, a new reference; NULL: it has none. */
NC_MUST nc_code nc_training_gradient(nc_work *w, nc_training *t, int i, nc_object **out);
NC_MUST nc_code nc_training_lend(nc_work *w, nc_training *t); /* parameters, sums and moments to the state, once */

/* ---- export.c ---- */
NC_MUST nc_code nc_training_export(nc_work *w, nc_training *t, const char *path, const char *const *outputs, int n);

/* ---- between the files ---- */
NC_MUST nc_code nc_training_load(nc_work *w, nc_training *t, const nc_stage_program *p, nc_model **out);
NC_MUST nc_code nc_training_need_values(nc_work *w, const nc_training *t);
/* Why the first output is no number: tells once, by the name of the first tensor that is none. */
void nc_training_tell_nan(nc_training *t, nc_object *const *in, int n_in);
NC_MUST nc_code nc_training_make(nc_work *w, nc_training *t, nc_model *takes, nc_session **out);
/* Runs a program over the state. */
typedef struct nc_feed {
    int place;
    nc_object *value; /* borrowed; NULL: left out */
} nc_feed;
NC_MUST nc_code nc_training_run(nc_work *w, nc_training *t, nc_session *s, const nc_feed *in, int n_in, nc_object **out,
                                int n_out);

#endif
