/* plan/lower_recompute.c: serves backward's uses of marked forward nodes by clones that run just before they are
 * needed, so that the first results can be freed after forward. Clones keep random_id: dropout draws the same mask
 * again. */
#include "ir/edit.h"
#include "plan/plan.h"

static bool is_later(const nc_use *u, void *ctx) {
    (void)ctx;
    return u->node->stage != NC_STAGE_FORWARD;
}

static nc_node *first_later_user(const nc_node *n) {
    nc_node *best = NULL;
    for (nc_node *c = n->next; c && !best; c = c->next) {
        if (c->stage == NC_STAGE_FORWARD) continue;
        for (int i = 0; i < c->n_operands && !best; i++)
            for (int k = 0; k < n->n_out; k++)
                if (c->in[i] && c->in[i] == n->out[k]) best = c;
    }
    return best;
}

/* Marked nodes are visited last first: a clone's own inputs then count as later uses of the marked nodes before it. */
nc_code nc_lower_recompute(nc_work *w, nc_model *m) {
    for (nc_node *n = m->main->last; n; n = n->prev) {
        if (!n->recompute || n->stage != NC_STAGE_FORWARD) continue;
        nc_node *user = first_later_user(n);
        if (!user) continue;
        nc_node *c = nc_edit_clone(m->main, user, n);
        NC_NEED(w, c);
        c->recompute = false, c->stage = NC_STAGE_BACKWARD, c->place = n->place;
        for (int i = 0; i < n->n_operands; i++) nc_edit_set_in(c, i, n->in[i]);
        for (int i = 0; i < n->n_out; i++) {
            if (!n->out[i] || !c->out[i]) continue;
            c->out[i]->type = n->out[i]->type;
            nc_edit_replace_uses_if(n->out[i], c->out[i], is_later, NULL);
        }
    }
    return NC_OK;
}
