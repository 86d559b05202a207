/* autodiff/autodiff.c: the entry: marks what is asked for, lets gradients of ones (or the caller's) arrive, walks,
 * collects. The walk is in walk.c. */
#include "autodiff/autodiff.h"

#include "autodiff/walk.h"
#include "infer/infer.h"

static nc_code mark_ends(nc_walk *k, nc_value *const *ys, int n_y, nc_value *const *xs, int n_x) {
    for (int i = 0; i < n_x; i++)
        if (nc_walk_carries(xs[i]->type)) NC_TRY(nc_walk_mark(k, xs[i], true, false));
    for (int i = 0; i < n_y; i++) {
        if (!nc_walk_carries(ys[i]->type))
            NC_FAIL(k->w, NC_E_TYPE, "'%s' is not of a floating-point type, so it has no gradient", ys[i]->name);
        NC_TRY(nc_walk_mark(k, ys[i], false, true));
    }
    return NC_OK;
}

static nc_value *ones_like(nc_builder *b, nc_value *y) {
    if (!y->type || y->type->kind != NC_T_TENSOR) {
        b->code = nc_fail(b->w, NC_E_TYPE, "'%s' is no tensor: its gradient must be given", y->name);
        return NULL;
    }
    return nc_build_expand_like(b, nc_build_scalar(b, y->type->elem, 1), y);
}

static nc_code seed(nc_walk *k, nc_value *const *ys, nc_value *const *dys, int n_y) {
    for (int i = 0; i < n_y; i++) {
        nc_value *y = nc_walk_now(k, ys[i]);
        if (!nc_walk_reached(k, y)) continue;
        nc_value *dy = dys && dys[i] ? dys[i] : ones_like(k->b, y);
        NC_TRY(k->b->code);
        NC_TRY(nc_walk_add(k, y, dy));
    }
    return NC_OK;
}

static nc_code collect(nc_walk *k, nc_value *const *xs, int n_x, nc_value **dxs) {
    for (int i = 0; i < n_x; i++) {
        nc_value *dx = NULL;
        if (nc_walk_carries(xs[i]->type)) NC_TRY(nc_walk_sum(k, nc_walk_now(k, xs[i]), &dx));
        dxs[i] = dx;
    }
    return NC_OK;
}

nc_code nc_autodiff_at(nc_work *w, nc_graph *g, const nc_autodiff_ask *a, nc_value **dxs) {
    nc_builder b = {
        .w = w, .graph = g, .before = a->before, .stage = a->stage, .infer = nc_infer_node, .grad = nc_autodiff_emit};
    nc_walk k;
    nc_walk_init(&k, w, g, &b);
    NC_TRY(mark_ends(&k, a->ys, a->n_y, a->xs, a->n_x));
    NC_TRY(nc_walk_prepare(&k));
    NC_TRY(seed(&k, a->ys, a->dys, a->n_y));
    NC_TRY(nc_walk_run(&k));
    return collect(&k, a->xs, a->n_x, dxs);
}

nc_code nc_autodiff(nc_work *w, nc_graph *g, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs,
                    int n_x, nc_value **dxs) {
    nc_autodiff_ask ask = {.ys = ys, .dys = dys, .n_y = n_y, .xs = xs, .n_x = n_x, .stage = NC_STAGE_BACKWARD};
    return nc_autodiff_at(w, g, &ask, dxs);
}

nc_code nc_autodiff_emit(nc_builder *b, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs,
                         int n_x, nc_value **dxs) {
    nc_walk k;
    NC_TRY(b->code);
    nc_walk_init(&k, b->w, b->graph, b);
    for (int i = 0; i < n_y; i++)
        if (dys[i]) NC_TRY(mark_ends(&k, &ys[i], 1, NULL, 0));
    NC_TRY(mark_ends(&k, NULL, 0, xs, n_x));
    NC_TRY(nc_walk_prepare(&k));
    for (int i = 0; i < n_y; i++)
        if (dys[i]) NC_TRY(seed(&k, &ys[i], &dys[i], 1));
    NC_TRY(nc_walk_run(&k));
    return collect(&k, xs, n_x, dxs);
}

nc_code nc_autodiff_influence(nc_work *w, nc_graph *g, nc_value *const *ys, int n_y, nc_value *const *xs, int n_x,
                              bool *out) {
    nc_walk k;
    nc_walk_init(&k, w, g, NULL);
    NC_TRY(mark_ends(&k, ys, n_y, xs, n_x));
    NC_TRY(nc_walk_mark_needed(&k));
    for (int i = 0; i < n_x; i++) {
        const nc_walk_info *x = nc_walk_peek(&k, xs[i]);
        out[i] = x && x->needed && nc_walk_carries(xs[i]->type);
    }
    return NC_OK;
}
