/* transform/common/dead_code.c: nodes whose outputs nobody uses go, and captures that a subgraph no longer uses.
 * Updates of variables stay: what they leave behind is a result of the run. Constants that nobody uses go too, unless
 * a gradient by their name may still be asked for. */
#include "ir/edit.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

static void drop_captures(nc_node *n, int *n_changes) {
    for (int s = 0; s < n->n_subs; s++)
        for (int k = n->subs[s].n_captures - 1; k >= 0; k--) {
            const nc_value *inner = n->subs[s].graph->captures.v[k];
            if (inner->uses.n > 0 || inner->n_outputs > 0) continue;
            nc_edit_remove_capture(n, s, k);
            ++*n_changes;
        }
}

nc_code nc_pass_dead_code(nc_work *w, nc_graph *g, int *n_changes) {
    (void)w;
    for (nc_node *n = g->last, *prev; n != NULL; n = prev) {
        prev = n->prev;
        if (nc_rewrite_dead(n)) {
            nc_edit_remove(n);
            ++*n_changes;
        } else {
            drop_captures(n, n_changes);
        }
    }
    if (g->model->infers_only) *n_changes += nc_edit_drop_consts(g);
    return NC_OK;
}
