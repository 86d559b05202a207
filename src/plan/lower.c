/* plan/lower.c: the order of the lowering steps. Before: a transformed graph that could be saved. After: what only this
 * machine understands, every node with a kernel, in final order. */
#include "ir/verify.h"
#include "plan/plan.h"

enum { MAX_DEPTH = 16 }; /* of decompositions in decompositions */

/* The one axis along which a variable's newest version is longer than its first, from the inferred types. */
static nc_code fix_variables(nc_work *w, nc_graph *g) {
    for (int i = 0; i < g->vars.n; i++) {
        nc_variable *var = g->vars.v[i];
        const nc_type *a = var->first->type, *b = var->last->type;
        var->grow_axis = -1;
        w->at_node = var->name, w->at_op = "variable";
        if (nc_type_is_host(a) || a->rank < 0 || var->last == var->first) continue;
        if (nc_type_is_host(b) || b->rank != a->rank)
            NC_FAIL(w, NC_E_SHAPE, "its new value must be a tensor of rank %d", a->rank);
        for (int d = 0; d < a->rank; d++) {
            if (a->dims[d] == b->dims[d]) continue;
            if (var->grow_axis >= 0)
                NC_FAIL(w, NC_E_SHAPE, "its new value differs along axes %d and %d; one may grow", var->grow_axis, d);
            var->grow_axis = d;
        }
    }
    return NC_OK;
}

bool nc_lower_may_go(const nc_node *n) { return n->n_out == 1 && !n->recompute && !n->out[0]->var; }

bool nc_lower_same_dims(const nc_type *a, const nc_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return a->layout.block == b->layout.block;
}

bool nc_lower_is_codes(const nc_type *t) {
    return t && t->kind == NC_T_TENSOR && t->rank > 0 && !t->layout.block &&
           (t->elem == NC_UINT8 || t->elem == NC_INT8);
}

bool nc_lower_on_cpu(const nc_node *n, const nc_plan_options *o) {
    return nc_channel_blocking(nc_kernels_at(o, n->place)).block > 0;
}

/* A piece may have to be taken apart in turn, on the device that it is placed on. */
nc_code nc_lower_place_and_decompose(nc_work *w, nc_model *m, const nc_plan_options *o) {
    bool changed = true;
    for (int depth = 0; changed; depth++) {
        if (depth > MAX_DEPTH) NC_FAIL(w, NC_E_FAIL, "decompositions hold each other more than %d deep", MAX_DEPTH);
        NC_TRY(nc_lower_place(w, m, o, false));
        NC_TRY(nc_lower_decompose(w, m, o, &changed));
    }
    w->at_node = w->at_op = NULL;
    return nc_lower_place(w, m, o, true);
}

nc_code nc_plan_lower(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_random(w, m));
    NC_TRY(nc_lower_deferred(w, m->main));
    NC_TRY(nc_lower_captures(w, m->main));
    NC_TRY(nc_lower_sums(w, m, o));
    NC_TRY(nc_lower_place_and_decompose(w, m, o));
    NC_TRY(nc_lower_recompute(w, m));
    NC_TRY(fix_variables(w, m->main));
    NC_TRY(nc_lower_backward(w, m, o));
    NC_TRY(nc_lower_casts(w, m, o));
    NC_TRY(nc_lower_lines(w, m, o));
    NC_TRY(nc_lower_dropout(w, m, o));
    NC_TRY(nc_lower_residual(w, m, o));
    NC_TRY(nc_lower_sum_norm(w, m, o));
    NC_TRY(nc_lower_onto(w, m, o));
    NC_TRY(nc_lower_parameters(w, m, o));
    NC_TRY(nc_lower_conv_integer(w, m, o));
    NC_TRY(nc_lower_code_maps(w, m, o));
    NC_TRY(nc_lower_codes_last(w, m, o));
    NC_TRY(nc_lower_conv_codes(w, m, o));
    NC_TRY(nc_lower_widen(w, m, o));
    NC_TRY(nc_lower_channels(w, m, o));
    NC_TRY(nc_lower_layout(w, m, o));
    NC_TRY(nc_lower_chain(w, m, o));
    NC_TRY(nc_lower_group(w, m, o));
    NC_TRY(nc_lower_epilogue(w, m, o));
    NC_TRY(nc_lower_gelu(w, m, o));
    NC_TRY(nc_lower_rows(w, m, o));
    if (m->out_of_memory) NC_FAIL(w, NC_E_MEMORY, "out of memory"); /* choosing kernels would find half-made nodes */
    NC_TRY(nc_lower_copy(w, m->main, o));
    NC_TRY(nc_lower_choose(w, m->main, o));
    NC_TRY(nc_lower_order(w, m->main, o));
    w->at_node = w->at_op = NULL;
    return nc_verify(w, m);
}
