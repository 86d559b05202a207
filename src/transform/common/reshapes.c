/* transform/common/reshapes.c: nodes that keep the elements in their order (trait NC_VIEW_DENSE: Reshape, Flatten,
 * Squeeze, Unsqueeze) one behind the other become one of them. A shape computed in the run becomes a constant where the
 * types already say it.
 *
 * Nodes that also keep strides (Squeeze, Unsqueeze) are merged into one of their kind only: as a Reshape they would
 * make their input dense. Same shape in and out is an identity (identity.c). */
#include "transform/rewrite.h"
#include "transform/shapes.h"
#include "transform/transform.h"

#define KEEPS_STRIDES (NC_VIEW_DENSE | NC_VIEW_STRIDED)

static bool is_reshape(const nc_node *n) {
    return (n->card->traits & NC_VIEW_DENSE) && !(n->card->traits & NC_IDENTITY);
}

static bool keeps_strides(const nc_node *n) { return (n->card->traits & KEEPS_STRIDES) == KEEPS_STRIDES; }

/* Where dims of 1 stand in `large` that `small` has not: large without them is small. */
static bool extra_ones(const nc_type *small, const nc_type *large, int64_t *axes, int *n) {
    int j = 0;
    int64_t c;
    *n = 0;
    for (int k = 0; k < large->rank; k++) {
        if (j < small->rank && large->dims[k] == small->dims[j])
            j++;
        else if (nc_dim_is_const(large->dims[k], &c) && c == 1)
            axes[(*n)++] = k;
        else
            return false;
    }
    return j == small->rank;
}

/* Squeeze or Unsqueeze from x to n's output, if one of them alone does it. */
static nc_code merge_ones(nc_work *w, nc_node *n, nc_value *x, bool *done) {
    int64_t axes[NC_MAX_RANK];
    int count;
    const nc_type *from = x->type, *to = n->out[0]->type;
    const char *op = to->rank > from->rank ? "Unsqueeze" : "Squeeze";
    if (nc_type_equal(from, to)) {
        *done = nc_rewrite_can_skip(n, x);
        if (*done) nc_rewrite_skip(n, x);
        return NC_OK;
    }
    if (!(to->rank > from->rank ? extra_ones(from, to, axes, &count) : extra_ones(to, from, axes, &count)))
        return NC_OK;
    return nc_shapes_with_axes(w, n, op, x, axes, count, done);
}

/* May n, a Reshape, read x in place of its input and mean the same? Where its shape says 0, that is dim k of what it
 * reads; a size known by name may be 0 too. */
static bool reads_as_well(const nc_node *n, const nc_value *x) {
    int64_t shape[NC_MAX_RANK], c;
    int count;
    const nc_value *old = n->in[0], *s = n->n_in > 1 ? n->in[1] : NULL;
    if (s == NULL || !nc_rewrite_is(n, "Reshape")) return false;
    if (nc_attr_has(n, "allowzero") && nc_attr_int(n, "allowzero") != 0) return true;
    bool known = nc_rewrite_ints(s, shape, NC_MAX_RANK, &count);
    if (!known && (s->elems == NULL || s->n_elems > NC_MAX_RANK)) return false;
    if (!known) count = s->n_elems;
    for (int k = 0; k < count; k++) {
        bool number = known || nc_dim_is_const(s->elems[k], &c);
        const nc_dim *copied = k < old->type->rank ? old->type->dims[k] : NULL;
        if (known) c = shape[k];
        if (number ? c != 0 : false) continue;
        if (!number) copied = s->elems[k];
        if (k >= x->type->rank || copied != x->type->dims[k]) return false;
    }
    return true;
}

static nc_code merge(nc_work *w, nc_node *n, const nc_shapes_bound *bound, bool *done) {
    nc_value *between = n->in[0];
    if (between->origin != NC_FROM_NODE || between->var != NULL) return NC_OK;
    const nc_node *p = between->def;
    if (!is_reshape(p) || p->recompute || p->in[0] == NULL || !nc_rewrite_tensor(p->in[0])) return NC_OK;
    nc_value *x = p->in[0];
    if (keeps_strides(n) && keeps_strides(p)) {
        NC_TRY(merge_ones(w, n, x, done));
    } else if (!nc_shapes_are_bound(bound, x, n->out[0]->type)) {
        return NC_OK;
    } else if (reads_as_well(n, x)) {
        nc_edit_set_in(n, 0, x);
        *done = true;
    } else {
        bool mixes = nc_shapes_mixes(n) || nc_shapes_mixes(p);
        NC_TRY(nc_shapes_reshape(w, n, x, mixes, done));
    }
    if (*done) nc_rewrite_drop(between);
    return NC_OK;
}

nc_code nc_pass_reshapes(nc_work *w, nc_graph *g, int *n_changes) {
    nc_shapes_bound bound;
    NC_TRY(nc_shapes_find_bound(w, g, &bound));
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (!is_reshape(n) || !nc_rewrite_free(n) || !nc_rewrite_tensor(n->in[0]) || !nc_rewrite_tensor(n->out[0]))
            continue;
        bool done = false;
        NC_TRY(merge(w, n, &bound, &done));
        if (!done && nc_rewrite_is(n, "Reshape") && n->n_in > 1 && n->in[1] != NULL && n->in[1]->lit == NULL &&
            nc_shapes_are_bound(&bound, n->in[0], n->out[0]->type))
            NC_TRY(nc_shapes_reshape(w, n, n->in[0], false, &done));
        *n_changes += done;
    }
    return NC_OK;
}
