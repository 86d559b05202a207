/* transform/common/fold_sizes.c: node outputs whose content inference found before the run become constants: literals,
 * and small integer tensors whose elements are all constant. dead_code removes the nodes. */
#include "ir/edit.h"
#include "transform/transform.h"

static bool fixed_dims(const nc_type *t, int64_t *dims) {
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank < 0) return false;
    for (int k = 0; k < t->rank; k++)
        if (!nc_dim_is_const(t->dims[k], &dims[k])) return false;
    return true;
}

static bool store(nc_dtype t, void *data, int i, int64_t v) {
    switch (t) {
    case NC_INT64: ((int64_t *)data)[i] = v; return true;
    case NC_INT32: ((int32_t *)data)[i] = (int32_t)v; return v >= INT32_MIN && v <= INT32_MAX;
    case NC_INT16: ((int16_t *)data)[i] = (int16_t)v; return v >= INT16_MIN && v <= INT16_MAX;
    case NC_INT8: ((int8_t *)data)[i] = (int8_t)v; return v >= INT8_MIN && v <= INT8_MAX;
    case NC_UINT8: ((uint8_t *)data)[i] = (uint8_t)v; return v >= 0 && v <= UINT8_MAX;
    case NC_BOOL: ((uint8_t *)data)[i] = v != 0; return v == 0 || v == 1;
    default: return false;
    }
}

/* *out stays NULL when the content is not known. */
static nc_code literal_of(nc_work *w, const nc_value *v, const nc_literal **out) {
    int64_t dims[NC_MAX_RANK], n, e, data[NC_MAX_ELEMS];
    *out = v->lit;
    if (v->lit != NULL) return NC_OK;
    if (v->elems == NULL || v->n_elems > NC_MAX_ELEMS || !fixed_dims(v->type, dims)) return NC_OK;
    if (!nc_numel(dims, v->type->rank, &n) || n != v->n_elems) return NC_OK;
    for (int k = 0; k < v->n_elems; k++)
        if (!nc_dim_is_const(v->elems[k], &e) || !store(v->type->elem, data, k, e)) return NC_OK;
    *out = nc_edit_literal(v->graph->model, v->type->elem, v->type->rank, dims, data);
    NC_NEED(w, *out);
    return NC_OK;
}

static nc_code fold_value(nc_work *w, nc_value *v, int *n_changes) {
    const nc_literal *lit;
    if (v->var != NULL || (v->uses.n == 0 && v->n_outputs == 0)) return NC_OK;
    NC_TRY(literal_of(w, v, &lit));
    if (lit == NULL) return NC_OK;
    const char *name = nc_arena_printf(&w->scratch, "%s_value", v->name);
    NC_NEED(w, name);
    nc_value *c = nc_edit_const(v->graph, name, lit);
    NC_NEED(w, c);
    c->type = v->type;
    c->elems = v->elems;
    c->n_elems = v->n_elems;
    nc_edit_replace(v, c);
    ++*n_changes;
    return NC_OK;
}

nc_code nc_pass_fold_sizes(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        if (n->card->traits & (NC_RANDOM | NC_IN_PLACE | NC_CONTROL)) continue;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != NULL) NC_TRY(fold_value(w, n->out[k], n_changes));
    }
    return NC_OK;
}
