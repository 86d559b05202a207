/* plan/lower_captures.c: a constant matrix that a subgraph captures becomes the subgraph's own, over the same bytes:
 * its kernels then see a constant, and may pack it. Smaller constants stay captures: there is nothing to pack. */
#include "ir/edit.h"
#include "plan/plan.h"

static bool is_weight(const nc_value *outer) {
    const nc_literal *l = outer->origin == NC_FROM_CONST && !outer->var ? outer->lit : NULL;
    return l && l->rank > 1 && nc_dtype_is_float(l->dtype);
}

static nc_code take_in(nc_work *w, nc_node *n, int i_sub) {
    nc_graph *g = n->subs[i_sub].graph;
    for (int k = n->subs[i_sub].n_captures - 1; k >= 0; k--) {
        const nc_value *outer = n->in[n->subs[i_sub].first_capture + k];
        if (!is_weight(outer)) continue;
        nc_value *own = nc_edit_const(g, outer->name, outer->lit);
        NC_NEED(w, own);
        own->type = outer->type, own->elems = outer->elems, own->n_elems = outer->n_elems;
        nc_edit_replace(g->captures.v[k], own);
        nc_edit_remove_capture(n, i_sub, k);
    }
    return NC_OK;
}

/* Outer graphs first: what they take in is a constant for those inside of them. */
nc_code nc_lower_captures(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first; n; n = n->next)
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) {
            NC_TRY(take_in(w, n, i));
            NC_TRY(nc_lower_captures(w, n->subs[i].graph));
        }
    return NC_OK;
}
