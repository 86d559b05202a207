/* plan/order.c: the final order of the main graph: variables are read before they are overwritten, and what a cut needs
 * comes before the cut.
 *
 * Version k of a variable is overwritten by the node that makes k+1. Every other node that reads version k, also
 * through views, must come before it: an edge reader -> writer. Where that edge would close a cycle (or cross a cut
 * backwards) the reader gets a copy taken before the write. Edges are added one by one, so two variables that swap
 * their contents resolve too. */
#include "base/steps.h"
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

#include <string.h>

typedef struct orderer {
    nc_work *w;
    nc_graph *g;
    const nc_plan_options *o;
    int epoch; /* of choice->mark */
} orderer;

/* ---- cuts ---- */

static nc_code mark_needed(orderer *r, nc_value *v, int phase) {
    NC_VEC(nc_node *) todo = {0};
    if (v->def && !NC_PUSH(&r->w->scratch, todo, v->def)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    while (todo.n) {
        nc_node *n = todo.v[--todo.n];
        if (nc_choice_of(n)->phase <= phase) continue;
        nc_choice_of(n)->phase = phase;
        for (int i = 0; i < n->n_operands; i++)
            if (n->in[i] && n->in[i]->def && !NC_PUSH(&r->w->scratch, todo, n->in[i]->def))
                NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code mark_phases(orderer *r) {
    for (nc_node *n = r->g->first; n; n = n->next) nc_choice_of(n)->phase = r->o->n_cuts;
    for (int c = r->o->n_cuts - 1; c >= 0; c--) {
        const nc_plan_cut *cut = &r->o->cuts[c];
        for (int k = 0; k < cut->n_outputs; k++) {
            int i = 0;
            while (i < r->g->outputs.n && strcmp(r->g->output_names.v[i], cut->outputs[k]) != 0) i++;
            if (i == r->g->outputs.n)
                NC_FAIL(r->w, NC_E_ARGUMENT, "cut '%s': the graph has no output '%s'", cut->name, cut->outputs[k]);
            NC_TRY(mark_needed(r, r->g->outputs.v[i], c));
        }
    }
    return NC_OK;
}

/* ---- variables ---- */

static nc_code push_or_fail(orderer *r, nc_node *from, nc_node *to) {
    nc_choice *c = nc_choice_of(from);
    if (!NC_PUSH(&r->g->model->arena, c->then, to)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code reaches(orderer *r, nc_node *from, const nc_node *to, bool *out) {
    NC_VEC(nc_node *) todo = {0};
    int epoch = ++r->epoch;
    *out = false;
    if (!NC_PUSH(&r->w->scratch, todo, from)) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    while (todo.n && !*out) {
        nc_node *n = todo.v[--todo.n];
        nc_choice *c = nc_choice_of(n);
        if (c->mark == epoch) continue;
        c->mark = epoch;
        if (n == to) *out = true;
        for (int k = 0; k < n->n_out; k++)
            for (int i = 0; n->out[k] && i < n->out[k]->uses.n; i++)
                if (!NC_PUSH(&r->w->scratch, todo, n->out[k]->uses.v[i].node))
                    NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
        for (int i = 0; i < c->then.n; i++)
            if (!NC_PUSH(&r->w->scratch, todo, c->then.v[i])) NC_FAIL(r->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code copy_for_reader(orderer *r, nc_node *reader, int i, nc_node *writer) {
    nc_value *v = reader->in[i];
    nc_builder b = {.w = r->w,
                    .graph = r->g,
                    .before = v->def ? v->def->next : r->g->first,
                    .stage = writer->stage,
                    .infer = nc_infer_node};
    nc_value *c = nc_build_attr1(&b, "nacre", "Copy", &v, 1, NULL, 0);
    if (!c) return b.code;
    c->place = c->def->place = v->place;
    nc_edit_set_in(reader, i, c);
    NC_TRY(nc_choose_node(r->w, c->def, r->o));
    nc_choice_of(c->def)->phase = nc_choice_of(writer)->phase;
    return push_or_fail(r, c->def, writer);
}

/* Can n write its result over operand i, a version of the same variable, and read that operand while it does? */
static bool updates(const nc_node *n, int i) {
    const nc_choice *c = nc_choice_of(n);
    if ((n->card->traits & NC_IN_PLACE) && i < n->card->n_updates && i < n->n_out) return true;
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->var == n->in[i]->var && nc_may_lie_over(c, o, i) &&
            nc_type_equal(n->in[i]->type, n->out[o]->type))
            return true;
    return (n->card->traits & NC_GROWS) && i == 0 && (c->prep.strided_out & 1);
}

/* Every reader of v and of the views on it comes before the writer. The writer itself may read the old version as it
 * lies, where its kernel says so, but not through a view: what it would read there may be written already. */
static nc_code protect(orderer *r, nc_value *v, nc_node *writer) {
    for (int k = 0; k < v->uses.n; k++) {
        nc_node *n = v->uses.v[k].node;
        int i = v->uses.v[k].i;
        if (n == writer && !nc_is_view(v) && updates(n, i)) continue;
        if (nc_choice_of(n)->view && i == 0) {
            for (int j = 0; j < n->n_out; j++)
                if (n->out[j]) NC_TRY(protect(r, n->out[j], writer));
            continue;
        }
        bool cycle = n == writer || nc_choice_of(n)->phase > nc_choice_of(writer)->phase;
        if (!cycle) NC_TRY(reaches(r, writer, n, &cycle));
        if (!cycle) {
            NC_TRY(push_or_fail(r, n, writer));
        } else {
            NC_TRY(copy_for_reader(r, n, i, writer));
            k = -1; /* the use list changed */
        }
    }
    return NC_OK;
}

static bool updates_in_place(const nc_node *n, const nc_value *old) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == old && updates(n, i)) return true;
    return false;
}

/* When the newest version is made by something that cannot write over the old one, an Assign node does it. */
static nc_code add_assign(orderer *r, nc_variable *var) {
    nc_value *in[2] = {var->first, var->last};
    r->w->at_node = var->name, r->w->at_op = "variable";
    if (!nc_type_equal(in[0]->type, in[1]->type)) {
        NC_FAIL(r->w, NC_E_UNSUPPORTED, "its new value has another shape or type, and '%s' cannot extend it in place",
                var->last->def ? var->last->def->name : var->last->name);
    }
    nc_builder b = {.w = r->w, .graph = r->g, .stage = NC_STAGE_UPDATE, .infer = nc_infer_node};
    in[1]->var = NULL;
    nc_value *next = nc_build_attr1(&b, "nacre", "Assign", in, 2, NULL, 0);
    if (!next) return b.code;
    next->place = next->def->place = var->first->place;
    nc_edit_set_version(var, next);
    NC_TRY(nc_choose_node(r->w, next->def, r->o));
    nc_choice_of(next->def)->phase = r->o->n_cuts;
    return NC_OK;
}

static nc_value *previous_version(const nc_value *v) {
    for (int i = 0; v->def && i < v->def->n_in; i++)
        if (v->def->in[i] && v->def->in[i]->var == v->var) return v->def->in[i];
    return NULL;
}

static nc_code order_variable(orderer *r, nc_variable *var) {
    if (var->last == var->first) return NC_OK;
    nc_value *old = var->last->place == var->first->place ? previous_version(var->last) : NULL;
    if (!old || !updates_in_place(var->last->def, old)) NC_TRY(add_assign(r, var));
    for (nc_value *v = var->last; v != var->first; v = old) {
        old = previous_version(v);
        r->w->at_node = var->name, r->w->at_op = "variable";
        if (!old) NC_FAIL(r->w, NC_E_BAD_GRAPH, "no earlier version leads to '%s'", v->name);
        if (!updates_in_place(v->def, old))
            NC_FAIL(r->w, NC_E_UNSUPPORTED, "'%s' cannot update it in place", v->def->name);
        NC_TRY(protect(r, old, v->def));
    }
    return NC_OK;
}

/* ---- sorting ---- */

typedef struct sorter {
    orderer *r;
    int *need; /* by node id: how many of its predecessors are not emitted yet */
    nc_node **waiting;
    NC_VEC(nc_node *) order;
} sorter;

static nc_code emit(sorter *s, nc_node *n) {
    if (!NC_PUSH(&s->r->w->scratch, s->order, n)) NC_FAIL(s->r->w, NC_E_MEMORY, "out of memory");
    for (int o = 0; o < n->n_out; o++)
        for (int i = 0; n->out[o] && i < n->out[o]->uses.n; i++) s->need[n->out[o]->uses.v[i].node->id]--;
    for (int i = 0; i < nc_choice_of(n)->then.n; i++) s->need[nc_choice_of(n)->then.v[i]->id]--;
    return NC_OK;
}

/* The list is nearly sorted: sweep it until nothing waits. A sweep that emits nothing means a cycle. */
static nc_code sort_phase(sorter *s, int phase) {
    int n_waiting = 0;
    for (nc_node *n = s->r->g->first; n; n = n->next)
        if (nc_choice_of(n)->phase == phase) s->waiting[n_waiting++] = n;
    while (n_waiting) {
        int kept = 0;
        nc_steps_add((uint64_t)n_waiting);
        for (int k = 0; k < n_waiting; k++) {
            if (s->need[s->waiting[k]->id])
                s->waiting[kept++] = s->waiting[k];
            else
                NC_TRY(emit(s, s->waiting[k]));
        }
        if (kept == n_waiting)
            NC_FAIL(s->r->w, NC_E_BAD_GRAPH, "the order of '%s' closes a cycle", s->waiting[0]->name);
        n_waiting = kept;
    }
    return NC_OK;
}

static nc_code sort_nodes(orderer *r) {
    nc_graph *g = r->g;
    sorter s = {.r = r};
    NC_NEED(r->w, s.need = nc_arena_array(&r->w->scratch, (size_t)g->model->next_id, sizeof *s.need));
    NC_NEED(r->w, s.waiting = nc_arena_array(&r->w->scratch, (size_t)g->n_nodes, sizeof *s.waiting));
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_operands; i++) s.need[n->id] += n->in[i] && n->in[i]->def;
        for (int i = 0; i < nc_choice_of(n)->then.n; i++) s.need[nc_choice_of(n)->then.v[i]->id]++;
    }
    for (int phase = 0; phase <= r->o->n_cuts; phase++) NC_TRY(sort_phase(&s, phase));
    for (int i = 0; i < s.order.n; i++) nc_edit_move_before(s.order.v[i], NULL);
    return NC_OK;
}

nc_code nc_lower_order(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    orderer r = {.w = w, .g = g, .o = o};
    NC_TRY(mark_phases(&r));
    for (int i = 0; i < g->vars.n; i++) NC_TRY(order_variable(&r, g->vars.v[i]));
    return sort_nodes(&r);
}
