/* plan/lower_casts.c: half precision costs no passes of its own where a kernel reads and writes half types by itself
 * (half_in, half_out and half_through of its row): a Cast to f32 in front of it and one from f32 behind it go. Comes
 * before lower_chain.c, which takes the other casts in. */
#include "ops/binding.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "plan/plan.h"

static bool is_free(const nc_value *v) { return !v->uses.n && !v->n_outputs && !v->var; }
static bool is_f32(const nc_value *v) { return v && v->type && v->type->elem == NC_FLOAT; }

/* The Cast from a half type that v is the result of, at the place of n. */
static nc_node *widening(const nc_value *v, const nc_node *n) {
    nc_node *c = is_f32(v) ? v->def : NULL;
    return c && nc_lane_casts(c) && c->place == n->place && !c->recompute ? c : NULL;
}

/* The Cast to a half type that alone uses v. */
static nc_node *narrowing(const nc_value *v, const nc_node *n) {
    if (!is_f32(v) || v->uses.n != 1 || v->n_outputs || v->var) return NULL;
    nc_node *c = v->uses.v[0].node;
    bool fits = c && c->graph == n->graph && nc_lane_casts(c) && c->place == n->place && !c->recompute;
    return fits && !c->out[0]->var ? c : NULL;
}

/* The parameters of a version, each with types of its own where it had those of another. */
static const nc_param *freed(nc_work *w, nc_arena *arena, const nc_param *list, const nc_param *in) {
    int n = 0;
    while (list && list[n].name) n++;
    nc_param *made = nc_arena_array(arena, (size_t)n + 1, sizeof *made);
    for (int i = 0; made && i <= n && list; i++) {
        made[i] = list[i];
        if (i < n && !made[i].types) made[i].types = in[(int)list[i].same].types;
    }
    if (!made) (void)nc_fail(w, NC_E_MEMORY, "out of memory");
    return made;
}

/* n, of a version whose operands need not be of one type. */
static nc_code free_types(nc_work *w, nc_node *n) {
    nc_arena *arena = &n->graph->model->arena;
    nc_op_version *v = nc_arena_alloc(arena, sizeof *v);
    NC_NEED(w, v);
    *v = *n->version;
    NC_NEED(w, v->in = freed(w, arena, n->version->in, n->version->in));
    NC_NEED(w, v->out = freed(w, arena, n->version->out, n->version->in));
    n->version = v;
    return NC_OK;
}

static void take_widening(nc_node *n, int i, nc_node *c) {
    nc_edit_set_in(n, i, c->in[0]);
    if (is_free(c->out[0])) nc_edit_remove(c);
}

static void take_narrowing(nc_node *n, int i, nc_node *c) {
    n->out[i]->type = c->out[0]->type;
    nc_edit_replace(c->out[0], n->out[i]);
    nc_edit_remove(c);
}

/* Both casts of a node that may be of the half type as a whole, or none. */
static void take_both(nc_node *n) {
    nc_node *in = widening(n->in[0], n), *out = narrowing(n->out[0], n);
    if (!in || !out || in->in[0]->type->elem != out->out[0]->type->elem) return;
    if (!nc_types_take(n->version->in[0].types, NC_BIT(out->out[0]->type->elem))) return;
    take_widening(n, 0, in);
    take_narrowing(n, 0, out);
}

static nc_code take_casts(nc_work *w, nc_node *n, const nc_plan_options *o) {
    const nc_binding *row = nc_binding_find(n, nc_kernels_at(o, n->place), NULL, 0);
    if (n->recompute || !row) return NC_OK;
    if (row->half_through) take_both(n);
    bool any = false;
    for (int i = 0; i < n->n_in && i < 8; i++) {
        nc_node *c = row->half_in >> i & 1 ? widening(n->in[i], n) : NULL;
        if (!c) continue;
        any = true;
        take_widening(n, i, c);
    }
    for (int i = 0; i < n->n_out && i < 8; i++) {
        nc_node *c = row->half_out >> i & 1 ? narrowing(n->out[i], n) : NULL;
        if (!c) continue;
        any = true;
        take_narrowing(n, i, c);
    }
    return any ? free_types(w, n) : NC_OK;
}

static nc_code casts_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(casts_of(w, n->subs[i].graph, o));
        NC_TRY(take_casts(w, n, o));
    }
    return NC_OK;
}

nc_code nc_lower_casts(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : casts_of(w, m->main, o);
}
