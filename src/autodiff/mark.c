/* autodiff/mark.c: which values lie on a differentiable way from what is asked for to what is differentiated. Emits
 * nothing. A node with subgraphs counts as if every operand influenced every output; its gradient hook looks closer. */
#include "autodiff/walk.h"

void nc_walk_init(nc_walk *k, nc_work *w, nc_graph *g, nc_builder *b) {
    *k = (nc_walk){.w = w, .graph = g, .b = b};
    nc_map_init(&k->info, &w->scratch);
    nc_map_init(&k->popped, &w->scratch);
}

const nc_walk_info *nc_walk_peek(const nc_walk *k, const nc_value *v) {
    return nc_map_get_bytes(&k->info, &v->id, sizeof v->id);
}

nc_walk_info *nc_walk_of(nc_walk *k, const nc_value *v) {
    nc_walk_info *i = nc_map_get_bytes(&k->info, &v->id, sizeof v->id);
    if (i) return i;
    i = nc_arena_alloc(&k->w->scratch, sizeof *i);
    return i && nc_map_put_bytes(&k->info, &v->id, sizeof v->id, i) ? i : NULL;
}

nc_value *nc_walk_now(const nc_walk *k, nc_value *v) {
    const nc_walk_info *i;
    while ((i = nc_walk_peek(k, v)) != NULL && i->by) v = i->by;
    return v;
}

/* Containers count when what they hold does, and so does what is not known: a missing gradient is then an error, where
 * stopping silently would be a wrong result. */
bool nc_walk_carries(const nc_type *t) {
    if (!t) return true;
    switch (t->kind) {
    case NC_T_TENSOR:
    case NC_T_SPARSE: return t->elem == NC_UNDEFINED || nc_dtype_is_float(t->elem);
    case NC_T_SEQUENCE:
    case NC_T_OPTIONAL:
    case NC_T_MAP: return nc_walk_carries(t->of);
    case NC_T_TAPE: return true;
    }
    return true;
}

bool nc_walk_is_code(const nc_value *v) {
    return v->origin == NC_FROM_NODE && v->i_def == 0 && (v->def->card->traits & NC_ENCODES);
}

static bool carries(const nc_value *v) { return nc_walk_carries(v->type) || nc_walk_is_code(v); }

const nc_grad_rule *nc_walk_rule(const nc_node *n) { return nc_registry_rule(n->graph->model->registry, n->card); }

bool nc_walk_passes(const nc_node *n, int i) {
    const nc_card *card = n->card;
    const nc_grad_rule *rule = nc_walk_rule(n);
    bool ruled = rule && rule->grad;
    if (!n->in[i] || (card->zero_grad && !ruled)) return false;
    if (rule && i < 32 && (rule->stops >> i & 1)) return false;
    if (i < n->n_in && i < 32 && !ruled && (card->no_grad_in >> i & 1)) return false;
    if (nc_walk_is_code(n->in[i])) return i == 0 && (card->traits & NC_DECODES);
    return nc_walk_carries(n->in[i]->type);
}

bool nc_walk_reached(const nc_walk *k, const nc_value *v) {
    const nc_walk_info *i = nc_walk_peek(k, v);
    return i && i->reached;
}

nc_code nc_walk_mark(nc_walk *k, nc_value *v, bool reached, bool needed) {
    nc_walk_info *i = nc_walk_of(k, v);
    NC_NEED(k->w, i);
    i->reached |= reached;
    i->needed |= needed;
    return NC_OK;
}

nc_code nc_walk_reach(nc_walk *k, const nc_node *n) {
    bool any = false;
    for (int i = 0; i < n->n_operands && !any; i++) any = nc_walk_passes(n, i) && nc_walk_reached(k, n->in[i]);
    for (int i = 0; any && i < n->n_out; i++)
        if (n->out[i] && carries(n->out[i])) NC_TRY(nc_walk_mark(k, n->out[i], true, false));
    return NC_OK;
}

nc_code nc_walk_mark_reached(nc_walk *k) {
    for (nc_node *n = k->graph->first; n; n = n->next) NC_TRY(nc_walk_reach(k, n));
    return NC_OK;
}

nc_code nc_walk_mark_used(nc_walk *k, const nc_value *v) {
    nc_walk_info *i = nc_walk_of(k, v);
    NC_NEED(k->w, i);
    i->used = true;
    return NC_OK;
}

static bool is_used(const nc_walk *k, const nc_node *n) {
    for (int i = 0; i < n->n_out; i++) {
        const nc_walk_info *o = n->out[i] ? nc_walk_peek(k, n->out[i]) : NULL;
        if (o && (o->used || o->needed)) return true;
    }
    return false;
}

static bool reads(const nc_node *n, int i) { return n->in[i] && (i >= 32 || !(n->card->dims_only_in >> i & 1)); }

nc_code nc_walk_mark_needed(nc_walk *k) {
    for (nc_node *n = k->graph->last; n; n = n->prev) {
        bool any = false, used = is_used(k, n);
        for (int i = 0; i < n->n_out && !any; i++) {
            const nc_walk_info *o = n->out[i] ? nc_walk_peek(k, n->out[i]) : NULL;
            any = o && o->needed && carries(n->out[i]);
        }
        for (int i = 0; used && i < n->n_operands; i++) {
            if (reads(n, i)) NC_TRY(nc_walk_mark_used(k, n->in[i]));
            if (any && nc_walk_passes(n, i)) NC_TRY(nc_walk_mark(k, n->in[i], false, true));
        }
    }
    return NC_OK;
}

/* ---- codes ---- */

static nc_code check_uses(nc_walk *k, const nc_node *n) {
    const nc_value *code = n->out[0];
    for (int i = 0; i < code->uses.n; i++) {
        const nc_node *by = code->uses.v[i].node;
        int at = code->uses.v[i].i;
        if ((at == 0 && (by->card->traits & NC_DECODES)) || !reads(by, at) || !is_used(k, by)) continue;
        return nc_diag_set(
            &k->w->diag, NC_E_UNSUPPORTED, n->name, n->card->name,
            "'%s' holds codes, whose gradient comes only from an op that decodes them, but %s '%s' takes them "
            "otherwise, and what is differentiated depends on it",
            code->name, by->card->name, by->name);
    }
    return NC_OK;
}

nc_code nc_walk_check_codes(nc_walk *k) {
    for (nc_node *n = k->graph->first; n; n = n->next)
        if ((n->card->traits & NC_ENCODES) && n->out[0] && nc_walk_reached(k, n->out[0])) NC_TRY(check_uses(k, n));
    return NC_OK;
}
