/* plan/lower_sum_norm.c: a norm takes in the sum that it reads, with the cast and the dropout of one part of it, where
 * its place has a kernel for that (nacre.SumNorm): in a transformer these stand between every projection and the next
 * norm, and would read and write the rows three times. A sum without either is left to the product in front of it.
 * Comes after lower_residual.c, which asks norms for their statistics, and before lower_chain.c.
 *
 * Example: p = nacre.PhiloxDropout(h, r, t, z), c = Cast<to = 1>(p), y = Add(o, c), n = LayerNormalization(y, s, b)
 * become n, , , y = nacre.SumNorm<ratio = r>(h, o, s, b, z). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "ops/norm/norm.h"
#include "plan/plan.h"

extern const nc_card nc_card_layer_normalization;

enum { FAR = 64 }; /* nodes between a sum and its norm */

typedef struct part {
    nc_node *cast, *dropout; /* what goes; NULL: there is none */
    nc_value *x, *other;     /* what is left to add up */
    double ratio;
} part;

static bool same_site(const nc_node *a, const nc_node *b) {
    return a->graph == b->graph && a->place == b->place && a->stage == b->stage && !a->recompute && !b->recompute;
}
static bool is_for_one(const nc_value *v) { return v->uses.n == 1 && !v->n_outputs && !v->var; }
static nc_node *made_for(const nc_value *v, const nc_node *user) {
    return v->def && is_for_one(v) && same_site(v->def, user) ? v->def : NULL;
}

/* What stands before operand i of a sum; false: nothing that a norm takes in. */
static bool part_at(const nc_node *sum, int i, part *p) {
    *p = (part){.x = sum->in[i], .other = sum->in[!i]};
    nc_node *n = made_for(p->x, sum);
    if (n && nc_lane_casts(n) && nc_dtype_bytes(n->in[0]->type->elem) == 2) {
        p->cast = n, p->x = n->in[0];
        n = made_for(p->x, sum);
    }
    if (n && nc_lower_drops(n, &p->ratio)) p->dropout = n, p->x = n->in[0];
    return p->cast || p->dropout;
}

static bool find_part(const nc_node *sum, part *p) {
    part found[2];
    bool any[2] = {part_at(sum, 0, &found[0]), part_at(sum, 1, &found[1])};
    if (!any[0] && !any[1]) return false;
    *p = found[any[1] && (!any[0] || found[1].dropout)];
    return true;
}

/* The sum of two values of its shape and type that n normalizes. */
static nc_node *sum_before(const nc_node *n) {
    const nc_value *x = n->in[0];
    nc_node *s = x->def;
    if (!s || s->n_in != 2 || nc_lane_number(s) != NCK_LANE_add || !same_site(s, n) || x->var) return NULL;
    bool alike = nc_type_equal(s->in[0]->type, x->type) && nc_type_equal(s->in[1]->type, x->type);
    return alike && x->type->elem == NC_FLOAT && s->in[0] != s->in[1] ? s : NULL;
}

/* Are scale and bias there when the sum is made? */
static bool comes_soon(const nc_node *sum, const nc_node *n) {
    int far = 0;
    for (; sum && sum != n && far < FAR; sum = sum->next, far++)
        for (int i = 1; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->def == sum) return false;
    return sum == n;
}

static bool fits(const nc_node *n, const nc_plan_options *o) {
    const char *why;
    bool plain = nc_attr_int(n, "stash_type") == NC_FLOAT && n->in[1]->type->elem != NC_DOUBLE &&
                 (n->n_in < 3 || !n->in[2] || n->in[2]->type->elem == n->in[1]->type->elem);
    return plain && nc_norm_fits_rows(n, &why) &&
           nc_binding_exists(&nc_card_sum_norm, nc_kernels_at(o, n->place), NC_FLOAT);
}

static void put(nc_value *old, nc_value *by) {
    by->type = old->type;
    nc_edit_replace(old, by);
}

/* *at: what stands in n's place. */
static nc_code take_sum(nc_work *w, nc_node *n, const nc_plan_options *o, nc_node **at) {
    part p;
    nc_node *sum = sum_before(n);
    if (!sum || !find_part(sum, &p) || n->out[0]->var || !comes_soon(sum, n) || !fits(n, o)) return NC_OK;
    nc_builder b = {
        .w = w, .graph = n->graph, .before = sum, .stage = n->stage, .place = n->place, .infer = nc_infer_node};
    nc_value *in[5] = {p.x, p.other, n->in[1], n->n_in > 2 ? n->in[2] : NULL, p.dropout ? p.dropout->in[3] : NULL};
    bool wanted[4] = {true, n->n_out > 1 && n->out[1], n->n_out > 2 && n->out[2], true};
    nc_attr attrs[4] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "to", .kind = NC_A_INT, .i = (int64_t)n->out[0]->type->elem},
                        {.name = "ratio", .kind = NC_A_FLOAT, .f = (float)p.ratio}};
    nc_node *all = nc_build_card(&b, &nc_card_sum_norm, in, p.dropout ? 5 : 4, wanted, 4, attrs, 4);
    if (!all) return b.code;
    all->name = n->name;
    if (p.dropout) all->random_id = p.dropout->random_id;
    for (int i = 0; i < 3; i++)
        if (wanted[i]) put(n->out[i], all->out[i]);
    put(sum->out[0], all->out[3]);
    nc_edit_remove(n);
    nc_edit_remove(sum);
    if (p.cast) nc_edit_remove(p.cast);
    if (p.dropout) nc_edit_remove(p.dropout);
    *at = all;
    return NC_OK;
}

static nc_code sum_norm_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(sum_norm_of(w, n->subs[i].graph, o));
        if (n->card == &nc_card_layer_normalization) NC_TRY(take_sum(w, n, o, &n));
    }
    return NC_OK;
}

nc_code nc_lower_sum_norm(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : sum_norm_of(w, m->main, o);
}
