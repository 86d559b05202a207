/* train/artifacts_write.c: all artifacts of a model, as files: which initializers are meant by which pattern, the
 * models and the checkpoint. Nothing is written before everything is made. */
#include "infer/infer.h"
#include "ir/edit.h"
#include "onnx/save.h"
#include "train/artifacts.h"

#include <string.h>

/* '*' stands for any letters, '?' for one. Goes back to the last star only: no more than n * m steps. */
static bool matches(const char *pattern, const char *s) {
    const char *star = NULL, *from = NULL;
    while (*s) {
        if (*pattern == '*')
            star = pattern++, from = s;
        else if (*pattern == '?' || *pattern == *s)
            pattern++, s++;
        else if (star)
            pattern = star + 1, s = ++from;
        else
            return false;
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

typedef enum part { PART_NONE, PART_TRAINABLE, PART_FROZEN } part;

typedef struct chosen {
    nc_value **params; /* constants, in the order of the graph; trainable and frozen */
    part *parts;
    const char **moved, **trainable;
    int n, n_trainable;
} chosen;

static nc_code mark(nc_work *w, const nc_graph *g, const char *pattern, part as, part *parts) {
    bool found = false;
    for (int i = 0; i < g->consts.n; i++) {
        const nc_value *v = g->consts.v[i];
        if (!matches(pattern, v->name)) continue;
        bool exact = strcmp(pattern, v->name) == 0;
        if (parts[i] != PART_NONE && parts[i] != as)
            NC_FAIL(w, NC_E_ARGUMENT, "'%.100s' cannot be trainable and frozen at the same time", v->name);
        if (as == PART_TRAINABLE && !nc_dtype_is_float(v->lit->dtype)) {
            if (exact)
                NC_FAIL(w, NC_E_TYPE, "'%.100s' is of %s, so it has no gradient and cannot train", v->name,
                        nc_dtype_name(v->lit->dtype));
            continue;
        }
        parts[i] = as;
        found = true;
    }
    if (!found)
        NC_FAIL(w, NC_E_ARGUMENT, "the model has no initializer '%.100s' that could be %s", pattern,
                as == PART_TRAINABLE ? "trainable" : "frozen");
    return NC_OK;
}

/* Where nothing is said: floats with at least one dim, which is what weights are; settings stay as they are. */
static void mark_weights(const nc_graph *g, part *parts) {
    for (int i = 0; i < g->consts.n; i++)
        if (parts[i] == PART_NONE && g->consts.v[i]->lit->rank > 0 && nc_dtype_is_float(g->consts.v[i]->lit->dtype))
            parts[i] = nc_value_is_setting(g->consts.v[i]) ? PART_FROZEN : PART_TRAINABLE;
}

static nc_code choose(nc_work *w, const nc_graph *g, const nc_artifacts_ask *a, chosen *c) {
    size_t n = (size_t)g->consts.n + 1;
    part *parts = nc_arena_array(&w->scratch, n, sizeof *parts);
    c->params = nc_arena_array(&w->scratch, n, sizeof *c->params);
    c->parts = nc_arena_array(&w->scratch, n, sizeof *c->parts);
    c->moved = nc_arena_array(&w->scratch, n, sizeof *c->moved);
    c->trainable = nc_arena_array(&w->scratch, n, sizeof *c->trainable);
    if (!parts || !c->params || !c->parts || !c->moved || !c->trainable) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < a->n_trainable; i++) NC_TRY(mark(w, g, a->trainable[i], PART_TRAINABLE, parts));
    for (int i = 0; i < a->n_frozen; i++) NC_TRY(mark(w, g, a->frozen[i], PART_FROZEN, parts));
    if (!a->n_trainable) mark_weights(g, parts);
    for (int i = 0; i < g->consts.n; i++) {
        if (parts[i] == PART_NONE) continue;
        c->params[c->n] = g->consts.v[i];
        c->parts[c->n] = parts[i];
        c->moved[c->n++] = g->consts.v[i]->name;
        if (parts[i] == PART_TRAINABLE) c->trainable[c->n_trainable++] = g->consts.v[i]->name;
    }
    if (!c->n_trainable) NC_FAIL(w, NC_E_ARGUMENT, "the model has no initializer that could train");
    return NC_OK;
}

/* ---- the checkpoint ---- */

static nc_code add_param(nc_work *w, nc_checkpoint *c, const nc_value *v, bool trainable, bool nominal) {
    const nc_literal *l = v->lit;
    nc_object *o = NULL;
    if (!nominal) {
        o = l->dtype == NC_STRING ? nc_object_strings(l->rank, l->dims, l->data)
                                  : nc_object_host_tensor(l->dtype, l->rank, l->dims);
        NC_NEED(w, o);
        if (l->dtype != NC_STRING && l->bytes) memcpy(o->t.data, l->data, l->bytes);
    }
    return nc_checkpoint_add(w, c, v->name, l->dtype, o, trainable);
}

static nc_code fill_checkpoint(nc_work *w, const chosen *c, bool nominal, nc_checkpoint *into) {
    into->nominal = nominal;
    for (int i = 0; i < c->n; i++) NC_TRY(add_param(w, into, c->params[i], c->parts[i] == PART_TRAINABLE, nominal));
    return NC_OK;
}

static nc_code write_checkpoint(nc_work *w, const chosen *c, bool nominal, nc_checkpoint_format format,
                                const char *path) {
    nc_checkpoint *made;
    NC_NEED(w, path);
    NC_TRY(nc_checkpoint_create(w, &made));
    nc_code code = fill_checkpoint(w, c, nominal, made);
    if (code == NC_OK) code = nc_checkpoint_save(w, made, path, format, false);
    nc_checkpoint_release(made);
    return code;
}

/* ---- models ---- */

typedef struct models {
    nc_model *training, *eval, *optimizer;
} models;

static nc_code optimizer_of(nc_work *w, const nc_model *m, const chosen *c, const nc_artifacts_optim *o,
                            nc_model **out) {
    nc_dtype elem = NC_UNDEFINED;
    for (int i = 0; i < c->n; i++) {
        if (c->parts[i] != PART_TRAINABLE) continue;
        if (elem != NC_UNDEFINED && c->params[i]->lit->dtype != elem)
            NC_FAIL(w, NC_E_TYPE, "an optimizer's parameters are of one type: expected %s, '%.100s' is %s",
                    nc_dtype_name(elem), c->params[i]->name, nc_dtype_name(c->params[i]->lit->dtype));
        elem = c->params[i]->lit->dtype;
    }
    return nc_artifacts_optimizer(w, m->registry, m->opsets, m->n_opsets, elem, o, out);
}

static nc_code make_models(nc_work *w, const nc_model *m, const nc_artifacts_ask *a, const chosen *c, models *out) {
    const nc_artifacts_params params = {c->moved, c->n, c->trainable, c->n_trainable, a->compute};
    NC_NEED(w, out->training = nc_model_clone(m));
    NC_NEED(w, out->eval = nc_model_clone(m));
    NC_TRY(nc_artifacts_add_loss(w, out->training, &a->loss));
    NC_TRY(nc_artifacts_training(w, out->training, &params, a->standard));
    NC_TRY(nc_artifacts_add_loss(w, out->eval, &a->loss));
    NC_TRY(nc_artifacts_eval(w, out->eval, &params));
    return a->optim.kind == NC_OPTIM_NONE ? NC_OK : optimizer_of(w, m, c, &a->optim, &out->optimizer);
}

static char *path_of(nc_work *w, const nc_artifacts_ask *a, const char *name) {
    if (!name) return NULL;
    return nc_arena_printf(&w->scratch, "%s/%s%s", a->folder ? a->folder : ".", a->prefix ? a->prefix : "", name);
}

/* The format .ort tells every value's type, so all are inferred first. */
static nc_code save_model(nc_work *w, const nc_artifacts_ask *a, nc_model *m, const char *name) {
    char *path = path_of(w, a, nc_arena_printf(&w->scratch, "%s.onnx", name));
    NC_NEED(w, path);
    NC_TRY(nc_onnx_save_file(w, m, path, NULL));
    if (!a->ort_format) return NC_OK;
    NC_NEED(w, path = path_of(w, a, nc_arena_printf(&w->scratch, "%s.ort", name)));
    NC_TRY(nc_infer_model(w, m));
    return nc_onnx_save_file(w, m, path, NULL);
}

static nc_code write_all(nc_work *w, const nc_artifacts_ask *a, const chosen *c, const models *m) {
    NC_TRY(save_model(w, a, m->training, "training_model"));
    NC_TRY(save_model(w, a, m->eval, "eval_model"));
    if (m->optimizer) NC_TRY(save_model(w, a, m->optimizer, "optimizer_model"));
    NC_TRY(write_checkpoint(w, c, false, a->format, path_of(w, a, "checkpoint")));
    return a->nominal ? write_checkpoint(w, c, true, a->format, path_of(w, a, "nominal_checkpoint")) : NC_OK;
}

nc_code nc_artifacts_write(nc_work *w, const nc_model *m, const nc_artifacts_ask *a) {
    chosen c = {0};
    models made = {0};
    NC_TRY(choose(w, m->main, a, &c));
    nc_code code = make_models(w, m, a, &c, &made);
    if (code == NC_OK) code = write_all(w, a, &c, &made);
    nc_model_destroy(made.training);
    nc_model_destroy(made.eval);
    nc_model_destroy(made.optimizer);
    return code;
}
