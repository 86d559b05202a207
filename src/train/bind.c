/* train/bind.c: training and eval models bound to a checkpoint; see bind.h. */
#include "train/bind.h"

#include "ir/edit.h"
#include "ops/training/training.h"

#include <stdio.h>
#include <string.h>

extern const nc_card nc_card_training_in_place_accumulator_2, nc_card_training_scale;
extern const nc_card nc_card_batch_normalization, nc_card_training_batch_norm_internal;

static void dims_text(char *to, size_t bytes, int rank, const int64_t *dims) {
    size_t at = (size_t)snprintf(to, bytes, "[");
    for (int i = 0; i < rank && at < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, dims[i] < 0 ? "%s?" : "%s%lld", i ? "," : "", (long long)dims[i]);
    if (at < bytes) snprintf(to + at, bytes - at, "]");
}

static nc_code read_dims(nc_work *w, const nc_value *v, nc_bound_param *p) {
    const nc_type *t = v->type;
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank < 0)
        NC_FAIL(w, NC_E_UNSUPPORTED, "parameter '%s': the model does not tell its shape", v->name);
    p->rank = t->rank;
    for (int i = 0; i < t->rank; i++)
        if (!nc_dim_is_const(t->dims[i], &p->dims[i])) p->dims[i] = -1;
    return NC_OK;
}

static nc_code check_param(nc_work *w, const nc_value *v, const nc_parameter *p, const nc_bound_param *have) {
    char want[160], got[160];
    if (v->type->elem != p->dtype)
        NC_FAIL(w, NC_E_TYPE, "parameter '%s': the model expects %s, the checkpoint has %s", p->name,
                nc_dtype_name(v->type->elem), nc_dtype_name(p->dtype));
    if (p->value == NULL) return NC_OK;
    const nc_tensor *t = &p->value->t;
    bool same = t->rank == have->rank;
    for (int i = 0; same && i < t->rank; i++) same = have->dims[i] < 0 || have->dims[i] == t->dims[i];
    if (same) return NC_OK;
    dims_text(want, sizeof want, have->rank, have->dims);
    dims_text(got, sizeof got, t->rank, t->dims);
    NC_FAIL(w, NC_E_SHAPE, "parameter '%s': the model expects %s%s, the checkpoint has %s%s", p->name,
            nc_dtype_name(p->dtype), want, nc_dtype_name(p->dtype), got);
}

/* Inputs that are parameters become variables; params may be NULL. */
static nc_code bind_params(nc_work *w, nc_graph *g, const nc_checkpoint *c, nc_bound_param *params) {
    for (int i = g->inputs.n - 1; i >= 0; i--) {
        nc_value *v = g->inputs.v[i];
        const nc_parameter *p = nc_checkpoint_find(c, v->name);
        nc_bound_param have = {.rank = -1};
        if (p == NULL) continue;
        NC_TRY(read_dims(w, v, &have));
        NC_TRY(check_param(w, v, p, &have));
        if (params != NULL) params[p - c->params.v] = have;
        if (nc_edit_make_variable(v) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* ---- sums of gradients ---- */

static bool is_accumulator(const nc_node *n) {
    return n->card == &nc_card_training_in_place_accumulator_2 && n->in[0] != NULL && n->in[0]->origin == NC_FROM_INPUT;
}

static bool fits(const nc_checkpoint *c, int i, const nc_bound_param *params, const nc_value *sum) {
    const nc_type *t = sum->type;
    if (!c->params.v[i].trainable || params[i].sum != NULL || params[i].rank < 0) return false;
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank != params[i].rank) return false;
    for (int d = 0; d < t->rank; d++) {
        int64_t size;
        if (nc_dim_is_const(t->dims[d], &size) && params[i].dims[d] >= 0 && size != params[i].dims[d]) return false;
    }
    return true;
}

/* Whose gradients an accumulator adds up: the parameter whose name its own carries, else the first in order that has
 * the shape and no sum yet. -1: none. */
static int param_of(const nc_checkpoint *c, const nc_bound_param *params, const nc_value *sum) {
    int best = -1;
    size_t longest = 0;
    for (int i = 0; i < c->params.n; i++) {
        const char *name = c->params.v[i].name;
        size_t n = strlen(name);
        if (fits(c, i, params, sum) && n > longest && strncmp(sum->name, name, n) == 0) best = i, longest = n;
    }
    for (int i = 0; best < 0 && i < c->params.n; i++)
        if (fits(c, i, params, sum)) best = i;
    return best;
}

static nc_code bind_sum(nc_work *w, nc_node *n, const nc_checkpoint *c, nc_bound_model *out) {
    nc_value *sum = n->in[0], *reset = nc_contrib_in(n, 2);
    int i = param_of(c, out->params, sum);
    if (i < 0)
        NC_FAIL(w, NC_E_ARGUMENT,
                "the model adds gradients up in '%s', but the checkpoint has no trainable parameter for it", sum->name);
    out->params[i].sum = sum->name;
    if (reset != NULL && reset->origin == NC_FROM_INPUT) out->reset = reset->name;
    const nc_node *by = n->in[1]->origin == NC_FROM_NODE ? n->in[1]->def : NULL;
    if (by && by->card == &nc_card_training_scale && by->in[1]->origin == NC_FROM_INPUT) out->scale = by->in[1]->name;
    if (nc_edit_make_variable(sum) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_value *next = n->n_out > 1 ? n->out[1] : nc_edit_add_out(n, NULL);
    NC_NEED(w, next);
    next->type = sum->type;
    nc_edit_set_version(sum->var, next);
    n->stage = NC_STAGE_UPDATE;
    if (n->in[1]->origin == NC_FROM_NODE) n->in[1]->def->stage = NC_STAGE_BACKWARD; /* the graph is one that trains */
    return NC_OK;
}

/* ---- running statistics ---- */

/* Those that are parameters move with every step, as onnxruntime and PyTorch move them: nodes that share one take
 * turns, in the order of the graph. */
static void bind_running(nc_node *n) {
    bool runs = n->card == &nc_card_batch_normalization || n->card == &nc_card_training_batch_norm_internal;
    for (int in = 3, out = 1; runs && in < 5; in++, out++) { /* mean and variance: before, after */
        nc_value *old = in < n->n_in ? n->in[in] : NULL, *next = out < n->n_out ? n->out[out] : NULL;
        if (old == NULL || old->var == NULL || next == NULL) continue;
        if (old->var->last != old) nc_edit_set_in(n, in, old->var->last);
        nc_edit_set_version(old->var, next);
    }
}

/* Outputs that an accumulator alone makes are no results. */
static void drop_signals(nc_graph *g) {
    for (int i = g->outputs.n - 1; i >= 0; i--) {
        const nc_value *v = g->outputs.v[i];
        if (v->origin == NC_FROM_NODE && v->def->card == &nc_card_training_in_place_accumulator_2)
            nc_edit_remove_output(g, i);
    }
}

/* An eval model takes the same parameters: steps with it would train nothing. */
static nc_code check_trains(nc_work *w, const nc_checkpoint *c, const nc_bound_model *m) {
    const char *idle = NULL;
    for (int i = 0; i < c->params.n; i++) {
        if (m->params[i].sum != NULL) return NC_OK;
        if (c->params.v[i].trainable && !idle) idle = c->params.v[i].name;
    }
    if (!idle) return NC_OK;
    NC_FAIL(w, NC_E_ARGUMENT,
            "'%s' and others of the checkpoint are to be trained, but the model has no gradients: expected a training "
            "model, got one for evaluation or inference",
            idle);
}

nc_code nc_bind_training(nc_work *w, nc_model *m, const nc_checkpoint *c, nc_bound_model *out) {
    nc_graph *g = m->main;
    out->reset = out->scale = NULL;
    for (int i = 0; i < c->params.n; i++) out->params[i] = (nc_bound_param){.rank = -1};
    NC_TRY(bind_params(w, g, c, out->params));
    for (int i = 0; i < c->params.n; i++)
        if (c->params.v[i].trainable && out->params[i].rank < 0)
            NC_FAIL(w, NC_E_ARGUMENT, "parameter '%s' of the checkpoint is no input of the training model",
                    c->params.v[i].name);
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        if (is_accumulator(n)) NC_TRY(bind_sum(w, n, c, out));
        bind_running(n);
    }
    NC_TRY(check_trains(w, c, out));
    drop_signals(g);
    return NC_OK;
}

nc_code nc_bind_eval(nc_work *w, nc_model *m, const nc_checkpoint *c) { return bind_params(w, m->main, c, NULL); }
