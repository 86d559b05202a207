/* infer/infer.c: walks a graph in order and asks each node's card for the types of its outputs and for what is known of
 * small integer tensors. Results stand on the values. The same question while running is in run.c. */
#include "infer/infer.h"

#include "base/log.h"
#include "base/mem.h"
#include "infer/check.h"
#include "ir/assume.h"
#include "ops/lane.h"

static nc_code infer_graph(nc_work *w, nc_graph *g);

static nc_code type_of_const(nc_work *w, nc_value *v) {
    if (v->type != NULL || v->lit == NULL) return NC_OK;
    nc_model *m = v->graph->model;
    const nc_dim *dims[NC_MAX_RANK];
    if (v->lit->rank > NC_MAX_RANK)
        NC_FAIL(w, NC_E_SHAPE, "constant '%s' has %d dims, at most %d are supported", v->name, v->lit->rank,
                NC_MAX_RANK);
    for (int k = 0; k < v->lit->rank; k++) {
        dims[k] = nc_dim_const(m->dims, v->lit->dims[k]);
        NC_NEED(w, dims[k]);
    }
    v->type = nc_type_tensor(&m->arena, v->lit->dtype, v->lit->rank, dims);
    NC_NEED(w, v->type);
    return NC_OK;
}

/* Elements of a small integer constant, made when first asked for. */
static nc_code elems_of_const(nc_work *w, nc_value *v) {
    int64_t ints[NC_MAX_ELEMS], n;
    if (v->elems != NULL || v->lit == NULL || !nc_literal_ints(v->lit, ints, NC_MAX_ELEMS, &n)) return NC_OK;
    nc_model *m = v->graph->model;
    const nc_dim **elems = nc_arena_array(&m->arena, (size_t)n, sizeof *elems);
    NC_NEED(w, elems);
    for (int64_t k = 0; k < n; k++) {
        elems[k] = nc_dim_const(m->dims, ints[k]);
        NC_NEED(w, elems[k]);
    }
    v->elems = elems;
    v->n_elems = (int)n;
    return NC_OK;
}

static nc_code read_input(nc_work *w, nc_value *v, nc_infer_val *in) {
    if (v == NULL) return NC_OK;
    NC_TRY(type_of_const(w, v));
    NC_TRY(elems_of_const(w, v));
    *in = (nc_infer_val){.type = v->type, .lit = v->lit, .elems = v->elems, .n_elems = v->n_elems, .present = true};
    return NC_OK;
}

static bool has_no_rank(const nc_type *t) { return t != NULL && t->kind == NC_T_TENSOR && t->rank < 0; }

/* A declared rank fills in for one that is not found, but not where runs decide about it: then each follows what it
 * meets. What was declared is kept for those who ask for the model's signature. */
static void forget_guess(const nc_node *n, const nc_infer *c) {
    bool behind = false;
    for (int i = 0; i < n->n_in; i++) behind |= n->in[i] != NULL && n->in[i]->free_rank;
    for (int i = 0; i < n->n_out; i++) {
        nc_value *v = n->out[i];
        if (v == NULL) continue;
        v->free_rank = has_no_rank(c->out[i].type) && (behind || (n->card->traits & NC_FREE_RANK));
        if (!v->free_rank || v->type == NULL || v->type->kind != NC_T_TENSOR || v->type->rank < 0) continue;
        if (!behind)
            nc_log(NC_LOG_INFO, "%s '%s': the model declares '%s' with rank %d, but that is found in every run anew",
                   n->card->name, n->name, v->name, v->type->rank);
        v->declared = v->type;
        v->type = c->out[i].type;
    }
}

static bool is_of_sequence(const nc_value *v) {
    const nc_value *from = v->def != NULL && v->def->n_in > 0 ? v->def->in[0] : NULL;
    return from != NULL && from->type != NULL && from->type->kind == NC_T_SEQUENCE;
}

/* A declared type of a sequence's part gives its rank and no more: torch gives the parts of tensor_split one symbol, or
 * the size of one of them, although they differ. Each gets sizes of its own. */
static nc_code doubt(nc_work *w, nc_value *v, const nc_type **type) {
    nc_model *m = v->graph->model;
    const nc_dim *dims[NC_MAX_RANK];
    bool any = false;
    for (int k = 0; k < (*type)->rank; k++) {
        int sym = nc_dim_sym_id((*type)->dims[k]);
        bool own = sym >= 0 && nc_dims_sym_is_fresh(m->dims, sym);
        const char *hint = sym >= 0 ? nc_dims_sym_name(m->dims, sym) : v->name;
        any |= !own;
        dims[k] = own ? (*type)->dims[k] : nc_dim_fresh(m->dims, hint);
        NC_NEED(w, dims[k]);
    }
    if (!any) return NC_OK;
    *type = nc_type_tensor(&m->arena, (*type)->elem, (*type)->rank, dims);
    NC_NEED(w, *type);
    return NC_OK;
}

static nc_code write_output(nc_work *w, nc_value *v, const nc_infer_val *out) {
    const nc_type *type;
    NC_TRY(nc_infer_merge(w, v->graph->model, v->name, v->type, out->type, &type));
    if (is_of_sequence(v) && has_no_rank(out->type) && !has_no_rank(type)) NC_TRY(doubt(w, v, &type));
    v->type = type;
    if (out->lit != NULL) v->lit = out->lit;
    v->elems = out->elems;
    v->n_elems = out->n_elems;
    return NC_OK;
}

static void give(nc_value *inner, const nc_infer_val *val) {
    inner->type = val->type;
    inner->elems = val->elems;
    inner->n_elems = val->n_elems;
}

/* A body may be inferred several times with other input types (a loop looks for types that stay), so what an earlier
 * time found is forgotten first. */
static void forget(nc_graph *g) {
    for (nc_node *n = g->first; n != NULL; n = n->next)
        for (int i = 0; i < n->n_out && !(n->card->traits & NC_TYPES_GIVEN); i++)
            if (n->out[i] != NULL) {
                n->out[i]->type = NULL;
                n->out[i]->elems = NULL;
                n->out[i]->n_elems = 0;
            }
}

static nc_code infer_sub(nc_infer *c, int i_sub, const nc_infer_val *in, int n_in) {
    const nc_node *n = c->node;
    if (i_sub < 0 || i_sub >= n->n_subs) NC_FAIL(c->w, NC_E_BAD_GRAPH, "has no subgraph %d", i_sub);
    const nc_sub *sub = &n->subs[i_sub];
    nc_graph *g = sub->graph;
    if (g->inputs.n != n_in)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s takes %d inputs, %d are given", sub->attr, g->inputs.n, n_in);
    forget(g);
    for (int i = 0; i < n_in; i++) give(g->inputs.v[i], &in[i]);
    for (int k = 0; k < sub->n_captures; k++) {
        nc_infer_val outer = {0};
        NC_TRY(read_input(c->w, n->in[sub->first_capture + k], &outer));
        give(g->captures.v[k], &outer);
    }
    return infer_graph(c->w, g);
}

static nc_code ask_card(nc_infer *c) {
    const nc_card *card = c->node->card;
    NC_TRY(nc_infer_check(c->w, c->node, c->in));
    if (card->infer != NULL)
        NC_TRY(card->infer(c));
    else if (card->lane > 0)
        NC_TRY(nc_lane_infer(c));
    else
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "the op has no inference");
    return card->fold != NULL ? card->fold(c) : NC_OK;
}

static nc_code infer_node(nc_work *w, nc_node *n) {
    nc_model *m = n->graph->model;
    bool open = false;
    nc_infer c = {.w = w, .dims = m->dims, .arena = &m->arena, .node = n, .infer_sub = infer_sub, .open = &open};
    c.assumes = NC_N_ASSUMPTIONS;
    c.in = nc_arena_array(&w->scratch, (size_t)n->n_in, sizeof *c.in);
    c.out = nc_arena_array(&w->scratch, (size_t)n->n_out, sizeof *c.out);
    NC_NEED(w, c.in);
    NC_NEED(w, c.out);
    for (int i = 0; i < n->n_in; i++) NC_TRY(read_input(w, n->in[i], &c.in[i]));
    for (int i = 0; i < n->n_out; i++) c.out[i].present = n->out[i] != NULL;
    NC_TRY(ask_card(&c));
    if (c.assumes != NC_N_ASSUMPTIONS) NC_TRY(nc_assume(w, m, c.assumes, "%s '%s'", w->at_op, w->at_node));
    n->open = open && n->card->lane <= 0; /* kernels of lanes look themselves */
    forget_guess(n, &c);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL) NC_TRY(write_output(w, n->out[i], &c.out[i]));
    return NC_OK;
}

nc_code nc_infer_node(nc_work *w, nc_node *n) {
    const char *node = w->at_node, *op = w->at_op;
    w->at_node = n->name;
    w->at_op = n->card->name;
    uint64_t failures = nc_mem_failures();
    nc_code code = nc_work_finish(w, infer_node(w, n), failures);
    w->at_node = node;
    w->at_op = op;
    return code;
}

static nc_code infer_graph(nc_work *w, nc_graph *g) {
    for (int i = 0; i < g->consts.n; i++) NC_TRY(type_of_const(w, g->consts.v[i]));
    for (nc_node *n = g->first; n != NULL; n = n->next) NC_TRY(nc_infer_node(w, n));
    return NC_OK;
}

nc_code nc_infer_model(nc_work *w, nc_model *m) { return infer_graph(w, m->main); }
