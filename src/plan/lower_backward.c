/* plan/lower_backward.c: gradients read what the forward pass has, where their place has kernels for that: one of
 * cross-entropy the scores and the sums of their rows, so that log-probabilities need not be written at all, or it
 * gives the loss in the same pass, where nobody reads that before; one of attention the result and the sums of its
 * rows, so that the forward pass is not done twice; one of GELU in f32 on the CPU the result, which lives that long for
 * the next product's weights, and takes the place of a long formula. */
#include "infer/infer.h"
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/nn/loss.h"
#include "plan/plan.h"

#include <string.h>

extern const nc_card nc_card_gelu_erf_grad_y, nc_card_gelu_tanh_grad_y;

/* The loss leaves the sums of its rows to the gradient. */
static nc_code give_sums(nc_work *w, nc_node *forward, nc_node *grad) {
    nc_value *sums = forward->n_out > 2 ? forward->out[2] : NULL;
    bool fits = forward->place == grad->place && !forward->recompute && forward->in[1]->type->rank >= 0;
    if (!fits) return NC_OK;
    if (!sums) NC_TRY(nc_loss_keep(w, forward, &sums));
    while (grad->n_in < 4) NC_TRY(nc_edit_add_in(grad, NULL));
    return nc_edit_add_in(grad, sums);
}

/* The card, if n's place has kernels for it. */
static const nc_card *card_at(const nc_node *n, const char *name, nc_dtype elem, const nc_plan_options *o) {
    const nc_registry *all = n->graph->model->registry;
    const nc_card *card = all->find(all, "nacre", name);
    return card && nc_binding_exists(card, nc_kernels_at(o, n->place), elem) ? card : NULL;
}

static bool reads(const nc_node *n, const nc_value *v) {
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] == v) return true;
    return false;
}

/* Can the gradient n give the loss, whose log-probabilities are for n alone? Not if somebody in front of n needs it. */
static bool may_give_loss(const nc_node *n, const nc_node *forward) {
    if (forward->graph != n->graph || forward->place != n->place || forward->recompute) return false;
    if (forward->out[1]->uses.n != 1 || forward->out[1]->n_outputs || forward->out[0]->var) return false;
    for (const nc_node *at = forward->next; at != n; at = at->next)
        if (!at || reads(at, forward->out[0])) return false;
    return true;
}

static nc_code from_scores(nc_work *w, nc_node *n, const nc_plan_options *o) {
    nc_value *scores = n->n_in > 2 && n->in[1] && !n->recompute ? nc_loss_scores(n) : NULL;
    if (!scores) return NC_OK;
    nc_node *forward = n->in[1]->def;
    nc_dtype elem = scores->type->elem;
    const nc_card *both = may_give_loss(n, forward) ? card_at(n, "CrossEntropyBoth", elem, o) : NULL;
    const nc_card *card = both ? both : card_at(n, "CrossEntropyGrad", elem, o);
    if (!card) return NC_OK;
    nc_builder b = {.w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
    nc_value *in[4] = {n->in[0], scores, n->in[2], n->n_in > 3 ? n->in[3] : NULL};
    nc_node *to = nc_build_card(&b, card, in, n->n_in, NULL, both ? 2 : 1, n->attrs, n->n_attrs);
    if (!to) return b.code;
    to->place = n->place;
    to->out[0]->type = n->out[0]->type;
    if (both) to->out[0]->name = n->out[0]->name;
    nc_edit_replace(n->out[0], to->out[0]);
    nc_edit_remove(n);
    if (!both) return give_sums(w, forward, to);
    to->name = forward->name, to->out[1]->name = forward->out[0]->name;
    to->out[1]->type = forward->out[0]->type;
    nc_edit_replace(forward->out[0], to->out[1]);
    nc_edit_remove(forward);
    return NC_OK;
}

static bool may_view(const nc_node *n) { return (n->card->traits & (NC_VIEW_DENSE | NC_VIEW_STRIDED)) && n->out[0]; }

/* Is v, or what may be a view of it, read by a node behind `from` other than `but`? */
static bool lives_behind(const nc_value *v, const nc_node *from, const nc_node *but) {
    for (const nc_node *at = from->next; at; at = at->next)
        if (at != but && reads(at, v)) return true;
    for (int i = 0; i < v->uses.n; i++) {
        const nc_node *k = v->uses.v[i].node;
        if (k->graph == from->graph && may_view(k) && k->in[0] == v && lives_behind(k->out[0], from, but)) return true;
    }
    return false;
}

/* The node of n's graph whose work gives v, or n. */
static const nc_node *giver(const nc_value *v, const nc_node *n) {
    while (v->origin == NC_FROM_NODE && may_view(v->def)) v = v->def->in[0];
    return v->origin == NC_FROM_NODE && v->def->graph == n->graph ? v->def : n;
}

/* The result of what n takes the gradient of, a formula of the given number, if that lives until n runs anyway:
 * somebody reads it behind the node that gives dY. */
static nc_value *kept_result(const nc_node *n, int lane) {
    const nc_value *x = n->in[1];
    for (int i = 0; i < x->uses.n; i++) {
        const nc_node *k = x->uses.v[i].node;
        if (k->graph != n->graph || k->place != n->place || k->recompute || nc_lane_number(k) != lane) continue;
        if (lives_behind(k->out[0], giver(n->in[0], n), n)) return k->out[0];
    }
    return NULL;
}

static nc_code from_result(nc_work *w, nc_node *n, const nc_plan_options *o) {
    int lane = nc_lane_number(n);
    if (lane != NCK_LANE_gelu_grad && lane != NCK_LANE_gelu_tanh_grad) return NC_OK;
    bool on_cpu = strcmp(nc_kernels_at(o, n->place), nc_kernels_at(o, 0)) == 0;
    nc_value *y = on_cpu && n->in[0]->type->elem == NC_FLOAT ? kept_result(n, nc_lane_forward_of(lane)) : NULL;
    if (!y) return NC_OK;
    nc_builder b = {
        .w = w, .graph = n->graph, .before = n, .stage = n->stage, .place = n->place, .infer = nc_infer_node};
    const nc_card *card = lane == NCK_LANE_gelu_grad ? &nc_card_gelu_erf_grad_y : &nc_card_gelu_tanh_grad_y;
    nc_node *to = nc_build_card(&b, card, (nc_value *[]){n->in[0], n->in[1], y}, 3, NULL, 1, NULL, 0);
    if (!to) return b.code;
    to->out[0]->type = n->out[0]->type, to->out[0]->name = n->out[0]->name;
    nc_edit_replace(n->out[0], to->out[0]);
    nc_edit_remove(n);
    return NC_OK;
}

static nc_code backward_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(backward_of(w, n->subs[i].graph, o));
        NC_TRY(from_scores(w, n, o));
        NC_TRY(nc_attention_keep(w, n, nc_kernels_at(o, n->place)));
        NC_TRY(from_result(w, n, o));
    }
    return NC_OK;
}

nc_code nc_lower_backward(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : backward_of(w, m->main, o);
}
