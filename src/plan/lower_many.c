/* plan/lower_many.c: all sums of gradients become one node, and all casts of parameters to one half type another, where
 * the device has kernels that take many tensors in a launch: a transformer has hundreds of either, most of them
 * shorter than a launch. Sums come before their nodes are taken apart, casts after those that kernels do themselves are
 * gone.
 *
 * Examples: f, s' = InPlaceAccumulatorV2(s, Cast(g), o), e, t' = InPlaceAccumulatorV2(t, h, o) become
 * s', t' = nacre.AccumulateMany(s, t, g, h, o); of variables v and w, a = Cast<to = 16>(v), b = Cast<to = 16>(w) become
 * a, b = nacre.CastMany<to = 16>(v, w). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "plan/plan.h"

extern const nc_card nc_card_training_in_place_accumulator_2, nc_card_training_accumulate_many,
    nc_card_training_cast_many;

typedef NC_VEC(nc_node *) nodes;

static bool has_kernel(const nc_card *card, const nc_plan_options *o) {
    return !o->no_fusion && nc_binding_exists(card, o->device->table->kernels, NC_FLOAT);
}

static bool is_idle(const nc_value *v) { return !v->uses.n && !v->n_outputs; }

/* One node of the card before `before`; its outputs take the place of output `out` of each of the `old` nodes. */
static nc_code put(nc_work *w, const nc_card *card, nc_node *before, nc_value **in, int n_in, const nodes *old, int out,
                   const nc_attr *attrs, int n_attrs) {
    nc_builder b = {.w = w,
                    .graph = before->graph,
                    .before = before,
                    .stage = before->stage,
                    .place = before->place,
                    .infer = nc_infer_node};
    nc_node *all = nc_build_card(&b, card, in, n_in, NULL, old->n, attrs, n_attrs);
    if (!all) return b.code;
    for (int i = 0; i < old->n; i++) {
        nc_value *from = old->v[i]->out[out], *to = all->out[i];
        to->name = from->name, to->type = from->type, to->var = from->var;
        nc_edit_replace(from, to);
        nc_edit_remove(old->v[i]);
    }
    return NC_OK;
}

/* ---- sums ---- */

/* The next version of a variable that nobody reads here, with a flag that says whether to overwrite it. */
static bool is_sum(const nc_node *n) {
    if (n->card != &nc_card_training_in_place_accumulator_2 || n->n_in < 3 || n->n_out < 2) return false;
    if (!n->in[0] || !n->in[1] || !n->in[2]) return false;
    if (n->recompute || !n->out[1] || (n->out[0] && !is_idle(n->out[0])) || !is_idle(n->out[1])) return false;
    return n->in[0]->var && n->in[0]->var == n->out[1]->var && n->in[0]->var->first == n->in[0];
}

/* What is added, before the Cast that the sum does itself. */
static nc_value *value_of(const nc_node *n) {
    nc_node *c = n->in[1]->origin == NC_FROM_NODE ? n->in[1]->def : NULL;
    bool casts = c && nc_lane_casts(c) && !c->recompute && n->in[1]->uses.n == 1 && is_idle(n->out[1]);
    return casts && !n->in[1]->n_outputs ? c->in[0] : n->in[1];
}

nc_code nc_lower_sums(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nodes sums = {0}, casts = {0};
    if (!has_kernel(&nc_card_training_accumulate_many, o)) return NC_OK;
    for (nc_node *n = m->main->first; n; n = n->next)
        if (is_sum(n) && (!sums.n || n->in[2] == sums.v[0]->in[2]) && !NC_PUSH(&w->scratch, sums, n))
            NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (sums.n < 2) return NC_OK;
    nc_value **in = nc_arena_array(&w->scratch, 2 * (size_t)sums.n + 1, sizeof *in);
    NC_NEED(w, in);
    for (int i = 0; i < sums.n; i++) {
        nc_node *n = sums.v[i];
        in[i] = n->in[0], in[sums.n + i] = value_of(n);
        if (in[sums.n + i] != n->in[1] && !NC_PUSH(&w->scratch, casts, n->in[1]->def))
            NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    in[2 * sums.n] = sums.v[0]->in[2];
    NC_TRY(put(w, &nc_card_training_accumulate_many, sums.v[sums.n - 1], in, 2 * sums.n + 1, &sums, 1, NULL, 0));
    for (int i = 0; i < casts.n; i++) nc_edit_remove(casts.v[i]);
    return NC_OK;
}

/* ---- parameters ---- */

/* The first version of a variable, on the device, as another type. */
static bool is_parameter(const nc_node *n) {
    const nc_value *v = n->n_in ? n->in[0] : NULL;
    if (!v || !v->var || v->var->first != v || !n->place || n->recompute || !nc_lane_casts(n) || !n->out[0])
        return false;
    return nc_dtype_bytes(n->out[0]->type->elem) == 2 && !n->out[0]->n_outputs && !n->out[0]->var;
}

nc_code nc_lower_parameters(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nodes casts = {0};
    if (!has_kernel(&nc_card_training_cast_many, o)) return NC_OK;
    for (nc_node *n = m->main->first; n; n = n->next)
        if (is_parameter(n) && (!casts.n || n->out[0]->type->elem == casts.v[0]->out[0]->type->elem) &&
            !NC_PUSH(&w->scratch, casts, n))
            NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (casts.n < 2) return NC_OK;
    nc_value **in = nc_arena_array(&w->scratch, (size_t)casts.n, sizeof *in);
    NC_NEED(w, in);
    for (int i = 0; i < casts.n; i++) in[i] = casts.v[i]->in[0];
    nc_attr to = {.name = "to", .kind = NC_A_INT, .i = (int64_t)casts.v[0]->out[0]->type->elem};
    return put(w, &nc_card_training_cast_many, casts.v[0], in, casts.n, &casts, 0, &to, 1);
}
