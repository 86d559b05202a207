/* train/artifacts.c: the training and the eval form of a model whose first output is the loss. */
#include "train/artifacts.h"

#include "autodiff/autodiff.h"
#include "infer/infer.h"
#include "ir/card.h"
#include "ir/edit.h"
#include "train/train.h"
#include "transform/mixed.h"

#include <stdio.h>
#include <string.h>

static const nc_card *find_card(const nc_model *m, const char *domain, const char *op) {
    for (const nc_registry *r = m->registry; r; r = r->base) {
        const nc_card *card = r->find(r, domain, op);
        if (card) return card;
    }
    return NULL;
}

/* ---- parameters as inputs ---- */

static nc_code literal_type(nc_work *w, nc_model *m, const nc_literal *l, const nc_type **out) {
    const nc_dim *dims[NC_MAX_RANK];
    for (int d = 0; d < l->rank; d++) NC_NEED(w, dims[d] = nc_dim_const(m->dims, l->dims[d]));
    NC_NEED(w, *out = nc_type_tensor(&m->arena, l->dtype, l->rank, dims));
    return NC_OK;
}

static nc_code move(nc_work *w, nc_model *m, const char *name) {
    nc_value *v;
    const nc_type *type;
    NC_TRY(nc_graph_need(w, m->main, name, "to train", &v));
    if (v->origin == NC_FROM_INPUT) { /* one with a default: it has its place */
        if (nc_edit_set_initial(v, NULL) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
        return NC_OK;
    }
    if (v->origin != NC_FROM_CONST)
        NC_FAIL(w, NC_E_ARGUMENT, "'%.100s' is no initializer of the model, so it cannot be a parameter", name);
    NC_TRY(literal_type(w, m, v->lit, &type));
    nc_value *input = nc_edit_input(m->main, name, type);
    NC_NEED(w, input);
    nc_edit_replace(v, input);
    return NC_OK;
}

static nc_code move_params(nc_work *w, nc_model *m, const nc_artifacts_params *p) {
    for (int i = 0; i < p->n_moved; i++) NC_TRY(move(w, m, p->moved[i]));
    nc_edit_drop_consts(m->main);
    return NC_OK;
}

/* ---- the training form ---- */

static nc_code check_influence(nc_work *w, nc_model *m, const nc_artifacts_params *p) {
    size_t n = (size_t)p->n_trainable + 1;
    nc_value **xs = nc_arena_array(&w->scratch, n, sizeof *xs);
    bool *used = nc_arena_array(&w->scratch, n, sizeof *used);
    if (!xs || !used) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < p->n_trainable; i++) NC_TRY(nc_graph_need(w, m->main, p->trainable[i], "to train", &xs[i]));
    NC_TRY(nc_autodiff_influence(w, m->main, &m->main->outputs.v[0], 1, xs, p->n_trainable, used));
    for (int i = 0; i < p->n_trainable; i++)
        if (used[i]) return NC_OK;
    NC_FAIL(w, NC_E_DATA, "the loss '%.100s' does not depend on any trainable parameter", m->main->output_names.v[0]);
}

static char *with_suffix(nc_work *w, const char *name, const char *suffix) {
    return nc_arena_printf(&w->scratch, "%s%s", name, suffix);
}

/* gradient / scale, in f32: what the loss scale had made larger. */
static nc_code unscaled(nc_work *w, nc_model *m, nc_value *scale, nc_value **gradient) {
    const nc_attr down = {.name = "scale_down", .kind = NC_A_INT, .i = 1};
    const nc_card *card = find_card(m, "com.microsoft", "Scale");
    nc_value *in[] = {*gradient, scale};
    if (!card) NC_FAIL(w, NC_E_UNSUPPORTED, "the op Scale is needed here but not known");
    nc_node *n = nc_edit_node(m->main, NULL, card, nc_card_version(card, 1), NULL, in, 2, NULL, 1);
    NC_NEED(w, n);
    if (nc_edit_set_attr(n, &down) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    n->stage = NC_STAGE_BACKWARD;
    *gradient = n->out[0];
    return nc_infer_node(w, n);
}

/* The gradients are the last outputs; each gives its place to its accumulator's. scale: the loss scale, or NULL. */
static nc_code accumulate(nc_work *w, nc_model *m, const nc_artifacts_params *p, nc_value *scale) {
    nc_graph *g = m->main;
    int first = g->outputs.n - p->n_trainable;
    const nc_card *card = find_card(m, "com.microsoft", "InPlaceAccumulatorV2");
    const nc_dim *one = nc_dim_const(m->dims, 1);
    const nc_type *flag = one ? nc_type_tensor(&m->arena, NC_BOOL, 1, &one) : NULL;
    nc_value **buffers = nc_arena_array(&w->scratch, (size_t)p->n_trainable + 1, sizeof *buffers), *reset;
    if (!card) NC_FAIL(w, NC_E_UNSUPPORTED, "the op InPlaceAccumulatorV2 is needed here but not known");
    NC_NEED(w, buffers);
    for (int i = 0; i < p->n_trainable; i++) {
        char *name = with_suffix(w, p->trainable[i], "_grad.accumulation.buffer");
        NC_NEED(w, name);
        NC_NEED(w, buffers[i] = nc_edit_input(g, name, g->outputs.v[first + i]->type));
    }
    NC_NEED(w, flag);
    NC_NEED(w, reset = nc_edit_input(g, "lazy_reset_grad", flag));
    for (int i = 0; i < p->n_trainable; i++) {
        char label[40];
        const char *out = with_suffix(w, p->trainable[i], "_grad.accumulation.out");
        nc_value *in[] = {buffers[i], g->outputs.v[first], reset};
        snprintf(label, sizeof label, "GradientAccumulator%d", first + i);
        NC_NEED(w, out);
        if (scale) NC_TRY(unscaled(w, m, scale, &in[1]));
        nc_node *n = nc_edit_node(g, NULL, card, nc_card_version(card, 1), label, in, 3, &out, 1);
        NC_NEED(w, n);
        n->stage = NC_STAGE_UPDATE;
        NC_TRY(nc_infer_node(w, n));
        nc_edit_remove_output(g, first);
        if (nc_edit_output(g, n->out[0], out) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* One number of f32: what a loss scale can be multiplied with. */
static nc_code check_scalar(nc_work *w, nc_model *m) {
    const nc_type *t = m->main->outputs.v[0]->type;
    bool fine = t && t->kind == NC_T_TENSOR && t->elem == NC_FLOAT && t->rank >= 0;
    int64_t n;
    for (int d = 0; fine && d < t->rank; d++) fine = nc_dim_is_const(t->dims[d], &n) && n == 1;
    if (!fine)
        NC_FAIL(w, NC_E_SHAPE, "float16 needs a loss scale, and so a loss that is one number of float: '%.100s' is not",
                m->main->output_names.v[0]);
    return NC_OK;
}

/* Casts come behind the passes, whose patterns know none between their parts, and while parameters are constants, of
 * which it is known that they fit. */
static nc_code mix(nc_work *w, nc_model *m, const nc_artifacts_params *p, bool standard) {
    NC_TRY(standard ? nc_infer_model(w, m) : nc_train_fuse(w, m, p->moved, p->n_moved));
    return nc_transform_mixed(w, m, p->compute);
}

nc_code nc_artifacts_training(nc_work *w, nc_model *m, const nc_artifacts_params *p, bool standard) {
    if (m->main->outputs.n < 1) NC_FAIL(w, NC_E_ARGUMENT, "the model has no output, so it has no loss");
    if (p->compute != NC_UNDEFINED) NC_TRY(mix(w, m, p, standard));
    NC_TRY(move_params(w, m, p));
    const char *loss = m->main->output_names.v[0];
    bool scaled = p->compute == NC_FLOAT16 && p->n_trainable > 0;
    nc_value *scale = NULL;
    if (p->n_trainable) {
        nc_train_ask ask = {.ys = &loss, .n_y = 1, .xs = p->trainable, .n_x = p->n_trainable, .standard = standard};
        NC_TRY(nc_infer_model(w, m));
        NC_TRY(check_influence(w, m, p));
        if (scaled) NC_TRY(check_scalar(w, m));
        ask.cotangents = scaled;
        NC_TRY(nc_train_model_gradients(w, m, &ask));
    }
    if (scaled) NC_TRY(nc_graph_need(w, m->main, with_suffix(w, "d:", loss), "as the loss scale", &scale));
    NC_TRY(accumulate(w, m, p, scale));
    nc_edit_drop_consts(m->main);
    return NC_OK;
}

/* ---- the eval form ---- */

/* The node anew, with its first output alone: there are no others where nobody trains. */
static nc_code first_output_alone(nc_work *w, nc_node *n, nc_node **out) {
    const char *name = n->out[0] ? n->out[0]->name : "";
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] && (n->out[i]->uses.n || n->out[i]->n_outputs))
            NC_FAIL(w, NC_E_UNSUPPORTED,
                    "BatchNormalization '%.100s': its running statistics are used, and the eval model has none",
                    n->name);
    nc_node *one = nc_edit_node(n->graph, n, n->card, n->version, n->name, n->in, n->n_in, &name, 1);
    NC_NEED(w, one);
    for (int i = 0; i < n->n_attrs; i++)
        if (nc_edit_set_attr(one, &n->attrs[i]) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (n->out[0]) {
        one->out[0]->type = n->out[0]->type;
        nc_edit_replace(n->out[0], one->out[0]);
    }
    nc_edit_remove(n);
    *out = one;
    return NC_OK;
}

/* Dropout of opset 12 and later: its third input decides; before, and in BatchNormalization, an attribute. */
static nc_code quiet(nc_work *w, nc_node **at, const nc_card *dropout, const nc_card *batch_norm) {
    const nc_attr off = {.name = "training_mode", .kind = NC_A_INT, .i = 0};
    nc_node *n = *at;
    if (n->card == dropout && n->n_in > 2) nc_edit_set_in(n, 2, NULL);
    const nc_attr *mode = n->card == batch_norm ? nc_node_attr(n, "training_mode") : NULL;
    if (!mode || mode->i == 0) return NC_OK;
    if (nc_edit_set_attr(n, &off) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return n->n_out > 1 ? first_output_alone(w, n, at) : NC_OK;
}

static nc_code quiet_graph(nc_work *w, nc_graph *g, const nc_card *dropout, const nc_card *batch_norm) {
    for (nc_node *n = g->first; n; n = n->next) {
        NC_TRY(quiet(w, &n, dropout, batch_norm));
        for (int i = 0; i < n->n_subs; i++) NC_TRY(quiet_graph(w, n->subs[i].graph, dropout, batch_norm));
    }
    return NC_OK;
}

nc_code nc_artifacts_quiet(nc_work *w, nc_model *m) {
    NC_TRY(quiet_graph(w, m->main, find_card(m, "", "Dropout"), find_card(m, "", "BatchNormalization")));
    nc_edit_drop_consts(m->main);
    return NC_OK;
}

nc_code nc_artifacts_eval(nc_work *w, nc_model *m, const nc_artifacts_params *p) {
    NC_TRY(move_params(w, m, p));
    return nc_artifacts_quiet(w, m);
}
