/* transform/common/identity.c: a node whose output 0 is its input 0 is left out. Graph outputs may then be inputs or
 * constants; the planner copies those. Versions of variables stay where they are. */
#include "ir/edit.h"
#include "transform/transform.h"

static bool is_used(const nc_value *v) { return v != NULL && (v->uses.n > 0 || v->n_outputs > 0 || v->var != NULL); }

static bool can_go(const nc_node *n) {
    if (n->n_in < 1 || n->n_out < 1 || n->in[0] == NULL || n->out[0] == NULL || n->n_subs > 0) return false;
    const nc_value *x = n->in[0], *y = n->out[0];
    if (!((n->card->traits & NC_IDENTITY) || (n->card->is_identity != NULL && n->card->is_identity(n)))) return false;
    for (int k = 1; k < n->n_out; k++)
        if (is_used(n->out[k])) return false;
    if (y->var != NULL || (y->uses.n == 0 && y->n_outputs == 0)) return false;
    /* An output must hold what the variable was here, not what it becomes. */
    if (x->var != NULL && y->n_outputs > 0) return false;
    /* The output may be declared to be more than what is known of the input. */
    return y->type == NULL || (x->type != NULL && nc_type_equal(x->type, y->type));
}

nc_code nc_pass_identity(nc_work *w, nc_graph *g, int *n_changes) {
    (void)w;
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (!can_go(n)) continue;
        nc_edit_replace(n->out[0], n->in[0]);
        ++*n_changes;
    }
    return NC_OK;
}
