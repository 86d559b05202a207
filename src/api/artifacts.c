/* api/artifacts.c: training and eval forms of models, and all artifacts as files, over train/artifacts.h. */
#include "api/api.h"
#include "nacre/nacre_train.h"

#include "train/artifacts.h"

#include <string.h>

/* The place of a word among some, 0: it is NULL; -1: none of them. */
static int word(const char *s, const char *const *words) {
    if (!s) return 0;
    for (int i = 0; words[i]; i++)
        if (strcmp(s, words[i]) == 0) return i + 1;
    return -1;
}

static nacre_code read_word(nacre_error *err, const char *what, const char *s, const char *const *words, int *out) {
    nc_text text = {0};
    *out = word(s, words);
    if (*out >= 0) return NACRE_OK;
    for (int i = 0; words[i]; i++) nc_text_addf(&text, "%s%s", i ? ", " : "", words[i]);
    nacre_code code =
        nc_api_fail(err, NC_E_ARGUMENT, "%s: expected one of %s, got '%.60s'", what, text.s ? text.s : "?", s);
    nc_text_release(&text);
    return code;
}

static nacre_code read_compute(nacre_error *err, const char *s, nc_dtype *out) {
    if (!s || nc_api_compute(s, out)) return NACRE_OK;
    return nc_api_fail(err, NC_E_ARGUMENT, "compute: expected one of f32, f16, bf16, got '%.60s'", s);
}

/* ---- forms ---- */

static nacre_code into_form(nacre_model *m, const nacre_training_form *callers, bool eval, nacre_error *err) {
    nacre_training_form what = {0};
    nacre_code read = nc_api_read_struct(err, "nacre_training_form", callers, &what, sizeof what);
    if (read != NACRE_OK) return read;
    nc_artifacts_params p = {what.moved, (int)what.n_moved, what.trainable, (int)what.n_trainable, NC_UNDEFINED};
    if ((read = read_compute(err, what.compute, &p.compute)) != NACRE_OK) return read;
    nc_work w;
    nc_work_init(&w);
    nc_code code =
        eval ? nc_artifacts_eval(&w, m->model, &p) : nc_artifacts_training(&w, m->model, &p, what.standard != 0);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_model_training(nacre_model *m, const nacre_training_form *callers, nacre_error *err) {
    return into_form(m, callers, false, err);
}

nacre_code nacre_model_evaluation(nacre_model *m, const nacre_training_form *callers, nacre_error *err) {
    return into_form(m, callers, true, err);
}

/* ---- all of them ---- */

static float or_usual(float f, float usual) { return f != 0 ? f : usual; }

static nacre_code read_artifacts(const nacre_artifacts *a, nc_artifacts_ask *ask, nacre_error *err) {
    static const char *const losses[] = {"mse", "cross_entropy", "bce_with_logits", "l1", NULL};
    static const char *const optimizers[] = {"adamw", "adamw_hf", "sgd", NULL};
    static const char *const formats[] = {"ort", "safetensors", NULL}, *const reductions[] = {"mean", "sum", NULL};
    int loss, optimizer, format, reduction;
    nc_dtype compute = NC_UNDEFINED;
    nacre_code code = read_word(err, "loss", a->loss, losses, &loss);
    if (code == NACRE_OK) code = read_word(err, "optimizer", a->optimizer, optimizers, &optimizer);
    if (code == NACRE_OK) code = read_word(err, "format of the checkpoint", a->format, formats, &format);
    if (code == NACRE_OK) code = read_word(err, "reduction", a->reduction, reductions, &reduction);
    if (code == NACRE_OK) code = read_compute(err, a->compute, &compute);
    if (code != NACRE_OK) return code;
    *ask = (nc_artifacts_ask){.trainable = a->trainable,
                              .n_trainable = (int)a->n_trainable,
                              .frozen = a->frozen,
                              .n_frozen = (int)a->n_frozen,
                              .folder = a->folder,
                              .prefix = a->prefix,
                              .format = format == 2 ? NC_CHECKPOINT_SAFETENSORS : NC_CHECKPOINT_ORT,
                              .nominal = a->nominal != 0,
                              .standard = a->standard != 0,
                              .ort_format = a->ort_format != 0,
                              .compute = compute};
    ask->loss = (nc_artifacts_loss){.kind = (nc_loss)loss, /* in the order of the words */
                                    .sum = reduction == 2,
                                    .input = a->loss_input,
                                    .target = a->target,
                                    .more = a->outputs,
                                    .n_more = (int)a->n_outputs};
    ask->optim = (nc_artifacts_optim){.kind = optimizer == 0   ? NC_OPTIM_NONE
                                              : optimizer == 3 ? NC_OPTIM_SGD
                                                               : NC_OPTIM_ADAMW,
                                      .hf = optimizer == 2,
                                      .beta1 = or_usual(a->beta1, 0.9f),
                                      .beta2 = or_usual(a->beta2, 0.999f),
                                      .epsilon = or_usual(a->epsilon, 1e-6f),
                                      .weight_decay = a->weight_decay,
                                      .no_bias_correction = a->no_bias_correction != 0,
                                      .max_norm = a->max_norm,
                                      .momentum = a->momentum,
                                      .dampening = a->dampening,
                                      .nesterov = a->nesterov != 0};
    return NACRE_OK;
}

nacre_code nacre_artifacts_write(const nacre_model *m, const nacre_artifacts *callers, nacre_error *err) {
    nacre_artifacts what;
    nc_artifacts_ask ask;
    nacre_code code = nc_api_read_struct(err, "nacre_artifacts", callers, &what, sizeof what);
    if (code == NACRE_OK) code = read_artifacts(&what, &ask, err);
    if (code != NACRE_OK) return code;
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_artifacts_write(&w, m->model, &ask), err);
}
