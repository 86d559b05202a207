/* plan/lower_decompose.c: an op that no kernel serves, neither the device's nor the host's, is replaced by what its
 * card says it is made of; so are the pieces, in subgraphs too. Comes before layouts and chains, which then see the
 * pieces. An op with a kernel stays whole, and so does one with neither kernel nor decomposition: choose reports it. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

enum { MAX_DEPTH = 16 };

static bool has_kernel(const nc_node *n, const nc_plan_options *o) {
    return nc_binding_find(n, o->device->table->kernels, NULL, 0) || nc_binding_find(n, "cpu", NULL, 0);
}

/* What a holds may be called b too: the same kinds and elements, and a rank that b has or does not know. */
static bool says_as_much(const nc_type *a, const nc_type *b) {
    if (!a || !b || a->kind != b->kind) return false;
    if (a->kind == NC_T_SEQUENCE || a->kind == NC_T_OPTIONAL) return says_as_much(a->of, b->of);
    return a->kind == NC_T_TENSOR && a->rank >= 0 && a->elem == b->elem && (b->rank < 0 || a->rank == b->rank);
}

/* Users of `old` were inferred from its type, and bodies that capture it have it too: its dims stay what they are
 * called by, where the piece says as much. */
static void keep_type(const nc_node *n, const nc_value *old, nc_value *by) {
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] == by) return;
    if (by->def && says_as_much(old->type, by->type)) by->type = old->type;
}

/* Puts n's pieces before it and takes n away. */
static nc_code replace(nc_work *w, nc_node *n) {
    nc_builder b = {.w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
    nc_value **out = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *out);
    NC_NEED(w, out);
    NC_TRY(n->card->decompose(&b, n, out));
    NC_TRY(b.code);
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        if (!out[i]) NC_FAIL(w, NC_E_FAIL, "its decomposition gives no output %d", i);
        keep_type(n, n->out[i], out[i]);
        nc_edit_replace(n->out[i], out[i]);
    }
    nc_edit_remove(n);
    return NC_OK;
}

/* Nodes from `first` up to `stop`, both of one graph. */
static nc_code decompose_range(nc_work *w, nc_node *first, const nc_node *stop, const nc_plan_options *o, int depth) {
    for (nc_node *n = first, *next; n && n != stop; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(decompose_range(w, n->subs[i].graph->first, NULL, o, 0));
        if (!n->card->decompose || has_kernel(n, o)) continue;
        w->at_node = n->name, w->at_op = n->card->name;
        if (depth == MAX_DEPTH) NC_FAIL(w, NC_E_FAIL, "decompositions hold each other more than %d deep", MAX_DEPTH);
        nc_graph *g = n->graph;
        nc_node *prev = n->prev;
        bool recompute = n->recompute;
        NC_TRY(replace(w, n));
        nc_node *piece = prev ? prev->next : g->first;
        for (nc_node *p = piece; p != next; p = p->next) p->recompute = recompute;
        NC_TRY(decompose_range(w, piece, next, o, depth + 1));
    }
    return NC_OK;
}

nc_code nc_lower_decompose(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nc_code code = decompose_range(w, m->main->first, NULL, o, 0);
    if (code == NC_OK) w->at_node = w->at_op = NULL;
    return code;
}
