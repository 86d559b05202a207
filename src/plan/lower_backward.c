/* plan/lower_backward.c: gradients read what the forward pass has, where their place has kernels for that: one of
 * cross-entropy the scores and the sums of their rows, so that log-probabilities need not be written at all; one of
 * attention the result and the sums of its rows, so that the forward pass is not done twice. */
#include "infer/infer.h"
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/nn/loss.h"
#include "plan/plan.h"

/* The loss leaves the sums of its rows to the gradient. */
static nc_code give_sums(nc_work *w, nc_node *forward, nc_node *grad) {
    nc_value *sums = forward->n_out > 2 ? forward->out[2] : NULL;
    bool fits = forward->place == grad->place && !forward->recompute && forward->in[1]->type->rank >= 0;
    if (!fits) return NC_OK;
    if (!sums) NC_TRY(nc_loss_keep(w, forward, &sums));
    while (grad->n_in < 4) NC_TRY(nc_edit_add_in(grad, NULL));
    return nc_edit_add_in(grad, sums);
}

static nc_code from_scores(nc_work *w, nc_node *n, const nc_plan_options *o) {
    nc_value *scores = n->n_in > 2 && n->in[1] && !n->recompute ? nc_loss_scores(n) : NULL;
    if (!scores) return NC_OK;
    nc_model *m = n->graph->model;
    const nc_card *card = m->registry->find(m->registry, "nacre", "CrossEntropyGrad");
    if (!card || !nc_binding_exists(card, nc_kernels_at(o, n->place), scores->type->elem)) return NC_OK;
    nc_node *forward = n->in[1]->def;
    nc_builder b = {.w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
    nc_value *in[4] = {n->in[0], scores, n->in[2], n->n_in > 3 ? n->in[3] : NULL};
    nc_value *dx = nc_build_card1(&b, card, in, n->n_in, n->attrs, n->n_attrs);
    if (!dx) return b.code;
    dx->def->place = n->place;
    dx->type = n->out[0]->type;
    nc_edit_replace(n->out[0], dx);
    nc_edit_remove(n);
    return give_sums(w, forward, dx->def);
}

static nc_code backward_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(backward_of(w, n->subs[i].graph, o));
        NC_TRY(from_scores(w, n, o));
        NC_TRY(nc_attention_keep(w, n, nc_kernels_at(o, n->place)));
    }
    return NC_OK;
}

nc_code nc_lower_backward(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : backward_of(w, m->main, o);
}
