/* plan/lower_group.c: nodes that share input 0 and whose other input is a constant matrix become one node, where their
 * card has such a form and the place a kernel for it (card->group): q, k and v of a token read one row, and the GPU is
 * filled by all three at once. Comes after lower_chain.c and before lower_epilogue.c: a product keeps to itself where a
 * sum alone follows, which becomes its body.
 *
 * A norm of rows that only they read becomes part of the group, and so do formulas that make one value of two of them.
 * Attention likewise takes what writes new rows into the caches that it reads.
 *
 * Examples: q = MatMul(x, a), k = MatMul(x, b) become q, k = nacre.MatMulGroup(x, , a, b). With x = RMSNormalization(i,
 * s) and y = Mul(q, k) the whole is y = nacre.MatMulGroup(i, s, a, b) with the body {Mul}. */
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/lane_prog.h"
#include "ops/matmul/matmul.h"
#include "plan/plan.h"

enum { MOST = 3 }; /* nodes of a group: what a launch takes (kernels/cuda/gemv.h) */

/* The only user of v, if it does nothing but add: what libraries of products do on their way out. */
static bool is_summed(const nc_value *v) {
    const nc_node *user = v->uses.n > 0 ? v->uses.v[0].node : NULL;
    nc_lane_prog p;
    for (int i = 0; i < v->uses.n; i++)
        if (v->uses.v[i].node != user) return false;
    if (user == NULL || !(user->card->traits & NC_ELEMENTWISE) || !nc_lane_prog_make(&p, user)) return false;
    nck_tile_prog t = nc_lane_prog_tile(&p);
    for (int i = 0; i < t.n_op; i++)
        if (t.op[i].lane != NCK_LANE_add && t.op[i].lane != NCK_LANE_gelu_tanh) return false;
    return true;
}

static bool may_join(const nc_node *n, const nc_plan_options *o) {
    if (n->card->group == NULL || n->n_in != 2 || n->n_out != 1 || n->n_subs || n->recompute) return false;
    const nc_value *a = n->in[0], *b = n->in[1], *y = n->out[0];
    if (b->origin != NC_FROM_CONST || b->var || b->type->rank != 2 || a->type->rank < 1) return false;
    if (y->n_outputs || y->var || is_summed(y)) return false;
    return nc_binding_exists(n->card->group, nc_kernels_at(o, n->place), y->type->elem);
}

static bool alike(const nc_node *a, const nc_node *b) {
    return a->card == b->card && b->n_in == 2 && a->in[0] == b->in[0] && a->graph == b->graph && a->place == b->place &&
           a->stage == b->stage && a->in[1]->type->elem == b->in[1]->type->elem;
}

/* The node that makes x's rows of mean square 1, where the group can do that and nobody else reads them; or NULL. */
static nc_node *norm_of(const nc_node *first, int n) {
    const nc_value *x = first->in[0];
    nc_node *norm = x->origin == NC_FROM_NODE ? x->def : NULL;
    if (norm == NULL || x->uses.n != n || x->n_outputs || x->var || norm->recompute) return NULL;
    bool near = norm->place == first->place && norm->stage == first->stage && norm->graph == first->graph;
    return near && nc_matmul_group_takes(norm) ? norm : NULL;
}

/* The element formulas that make one value of two products, where that is all that these are for; or NULL. */
static nc_node *lanes_of(nc_node *const *v, int n) {
    nc_node *lanes = v[0]->out[0]->uses.n > 0 ? v[0]->out[0]->uses.v[0].node : NULL;
    nc_lane_prog p;
    if (n != 2 || lanes == NULL || lanes->n_in != 2 || lanes->n_out != 1 || lanes->recompute || lanes->out[0]->var)
        return NULL;
    if (!(lanes->card->traits & NC_ELEMENTWISE) || lanes->in[0] == lanes->in[1] || lanes->graph != v[0]->graph)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const nc_value *y = v[i]->out[0];
        if (y->uses.n != 1 || y->uses.v[0].node != lanes || !nc_type_equal(y->type, lanes->out[0]->type)) return NULL;
    }
    bool near = lanes->place == v[0]->place && lanes->stage == v[0]->stage;
    return near && nc_lane_prog_make(&p, lanes) && p.compute == NC_FLOAT ? lanes : NULL;
}

static nc_code set_epsilon(nc_node *all, const nc_node *norm) {
    nc_attr a = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(norm, "epsilon")};
    return nc_edit_set_attr(all, &a);
}

/* The nodes as one, in the place of the first, or of the formulas behind them. */
static nc_code join(nc_work *w, nc_node **v, int n) {
    nc_node *norm = norm_of(v[0], n), *lanes = lanes_of(v, n);
    nc_value *in[MOST + 2] = {norm ? norm->in[0] : v[0]->in[0], norm ? norm->in[1] : NULL}, *made[MOST];
    const char *names[MOST];
    const nc_card *card = v[0]->card->group;
    for (int i = 0; i < n; i++) in[i + 2] = v[i]->in[1], names[i] = v[i]->out[0]->name, made[i] = v[i]->out[0];
    if (lanes) names[0] = lanes->out[0]->name;
    nc_node *all = nc_edit_node(v[0]->graph, lanes ? lanes : v[0], card, nc_card_version(card, 1), v[0]->name, in,
                                n + 2, names, lanes ? 1 : n);
    NC_NEED(w, all);
    all->stage = v[0]->stage, all->place = v[0]->place;
    for (int i = 0; i < n; i++) all->open |= v[i]->open;
    if (norm) NC_TRY(set_epsilon(all, norm));
    if (lanes) {
        NC_TRY(nc_lower_body(w, all, lanes, made, n));
        all->out[0]->type = lanes->out[0]->type;
        nc_edit_replace(lanes->out[0], all->out[0]);
        nc_edit_remove(lanes);
    }
    for (int i = 0; i < n && !lanes; i++) {
        all->out[i]->type = v[i]->out[0]->type;
        nc_edit_replace(v[i]->out[0], all->out[i]);
    }
    for (int i = 0; i < n; i++) nc_edit_remove(v[i]);
    if (norm) nc_edit_remove(norm);
    return NC_OK;
}

/* What comes behind n and is not of the group, nor the formulas that it takes. */
static nc_node *behind(nc_node *n, nc_node *const *v, int found) {
    const nc_node *lanes = lanes_of(v, found);
    for (n = n->next; n; n = n->next) {
        bool of_group = n == lanes;
        for (int i = 0; i < found; i++) of_group |= n == v[i];
        if (!of_group) return n;
    }
    return NULL;
}

static nc_code groups_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    for (nc_node *n = g->first, *next; n; n = next) {
        nc_node *v[MOST] = {n};
        int found = 1;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++) NC_TRY(groups_of(w, n->subs[i].graph, o));
        next = n->next;
        if (n->card->group == NULL) {
            NC_TRY(nc_attention_put(w, n, nc_kernels_at(o, n->place)));
            continue;
        }
        if (!may_join(n, o)) continue;
        for (int i = 0; i < n->in[0]->uses.n && found < MOST; i++) {
            nc_node *m = n->in[0]->uses.v[i].node;
            if (m != n && alike(n, m) && may_join(m, o)) v[found++] = m;
        }
        if (found == 1) continue;
        next = behind(n, v, found);
        NC_TRY(join(w, v, found));
    }
    return NC_OK;
}

nc_code nc_lower_group(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : groups_of(w, m->main, o);
}
