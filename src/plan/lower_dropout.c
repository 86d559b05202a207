/* plan/lower_dropout.c: on a device the gradient of dropout draws the mask again from the node's random id instead of
 * reading what the forward pass kept: a few instructions an element for a byte written and one read, and none of it is
 * held between the two. On the host drawing costs more than the byte. Comes before lower_residual.c and
 * lower_sum_norm.c, which take in dropout that keeps no mask.
 *
 * Example: y, m = nacre.PhiloxDropout(x, r, t, s), d = nacre.DropoutGrad(e, m, r, t) become
 * y = nacre.PhiloxDropout(x, r, t, s), d = nacre.PhiloxDropout(e, r, t, s), both with one random id. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

#include <string.h>

extern const nc_card nc_card_philox_dropout, nc_card_dropout_grad;

enum { X, RATIO, TRAINING, STATE, N_IN }; /* of PhiloxDropout */
enum { DY, MASK, GRAD_RATIO, GRAD_TRAINING };

bool nc_lower_drops(const nc_node *n, double *ratio) {
    if (n->card != &nc_card_philox_dropout || n->n_out != 1 || n->recompute || nc_node_attr(n, "seed")) return false;
    const nc_literal *r = n->in[RATIO] ? n->in[RATIO]->lit : NULL, *t = n->in[TRAINING] ? n->in[TRAINING]->lit : NULL;
    int64_t trains, count;
    float f;
    if (!r || r->dtype != NC_FLOAT || r->n != 1 || !t || !nc_literal_ints(t, &trains, 1, &count)) return false;
    memcpy(&f, r->data, sizeof f);
    *ratio = f;
    return count == 1 && trains && f >= 0 && f <= 1;
}

static bool is_its_gradient(const nc_node *g, const nc_node *n) {
    return g && g->card == &nc_card_dropout_grad && g->graph == n->graph && g->place == n->place && !g->recompute &&
           g->in[MASK] == n->out[1] && g->in[GRAD_RATIO] == n->in[RATIO] && g->in[GRAD_TRAINING] == n->in[TRAINING];
}

/* The mask of n is there for gradients alone. */
static bool keeps_for_gradients(const nc_node *n) {
    if (n->card != &nc_card_philox_dropout || !n->place || n->recompute || n->n_out < 2 || !n->out[1]) return false;
    const nc_value *mask = n->out[1];
    if (mask->n_outputs || mask->var) return false;
    for (int i = 0; i < mask->uses.n; i++)
        if (!is_its_gradient(mask->uses.v[i].node, n)) return false;
    return true;
}

/* `at`, which is n or its gradient, as dropout of x without a mask. */
static nc_code draw_at(nc_work *w, const nc_node *n, nc_node *at, nc_value *x, nc_node **out) {
    nc_builder b = {
        .w = w, .graph = at->graph, .before = at, .stage = at->stage, .place = at->place, .infer = nc_infer_node};
    nc_value *in[N_IN] = {x, n->in[RATIO], n->in[TRAINING], n->in[STATE]};
    const bool wanted[] = {true};
    nc_node *d = nc_build_card(&b, &nc_card_philox_dropout, in, N_IN, wanted, 1, n->attrs, n->n_attrs);
    if (!d) return b.code;
    d->name = at->name, d->random_id = n->random_id;
    d->out[0]->type = at->out[0]->type;
    nc_edit_replace(at->out[0], d->out[0]);
    *out = d;
    return NC_OK;
}

static nc_code draw_again(nc_work *w, nc_node *n, nc_node **at) {
    nc_value *mask = n->out[1];
    while (mask->uses.n) {
        nc_node *g = mask->uses.v[0].node, *d;
        NC_TRY(draw_at(w, n, g, g->in[DY], &d));
        nc_edit_remove(g);
    }
    NC_TRY(draw_at(w, n, n, n->in[X], at));
    nc_edit_remove(n);
    return NC_OK;
}

static nc_code dropout_of(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(dropout_of(w, n->subs[i].graph));
        if (keeps_for_gradients(n)) NC_TRY(draw_again(w, n, &n));
    }
    return NC_OK;
}

nc_code nc_lower_dropout(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : dropout_of(w, m->main);
}
