/* train/bind_optimizer.c: an optimizer's model bound to the parameters of a checkpoint: one node for all of them. */
#include "infer/infer.h"
#include "ir/edit.h"
#include "ops/training/optim.h"
#include "ops/training/training.h"
#include "train/bind.h"

#include <string.h>

extern const nc_card nc_card_training_adamw_optimizer, nc_card_training_sgd_optimizer_2,
    nc_card_training_momentum_optimizer, nc_card_training_clip_grad_norm;

const char *nc_bind_moment_name(nc_arena *a, const char *param, int k) {
    return nc_arena_printf(a, "momentum%d:%s", k, param);
}

static bool is_optimizer(const nc_node *n) {
    return n->card == &nc_card_training_adamw_optimizer || n->card == &nc_card_training_sgd_optimizer_2 ||
           n->card == &nc_card_training_momentum_optimizer;
}

static nc_code find_optimizer(nc_work *w, nc_graph *g, nc_node **out) {
    *out = NULL;
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        if (!is_optimizer(n)) continue;
        if (*out != NULL)
            NC_FAIL(w, NC_E_UNSUPPORTED, "the optimizer model has the optimizers '%s' and '%s', one is expected",
                    (*out)->name, n->name);
        *out = n;
    }
    if (*out == NULL)
        NC_FAIL(w, NC_E_UNSUPPORTED,
                "the optimizer model has no AdamWOptimizer, SGDOptimizerV2 or MomentumOptimizer, one is expected");
    return NC_OK;
}

/* The variables of a group: weights, moments or sums. */
typedef struct gather {
    nc_work *w;
    nc_graph *g;
    const nc_checkpoint *c;
    const nc_bound_param *params;
    nc_value **v;
    int n; /* so far */
} gather;

static const nc_type *type_of(gather *a, int i) {
    nc_model *m = a->g->model;
    const nc_dim *dims[NC_MAX_RANK];
    for (int d = 0; d < a->params[i].rank; d++) dims[d] = nc_dim_const(m->dims, a->params[i].dims[d]);
    return nc_type_tensor(&m->arena, a->c->params.v[i].dtype, a->params[i].rank, dims);
}

enum { SUMS = -2, WEIGHTS = -1 }; /* or a moment's number */

static nc_code add_group(gather *a, int which) {
    for (int i = 0; i < a->c->params.n; i++) {
        const char *name = a->c->params.v[i].name;
        if (a->params[i].sum == NULL) continue;
        if (which == SUMS) name = a->params[i].sum;
        if (which >= 0) name = nc_bind_moment_name(&a->w->scratch, name, which);
        const nc_type *t = type_of(a, i);
        NC_NEED(a->w, name);
        NC_NEED(a->w, t);
        NC_NEED(a->w, a->v[a->n++] = nc_edit_variable(a->g, name, t, NULL));
    }
    return NC_OK;
}

/* min(1, max_norm / (the norm of all + 1e-6)), or 1 where nothing is clipped. */
static nc_value *scale_of(nc_builder *b, const nc_node *clip, nc_value *const *sums, int n) {
    nc_value *one = nc_build_scalar(b, NC_FLOAT, 1);
    if (clip == NULL || n == 0) return one;
    nc_value *norm = nc_build_attr1(b, NC_MICROSOFT, "ReduceAllL2", sums, n, NULL, 0);
    norm = nc_build_cast(b, norm, NC_FLOAT);
    nc_value *most = nc_build_scalar(b, NC_FLOAT, nc_attr_float(clip, "max_norm"));
    nc_value *ratio = nc_build1(b, "Div", 2, most, nc_build1(b, "Add", 2, norm, nc_build_scalar(b, NC_FLOAT, 1e-6)));
    return nc_build1(b, "Min", 2, ratio, one);
}

typedef struct operands {
    nc_value *rate, *step, *signal;
    const nc_node *clip;
    int moments;
    bool checked;
} operands;

static nc_code read_operands(nc_work *w, const nc_node *n, operands *o) {
    int moments = n->card == &nc_card_training_adamw_optimizer      ? 2
                  : n->card == &nc_card_training_momentum_optimizer ? 1
                                                                    : 0;
    const nc_value *sums = n->in[moments ? 3 : 2];
    *o = (operands){.rate = n->in[0], .step = moments ? n->in[1] : NULL, .moments = moments};
    o->signal = nc_contrib_in(n, moments ? 4 + moments : 3);
    if (sums->origin == NC_FROM_NODE && sums->def->card == &nc_card_training_clip_grad_norm) o->clip = sums->def;
    if (o->clip != NULL) sums = o->clip->in[0];
    if (sums->origin != NC_FROM_INPUT)
        NC_FAIL(w, NC_E_UNSUPPORTED, "the gradients of '%s' are expected to be an input, or an input that is clipped",
                n->name);
    return NC_OK;
}

static nc_code emit_step(nc_work *w, nc_node *n, const operands *o, gather *a, nc_value **done) {
    nc_builder b = {.w = w, .graph = a->g, .before = n, .stage = NC_STAGE_UPDATE, .infer = nc_infer_node};
    static const char *const copied[] = {"alpha",     "beta",     "epsilon",   "weight_decay", "correct_bias",
                                         "adam_mode", "momentum", "dampening", "nesterov"};
    nc_attr attrs[12] = {{.name = "moments", .kind = NC_A_INT, .i = o->moments}};
    int n_attrs = 2;
    NC_TRY(add_group(a, WEIGHTS));
    int count = a->n, grads;
    for (int k = 0; k < o->moments; k++) NC_TRY(add_group(a, k));
    grads = a->n;
    NC_TRY(add_group(a, SUMS));
    attrs[1] = (nc_attr){.name = "n", .kind = NC_A_INT, .i = count};
    for (size_t k = 0; k < sizeof copied / sizeof copied[0]; k++) {
        const nc_attr *x = nc_node_attr(n, copied[k]);
        if (x != NULL) attrs[n_attrs++] = *x;
    }
    nc_value *signal = o->signal != NULL ? nc_training_rank0(&b, o->signal) : nc_build_scalar(&b, NC_BOOL, 1);
    if (o->checked && count > 0) {
        nc_value *finite = nc_build_attr1(&b, NC_MICROSOFT, "IsAllFinite", a->v + grads, count, NULL, 0);
        signal = nc_build1(&b, "And", 2, signal, nc_training_rank0(&b, finite));
    }
    nc_value *scale = scale_of(&b, o->clip, a->v + grads, count);
    a->v[a->n++] = nc_training_rank0(&b, o->rate);
    a->v[a->n++] = o->step != NULL ? nc_training_rank0(&b, o->step) : nc_build_int(&b, 0);
    a->v[a->n++] = scale;
    a->v[a->n++] = signal;
    *done = nc_build1(&b, "Reshape", 2, signal, nc_build_ints(&b, (const int64_t[]){1}, 1));
    NC_TRY(b.code);
    nc_node *step = nc_build(&b, "nacre", "OptimizerStep", a->v, a->n, grads, attrs, n_attrs);
    for (int i = 0; step != NULL && i < grads; i++) nc_edit_set_version(a->v[i]->var, step->out[i]);
    return b.code;
}

/* What only the optimizer's sequences were for. */
static nc_code drop_sequences(nc_work *w, nc_graph *g, nc_node *n, const operands *o, nc_value *done) {
    nc_edit_replace(n->out[0], done);
    for (int i = g->outputs.n - 1; i >= 0; i--)
        if (g->outputs.v[i]->origin == NC_FROM_NODE && g->outputs.v[i]->def == n) nc_edit_remove_output(g, i);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != NULL && n->out[i]->uses.n > 0)
            NC_FAIL(w, NC_E_UNSUPPORTED, "'%s' is used behind the optimizer '%s', which updates in place",
                    n->out[i]->name, n->name);
    nc_node *clip = (nc_node *)(uintptr_t)o->clip;
    nc_edit_remove(n);
    if (clip != NULL && clip->out[0]->uses.n == 0 && clip->out[0]->n_outputs == 0) nc_edit_remove(clip);
    for (int i = g->inputs.n - 1; i >= 0; i--) nc_edit_remove_input(g->inputs.v[i]);
    return NC_OK;
}

static nc_code name_inputs(nc_work *w, const nc_graph *g, const operands *o, nc_bound_optimizer *out) {
    *out = (nc_bound_optimizer){.moments = o->moments};
    for (int i = 0; i < g->inputs.n; i++) {
        const nc_value *v = g->inputs.v[i];
        if (v == o->rate)
            out->rate = v->name;
        else if (v == o->step)
            out->step = v->name;
        else
            NC_FAIL(w, NC_E_UNSUPPORTED, "the optimizer model has the input '%s', which nothing is known to feed",
                    v->name);
    }
    return NC_OK;
}

nc_code nc_bind_optimizer(nc_work *w, nc_model *m, const nc_checkpoint *c, const nc_bound_param *params, bool checked,
                          nc_bound_optimizer *out) {
    nc_node *n;
    operands o;
    nc_value *done = NULL;
    NC_TRY(find_optimizer(w, m->main, &n));
    w->at_node = n->name, w->at_op = n->card->name;
    NC_TRY(read_operands(w, n, &o));
    o.checked = checked;
    gather a = {.w = w, .g = m->main, .c = c, .params = params};
    NC_NEED(w, a.v = nc_arena_array(&w->scratch, (size_t)c->params.n * 4 + 4, sizeof(nc_value *)));
    NC_TRY(emit_step(w, n, &o, &a, &done));
    NC_TRY(drop_sequences(w, m->main, n, &o, done));
    w->at_node = w->at_op = NULL;
    return name_inputs(w, m->main, &o, out);
}
