/* transform/shapes.c: the words of shapes.h. */
#include "transform/shapes.h"

enum { RESHAPE_BY_INPUT = 5, ZEROS_ALLOWED = 14, AXES_BY_INPUT = 13 };

static void mark(bool *known, nc_value *const *v, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; nc_rewrite_tensor(v[i]) && k < v[i]->type->rank; k++) nc_dim_mark(v[i]->type->dims[k], known);
}

nc_code nc_shapes_find_bound(nc_work *w, const nc_graph *g, nc_shapes_bound *out) {
    const nc_graph *top = g->model->main;
    size_t n = (size_t)nc_dims_n_syms(g->model->dims) + 1;
    out->known = nc_arena_array(&w->scratch, n, sizeof *out->known);
    out->ones = nc_arena_array(&w->scratch, n, sizeof *out->ones);
    NC_NEED(w, out->known);
    NC_NEED(w, out->ones);
    for (size_t i = 0; i < n; i++) out->ones[i] = 1;
    mark(out->known, top->inputs.v, top->inputs.n);
    mark(out->known, g->inputs.v, g->inputs.n);
    mark(out->known, g->captures.v, g->captures.n);
    for (int i = 0; i < top->vars.n; i++) mark(out->known, &top->vars.v[i]->first, 1);
    return NC_OK;
}

bool nc_shapes_are_bound(const nc_shapes_bound *b, const nc_value *x, const nc_type *t) {
    int64_t any;
    for (int k = 0; k < t->rank; k++) {
        bool of_x = false;
        for (int j = 0; j < x->type->rank; j++) of_x |= x->type->dims[j] == t->dims[k];
        if (!of_x && !nc_dim_is_const(t->dims[k], NULL) && !nc_dim_eval(t->dims[k], b->ones, b->known, &any))
            return false;
    }
    return true;
}

bool nc_shapes_target(const nc_value *x, const nc_type *to, bool mixes, int64_t *shape, bool *zeros) {
    int n_open = 0, n_copied = 0;
    *zeros = false;
    for (int k = 0; k < to->rank; k++) {
        bool same = k < x->type->rank && x->type->dims[k] == to->dims[k];
        if (nc_dim_is_const(to->dims[k], &shape[k])) {
            *zeros |= shape[k] == 0 && !same;
        } else {
            shape[k] = same ? 0 : -1;
            n_copied += same;
            n_open += !same;
        }
    }
    bool any_zero = false;
    for (int k = 0; k < to->rank; k++) any_zero |= shape[k] == 0;
    if (*zeros && n_copied + n_open > 0) return false;
    return n_open == 0 || (n_open == 1 && (mixes || !any_zero));
}

bool nc_shapes_mixes(const nc_node *n) {
    int64_t shape[NC_MAX_RANK];
    int count;
    bool copies = false, open = false;
    if (!nc_rewrite_is(n, "Reshape") || n->n_in < 2 || !nc_rewrite_ints(n->in[1], shape, NC_MAX_RANK, &count))
        return false;
    for (int k = 0; k < count; k++) copies |= shape[k] == 0, open |= shape[k] == -1;
    return copies && open;
}

nc_code nc_shapes_reshape(nc_work *w, nc_node *n, nc_value *x, bool mixes, bool *done) {
    int64_t shape[NC_MAX_RANK];
    bool zeros;
    const nc_op_version *version;
    nc_node *made;
    *done = false;
    if (!nc_shapes_target(x, n->out[0]->type, mixes, shape, &zeros)) return NC_OK;
    if (nc_rewrite_card(n->graph->model, "Reshape", x->type->elem, &version) == NULL) return NC_OK;
    if (version->since < (zeros ? ZEROS_ALLOWED : RESHAPE_BY_INPUT)) return NC_OK;
    const char *name = nc_arena_printf(&w->scratch, "%s_shape", n->out[0]->name);
    NC_NEED(w, name);
    nc_value *in[2] = {x, nc_edit_const_i64(n->graph, name, 1, n->out[0]->type->rank, shape)};
    NC_NEED(w, in[1]);
    nc_attr attr = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    NC_TRY(nc_rewrite(w, n, "Reshape", in, 2, &attr, zeros, &made));
    *done = made != NULL;
    return NC_OK;
}

nc_code nc_shapes_with_axes(nc_work *w, nc_node *n, const char *op, nc_value *x, const int64_t *axes, int n_axes,
                            bool *done) {
    const nc_op_version *version;
    nc_node *made;
    nc_value *in[2] = {x};
    *done = false;
    if (nc_rewrite_card(n->graph->model, op, x->type->elem, &version) == NULL) return NC_OK;
    nc_attr attr = {.name = "axes", .kind = NC_A_INTS, .n = n_axes, .ints = axes};
    bool by_input = version->since >= AXES_BY_INPUT;
    if (by_input) {
        const char *name = nc_arena_printf(&w->scratch, "%s_axes", n->out[0]->name);
        NC_NEED(w, name);
        in[1] = nc_edit_const_i64(n->graph, name, 1, n_axes, axes);
        NC_NEED(w, in[1]);
    }
    NC_TRY(nc_rewrite(w, n, op, in, by_input ? 2 : 1, &attr, !by_input, &made));
    *done = made != NULL;
    return NC_OK;
}
