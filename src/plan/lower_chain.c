/* plan/lower_chain.c: joins elementwise neighbours into one nacre.Chain node whose body holds them; the lane binding
 * runs it as one tile program, or as one generated kernel. Joined are a lane and the only user of its result, when both
 * make the same shape and all that is then joined is still one program (ops/lane_prog.h). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane_prog.h"
#include "plan/plan.h"

#include <string.h>

/* Inputs and dims: as many as one launch on a GPU can carry (kernels/cuda/chain.h). */
enum { MAX_INPUTS = 12, MAX_NODES = 24, MAX_DIMS = 32 };

typedef struct group {
    nc_node *nodes[MAX_NODES]; /* in graph order; the last gives the result */
    int n;
} group;

/* Narrow integers wrap when stored, so they may not stay in a wider register between two nodes. */
static bool is_plain(const nc_type *t) {
    if (!t || t->kind != NC_T_TENSOR || t->rank < 0 || t->rank > MAX_DIMS) return false;
    return nc_dtype_is_float(t->elem) || t->elem == NC_INT64 || t->elem == NC_UINT64 || t->elem == NC_BOOL;
}

static bool is_lane(const nc_node *n) {
    if (!n->card->lane || n->n_out != 1 || n->n_subs || n->n_in > 3) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || !is_plain(n->in[i]->type)) return false;
    return is_plain(n->out[0]->type);
}

static bool same_dims(const nc_type *a, const nc_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return a->layout.block == b->layout.block;
}

static bool joins(const nc_node *p, const nc_node *n) {
    const nc_value *v = p->out[0];
    return is_lane(p) && v->uses.n == 1 && !v->n_outputs && !v->var && p->place == n->place && p->stage == n->stage &&
           !p->recompute && !n->recompute && same_dims(v->type, n->out[0]->type);
}

static int count_inputs(const group *a, const group *b) {
    int n = 0;
    for (int i = 0; i < a->n; i++) n += a->nodes[i]->n_in;
    for (int i = 0; b && i < b->n; i++) n += b->nodes[i]->n_in;
    return n - (a->n + (b ? b->n : 0) -
                1); /* every inner edge takes one input away; counts repeats, so it errs on the safe side */
}

static bool merge(group *into, const group *from) {
    if (into->n + from->n > MAX_NODES || count_inputs(into, from) > MAX_INPUTS) return false;
    group both = *from;
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
    return nc_edit_output(body, made[g->n - 1], made[g->n - 1]->name);
}

static nc_code make_chain(nc_work *w, const group *g) {
    nc_node *last = g->nodes[g->n - 1];
    nc_model *m = last->graph->model;
    const nc_card *card = m->registry->find(m->registry, "nacre", "Chain");
    if (!card) return nc_fail(w, NC_E_FAIL, "no card for nacre.Chain");
    const char *out_name = last->out[0]->name;
    nc_node *chain = nc_edit_node(last->graph, last, card, card->versions, NULL, NULL, 0, &out_name, 1);
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
    for (int k = g->n - 1; k >= 0; k--) nc_edit_remove(g->nodes[k]);
    return NC_OK;
}

/* of: by node id, the group that ends there; one array serves all graphs. */
static nc_code chain_graph(nc_work *w, nc_graph *graph, group **of) {
    NC_VEC(nc_node *) ends = {0};
    for (nc_node *n = graph->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(chain_graph(w, n->subs[i].graph, of));
        if (!is_lane(n)) continue;
        group *g = nc_arena_alloc(&w->scratch, sizeof *g);
        NC_NEED(w, g);
        g->nodes[0] = n, g->n = 1;
        for (int i = 0; i < n->n_in; i++) {
            nc_node *p = n->in[i]->def;
            if (p && of[p->id] && joins(p, n) && merge(g, of[p->id])) of[p->id] = NULL;
        }
        of[n->id] = g;
        if (!NC_PUSH(&w->scratch, ends, n)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    for (int i = 0; i < ends.n; i++)
        if (of[ends.v[i]->id] && of[ends.v[i]->id]->n > 1) NC_TRY(make_chain(w, of[ends.v[i]->id]));
    return NC_OK;
}

nc_code nc_lower_chain(nc_work *w, nc_model *m, const nc_plan_options *o) {
    if (o->no_fusion) return NC_OK;
    group **of = nc_arena_array(&w->scratch, (size_t)m->next_id, sizeof *of);
    NC_NEED(w, of);
    return chain_graph(w, m->main, of);
}
