/* transform/common/fold_constants.c: a node all of whose inputs are constants is done once, now, and its results become
 * constants. Not where that would cost memory: results may be as large as the inputs, or small. Nor floats that
 * training may still make variables: their gradient would end at the result. */
#include "base/mem.h"
#include "ir/edit.h"
#include "ops/host_eval.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

#include <string.h>

enum { SMALL = 64 << 10, MAX_OPERANDS = 16 };

static bool is_folding(const nc_node *n) {
    if (n->card->traits & (NC_RANDOM | NC_IN_PLACE | NC_CONTROL | NC_HOST_OBJECTS)) return false;
    if (n->recompute || n->n_subs || n->n_in < 1 || n->n_in > MAX_OPERANDS || n->n_out > MAX_OPERANDS) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && (!nc_rewrite_fixed(n->in[i]) || n->in[i]->lit->dtype == NC_STRING)) return false;
    return true;
}

static bool result_fits(const nc_node *n, nc_tensor *out) {
    size_t in_bytes = 0, out_bytes = 0;
    for (int i = 0; i < n->n_in; i++) in_bytes += n->in[i] ? n->in[i]->lit->bytes : 0;
    for (int k = 0; k < n->n_out; k++) {
        const nc_value *v = n->out[k];
        size_t bytes;
        if (!v) continue;
        if (!v->type || v->type->kind != NC_T_TENSOR || v->type->rank < 0 || v->type->elem == NC_STRING) return false;
        if (v->var || v->type->layout.block) return false;
        out[k].dtype = v->type->elem, out[k].rank = v->type->rank;
        for (int d = 0; d < v->type->rank; d++)
            if (!nc_dim_is_const(v->type->dims[d], &out[k].dims[d])) return false;
        if (!nc_tensor_bytes(out[k].dtype, out[k].dims, out[k].rank, &bytes)) return false;
        out_bytes += bytes;
    }
    return out_bytes <= SMALL || out_bytes <= in_bytes;
}

/* Constants may be unaligned in their file: kernels get copies. */
static nc_code read_inputs(nc_work *w, const nc_node *n, nc_tensor *in) {
    for (int i = 0; i < n->n_in; i++) {
        const nc_literal *l = n->in[i] ? n->in[i]->lit : NULL;
        if (!l) continue;
        in[i].dtype = l->dtype, in[i].rank = l->rank;
        memcpy(in[i].dims, l->dims, (size_t)l->rank * sizeof *in[i].dims);
        nc_dense_strides(in[i].dims, in[i].rank, in[i].strides);
        NC_NEED(w, in[i].data = nc_arena_copy(&w->scratch, l->data, l->bytes + (l->bytes == 0)));
    }
    return NC_OK;
}

static nc_code replace(nc_work *w, nc_value *v, const nc_tensor *t) {
    const char *name = nc_arena_printf(&w->scratch, "%s_value", v->name);
    NC_NEED(w, name);
    const nc_literal *lit = nc_edit_literal(v->graph->model, t->dtype, t->rank, t->dims, t->data);
    NC_NEED(w, lit);
    nc_value *c = nc_edit_const(v->graph, name, lit);
    NC_NEED(w, c);
    c->type = v->type, c->elems = v->elems, c->n_elems = v->n_elems;
    nc_edit_replace(v, c);
    return NC_OK;
}

static nc_code fold(nc_work *w, nc_node *n, int *n_changes) {
    nc_tensor *in = nc_arena_array(&w->scratch, MAX_OPERANDS, sizeof *in);
    nc_tensor *out = nc_arena_array(&w->scratch, MAX_OPERANDS, sizeof *out);
    bool done = false;
    NC_NEED(w, in);
    NC_NEED(w, out);
    if (!result_fits(n, out)) return NC_OK;
    NC_TRY(read_inputs(w, n, in));
    NC_TRY(nc_host_eval(w, &w->scratch, n, in, out, &done));
    for (int k = 0; done && k < n->n_out; k++) {
        if (!n->out[k] || (!n->out[k]->uses.n && !n->out[k]->n_outputs)) continue;
        NC_TRY(replace(w, n->out[k], &out[k]));
        ++*n_changes;
    }
    return NC_OK;
}

nc_code nc_pass_fold_constants(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first; n; n = n->next) {
        w->at_node = n->name, w->at_op = n->card->name;
        if (is_folding(n)) NC_TRY(fold(w, n, n_changes));
    }
    w->at_node = w->at_op = NULL;
    return NC_OK;
}
