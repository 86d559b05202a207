/* autodiff/walk.c: the walk itself: nodes in reverse order, gradients of outputs summed, the card asked, gradients of
 * operands handed on. Sums are chains of Add in order of arrival, so the same graph always gives the same sums. */
#include "autodiff/walk.h"

#include "ops/lane.h"

#include <string.h>

/* ---- decomposition ---- */

static bool decomposes(const nc_node *n) {
    const nc_card *c = n->card;
    const nc_grad_rule *rule = nc_walk_rule(n);
    if (rule && rule->grad) return false;
    return !c->grad && (c->grad_form || c->decompose) && !c->zero_grad && !c->no_grad;
}

/* Does a gradient have to pass n? */
static bool is_between(const nc_walk *k, const nc_node *n) {
    bool reached = false, needed = false;
    for (int i = 0; i < n->n_operands && !reached; i++) reached = nc_walk_passes(n, i) && nc_walk_reached(k, n->in[i]);
    for (int i = 0; i < n->n_out && !needed; i++) {
        const nc_walk_info *o = n->out[i] ? nc_walk_peek(k, n->out[i]) : NULL;
        needed = o && o->needed;
    }
    return reached && needed;
}

static nc_code take_place(nc_walk *k, nc_value *old, nc_value *by) {
    nc_walk_info *from = nc_walk_of(k, old), *to = nc_walk_of(k, by);
    NC_NEED(k->w, from);
    NC_NEED(k->w, to);
    to->reached |= from->reached;
    to->needed |= from->needed;
    from->by = by;
    nc_edit_replace(old, by);
    return NC_OK;
}

/* Puts n's pieces in its place; *next is the first of them. */
static nc_code decompose(nc_walk *k, nc_node *n, nc_node **next) {
    nc_node *prev = n->prev;
    nc_builder b = {
        .w = k->w, .graph = n->graph, .before = n, .stage = n->stage, .infer = k->b->infer, .grad = k->b->grad};
    nc_value **out = nc_arena_array(&k->w->scratch, (size_t)n->n_out + 1, sizeof *out);
    NC_NEED(k->w, out);
    NC_TRY(nc_grad_pieces(&b, n, out));
    NC_TRY(b.code);
    for (nc_node *p = prev ? prev->next : n->graph->first; p != n; p = p->next) {
        if (p->card == n->card && p->n_in == n->n_in)
            NC_FAIL(k->w, NC_E_FAIL, "its decomposition holds the op itself and it has no gradient");
        for (int i = 0; i < p->n_out; i++)
            if (p->out[i]) NC_TRY(nc_walk_mark(k, p->out[i], false, true));
    }
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        if (!out[i]) NC_FAIL(k->w, NC_E_FAIL, "its decomposition gives no output %d", i);
        NC_TRY(take_place(k, n->out[i], out[i]));
    }
    *next = prev ? prev->next : n->graph->first;
    if (*next == n) *next = n->next;
    nc_edit_remove(n);
    return NC_OK;
}

static nc_code decompose_at(nc_walk *k, nc_node *n, nc_node **next) {
    const char *node = k->w->at_node, *op = k->w->at_op;
    k->w->at_node = n->name;
    k->w->at_op = n->card->name;
    nc_code code = decompose(k, n, next);
    k->w->at_node = node;
    k->w->at_op = op;
    return code;
}

nc_code nc_walk_prepare(nc_walk *k) {
    NC_TRY(nc_walk_mark_needed(k));
    for (nc_node *n = k->graph->first, *next; n; n = next) {
        next = n->next;
        if (decomposes(n) && is_between(k, n))
            NC_TRY(decompose_at(k, n, &next));
        else
            NC_TRY(nc_walk_reach(k, n));
    }
    return nc_walk_check_codes(k);
}

/* ---- sums ---- */

nc_code nc_walk_add(nc_walk *k, nc_value *v, nc_value *dv) {
    nc_walk_info *i = nc_walk_of(k, v);
    NC_NEED(k->w, i);
    if (!NC_PUSH(&k->w->scratch, i->parts, dv)) NC_FAIL(k->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

nc_code nc_walk_sum(nc_walk *k, nc_value *v, nc_value **out) {
    nc_walk_info *i = nc_walk_of(k, v);
    NC_NEED(k->w, i);
    if (i->parts.n > 1 && v->type && (v->type->kind == NC_T_TAPE || v->type->kind == NC_T_MAP))
        NC_FAIL(k->w, NC_E_UNSUPPORTED, "gradients of several uses of '%s' cannot be added: it is a %s", v->name,
                v->type->kind == NC_T_TAPE ? "tape" : "map");
    for (; i->n_summed < i->parts.n; i->n_summed++) {
        nc_value *part = i->parts.v[i->n_summed];
        i->sum = i->sum ? nc_build_add(k->b, i->sum, part) : part;
        NC_TRY(k->b->code);
    }
    *out = i->sum;
    return NC_OK;
}

/* ---- forward values ---- */

static nc_value *see_capture(nc_walk *k, nc_value *v) {
    const nc_graph *g = k->graph;
    const nc_sub *s = &g->owner->subs[k->sub->i_sub];
    for (int i = 0; i < s->n_captures; i++) {
        if (g->captures.v[i] != v) continue;
        nc_value *outer = nc_walk_see(k->parent, g->owner->in[s->first_capture + i]);
        return outer ? nc_edit_reach(k->b->graph, outer) : NULL;
    }
    return NULL;
}

/* The value goes onto the tape in the forward pass and comes from it here. Symbols of its dims stay: all that is popped
 * together was pushed in one iteration, so one symbol has one value within the reverse body. */
static nc_value *see_popped(nc_walk *k, nc_value *v) {
    nc_grad_sub *s = k->sub;
    nc_value **touched = nc_arena_array(&k->w->scratch, (size_t)s->n_touched + 1, sizeof *touched);
    nc_value *popped = touched ? nc_edit_add_out(s->pop, NULL) : NULL;
    if (!popped) return NULL;
    if (s->n_touched) memcpy(touched, s->touched, (size_t)s->n_touched * sizeof *touched);
    touched[s->n_touched++] = v;
    s->touched = touched;
    popped->type = nc_build_popped_type(k->b, v->type, &k->popped);
    return k->b->code == NC_OK ? popped : NULL;
}

nc_value *nc_walk_see(nc_walk *k, nc_value *v) {
    if (k->b->code != NC_OK) return NULL;
    v = nc_walk_now(k, v);
    if (v->graph == k->b->graph) return v;
    nc_walk_info *i = nc_walk_of(k, v);
    if (i && !i->seen) {
        if (!k->sub)
            i->seen = nc_edit_reach(k->b->graph, v);
        else if (v->origin == NC_FROM_CONST)
            i->seen = nc_edit_const(k->b->graph, NULL, v->lit);
        else if (v->origin == NC_FROM_CAPTURE)
            i->seen = see_capture(k, v);
        else
            i->seen = see_popped(k, v);
    }
    if (i && i->seen) return i->seen;
    k->b->code = nc_fail(k->w, NC_E_MEMORY, "out of memory");
    return NULL;
}

static nc_value *forward(nc_grad *g, nc_value *v) { return nc_walk_see(g->ctx, v); }

/* ---- one node ---- */

static nc_code arrived(nc_walk *k, const nc_node *n, nc_value **dy, bool *any) {
    for (int i = 0; i < n->n_out; i++) {
        const nc_walk_info *o = n->out[i] ? nc_walk_peek(k, n->out[i]) : NULL;
        if (!o || o->parts.n == 0) continue;
        NC_TRY(nc_walk_sum(k, n->out[i], &dy[i]));
        *any = true;
    }
    return NC_OK;
}

static nc_code ask_card(nc_walk *k, nc_grad *g) {
    const nc_card *card = g->node->card;
    const nc_grad_rule *rule = nc_walk_rule(g->node);
    if (rule && rule->grad) {
        NC_TRY(rule->grad(g, rule));
        return k->b->code;
    }
    if (card->no_grad) return nc_walk_refuse(k, g->node);
    if (card->grad)
        NC_TRY(card->grad(g));
    else if (card->lane > 0)
        NC_TRY(nc_lane_card_grad(g));
    else
        return nc_walk_refuse(k, g->node);
    return k->b->code;
}

static nc_code hand_on(nc_walk *k, const nc_grad *g, nc_value *const *in, int n) {
    for (int i = 0; i < n; i++) {
        if (!g->wants[i] || !g->dx[i]) continue;
        const nc_type *t = in[i]->type, *d = g->dx[i]->type;
        nc_dtype elem = nc_walk_is_code(in[i]) ? NC_FLOAT : t ? t->elem : NC_UNDEFINED;
        if (t && d && (t->kind != d->kind || elem != d->elem))
            NC_FAIL(k->w, NC_E_FAIL, "the gradient of input %d has another type than '%s'", i, in[i]->name);
        NC_TRY(nc_walk_add(k, in[i], g->dx[i]));
    }
    return NC_OK;
}

/* Control flow gives the forward node further operands, so the operands are those from before the card was asked. */
static nc_code step(nc_walk *k, nc_node *n) {
    nc_arena *a = &k->w->scratch;
    int n_operands = n->n_operands;
    nc_value **dy = nc_arena_array(a, (size_t)n->n_out + 1, sizeof *dy);
    nc_value **dx = nc_arena_array(a, (size_t)n_operands + 1, sizeof *dx);
    nc_value **in = nc_arena_array(a, (size_t)n_operands + 1, sizeof *in);
    bool *wants = nc_arena_array(a, (size_t)n_operands + 1, sizeof *wants);
    bool any_dy = false, any_dx = false;
    if (!dy || !dx || !in || !wants) NC_FAIL(k->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < n_operands; i++) {
        in[i] = n->in[i];
        wants[i] = nc_walk_passes(n, i) && nc_walk_reached(k, n->in[i]);
        any_dx |= wants[i];
    }
    if (!any_dx) return NC_OK;
    NC_TRY(arrived(k, n, dy, &any_dy));
    if (!any_dy) return NC_OK;
    nc_grad g = {.b = k->b, .node = n, .dy = dy, .dx = dx, .wants = wants, .forward = forward, .ctx = k};
    nc_walk_give_subs(&g);
    NC_TRY(ask_card(k, &g));
    return hand_on(k, &g, in, n_operands);
}

nc_code nc_walk_run(nc_walk *k) {
    int n_nodes = 0;
    nc_node **nodes = nc_arena_array(&k->w->scratch, (size_t)k->graph->n_nodes + 1, sizeof *nodes);
    NC_NEED(k->w, nodes);
    for (nc_node *n = k->graph->first; n; n = n->next) nodes[n_nodes++] = n;
    const char *node = k->w->at_node, *op = k->w->at_op;
    nc_code code = NC_OK;
    while (n_nodes > 0 && code == NC_OK) {
        nc_node *n = nodes[--n_nodes];
        k->w->at_node = n->name;
        k->w->at_op = n->card->name;
        code = step(k, n);
    }
    k->w->at_node = node;
    k->w->at_op = op;
    return code;
}
