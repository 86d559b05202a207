/* plan/lower_decompose.c: an op that no kernel serves at its place is replaced by what its card says it is made of, in
 * subgraphs too. Comes before layouts and chains, which then see the pieces. An op with a kernel stays whole, and so
 * does one with neither kernel nor decomposition: choose reports it.
 *
 * One call takes every such op apart once; the pieces are then placed anew and looked at by the next call (lower.c). */
#include "base/log.h"
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

/* What a holds may be called b too: the same kinds and elements, and a rank that b has or does not know. */
static bool says_as_much(const nc_type *a, const nc_type *b) {
    if (!a || !b || a->kind != b->kind) return false;
    if (a->kind == NC_T_SEQUENCE || a->kind == NC_T_OPTIONAL) return says_as_much(a->of, b->of);
    return a->kind == NC_T_TENSOR && a->rank >= 0 && a->elem == b->elem && (b->rank < 0 || a->rank == b->rank);
}

static bool is_operand(const nc_node *n, const nc_value *v) {
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] == v) return true;
    return false;
}

/* Users of `old` were inferred from its type, and bodies that capture it have it too: its dims stay what they are
 * called by, where the piece says as much. */
static nc_code keep_type(nc_work *w, const nc_node *n, const nc_value *old, nc_value *by) {
    int64_t want, got;
    if (is_operand(n, by) || !by->def || !says_as_much(old->type, by->type)) return NC_OK;
    for (int k = 0; by->type->kind == NC_T_TENSOR && k < by->type->rank; k++) {
        const nc_dim *a = old->type->dims[k], *b = by->type->dims[k];
        if (a != b) by->def->open = true;
        if (nc_dim_is_const(a, &want) && nc_dim_is_const(b, &got) && want != got)
            NC_FAIL(w, NC_E_SHAPE, "its operands give '%s' a dim %d of %lld, expected %lld", old->name, k,
                    (long long)got, (long long)want);
    }
    by->type = old->type;
    return NC_OK;
}

/* An operand that stands for an output of n under other names of its dims keeps its type: a copy has the output's. */
static nc_value *copy_operand(nc_builder *b, const nc_node *n, const nc_value *old, nc_value *by) {
    bool other = false;
    for (int k = 0; says_as_much(old->type, by->type) && by->type->kind == NC_T_TENSOR && k < by->type->rank; k++)
        other |= old->type->dims[k] != by->type->dims[k];
    return other && is_operand(n, by) ? nc_build1(b, "Identity", 1, by) : by;
}

/* Puts n's pieces before it; out: what stands for its outputs. */
static nc_code put_pieces(nc_work *w, nc_node *n, const nc_plan_options *o, nc_value **out) {
    nc_builder b = {.w = w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
    if (o) b.grad = o->grad;
    NC_TRY(n->card->decompose(&b, n, out));
    NC_TRY(b.code);
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] && !out[i]) NC_FAIL(w, NC_E_FAIL, "its decomposition gives no output %d", i);
        if (n->out[i]) out[i] = copy_operand(&b, n, n->out[i], out[i]);
    }
    return b.code;
}

static void take_pieces_back(nc_node *n, const nc_node *prev) {
    while (n->prev != prev) nc_edit_remove(n->prev);
}

/* A decomposition may refuse what it is given; then the host, if it has a kernel, runs the op whole. */
static bool may_stay_whole(const nc_node *n, nc_code code) {
    return code == NC_E_UNSUPPORTED && n->place && nc_binding_find(n, nc_kernels_at(NULL, 0), NULL, 0);
}

static nc_code replace(nc_work *w, nc_node *n, const nc_plan_options *o, bool *changed) {
    nc_node *prev = n->prev;
    nc_value **out = nc_arena_array(&w->scratch, (size_t)n->n_out + 1, sizeof *out);
    NC_NEED(w, out);
    nc_code code = put_pieces(w, n, o, out);
    if (may_stay_whole(n, code)) {
        nc_log(NC_LOG_INFO, "%s '%s' is not taken apart: %s", n->card->name, n->name, w->diag.text);
        take_pieces_back(n, prev);
        w->diag = (nc_diag){0};
        return NC_OK;
    }
    NC_TRY(code);
    for (nc_node *p = n->prev; p != prev; p = p->prev) p->recompute = n->recompute;
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        NC_TRY(keep_type(w, n, n->out[i], out[i]));
        nc_edit_replace(n->out[i], out[i]);
    }
    nc_edit_remove(n);
    *changed = true;
    return NC_OK;
}

nc_code nc_lower_apart(nc_work *w, nc_node *n) {
    bool changed;
    return replace(w, n, NULL, &changed);
}

static nc_code decompose_graph(nc_work *w, nc_graph *g, const nc_plan_options *o, bool *changed) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(decompose_graph(w, n->subs[i].graph, o, changed));
        if (!n->card->decompose || nc_binding_find(n, nc_kernels_at(o, n->place), NULL, 0)) continue;
        w->at_node = n->name, w->at_op = n->card->name;
        NC_TRY(replace(w, n, o, changed));
    }
    return NC_OK;
}

nc_code nc_lower_decompose(nc_work *w, nc_model *m, const nc_plan_options *o, bool *changed) {
    *changed = false;
    return decompose_graph(w, m->main, o, changed);
}
