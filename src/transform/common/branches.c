/* transform/common/branches.c: control flow that is decided before the run: the branch of an If with a constant
 * condition takes its place; a Loop that never runs gives its initial values, and scans of no iteration. Only where the
 * types outside are those inside: a size that inference knew by another name there keeps the node. */
#include "ops/build.h"
#include "ops/control/control.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

static bool is_plain(const nc_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] != NULL && n->out[k]->var != NULL) return false;
    return !n->recompute;
}

static bool fits(const nc_value *y, const nc_value *x) {
    if (y == NULL || nc_rewrite_unused(y)) return true;
    return nc_rewrite_same_type(y, x) && !(x->var != NULL && y->n_outputs > 0);
}

static void take_place(nc_node *n, nc_value *const *by) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] != NULL && !nc_rewrite_unused(n->out[k])) nc_edit_replace(n->out[k], by[k]);
    nc_edit_remove(n);
}

static bool constant(const nc_node *n, int i, int64_t *v) {
    int count;
    return i < n->n_in && nc_rewrite_ints(n->in[i], v, 1, &count) && count == 1;
}

static nc_code inline_if(nc_work *w, nc_node *n, int *n_changes) {
    int64_t cond;
    if (!constant(n, 0, &cond) || n->n_subs != 2 || !is_plain(n)) return NC_OK;
    int taken = nc_node_attr(n, cond != 0 ? "then_branch" : "else_branch")->sub;
    const nc_graph *branch = n->subs[taken].graph;
    if (branch->outputs.n != n->n_out) return NC_OK;
    for (int k = 0; k < n->n_out; k++)
        if (!fits(n->out[k], branch->outputs.v[k])) return NC_OK;
    nc_value **by = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *by);
    NC_NEED(w, by);
    nc_builder b = {.w = w, .graph = n->graph, .before = n, .stage = n->stage};
    NC_TRY(nc_control_inline(&b, n, taken, NULL, by));
    take_place(n, by);
    ++*n_changes;
    return NC_OK;
}

/* No elements of y's type; NULL: its dims are not all known, or one of its sizes is not 0. */
static nc_code empty_like(nc_work *w, const nc_value *y, nc_value **out) {
    int64_t dims[NC_MAX_RANK], count = 1;
    *out = NULL;
    if (!nc_rewrite_tensor(y) || y->type->elem == NC_STRING) return NC_OK;
    for (int k = 0; k < y->type->rank; k++)
        if (!nc_dim_is_const(y->type->dims[k], &dims[k])) return NC_OK;
    if (!nc_numel(dims, y->type->rank, &count) || count != 0) return NC_OK;
    const nc_literal *none = nc_edit_literal(y->graph->model, y->type->elem, y->type->rank, dims, "");
    NC_NEED(w, none);
    *out = nc_edit_const(y->graph, y->name, none);
    NC_NEED(w, *out);
    (*out)->type = y->type;
    return NC_OK;
}

static nc_code skip_loop(nc_work *w, nc_node *n, int *n_changes) {
    int64_t trips, cond;
    bool never = (constant(n, 0, &trips) && trips <= 0) || (constant(n, 1, &cond) && cond == 0);
    int n_carried = n->n_in > 2 ? n->n_in - 2 : 0;
    if (!never || !is_plain(n) || n_carried > n->n_out) return NC_OK;
    nc_value **by = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *by);
    NC_NEED(w, by);
    for (int k = 0; k < n->n_out; k++) {
        if (k < n_carried)
            by[k] = n->in[2 + k];
        else if (n->out[k] != NULL && !nc_rewrite_unused(n->out[k]))
            NC_TRY(empty_like(w, n->out[k], &by[k]));
        if (!fits(n->out[k], by[k])) return NC_OK;
    }
    take_place(n, by);
    ++*n_changes;
    return NC_OK;
}

nc_code nc_pass_branches(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (nc_rewrite_is(n, "If"))
            NC_TRY(inline_if(w, n, n_changes));
        else if (nc_rewrite_is(n, "Loop"))
            NC_TRY(skip_loop(w, n, n_changes));
    }
    return NC_OK;
}
