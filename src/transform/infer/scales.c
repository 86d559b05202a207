/* transform/infer/scales.c: BatchNormalization with constant running statistics that no weights have taken in
 * (weights.c) is a product and a sum of each channel. Such formulas are one pass with their neighbours: the activation
 * behind them, a sum in front. */
#include "transform/infer/affine.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

#include <math.h>

enum { FAR = 256 }; /* a mean so many deviations away costs 8 of 24 bits where it is not taken away first */

/* The channels of what n normalizes; 0: it stays as it is. */
static int64_t channels_of(const nc_node *n) {
    int64_t C;
    const nc_value *x = n->in[0];
    if (!nc_rewrite_free(n) || n->n_in != 5 || !nc_rewrite_tensor(x) || x->type->rank < 2) return 0;
    if (!nc_dim_is_const(x->type->dims[1], &C) || !nc_rewrite_same_type(x, n->out[0])) return 0;
    for (int i = 1; i < 5; i++)
        if (!nc_affine_may_use(n->in[i]) || n->in[i]->lit->dtype != x->type->elem) return 0;
    return C;
}

/* Is a mean far from 0, beside what comes out? */
static bool is_far(const nc_node *n, const nc_affine *a, int64_t channels) {
    for (int64_t c = 0; c < channels; c++) {
        double out = fabs(nc_affine_number(n->in[1], c)) + fabs(nc_affine_number(n->in[2], c));
        if (fabs(nc_affine_number(n->in[3], c) * a->scale[c]) > FAR * out) return true;
    }
    return false;
}

static nc_value *constant(nc_work *w, const nc_node *n, const char *what, int64_t channels, const double *v) {
    const nc_type *t = n->in[0]->type;
    const char *name = nc_arena_printf(&w->scratch, "%s_%s", n->name, what);
    const nc_literal *l = nc_affine_literal(w, n->graph->model, t->elem, t->rank - 1, channels, v);
    return name != NULL && l != NULL ? nc_edit_const(n->graph, name, l) : NULL;
}

static nc_code take_apart(nc_work *w, nc_node *n, int *n_changes) {
    nc_affine a;
    int64_t C = channels_of(n);
    if (C <= 0 || nc_model_opset(n->graph->model, "") < NC_AFFINE_OPSET) return NC_OK;
    NC_TRY(nc_affine_init(w, C, &a));
    if (!nc_affine_of_batch(n, C, &a) || !nc_affine_is_tame(&a, n->in[0]->type->elem, C) || is_far(n, &a, C))
        return NC_OK;
    nc_value *in[] = {n->in[0], constant(w, n, "scale", C, a.scale)}, *shift = constant(w, n, "shift", C, a.shift);
    NC_NEED(w, in[1]);
    NC_NEED(w, shift);
    nc_node *sum = NULL;
    nc_value *product = NULL;
    NC_TRY(nc_rewrite_insert(w, n, "Mul", in, 2, NULL, 0, in[0]->type, &product));
    if (product == NULL) return NC_OK;
    NC_TRY(nc_rewrite(w, n, "Add", (nc_value *[]){product, shift}, 2, NULL, 0, &sum));
    *n_changes += sum != NULL;
    return NC_OK;
}

nc_code nc_pass_scales(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (nc_rewrite_is(n, "BatchNormalization")) NC_TRY(take_apart(w, n, n_changes));
    }
    return NC_OK;
}
