/* plan/lower_copy.c: where every value lies, and the copies in between: Copy nodes, for all to see. Where nodes run is
 * decided before (place.c); a node's operands lie where it runs, but what a card wants on the host lies there. A
 * constant needs no copy node: each place gets its own. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

typedef struct copier {
    nc_work *w;
    nc_graph *g;
    const nc_plan_options *o;
    nc_value **twin; /* by value id: the same value at the other place */
    int n_twin;
} copier;

static nc_code copy_graph(const copier *outer, nc_graph *g);

static nc_value *remember_twin(copier *p, nc_value *v, nc_value *t) {
    if (v->id < p->n_twin) p->twin[v->id] = t;
    return t;
}

/* An input whose sizes are made from others, which a node may find first: a gradient by a result. */
static bool has_made_sizes(const nc_value *v) {
    for (int d = 0; d < v->type->rank; d++)
        if (nc_dim_sym_id(v->type->dims[d]) < 0 && !nc_dim_is_const(v->type->dims[d], NULL)) return true;
    return false;
}

/* v at `place`: itself, its twin, or a new copy: right behind its producer, so that it overlaps with what follows;
 * inputs at the start or, where their sizes may not be known there, before the first reader; outputs (no reader) at the
 * end, so that the device's own work stands together and can be captured. */
static nc_value *at_place(copier *p, nc_value *v, int place, nc_node *reader) {
    if (v->place == place) return v;
    if (v->id < p->n_twin && p->twin[v->id]) return p->twin[v->id];
    if (v->origin == NC_FROM_CONST && !v->var) {
        nc_value *c = nc_edit_const(p->g, v->name, v->lit);
        if (!c) return NULL;
        c->type = v->type, c->elems = v->elems, c->n_elems = v->n_elems, c->place = place;
        return remember_twin(p, v, c);
    }
    nc_node *before = !reader || has_made_sizes(v) ? reader : p->g->first;
    if (reader && v->def) before = v->def->next;
    nc_stage stage = v->def ? v->def->stage : NC_STAGE_FORWARD;
    nc_builder b = {.w = p->w, .graph = p->g, .before = before, .stage = stage, .infer = nc_infer_node};
    nc_value *c = nc_build_attr1(&b, "nacre", "Copy", &v, 1, NULL, 0);
    if (!c) return NULL;
    c->place = c->def->place = place;
    return remember_twin(p, v, c);
}

static nc_code move_operand(copier *p, nc_node *n, int i, int place) {
    if (!n->in[i] || n->in[i]->place == place) return NC_OK;
    nc_value *v = at_place(p, n->in[i], place, n);
    if (!v) return p->w->diag.code ? p->w->diag.code : nc_fail(p->w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(n, i, v);
    return NC_OK;
}

/* Of a value that is t on one side of a subgraph's boundary and `other` on the other: a copy needs a rank, so what has
 * none stays on the host. */
static int boundary_place(const nc_type *t, const nc_type *other, unsigned host_bits, int i) {
    if (nc_type_is_host(t) || nc_rank_is_unknown(t) || nc_rank_is_unknown(other)) return 0;
    return i < 32 && (host_bits >> i & 1) ? 0 : 1;
}

/* What operand i becomes inside. */
static const nc_type *inner_type(const nc_node *n, int i) {
    const nc_graph *sub = n->subs[0].graph;
    return n->n_subs == 1 && i < sub->inputs.n ? sub->inputs.v[i]->type : NULL;
}

/* What output i of a subgraph becomes outside; a Loop's condition comes before those. */
static const nc_type *outer_type(const nc_graph *g, int i) {
    int k = i - (g->outputs.n - g->owner->n_out);
    return k >= 0 && g->owner->out[k] ? g->owner->out[k]->type : NULL;
}

/* Operands and results of control flow cross into subgraphs: tensors lie on the device, counters and conditions on the
 * host, captures where they are. */
static nc_code copy_control(copier *p, nc_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i])
            NC_TRY(move_operand(p, n, i, boundary_place(n->in[i]->type, inner_type(n, i), n->card->host_in, i)));
    for (int s = 0; s < n->n_subs; s++) {
        nc_graph *sub = n->subs[s].graph;
        for (int i = 0; i < sub->inputs.n; i++)
            sub->inputs.v[i]->place = boundary_place(sub->inputs.v[i]->type, NULL, n->card->host_sub_in, i);
        for (int i = 0; i < sub->captures.n; i++)
            sub->captures.v[i]->place = n->in[n->subs[s].first_capture + i]->place;
        NC_TRY(copy_graph(p, sub));
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->place = boundary_place(n->out[i]->type, NULL, 0, i);
    return NC_OK;
}

/* A body that is planned later is fed what is there, wherever it lies. */
static nc_code copy_deferred(const nc_node *n) {
    for (int i = 0; i < n->n_in; i++) n->subs[0].graph->inputs.v[i]->place = n->in[i]->place;
    return NC_OK;
}

static nc_code copy_operands(copier *p, nc_node *n) {
    if (n->card->traits & NC_CONTROL) return copy_control(p, n);
    if (nc_is_deferred(n)) return copy_deferred(n);
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] || nc_wants_dims_only(n, i)) continue;
        NC_TRY(move_operand(p, n, i, nc_type_is_host(n->in[i]->type) || nc_wants_host(n, i) ? 0 : n->place));
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->place = n->place;
    return NC_OK;
}

static nc_code copy_outputs(copier *p) {
    nc_graph *g = p->g;
    for (int i = 0; i < g->outputs.n; i++) {
        nc_value *v = g->outputs.v[i];
        int place = g->owner ? boundary_place(v->type, outer_type(g, i), g->owner->card->host_sub_out, i) : 0;
        if (v->place == place) continue;
        nc_value *c = at_place(p, v, place, NULL);
        if (!c) return p->w->diag.code ? p->w->diag.code : nc_fail(p->w, NC_E_MEMORY, "out of memory");
        nc_edit_set_output(g, i, c);
    }
    return NC_OK;
}

/* Ids are those of the model, so that one array of twins serves all graphs. */
static nc_code copy_graph(const copier *outer, nc_graph *g) {
    copier p = *outer;
    p.g = g;
    for (int i = 0; i < g->vars.n; i++) g->vars.v[i]->first->place = nc_type_is_host(g->vars.v[i]->first->type) ? 0 : 1;
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        p.w->at_node = n->name, p.w->at_op = n->card->name;
        NC_TRY(copy_operands(&p, n));
    }
    return copy_outputs(&p);
}

nc_code nc_lower_copy(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    if (o->device->table->host_memory) return NC_OK;
    copier p = {.w = w, .g = g, .o = o, .n_twin = g->model->next_id};
    NC_NEED(w, p.twin = nc_arena_array(&w->scratch, (size_t)p.n_twin, sizeof *p.twin));
    return copy_graph(&p, g);
}
