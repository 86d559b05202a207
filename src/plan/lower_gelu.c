/* plan/lower_gelu.c: GELU of a product with a bias becomes the product's second result where others, of the backward
 * pass, read the product too, and its place has a kernel for both (nacre.MatMulGelu): the product need not be read
 * again. Comes after lower_epilogue.c, which has taken the bias in, and GELU too where nobody else reads the product.
 *
 * Where memory is to be saved GELU is not kept for a reader far behind: what it was taken of is kept for the backward
 * pass anyway, rounded, so the formula gives it again for one more reading and writing.
 *
 * Example: x = nacre.MatMulChain{Add}(a, b, v), y = nacre.GeluTanh(x) become y, x = nacre.MatMulGelu(a, b, v); of
 * MatMul(y, c) far behind, before a reader of x, z = nacre.GeluTanh(x), MatMul(z, c). */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "ops/matmul/matmul.h"
#include "plan/plan.h"

/* A product of rows with one matrix, plus one number for each column, and nothing else. */
static bool is_biased(const nc_node *k) {
    if (k->card != &nc_card_matmul_chain || k->n_in != 3 || k->recompute || k->out[0]->var) return false;
    const nc_type *b = k->in[1]->type, *v = k->in[2]->type;
    const nc_graph *body = k->subs[0].graph;
    const nc_node *sum = body->first;
    bool adds = sum && !sum->next && nc_lane_number(sum) == NCK_LANE_add && sum->in[0] != sum->in[1];
    return adds && k->in[0]->type->rank > 1 && b->rank == 2 && v->rank == 1 && v->dims[0] == b->dims[1];
}

static bool takes(const nc_node *n, const nc_plan_options *o) {
    nc_node *k = n->n_in == 1 && n->in[0] && n->in[0]->origin == NC_FROM_NODE ? n->in[0]->def : NULL;
    if (!k || nc_lane_number(n) != NCK_LANE_gelu_tanh || n->n_out != 1 || n->recompute || !n->out[0]) return false;
    if (n->out[0]->var || !is_biased(k)) return false;
    if (k->place != n->place || k->graph != n->graph || k->stage != n->stage) return false;
    return nc_binding_exists(&nc_card_matmul_gelu, nc_kernels_at(o, n->place), n->in[0]->type->elem);
}

static nc_code join(nc_work *w, nc_node *n) {
    nc_node *k = n->in[0]->def;
    nc_builder b = {
        .w = w, .graph = n->graph, .before = k, .stage = k->stage, .place = k->place, .infer = nc_infer_node};
    nc_node *both = nc_build_card(&b, &nc_card_matmul_gelu, k->in, 3, NULL, 2, NULL, 0);
    if (!both) return b.code;
    nc_value *old[2] = {n->out[0], k->out[0]};
    for (int i = 0; i < 2; i++) {
        both->out[i]->type = old[i]->type, both->out[i]->name = old[i]->name;
        nc_edit_replace(old[i], both->out[i]);
    }
    nc_edit_remove(n);
    nc_edit_remove(k);
    return NC_OK;
}

/* ---- taken anew ---- */

enum { FAR = 8 }; /* nodes between two readers */

/* How many nodes further on; -1: not at all. */
static int distance(const nc_node *from, const nc_node *to) {
    int n = 0;
    for (; from && from != to; from = from->next) n++;
    return from ? n : -1;
}

/* The last reader of v, if it is far behind all others and there are some; else NULL. */
static nc_node *late_reader(const nc_value *v) {
    nc_node *last = NULL;
    int at = -1, before = -1;
    for (int i = 0; i < v->uses.n; i++) {
        nc_node *n = v->uses.v[i].node;
        int d = n->graph == v->def->graph ? distance(v->def, n) : -1;
        if (d < 0) return NULL;
        if (d > at)
            before = at, at = d, last = n;
        else if (d < at && d > before)
            before = d;
    }
    return before >= 0 && at - before >= FAR ? last : NULL;
}

static bool is_kept_until(const nc_value *v, const nc_node *n) {
    for (int i = 0; i < v->uses.n; i++)
        if (v->uses.v[i].node->graph == n->graph && distance(n, v->uses.v[i].node) >= 0) return true;
    return false;
}

static bool is_reader(const nc_use *u, void *ctx) { return u->node == ctx; }

static nc_code take_anew(nc_work *w, nc_node *both) {
    nc_value *y = both->out[0], *x = both->out[1];
    nc_node *reader = y->n_outputs ? NULL : late_reader(y);
    if (!reader || !is_kept_until(x, reader)) return NC_OK;
    nc_builder b = {.w = w,
                    .graph = both->graph,
                    .before = reader,
                    .stage = reader->stage,
                    .place = both->place,
                    .infer = nc_infer_node};
    nc_value *again = nc_build_attr1(&b, "nacre", "GeluTanh", &x, 1, NULL, 0);
    if (!again) return b.code;
    again->type = y->type;
    nc_edit_replace_uses_if(y, again, is_reader, reader);
    return NC_OK;
}

static nc_code anew_in(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first; n; n = n->next)
        if (n->card == &nc_card_matmul_gelu) NC_TRY(take_anew(w, n));
    return NC_OK;
}

static nc_code gelus_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(gelus_of(w, n->subs[i].graph, o));
        if (takes(n, o)) NC_TRY(join(w, n));
    }
    return NC_OK;
}

nc_code nc_lower_gelu(nc_work *w, nc_model *m, const nc_plan_options *o) {
    if (o->no_fusion) return NC_OK;
    NC_TRY(gelus_of(w, m->main, o));
    return o->takes_anew ? anew_in(w, m->main) : NC_OK;
}
