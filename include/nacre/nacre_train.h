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

/* A gradient of one's own for an operator: of a custom op, which has none, or in the place of the one that is there.
 * Zero what is not used. */
typedef struct nacre_gradient_rule {
    size_t size;        /* of this struct; set by the caller */
    const char *domain; /* NULL: ONNX's own */
    const char *op;
    /* An ONNX model whose graph has the inputs "I(i)", "O(i)" and "GO(i)", as far as it needs them (inputs and outputs
     * of the node, gradients that arrive at its outputs), of whatever type the file says, and the outputs "GI(i)",
     * gradients of its inputs. Without opset_import its nodes are of the opsets of the model that is differentiated.
     * NULL: stops alone. */
    const void *model;
    size_t n_model;
    unsigned stops; /* bit i: no gradient passes to input i */
} nacre_gradient_rule;
/* For models that are loaded later; the newest rule of an operator counts. The bytes are copied; what is wrong with
 * them is told where a gradient is asked for. */
NACRE_API nacre_code nacre_env_register_gradient(nacre_env *env, const nacre_gradient_rule *what, nacre_error *err);

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

/* ---- checkpoints: parameters, and what an optimizer keeps of them ---- */

typedef struct nacre_checkpoint nacre_checkpoint;
/* Without parameters. */
NACRE_API nacre_code nacre_checkpoint_create(nacre_checkpoint **out, nacre_error *err);
/* A safetensors file or one of onnxruntime's checkpoints, told by their bytes. */
NACRE_API nacre_code nacre_checkpoint_load(const char *path, nacre_checkpoint **out, nacre_error *err);
NACRE_API nacre_code nacre_checkpoint_load_bytes(const void *bytes, size_t n, nacre_checkpoint **out, nacre_error *err);
/* format: "safetensors" or "ort". The file at path is replaced when the new one is whole. */
NACRE_API nacre_code nacre_checkpoint_save(const nacre_checkpoint *c, const char *path, const char *format,
                                           int with_optimizer, nacre_error *err);
NACRE_API void nacre_checkpoint_release(nacre_checkpoint *c);
/* Adds a parameter. value: a dense tensor on the host, kept, not copied; NULL: a nominal one, which has a name and a
 * type; all or none of a checkpoint's are. */
NACRE_API nacre_code nacre_checkpoint_add(nacre_checkpoint *c, const char *name, nacre_type type, nacre_value *value,
                                          int trainable, nacre_error *err);
/* What it holds, in order. Names belong to the checkpoint; NULL: out of range. */
NACRE_API size_t nacre_checkpoint_n(const nacre_checkpoint *c);
NACRE_API const char *nacre_checkpoint_name(const nacre_checkpoint *c, size_t i, nacre_type *type, int *trainable);
NACRE_API nacre_value *nacre_checkpoint_value(const nacre_checkpoint *c, size_t i); /* a new reference; NULL: nominal */
NACRE_API int nacre_checkpoint_is_nominal(const nacre_checkpoint *c);

/* Properties: numbers and texts of the caller's own, sorted by name. An old one of that name is replaced. */
typedef enum nacre_property_kind {
    NACRE_PROPERTY_INT,
    NACRE_PROPERTY_FLOAT,
    NACRE_PROPERTY_STRING
} nacre_property_kind;
typedef struct nacre_property {
    const char *name;
    nacre_property_kind kind;
    int64_t i;
    float f;
    const char *s; /* of what is read: the checkpoint's */
} nacre_property;
NACRE_API nacre_code nacre_checkpoint_set_property(nacre_checkpoint *c, const nacre_property *p, nacre_error *err);
NACRE_API size_t nacre_checkpoint_n_properties(const nacre_checkpoint *c);
NACRE_API nacre_code nacre_checkpoint_property(const nacre_checkpoint *c, size_t i, nacre_property *out,
                                               nacre_error *err);

/* ---- training sessions: models that nacre artifacts or onnxruntime.training wrote, over one checkpoint ---- */

typedef struct nacre_training nacre_training;
/* A model each as a file, or as bytes, which are copied; train is needed. Zero what is not used. */
typedef struct nacre_training_sources {
    size_t size; /* of this struct; set by the caller */
    const char *train, *eval, *optimizer;
    const void *train_bytes, *eval_bytes, *optimizer_bytes;
    size_t n_train_bytes, n_eval_bytes, n_optimizer_bytes;
    const char *device; /* NULL: the processor */
    uint64_t seed;      /* of Dropout and its like, unless the checkpoint has a random state */
    int recompute;      /* not 0: steps keep less memory and take what is cheap anew; as the option "recompute", "*" */
    int cudnn_dropout;  /* not 0: as the option "cudnn_dropout" */
} nacre_training_sources;
/* The checkpoint outlives the session; on the processor its tensors are the ones that train. Not for several threads at
 * once. */
NACRE_API nacre_code nacre_training_create(nacre_env *env, nacre_checkpoint *borrows,
                                           const nacre_training_sources *from, nacre_training **out, nacre_error *err);
NACRE_API void nacre_training_release(nacre_training *t);
/* A session may have several optimizers; all work on the checkpoint's one rate, step and moments. The one added last
 * makes the steps, or the one that is chosen, counted from 0 in the order they were added. */
NACRE_API nacre_code nacre_training_use_optimizer(nacre_training *t, size_t i, nacre_error *err);
NACRE_API nacre_code nacre_training_add_optimizer(nacre_training *t, const char *path, const void *bytes, size_t n,
                                                  nacre_error *err);
/* What the caller feeds and gets; eval not 0: of the eval model. Names belong to the session; NULL: out of range. */
NACRE_API size_t nacre_training_n_inputs(const nacre_training *t, int eval);
NACRE_API size_t nacre_training_n_outputs(const nacre_training *t, int eval);
NACRE_API const char *nacre_training_input_name(const nacre_training *t, int eval, size_t i);
NACRE_API const char *nacre_training_output_name(const nacre_training *t, int eval, size_t i);
/* The type of an input's or output's elements, its rank (-1: not known) and dims (-1: free), NACRE_MAX_RANK at most. */
NACRE_API nacre_type nacre_training_input_type(const nacre_training *t, int eval, size_t i, int *rank, int64_t *dims);
NACRE_API nacre_type nacre_training_output_type(const nacre_training *t, int eval, size_t i, int *rank, int64_t *dims);
/* A batch: its gradients are added to those of the batches since the last reset. out[i] NULL: a new tensor; else the
 * caller's own, which is written. A first output that is no finite number is told of once, as a warning that names the
 * first tensor that went bad. */
NACRE_API nacre_code nacre_training_step(nacre_training *t, nacre_value *const *in, size_t n_in, nacre_value **out,
                                         size_t n_out, nacre_error *err);
NACRE_API nacre_code nacre_training_eval(nacre_training *t, nacre_value *const *in, size_t n_in, nacre_value **out,
                                         size_t n_out, nacre_error *err);
NACRE_API void nacre_training_reset(nacre_training *t); /* the next step's gradients replace the sums */
/* The optimizer's step over the sums. done (may be NULL): 0 where the optimizer skipped it. */
NACRE_API nacre_code nacre_training_update(nacre_training *t, int *done, nacre_error *err);
NACRE_API nacre_code nacre_training_rate(nacre_training *t, float *out, nacre_error *err);
NACRE_API nacre_code nacre_training_set_rate(nacre_training *t, float rate, nacre_error *err);
/* A rate that rises from 0 to `initial` over `warmup` updates and falls to 0 at update `total`; the present one too. */
NACRE_API nacre_code nacre_training_set_schedule(nacre_training *t, int64_t warmup, int64_t total, float initial,
                                                 nacre_error *err);
NACRE_API nacre_code nacre_training_schedule(nacre_training *t, nacre_error *err); /* after an update: the next rate */
/* The loss scale of models that compute in f16: gradients are that much larger while they are narrow. An update that
 * finds a gradient that is no finite number is skipped (done 0) and halves it; after grow_every updates in a row
 * without one it is doubled. It starts as 65536 and is part of the checkpoint; grow_every (2000) is not. 0: the model
 * has none, and setting it is an error. grow_every 0: it stays as it is. */
NACRE_API float nacre_training_loss_scale(const nacre_training *t);
NACRE_API nacre_code nacre_training_set_loss_scale(nacre_training *t, float scale, int64_t grow_every,
                                                   nacre_error *err);
/* Elements of the parameters, of the trainable ones alone or of all; and these behind each other as floats, in the
 * order of the training model's inputs. */
NACRE_API nacre_code nacre_training_size(nacre_training *t, int trainable, int64_t *out, nacre_error *err);
NACRE_API nacre_code nacre_training_to_buffer(nacre_training *t, int trainable, nacre_value **out, nacre_error *err);
NACRE_API nacre_code nacre_training_from_buffer(nacre_training *t, int trainable, const nacre_value *from,
                                                nacre_error *err);
/* A parameter's new contents, of its type and shape, or its gradients so far (NULL: it has none). */
NACRE_API nacre_code nacre_training_set_parameter(nacre_training *t, const char *name, const nacre_value *v,
                                                  nacre_error *err);
NACRE_API nacre_code nacre_training_gradient(nacre_training *t, const char *name, nacre_value **out, nacre_error *err);
/* The checkpoint takes what the session has that it lacks: the random state, and on a device all tensors. Before it is
 * saved. */
NACRE_API nacre_code nacre_training_sync(nacre_training *t, nacre_error *err);
/* The eval model for inference: these outputs, what they need, and the parameters as initializers. */
NACRE_API nacre_code nacre_training_export(nacre_training *t, const char *path, const char *const *outputs, size_t n,
                                           nacre_error *err);
/* A stage of "train", "eval" or "optimizer", as nacre_session_dump gives it; free it with nacre_free. */
NACRE_API nacre_code nacre_training_dump(nacre_training *t, const char *which, const char *stage, char **text,
                                         nacre_error *err);

/* ---- artifacts: the models that a training session is made of ---- */

/* Parameters of a model whose first output is the loss. Zero what is not used. */
typedef struct nacre_training_form {
    size_t size;              /* of this struct; set by the caller */
    const char *const *moved; /* initializers that become inputs, behind the others and in this order */
    size_t n_moved;
    const char *const *trainable; /* what has a gradient: some of the moved ones, or inputs of the model */
    size_t n_trainable;
    int standard;        /* not 0: as in nacre_gradients */
    const char *compute; /* of the training form: "f32", "f16", "bf16" (see nacre_artifacts); NULL: f32 */
} nacre_training_form;
/* The model becomes its training form: further inputs "<p>_grad.accumulation.buffer" for each gradient and
 * "lazy_reset_grad", further outputs "<p>_grad.accumulation.out". After a failure it is half done: release it. */
NACRE_API nacre_code nacre_model_training(nacre_model *m, const nacre_training_form *what, nacre_error *err);
/* Its eval form: parameters as inputs, Dropout and BatchNormalization as they are when nobody trains. */
NACRE_API nacre_code nacre_model_evaluation(nacre_model *m, const nacre_training_form *what, nacre_error *err);

/* What nacre_artifacts_write makes. Zero what is not used. */
typedef struct nacre_artifacts {
    size_t size;                  /* of this struct; set by the caller */
    const char *const *trainable; /* initializers by name or pattern ('*' any letters, '?' one); none: all of floats
                                   * with at least one dim that are not frozen */
    size_t n_trainable;
    const char *const *frozen; /* likewise: not trained, but kept in the checkpoint. All others stay in the models */
    size_t n_frozen;
    const char *loss;       /* "mse", "cross_entropy", "bce_with_logits", "l1"; NULL: the first output, one number */
    const char *reduction;  /* "mean" or "sum"; NULL: mean */
    const char *loss_input; /* a value of the model; NULL: its first output */
    const char *target;     /* the input for what is wanted; NULL: "labels" for cross_entropy, else "target" */
    const char *const *outputs; /* values that are outputs of both models, behind the loss */
    size_t n_outputs;
    const char *optimizer;       /* "adamw" (as PyTorch's), "adamw_hf" (as Hugging Face's was), "sgd"; NULL: none */
    float beta1, beta2, epsilon; /* of adamw; 0: 0.9, 0.999, 1e-6 */
    float weight_decay;          /* of adamw beside the gradient, of sgd as a part of it */
    int no_bias_correction;
    float max_norm;            /* gradients are scaled so that their common norm is at most this; 0: they are not */
    const char *folder;        /* NULL: the current one */
    const char *prefix;        /* of the files' names; NULL: none */
    const char *format;        /* of the checkpoint: "ort" or "safetensors"; NULL: ort */
    int nominal;               /* not 0: a nominal_checkpoint too */
    int standard;              /* not 0: as in nacre_gradients; then onnxruntime's training API runs the models too */
    float momentum, dampening; /* of sgd, as PyTorch's. onnxruntime knows no momentum and no decay of sgd */
    int nesterov;
    const char *compute; /* "f32", or "f16" or "bf16": products of the training model take operands in half precision,
                          * losses, norms and sums stay in f32, as do parameters; the eval model stays as it is. f16
                          * comes with a loss scale. NULL: f32 */
    int ort_format;      /* not 0: each model in onnxruntime's own format too, beside the .onnx as .ort */
} nacre_artifacts;
/* Writes training_model.onnx, eval_model.onnx, optimizer_model.onnx (with an optimizer), checkpoint and
 * nominal_checkpoint (if asked for). The model is not changed. All is made before the first file is written. */
NACRE_API nacre_code nacre_artifacts_write(const nacre_model *m, const nacre_artifacts *what, nacre_error *err);

#ifdef __cplusplus
}
#endif

#endif
