/* plan/lower_residual.c: the gradient of a norm takes in the sum with the gradient that comes past it, the cast of the
 * sum to a half type, dropout of that, and what it adds up to over the rows, the gradient of a bias, where its place
 * has a kernel for that (nacre.NormGradAdd): in a transformer every norm's gradient is followed by all of these, which
 * would read it up to four times more and write it three times. It then reads the statistics of the rows that the
 * forward pass found. Comes after lower_casts.c, which leaves the casts that count, and before lower_chain.c.
 *
 * Example: a, s, b = nacre.NormGrad(d, x, w), y = Add(o, a), h = Cast<to = 16>(y), t = ReduceSum(h, [0]) become
 * y, s, b, h, t = nacre.NormGradAdd<to = 16>(d, x, w, o, m, i), where m and i are of LayerNormalization(x, ...). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "ops/norm/norm.h"
#include "plan/plan.h"

extern const nc_card nc_card_reduce_sum, nc_card_layer_normalization;

enum { FAR = 256 };               /* nodes between a gradient and its sum */
enum { VECTOR = 8, LONG = 1024 }; /* rows of whole vectors, at most so long, are added up on the way */

static bool is_sum(const nc_node *n) { return n->n_in == 2 && nc_lane_number(n) == NCK_LANE_add; }
static bool same_site(const nc_node *a, const nc_node *b) {
    return a->graph == b->graph && a->place == b->place && !a->recompute && !b->recompute;
}

/* Is v there when n runs, which comes before `last`? */
static bool is_before(const nc_value *v, const nc_node *n, const nc_node *last) {
    int far = 0;
    for (; n && n != last && far < FAR; n = n->next, far++)
        if (v->origin == NC_FROM_NODE && v->def == n) return false;
    return n == last;
}

/* The sum of n's first output and another value, of one type, that alone reads it; NULL: there is none. */
static nc_node *sum_of(const nc_node *n, nc_value **other) {
    const nc_value *dx = n->out[0];
    nc_node *sum = dx && dx->uses.n == 1 && !dx->n_outputs && !dx->var ? dx->uses.v[0].node : NULL;
    if (!sum || !is_sum(sum) || !same_site(sum, n) || sum->out[0]->var || sum->in[0] == sum->in[1]) return NULL;
    *other = sum->in[sum->in[0] == dx];
    bool alike = nc_type_equal((*other)->type, dx->type) && nc_type_equal(sum->out[0]->type, dx->type);
    return alike && is_before(*other, n, sum) ? sum : NULL;
}

/* A Cast of v to a half type. */
static nc_node *narrowing(const nc_value *v, const nc_node *n) {
    for (int i = 0; i < v->uses.n; i++) {
        nc_node *c = v->uses.v[i].node;
        if (!c || !same_site(c, n) || !nc_lane_casts(c) || c->out[0]->var) continue;
        if (nc_dtype_bytes(c->out[0]->type->elem) == 2) return c;
    }
    return NULL;
}

/* The dropout that alone reads v. */
static nc_node *dropout_of(const nc_value *v, const nc_node *n, double *ratio) {
    nc_node *d = v->uses.n == 1 && !v->n_outputs ? v->uses.v[0].node : NULL;
    return d && same_site(d, n) && !d->out[0]->var && nc_lower_drops(d, ratio) ? d : NULL;
}

/* Are these all axes of `rank` but the last? */
static bool is_leading(const nc_value *axes, int rank) {
    int64_t v[NC_MAX_RANK], n = 0;
    unsigned seen = 0;
    if (!axes || !axes->lit || rank < 2 || rank > 32 || !nc_literal_ints(axes->lit, v, NC_MAX_RANK, &n)) return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = v[i] < 0 ? v[i] + rank : v[i];
        if (at < 0 || at > rank - 2) return false;
        seen |= 1u << at;
    }
    return seen == (1u << (rank - 1)) - 1;
}

/* Does n go along the last axis, in rows that its kernel adds up on the way? */
static bool has_short_rows(const nc_node *n) {
    const nc_type *t = n->in[1]->type;
    int64_t axis = nc_attr_int(n, "axis"), cols = 0;
    bool last = t->rank > 0 && (axis == -1 || axis == t->rank - 1);
    return last && nc_dim_is_const(t->dims[t->rank - 1], &cols) && cols % VECTOR == 0 && cols <= LONG;
}

/* The sum of v over its rows, of which n gives one after the other; NULL: nobody asks for it. */
static nc_node *sum_of_rows(const nc_value *v, const nc_node *n) {
    const nc_type *t = v->type;
    for (int i = 0; i < v->uses.n; i++) {
        nc_node *s = v->uses.v[i].node;
        if (s->card != &nc_card_reduce_sum || s->n_in != 2 || !same_site(s, n) || s->out[0]->var) continue;
        if (!nc_attr_int(s, "keepdims") && is_leading(s->in[1], t->rank)) return s;
    }
    return NULL;
}

/* ---- statistics ---- */

static bool comes_before(const nc_node *a, const nc_node *b) {
    while (a && a != b) a = a->next;
    return a != NULL;
}

/* The norm that n is the gradient of, where it can give f32 statistics; NULL: none is found. */
static nc_node *forward_of(const nc_node *n) {
    const nc_value *x = n->in[1];
    for (int i = 0; i < x->uses.n; i++) {
        nc_node *f = x->uses.v[i].node;
        if (f->card != &nc_card_layer_normalization || f->in[0] != x || !same_site(f, n)) continue;
        bool alike = nc_attr_int(n, "center") && nc_attr_int(f, "axis") == nc_attr_int(n, "axis") &&
                     nc_attr_float(f, "epsilon") == nc_attr_float(n, "epsilon") && nc_attr_int(f, "stash_type") == 1;
        bool gives = f->n_out == 1 || (f->n_out == 3 && f->out[1] && f->out[2]);
        if (alike && gives && x->type->elem != NC_DOUBLE && comes_before(f, n)) return f;
    }
    return NULL;
}

/* f gives the mean and the inverse deviation of its rows too. */
static nc_code keep_statistics(nc_work *w, nc_node *f) {
    const nc_type *x = f->in[0]->type;
    nc_model *m = f->graph->model;
    const nc_dim *dims[NC_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
    NC_NEED(w, dims[x->rank - 1] = nc_dim_const(m->dims, 1));
    while (f->n_out < 3) {
        nc_value *v = nc_edit_add_out(f, NULL);
        NC_NEED(w, v);
        NC_NEED(w, v->type = nc_type_tensor(&m->arena, NC_FLOAT, x->rank, dims));
    }
    return NC_OK;
}

static void put(nc_value *old, nc_value *by) {
    by->type = old->type;
    nc_edit_replace(old, by);
}

/* *at: what stands in n's place. */
static nc_code take_sum(nc_work *w, nc_node *n, const nc_plan_options *o, nc_node **at) {
    nc_value *other;
    nc_node *sum = n->n_in == 3 ? sum_of(n, &other) : NULL;
    const nc_card *card = &nc_card_norm_grad_add;
    if (!sum || !nc_binding_exists(card, nc_kernels_at(o, n->place), n->in[0]->type->elem)) return NC_OK;
    bool is_short = has_short_rows(n);
    double ratio = 0;
    nc_node *cast = narrowing(sum->out[0], n), *drop = cast ? dropout_of(cast->out[0], n, &ratio) : NULL;
    nc_value *narrow = drop ? drop->out[0] : cast ? cast->out[0] : NULL;
    nc_node *rows = narrow && is_short ? sum_of_rows(narrow, n) : NULL;
    nc_node *forward = is_short ? forward_of(n) : NULL;
    if (forward) NC_TRY(keep_statistics(w, forward));
    nc_builder b = {
        .w = w, .graph = n->graph, .before = n, .stage = n->stage, .place = n->place, .infer = nc_infer_node};
    nc_value *in[7] = {n->in[0],
                       n->in[1],
                       n->in[2],
                       other,
                       forward ? forward->out[1] : NULL,
                       forward ? forward->out[2] : NULL,
                       drop ? drop->in[3] : NULL};
    bool wanted[5] = {true, n->n_out > 1 && n->out[1], n->n_out > 2 && n->out[2], cast != NULL, rows != NULL};
    nc_attr attrs[6] = {{.name = "to", .kind = NC_A_INT, .i = cast ? (int64_t)cast->out[0]->type->elem : 0},
                        {.name = "ratio", .kind = NC_A_FLOAT, .f = (float)ratio}};
    int n_attrs = drop ? 2 : 1, n_in = drop ? 7 : forward ? 6 : 4;
    for (int i = 0; i < n->n_attrs && n_attrs < 6; i++) attrs[n_attrs++] = n->attrs[i];
    nc_node *all = nc_build_card(&b, card, in, n_in, wanted, rows ? 5 : cast ? 4 : 3, attrs, n_attrs);
    if (!all) return b.code;
    if (drop) all->random_id = drop->random_id;
    put(sum->out[0], all->out[0]);
    for (int i = 1; i < 3; i++)
        if (wanted[i]) put(n->out[i], all->out[i]);
    if (rows) {
        put(rows->out[0], all->out[4]);
        nc_edit_remove(rows);
    }
    if (cast) put(narrow, all->out[3]);
    if (drop) nc_edit_remove(drop);
    if (cast) nc_edit_remove(cast);
    nc_edit_remove(sum);
    nc_edit_remove(n);
    *at = all;
    return NC_OK;
}

static nc_code residual_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(residual_of(w, n->subs[i].graph, o));
        if (n->card == &nc_card_norm_grad) NC_TRY(take_sum(w, n, o, &n));
    }
    return NC_OK;
}

nc_code nc_lower_residual(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : residual_of(w, m->main, o);
}
