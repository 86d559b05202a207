/* plan/lower_random.c: makes randomness visible. Every random node becomes its card's random_form, which takes the
 * random state {seed, step} as its last input; the state is a variable that one node at the end of the run advances. So
 * there is no hidden side effect, a clone for recompute draws the same numbers, and a captured run reads the step from
 * device memory. Inside a Loop the iteration joins the state, so that each draws numbers of its own. An op that draws
 * through its pieces (BiasDropout) is taken apart first. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

enum { MOST = 12 }; /* inputs and outputs of random forms */

static bool is_random(const nc_node *n) {
    if (!n->card->random_form) return false;
    return n->card->is_random ? n->card->is_random(n) : !(n->card->is_identity && n->card->is_identity(n));
}

/* An op that draws through its pieces, which have its random id. */
static bool is_made_of_draws(const nc_node *n) {
    return (n->card->traits & NC_RANDOM) && !n->card->random_form && n->card->decompose;
}

static nc_value *add_state(nc_model *m) {
    const nc_dim *two = nc_dim_const(m->dims, 2);
    if (!two) return NULL;
    const nc_type *t = nc_type_tensor(&m->arena, NC_INT64, 1, &two);
    nc_value *v = t ? nc_edit_variable(m->main, "nacre.random", t, NULL) : NULL;
    if (v) v->var->internal = true;
    return v;
}

static bool is_differentiated(const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next)
        if (n->stage == NC_STAGE_BACKWARD) return true;
    return false;
}

/* A seed written into a graph that only infers asks for certain numbers, the same in every run: the seeded form draws
 * them. A training step must draw anew, so there the seed is only that of the random state. */
static bool takes_seeded_form(const nc_node *n, bool trains) {
    return !trains && n->card->seeded_form && nc_node_attr(n, "seed");
}

/* rng: the random state; NULL: the seeded form, which takes none. */
static nc_code bind(nc_builder *b, nc_node *n, nc_value *rng) {
    nc_value *in[MOST] = {NULL};
    bool wanted[MOST];
    int n_form = 0; /* the form's inputs, rng last */
    const char *name = rng ? n->card->random_form : n->card->seeded_form;
    const nc_card *form = b->graph->model->registry->find(b->graph->model->registry, "nacre", name);
    if (!form) return nc_fail(b->w, NC_E_FAIL, "no card for %s", name);
    while (form->versions[0].in[n_form].name) n_form++;
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i];
    if (rng) in[n_form - 1] = rng;
    b->before = n, b->stage = n->stage;
    for (int i = 0; i < n->n_out; i++) wanted[i] = n->out[i] != NULL;
    nc_node *r = nc_build_wanted(b, "nacre", name, in, n_form, wanted, n->n_out, n->attrs, n->n_attrs);
    if (!r) return b->code;
    r->name = n->name, r->random_id = n->random_id, r->recompute = n->recompute;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && r->out[i]) nc_edit_replace(n->out[i], r->out[i]);
    nc_edit_remove(n);
    return NC_OK;
}

/* ---- inside subgraphs ---- */

typedef struct drawer {
    nc_work *w;
    nc_value *rng; /* of the main graph; NULL: nothing has asked for it yet */
    bool trains;
} drawer;

/* The state of the body of a Loop: the seed goes on by a prime an iteration, another one for each depth. */
static nc_value *state_of_iteration(nc_builder *b, nc_value *rng, nc_value *iteration, int depth) {
    static const int64_t zero, vector[] = {1}, primes[] = {4294967311, 1000003, 15485863, 179424673};
    nc_value *count = nc_build1(b, "Add", 2, iteration, nc_build_int(b, 1));
    nc_value *far = nc_build1(b, "Mul", 2, nc_build1(b, "Reshape", 2, count, nc_build_ints(b, vector, 1)),
                              nc_build_ints(b, &primes[depth % 4], 1));
    nc_value *pair[2] = {far, nc_build_ints(b, &zero, 1)};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build1(b, "Add", 2, rng, nc_build_attr1(b, "", "Concat", pair, 2, &axis, 1));
}

static int loops_around(const nc_graph *g) {
    int n = 0;
    for (; g->owner; g = g->parent) n += (g->owner->card->traits & NC_LOOPS) != 0;
    return n;
}

/* The random state as g's nodes take it. */
static nc_code state_in(drawer *d, nc_graph *g, nc_value **out) {
    if (!g->owner) {
        if (!d->rng) NC_NEED(d->w, d->rng = add_state(g->model));
        *out = d->rng;
        return NC_OK;
    }
    nc_value *outer;
    NC_TRY(state_in(d, g->parent, &outer));
    NC_NEED(d->w, *out = nc_edit_reach(g, outer));
    (*out)->type = outer->type;
    if (g->owner->card->traits & NC_BRANCHES) return NC_OK;
    if (!(g->owner->card->traits & NC_LOOPS))
        NC_FAIL(d->w, NC_E_UNSUPPORTED, "a random op in the body of %s would draw the same numbers each time",
                g->owner->card->name);
    nc_builder b = {.w = d->w, .graph = g, .before = g->first, .infer = nc_infer_node};
    *out = state_of_iteration(&b, *out, g->inputs.v[0], loops_around(g) - 1);
    return b.code;
}

/* A seed asks for certain numbers, but not for the same in every iteration. */
static nc_code draw(drawer *d, nc_graph *g) {
    nc_value *rng = NULL;
    nc_builder b = {.w = d->w, .graph = g, .infer = nc_infer_node};
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        d->w->at_node = n->name, d->w->at_op = n->card->name;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(draw(d, n->subs[i].graph));
        if (is_made_of_draws(n)) {
            nc_node *before = n->prev;
            NC_TRY(nc_lower_apart(d->w, n));
            next = before ? before->next : g->first;
            continue;
        }
        if (!is_random(n)) continue;
        bool seeded = takes_seeded_form(n, d->trains) && !loops_around(g);
        if (!seeded && !rng) NC_TRY(state_in(d, g, &rng));
        NC_TRY(bind(&b, n, seeded ? NULL : rng));
    }
    return NC_OK;
}

nc_code nc_lower_random(nc_work *w, nc_model *m) {
    drawer d = {.w = w, .trains = is_differentiated(m->main)};
    NC_TRY(draw(&d, m->main));
    if (!d.rng) return NC_OK;
    nc_builder b = {.w = w, .graph = m->main, .stage = NC_STAGE_UPDATE, .infer = nc_infer_node};
    nc_value *next = nc_build_attr1(&b, "nacre", "RandomStep", &d.rng, 1, NULL, 0);
    if (!next) return b.code;
    nc_edit_set_version(d.rng->var, next);
    return NC_OK;
}
