/* transform/infer/invariants.c: what a Loop carries without ever changing it, as tf2onnx writes the weights of a while
 * loop, is captured instead: constants can be packed there, and no iteration copies it. The place among the carried
 * values stays, with nothing in it. */
#include "transform/rewrite.h"
#include "transform/transform.h"

static bool always(const nc_use *u, void *ctx) {
    (void)u;
    (void)ctx;
    return true;
}

/* Carried value k is used and comes out of the body as it went in. */
static bool is_invariant(const nc_node *n, int k) {
    const nc_graph *body = n->subs[0].graph;
    const nc_value *outer = n->in[2 + k], *inner = body->inputs.v[2 + k], *y = n->out[k];
    if (body->outputs.v[1 + k] != inner || inner->n_outputs != 1 || inner->uses.n == 0) return false;
    if (outer == NULL || outer->var != NULL || !nc_rewrite_tensor(outer)) return false;
    if (outer->type->elem == NC_STRING) return false;
    if (!nc_rewrite_same_type(inner, outer)) return false;
    return y == NULL || (y->var == NULL && nc_rewrite_same_type(y, outer));
}

static nc_code nothing(nc_work *w, nc_graph *g, nc_dtype elem, nc_value **out) {
    const int64_t none = 0;
    const nc_dim *dim = nc_dim_const(g->model->dims, 0);
    const nc_literal *l = nc_edit_literal(g->model, elem, 1, &none, "");
    NC_NEED(w, dim);
    NC_NEED(w, l);
    NC_NEED(w, *out = nc_edit_const(g, NULL, l));
    NC_NEED(w, (*out)->type = nc_type_tensor(&g->model->arena, elem, 1, &dim));
    return NC_OK;
}

static nc_code capture(nc_work *w, nc_node *n, int k) {
    nc_value *outer = n->in[2 + k], *inner = n->subs[0].graph->inputs.v[2 + k], *empty = NULL;
    nc_value *seen = nc_edit_capture(n, 0, outer);
    NC_NEED(w, seen);
    NC_TRY(nothing(w, n->graph, outer->type->elem, &empty));
    nc_edit_replace_uses_if(inner, seen, always, NULL);
    if (n->out[k] != NULL) {
        nc_edit_replace(n->out[k], outer);
        n->out[k]->type = empty->type;
    }
    nc_edit_set_in(n, 2 + k, empty);
    inner->type = empty->type;
    return NC_OK;
}

nc_code nc_pass_invariants(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        if (!nc_rewrite_is(n, "Loop") || n->n_subs != 1 || n->recompute) continue;
        for (int k = 0; k < n->n_in - 2; k++) {
            if (!is_invariant(n, k)) continue;
            NC_TRY(capture(w, n, k));
            ++*n_changes;
        }
    }
    return NC_OK;
}
