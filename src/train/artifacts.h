/* train/artifacts.h: what training needs, made from a forward model: its training form, its eval form, an optimizer's
 * model and a checkpoint; names and orders of inputs and outputs are those of onnxruntime's artifacts. Runs nothing.
 *
 * Models are as they were loaded. After a failure one may be half done: give it up. ARGUMENT: a name that is not there.
 *
 * Files: artifacts.c (both forms), artifacts_loss.c, artifacts_optim.c, artifacts_write.c (all of it, as files). */
#ifndef NC_TRAIN_ARTIFACTS_H
#define NC_TRAIN_ARTIFACTS_H

#include "train/checkpoint.h"
#include "ir/graph.h"

/* What trains, and what else is not part of the models. */
typedef struct nc_artifacts_params {
    const char *const *moved; /* initializers that become inputs behind the others, in this order */
    int n_moved;
    const char *const *trainable; /* what has a gradient: some of the moved ones, or inputs */
    int n_trainable;
    nc_dtype compute; /* of the training form: FLOAT16 or BFLOAT16 (transform/mixed.h); UNDEFINED: as the model says */
} nc_artifacts_params;

/* The first output is the loss (all its elements are summed). Behind the inputs come the moved parameters, a buffer
 * "<p>_grad.accumulation.buffer" for each gradient and "lazy_reset_grad"; behind the outputs, for each,
 * "<p>_grad.accumulation.out". standard: no ops of domain nacre. With compute FLOAT16
 * there is an input "d:<loss>", the loss scale: gradients start with it, and are divided by it before they are added
 * up. DATA: the loss does not depend on any that trains. */
NC_MUST nc_code nc_artifacts_training(nc_work *w, nc_model *m, const nc_artifacts_params *p, bool standard);
/* Dropout and BatchNormalization as they are when nobody trains. UNSUPPORTED: running statistics are used elsewhere. */
NC_MUST nc_code nc_artifacts_quiet(nc_work *w, nc_model *m);
/* The same, with the parameters as inputs. */
NC_MUST nc_code nc_artifacts_eval(nc_work *w, nc_model *m, const nc_artifacts_params *p);

typedef enum nc_loss { NC_LOSS_NONE, NC_LOSS_MSE, NC_LOSS_CROSS_ENTROPY, NC_LOSS_BCE_WITH_LOGITS, NC_LOSS_L1 } nc_loss;

typedef struct nc_artifacts_loss {
    nc_loss kind;            /* NONE: the model's first output is the loss, one number */
    bool sum;                /* of the elements' losses; else their mean */
    const char *input;       /* an output, or any value, of the model; NULL: the first output */
    const char *target;      /* the input for what is wanted; NULL: "labels" for CROSS_ENTROPY, else "target" */
    const char *const *more; /* values that are outputs behind the loss; the model's own outputs go */
    int n_more;
} nc_artifacts_loss;
NC_MUST nc_code nc_artifacts_add_loss(nc_work *w, nc_model *m, const nc_artifacts_loss *l);

typedef enum nc_optim { NC_OPTIM_NONE, NC_OPTIM_ADAMW, NC_OPTIM_SGD } nc_optim;

typedef struct nc_artifacts_optim {
    nc_optim kind;
    float beta1, beta2, epsilon; /* of ADAMW */
    float weight_decay;
    float momentum, dampening; /* of SGD, as PyTorch's */
    bool nesterov;
    bool hf; /* the form of Hugging Face's, not of PyTorch's */
    bool no_bias_correction;
    float max_norm; /* of all gradients together; 0: not clipped */
} nc_artifacts_optim;
/* elem: of all trainable parameters. The model belongs to the caller. */
NC_MUST nc_code nc_artifacts_optimizer(nc_work *w, const nc_registry *r, const nc_opset *opsets, int n_opsets,
                                       nc_dtype elem, const nc_artifacts_optim *o, nc_model **out);

typedef struct nc_artifacts_ask {
    const char *const *trainable, *const *frozen; /* initializers; '*' stands for any letters, '?' for one */
    int n_trainable, n_frozen;                    /* none trainable: all of floats with at least one dim */
    nc_artifacts_loss loss;
    nc_artifacts_optim optim;
    const char *folder, *prefix;
    nc_checkpoint_format format;
    bool nominal, standard;
    bool ort_format;  /* each model as .ort too */
    nc_dtype compute; /* as in nc_artifacts_params */
} nc_artifacts_ask;
/* Writes PREFIXtraining_model.onnx, eval_model.onnx, checkpoint, and where they are asked for optimizer_model.onnx and
 * nominal_checkpoint. All is made before the first file is written. m is not changed. */
NC_MUST nc_code nc_artifacts_write(nc_work *w, const nc_model *m, const nc_artifacts_ask *a);

#endif
