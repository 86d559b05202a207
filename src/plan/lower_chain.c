/* plan/lower_chain.c: joins elementwise neighbours into one nacre.Chain node whose body holds them; the lane binding
 * runs it as one tile program, or as one generated kernel. Joined are a lane and the only user of its result, when both
 * make the same shape and all that is then joined is still one program (ops/lane_prog.h). A Cast from a half type to
 * f32 is done anew by every chain that reads it: half the bytes; one to a half type is the last of its chain, so that
 * it rounds what it is there to round, or a second result where the first has other users. */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "plan/plan.h"

#include <string.h>

/* Inputs and dims: as many as one launch on a GPU can carry (kernels/cuda/chain.h). */
enum { MAX_INPUTS = 12, MAX_NODES = 24, MAX_DIMS = 32 };
enum { MAX_RANK_TWICE = 16 }; /* with a second result */

typedef struct group {
    nc_node *nodes[MAX_NODES]; /* in graph order; the last gives the result */
    int n;
    nc_node *also; /* a Cast of the result to a half type: a second result. NULL: none */
} group;

/* Narrow integers wrap when stored, so they may not stay in a wider register between two nodes. */
static bool is_plain(const nc_type *t) {
    if (!t || t->kind != NC_T_TENSOR || t->rank < 0 || t->rank > MAX_DIMS) return false;
    return nc_dtype_is_float(t->elem) || t->elem == NC_INT64 || t->elem == NC_UINT64 || t->elem == NC_BOOL;
}

static bool is_lane(const nc_node *n) {
    if (nc_lane_number(n) < 0 || n->n_out != 1 || n->n_subs || n->n_in > 3) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || !is_plain(n->in[i]->type)) return false;
    return is_plain(n->out[0]->type);
}

static bool widens(const nc_node *n) { return nc_lane_casts(n) && n->out[0]->type->elem == NC_FLOAT; }

/* A result of a kernel of a device that takes sums with it into its own, for n alone. */
static bool is_summable(const nc_value *v, const nc_node *n) {
    const nc_node *k = v->origin == NC_FROM_NODE ? v->def : NULL;
    return k && k->card->with_body && !k->n_subs && k->place && k->place == n->place && k->stage == n->stage &&
           v->uses.n == 1 && !v->n_outputs && !v->var && nc_lower_same_dims(v->type, n->out[0]->type);
}

/* The sum of two kernels' results, itself a summand: GPU libraries add one tensor to a product on its way out, so that
 * three products are added up without a pass over them. */
static bool is_left_to_kernels(const nc_node *p, const nc_node *n) {
    if (nc_lane_number(p) != NCK_LANE_add || nc_lane_number(n) != NCK_LANE_add) return false;
    return p->n_in == 2 && n->n_in == 2 && is_summable(p->in[0], p) && is_summable(p->in[1], p) &&
           is_summable(n->in[n->in[0] == p->out[0]], n);
}

static bool joins(const nc_node *p, const nc_node *n) {
    const nc_value *v = p->out[0];
    return is_lane(p) && !is_left_to_kernels(p, n) && v->uses.n == 1 && !v->n_outputs && !v->var &&
           p->place == n->place && p->stage == n->stage && !p->recompute && !n->recompute &&
           (!nc_lane_casts(p) || widens(p)) && nc_lower_same_dims(v->type, n->out[0]->type);
}

/* n casts p's result, which others use too, to a half type. */
static bool leaves_twice(const nc_node *p, const nc_node *n) {
    const nc_value *v = p->out[0];
    return nc_lane_casts(n) && !widens(n) && is_lane(p) && !nc_lane_casts(p) && v->type->elem == NC_FLOAT &&
           v->type->rank <= MAX_RANK_TWICE && nc_lower_same_dims(v->type, n->out[0]->type) && !v->var &&
           !n->out[0]->var && p->place == n->place && p->stage == n->stage && !p->recompute && !n->recompute;
}

/* A Cast that others use too, or of another stage. */
static bool joins_anew(const nc_node *p, const nc_node *n) {
    return is_lane(p) && widens(p) && p->place == n->place && !p->recompute && !n->recompute &&
           nc_lower_same_dims(p->out[0]->type, n->out[0]->type);
}
static bool is_shared_cast(const nc_node *n) { return widens(n) && n->out[0]->uses.n > 1; }

static int count_inputs(const group *a, const group *b) {
    int n = 0;
    for (int i = 0; i < a->n; i++) n += a->nodes[i]->n_in;
    for (int i = 0; b && i < b->n; i++) n += b->nodes[i]->n_in;
    return n - (a->n + (b ? b->n : 0) -
                1); /* every inner edge takes one input away; counts repeats, so it errs on the safe side */
}

static bool merge(group *into, const group *from) {
    if (into->n + from->n > MAX_NODES || count_inputs(into, from) > MAX_INPUTS) return false;
    group both = *from; /* which has one result, or it would not be joined */
    memcpy(both.nodes + both.n, into->nodes, (size_t)into->n * sizeof *into->nodes);
    both.n += into->n;
    nc_lane_prog p;
    if (!nc_lane_prog_group(&p, both.nodes, both.n)) return false;
    *into = both;
    return true;
}

typedef struct inputs {
    nc_value *outer[MAX_INPUTS + MAX_NODES];
    nc_value *inner[MAX_INPUTS + MAX_NODES];
    int n;
} inputs;

static nc_value *inner_of(nc_graph *body, inputs *in, nc_value *v) {
    for (int i = 0; i < in->n; i++)
        if (in->outer[i] == v) return in->inner[i];
    nc_value *x = nc_edit_input(body, v->name, v->type);
    if (x) in->outer[in->n] = v, in->inner[in->n] = x, in->n++;
    return x;
}

static nc_code fill_body(nc_work *w, nc_graph *body, const group *g, inputs *in) {
    nc_value *made[MAX_NODES];
    for (int k = 0; k < g->n; k++) {
        nc_node *n = g->nodes[k], *c = nc_edit_clone(body, NULL, n);
        NC_NEED(w, c);
        for (int i = 0; i < n->n_in; i++) {
            nc_value *x = NULL;
            for (int j = 0; j < k && !x; j++)
                if (n->in[i] == g->nodes[j]->out[0]) x = made[j];
            if (!x) x = inner_of(body, in, n->in[i]);
            NC_NEED(w, x);
            nc_edit_set_in(c, i, x);
        }
        c->out[0]->type = n->out[0]->type;
        made[k] = c->out[0];
    }
    NC_TRY(nc_edit_output(body, made[g->n - 1], made[g->n - 1]->name));
    if (!g->also) return NC_OK;
    nc_node *c = nc_edit_clone(body, NULL, g->also);
    NC_NEED(w, c);
    nc_edit_set_in(c, 0, made[g->n - 1]);
    c->out[0]->type = g->also->out[0]->type;
    return nc_edit_output(body, c->out[0], c->out[0]->name);
}

static nc_code make_chain(nc_work *w, const group *g) {
    nc_node *last = g->nodes[g->n - 1];
    nc_model *m = last->graph->model;
    const nc_card *card = m->registry->find(m->registry, "nacre", "Chain");
    if (!card) return nc_fail(w, NC_E_FAIL, "no card for nacre.Chain");
    const char *names[2] = {last->out[0]->name, g->also ? g->also->out[0]->name : NULL};
    nc_node *chain = nc_edit_node(last->graph, last, card, card->versions, NULL, NULL, 0, names, g->also ? 2 : 1);
    NC_NEED(w, chain);
    nc_graph *body = nc_edit_subgraph(chain, "body");
    NC_NEED(w, body);
    inputs in = {.n = 0};
    NC_TRY(fill_body(w, body, g, &in));
    for (int i = 0; i < in.n; i++) NC_TRY(nc_edit_add_in(chain, in.outer[i]));
    chain->stage = last->stage, chain->place = last->place;
    chain->out[0]->type = last->out[0]->type;
    if (last->out[0]->var) chain->out[0]->var = last->out[0]->var;
    nc_edit_replace(last->out[0], chain->out[0]);
    if (g->also) {
        chain->out[1]->type = g->also->out[0]->type;
        nc_edit_replace(g->also->out[0], chain->out[1]);
        nc_edit_remove(g->also);
    }
    for (int k = g->n - 1; k >= 0; k--) nc_edit_remove(g->nodes[k]);
    return NC_OK;
}

/* Operand i of the group's last node, the result of the Cast p, as a Cast of its own in the group. */
static nc_code take_cast(nc_work *w, group *g, nc_node *p, int i) {
    nc_node *n = g->nodes[g->n - 1], *c = nc_edit_clone(n->graph, n, p);
    NC_NEED(w, c);
    nc_edit_set_in(c, 0, p->in[0]);
    c->stage = n->stage, c->place = n->place;
    c->out[0]->type = p->out[0]->type;
    nc_edit_set_in(n, i, c->out[0]);
    group alone = {.nodes = {c}, .n = 1};
    if (merge(g, &alone)) return NC_OK;
    nc_edit_set_in(n, i, p->out[0]);
    nc_edit_remove(c);
    return NC_OK;
}

/* What n reads joins its group. */
static nc_code join_operands(nc_work *w, group *g, nc_node *n, group **of) {
    for (int i = 0; i < n->n_in && !is_shared_cast(n); i++) {
        nc_node *p = n->in[i]->def;
        if (!p || !of[p->id]) continue;
        if (joins(p, n)) {
            if (merge(g, of[p->id])) of[p->id] = NULL;
        } else if (of[p->id]->n == 1 && joins_anew(p, n)) {
            NC_TRY(take_cast(w, g, p, i));
        }
    }
    return NC_OK;
}

static bool joins_as_second(nc_node *n, group **of) {
    nc_node *p = n->in[0] ? n->in[0]->def : NULL;
    group *g = p ? of[p->id] : NULL;
    if (!g || g->also || g->n == MAX_NODES || n->in[0]->uses.n + n->in[0]->n_outputs < 2) return false;
    if (!leaves_twice(p, n) || count_inputs(g, NULL) >= MAX_INPUTS) return false;
    group both = *g;
    both.nodes[both.n++] = n;
    nc_lane_prog prog;
    if (!nc_lane_prog_group(&prog, both.nodes, both.n)) return false; /* alone, Pow takes whole exponents */
    g->also = n;
    return true;
}

/* Every chain that reads it does it itself. */
static bool is_left_over(const nc_node *n) {
    const nc_value *v = n->out[0];
    return widens(n) && !v->uses.n && !v->n_outputs && !v->var;
}

/* of: by node id, the group that ends there; one array serves all graphs. */
static nc_code chain_graph(nc_work *w, nc_graph *graph, group **of) {
    NC_VEC(nc_node *) ends = {0};
    for (nc_node *n = graph->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(chain_graph(w, n->subs[i].graph, of));
        if (!is_lane(n) || joins_as_second(n, of)) continue;
        group *g = nc_arena_alloc(&w->scratch, sizeof *g);
        NC_NEED(w, g);
        g->nodes[0] = n, g->n = 1;
        NC_TRY(join_operands(w, g, n, of));
        of[n->id] = g;
        if (!NC_PUSH(&w->scratch, ends, n)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    for (int i = 0; i < ends.n; i++) {
        const group *g = of[ends.v[i]->id];
        if (g && g->n == 1 && is_left_over(ends.v[i]))
            nc_edit_remove(ends.v[i]);
        else if (g && (g->n > 1 || g->also))
            NC_TRY(make_chain(w, g));
    }
    return NC_OK;
}

nc_code nc_lower_chain(nc_work *w, nc_model *m, const nc_plan_options *o) {
    if (o->no_fusion) return NC_OK;
    group **of = nc_arena_array(&w->scratch, (size_t)m->next_id, sizeof *of);
    NC_NEED(w, of);
    return chain_graph(w, m->main, of);
}
