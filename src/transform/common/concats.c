/* transform/common/concats.c: a Concat that only another Concat on the same axis reads gives its inputs to that one.
 * From the last node on, so that a chain of any length is taken apart once. Growing variables stay as they are. */
#include "transform/rewrite.h"
#include "transform/transform.h"

enum { MOST = 256 }; /* inputs of one node */

static bool axis_of(const nc_node *n, int64_t *axis) {
    if (!nc_rewrite_is(n, "Concat") || !nc_rewrite_tensor(n->out[0]) || n->recompute) return false;
    *axis = nc_attr_has(n, "axis") ? nc_attr_int(n, "axis") : 1;
    if (*axis < 0) *axis += n->out[0]->type->rank;
    return true;
}

/* The Concat behind v that may be taken apart. */
static const nc_node *inner(const nc_value *v, int64_t axis) {
    int64_t own;
    const nc_node *p = nc_rewrite_def(v, "Concat");
    if (p == NULL || !nc_rewrite_only(v) || !axis_of(p, &own) || own != axis) return NULL;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] == NULL || p->in[i]->var != NULL) return NULL;
    return p;
}

typedef struct leaves {
    nc_value *v[MOST];
    int n;
} leaves;

/* Puts p's inputs in place i. */
static bool open_up(leaves *l, int i, const nc_node *p) {
    if (l->n - 1 + p->n_in > MOST) return false;
    for (int k = l->n - 1; k > i; k--) l->v[k + p->n_in - 1] = l->v[k];
    for (int k = 0; k < p->n_in; k++) l->v[i + k] = p->in[k];
    l->n += p->n_in - 1;
    return true;
}

static nc_code flatten(nc_work *w, nc_node *n, int64_t axis, int *n_changes) {
    leaves l = {.n = 0};
    nc_value *opened[MOST];
    int n_opened = 0;
    if (n->n_in > MOST) return NC_OK;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] == NULL || n->in[i]->var != NULL) return NC_OK;
        l.v[l.n++] = n->in[i];
    }
    for (int i = 0; i < l.n;) {
        const nc_node *p = inner(l.v[i], axis);
        nc_value *v = l.v[i];
        if (p == NULL || n_opened == MOST || !open_up(&l, i, p)) {
            i++;
            continue;
        }
        opened[n_opened++] = v;
    }
    if (n_opened == 0) return NC_OK;
    nc_node *made;
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    NC_TRY(nc_rewrite(w, n, "Concat", l.v, l.n, &attr, 1, &made));
    for (int i = 0; made != NULL && i < n_opened; i++) nc_rewrite_drop(opened[i]);
    *n_changes += made != NULL ? n_opened : 0;
    return NC_OK;
}

nc_code nc_pass_concats(nc_work *w, nc_graph *g, int *n_changes) {
    int64_t axis;
    for (nc_node *n = g->last, *prev; n != NULL; n = prev) {
        prev = n->prev;
        if (!axis_of(n, &axis) || !nc_rewrite_free(n)) continue;
        const nc_node *after = n->next;
        NC_TRY(flatten(w, n, axis, n_changes));
        /* Nodes before n may be gone: what stands in its place leads on. */
        prev = (after != NULL ? after->prev : g->last)->prev;
    }
    return NC_OK;
}
