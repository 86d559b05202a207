/* plan/lower_random.c: makes randomness visible. Every random node becomes its card's random_form, which takes the
 * random state {seed, step} as its last input; the state is a variable that one node at the end of the run advances. So
 * there is no hidden side effect, a clone for recompute draws the same numbers, and a captured run reads the step from
 * device memory. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

static bool is_random(const nc_node *n) {
    if (!n->card->random_form) return false;
    return n->card->is_random ? n->card->is_random(n) : !(n->card->is_identity && n->card->is_identity(n));
}

static nc_code refuse_in_subgraphs(nc_work *w, const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next) {
        w->at_node = n->name, w->at_op = n->card->name;
        if (g->parent && is_random(n))
            NC_FAIL(w, NC_E_UNSUPPORTED,
                    "a random op inside a subgraph would draw the same numbers in every iteration");
        for (int i = 0; i < n->n_subs; i++) NC_TRY(refuse_in_subgraphs(w, n->subs[i].graph));
    }
    return NC_OK;
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
    nc_value *in[8] = {NULL};
    int n_form = 0; /* the form's inputs, rng last */
    const char *name = rng ? n->card->random_form : n->card->seeded_form;
    const nc_card *form = b->graph->model->registry->find(b->graph->model->registry, "nacre", name);
    if (!form) return nc_fail(b->w, NC_E_FAIL, "no card for %s", name);
    while (form->versions[0].in[n_form].name) n_form++;
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i];
    if (rng) in[n_form - 1] = rng;
    b->before = n, b->stage = n->stage;
    nc_node *r = nc_build(b, "nacre", name, in, n_form, n->n_out, n->attrs, n->n_attrs);
    if (!r) return b->code;
    r->name = n->name, r->random_id = n->random_id, r->recompute = n->recompute;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && r->out[i]) nc_edit_replace(n->out[i], r->out[i]);
    nc_edit_remove(n);
    return NC_OK;
}

nc_code nc_lower_random(nc_work *w, nc_model *m) {
    NC_TRY(refuse_in_subgraphs(w, m->main));
    nc_builder b = {.w = w, .graph = m->main, .infer = nc_infer_node};
    nc_value *rng = NULL;
    bool trains = is_differentiated(m->main);
    for (nc_node *n = m->main->first, *next; n; n = next) {
        next = n->next;
        if (!is_random(n)) continue;
        w->at_node = n->name, w->at_op = n->card->name;
        bool seeded = takes_seeded_form(n, trains);
        if (!seeded && !rng) NC_NEED(w, rng = add_state(m));
        NC_TRY(bind(&b, n, seeded ? NULL : rng));
    }
    if (!rng) return NC_OK;
    b.before = NULL, b.stage = NC_STAGE_UPDATE;
    nc_value *next = nc_build_attr1(&b, "nacre", "RandomStep", &rng, 1, NULL, 0);
    if (!next) return b.code;
    nc_edit_set_version(rng->var, next);
    return NC_OK;
}
