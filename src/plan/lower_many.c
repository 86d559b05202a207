/* plan/lower_many.c: all sums of gradients become one node, and all casts of parameters to one half type another, where
 * the device has kernels that take many tensors in a launch: a transformer has hundreds of either, most of them
 * shorter than a launch. Sums come before their nodes are taken apart, casts after those that kernels do themselves are
 * gone.
 *
 * Examples: f, s' = InPlaceAccumulatorV2(s, Cast(g), o), e, t' = InPlaceAccumulatorV2(t, h, o) become
 * s', t' = nacre.AccumulateMany(s, t, g, h, o); of variables v and w, a = Cast<to = 16>(v), b = Cast<to = 16>(w) become
 * a, b = nacre.CastMany<to = 16>(v, w). A table's gradient that is the sum of h and of nacre.GatherGrad(shape, i, d) is
 * added as h, then its rows in their places, t" = nacre.GatherGradOnto(t', i, d), which the table is not read for. */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "plan/plan.h"

extern const nc_card nc_card_training_in_place_accumulator_2, nc_card_training_accumulate_many,
    nc_card_training_cast_many, nc_card_gather_grad, nc_card_gather_grad_onto;

typedef NC_VEC(nc_node *) nodes;

static bool has_kernel(const nc_card *card, const nc_plan_options *o) {
    return !o->no_fusion && nc_binding_exists(card, o->device->table->kernels, NC_FLOAT);
}

static bool is_idle(const nc_value *v) { return !v->uses.n && !v->n_outputs; }

static nc_builder builder_at(nc_work *w, const nc_node *like, nc_node *before) {
    return (nc_builder){.w = w,
                        .graph = like->graph,
                        .before = before,
                        .stage = like->stage,
                        .place = like->place,
                        .infer = nc_infer_node};
}

/* One node of the card before `before`; its outputs take the place of output `out` of each of the `old` nodes. */
static nc_code put(nc_work *w, const nc_card *card, nc_node *before, nc_value **in, int n_in, const nodes *old, int out,
                   const nc_attr *attrs, int n_attrs) {
    nc_builder b = builder_at(w, before, before);
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

/* The node that makes v for one reader alone. */
static nc_node *made_for_one(const nc_value *v) {
    nc_node *n = v->origin == NC_FROM_NODE ? v->def : NULL;
    return n && !n->recompute && v->uses.n == 1 && !v->n_outputs && !v->var ? n : NULL;
}

/* The rows that are added to the rest of a table's gradient by themselves; NULL: v is no such sum. */
static nc_node *rows_of(const nc_value *v, const nc_plan_options *o, nc_value **rest) {
    nc_node *add = made_for_one(v);
    if (!add || add->n_in != 2 || nc_lane_number(add) != NCK_LANE_add || add->in[0] == add->in[1]) return NULL;
    for (int i = 0; i < 2; i++) {
        nc_node *rows = made_for_one(add->in[i]);
        *rest = add->in[1 - i];
        if (rows && rows->card == &nc_card_gather_grad && nc_type_equal((*rest)->type, add->in[i]->type) &&
            has_kernel(&nc_card_gather_grad_onto, o))
            return rows;
    }
    return NULL;
}

typedef struct sum {
    nc_node *node, *rows; /* rows NULL: all of the value is added */
    nc_value *value;      /* what is added, before the Cast that the sum does itself */
} sum;

/* Nodes that nobody reads when the sum is gone are listed, readers first. */
static bool read_sum(nc_work *w, const nc_plan_options *o, nc_node *n, sum *s, nodes *idle) {
    nc_value *rest;
    *s = (sum){.node = n, .rows = rows_of(n->in[1], o, &rest), .value = n->in[1]};
    if (s->rows) s->value = rest;
    if (s->rows && (!NC_PUSH(&w->scratch, *idle, n->in[1]->def) || !NC_PUSH(&w->scratch, *idle, s->rows))) return false;
    nc_node *cast = made_for_one(s->value);
    if (!cast || !nc_lane_casts(cast)) return true;
    s->value = cast->in[0];
    return NC_PUSH(&w->scratch, *idle, cast);
}

/* Adds a table's rows to its variable, of which the sum was the newest version. */
static nc_code put_rows(nc_work *w, const sum *s, nc_variable *var) {
    nc_value *old = var->last, *in[3] = {old, s->rows->in[1], s->rows->in[2]};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(s->rows, "axis")};
    nc_builder b = builder_at(w, old->def, old->def->next);
    nc_node *onto = nc_build_card(&b, &nc_card_gather_grad_onto, in, 3, NULL, 1, &axis, 1);
    if (!onto) return b.code;
    onto->out[0]->type = old->type, onto->out[0]->var = var;
    var->last = onto->out[0];
    return NC_OK;
}

static nc_code put_sums(nc_work *w, const sum *list, const nodes *sums) {
    nc_value **in = nc_arena_array(&w->scratch, 2 * (size_t)sums->n + 1, sizeof *in);
    nc_variable **vars = nc_arena_array(&w->scratch, (size_t)sums->n, sizeof *vars);
    NC_NEED(w, in);
    NC_NEED(w, vars);
    for (int i = 0; i < sums->n; i++) {
        in[i] = sums->v[i]->in[0], in[sums->n + i] = list[i].value;
        vars[i] = in[i]->var;
    }
    in[2 * sums->n] = sums->v[0]->in[2];
    NC_TRY(put(w, &nc_card_training_accumulate_many, sums->v[sums->n - 1], in, 2 * sums->n + 1, sums, 1, NULL, 0));
    for (int i = 0; i < sums->n; i++)
        if (list[i].rows) NC_TRY(put_rows(w, &list[i], vars[i]));
    return NC_OK;
}

nc_code nc_lower_sums(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nodes sums = {0}, idle = {0};
    if (!has_kernel(&nc_card_training_accumulate_many, o)) return NC_OK;
    for (nc_node *n = m->main->first; n; n = n->next)
        if (is_sum(n) && (!sums.n || n->in[2] == sums.v[0]->in[2]) && !NC_PUSH(&w->scratch, sums, n))
            NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (sums.n < 2) return NC_OK;
    sum *list = nc_arena_array(&w->scratch, (size_t)sums.n, sizeof *list);
    NC_NEED(w, list);
    for (int i = 0; i < sums.n; i++)
        if (!read_sum(w, o, sums.v[i], &list[i], &idle)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(put_sums(w, list, &sums));
    for (int i = 0; i < idle.n; i++) nc_edit_remove(idle.v[i]);
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
