/* plan/lower_onto.c: products and gradients of tables that are added to a variable put their sums there themselves: the
 * sum of gradients of a training session, which would else be read and written once more, beside a result of its size.
 * Comes before lower_chain.c. The new node stands where the product stood, so that its operands die as early.
 *
 * Example: g = Gemm(a, b), s = Add(sum, g), next = Where(reset, g, s), with next the newest version of sum, become
 * next = nacre.GemmOnto(a, b, sum, reset). A value that is itself a sum of two such results is added in two steps, each
 * a version of the variable. */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/lane_prog.h"
#include "plan/plan.h"

extern const nc_card nc_card_gemm, nc_card_gemm_onto, nc_card_gather_grad, nc_card_gather_grad_onto;

typedef struct sums {
    nc_work *w;
    const nc_plan_options *o;
    nc_value *sum, *overwrite; /* what is added to, unless the flag says otherwise; NULL: it never does */
} sums;

static bool is_lane(const nc_node *n, int lane, int n_in) { return n && n->n_in == n_in && nc_lane_number(n) == lane; }
static nc_node *made_by(const nc_value *v) { return v->origin == NC_FROM_NODE ? v->def : NULL; }

/* What adds v to a sum by itself, as far as its place has a kernel for it. */
static const nc_card *onto_of(const sums *s, const nc_value *v, int uses) {
    const nc_node *n = made_by(v);
    if (!n || v->uses.n != uses || v->n_outputs || v->var || n->recompute || n->graph != s->sum->graph) return NULL;
    if (!nc_type_equal(v->type, s->sum->type)) return NULL;
    bool product = n->card == &nc_card_gemm && n->n_in == 2 && nc_attr_float(n, "alpha") == 1;
    const nc_card *onto = product                              ? &nc_card_gemm_onto
                          : n->card == &nc_card_gather_grad ? &nc_card_gather_grad_onto
                                                              : NULL;
    return onto && nc_binding_exists(onto, nc_kernels_at(s->o, n->place), v->type->elem) ? onto : NULL;
}

static bool comes_before(const nc_node *a, const nc_node *b) {
    while (a && a != b) a = a->next;
    return a != NULL;
}

/* A flag that is an input seen otherwise is made before n too. */
static bool flag_is_there(const sums *s, nc_node *n) {
    nc_node *by = s->overwrite ? made_by(s->overwrite) : NULL;
    for (int i = 0; by && i < by->n_operands; i++)
        if (by->in[i] && made_by(by->in[i])) return false;
    if (by && comes_before(n, by)) nc_edit_move_before(by, n);
    return true;
}

/* v's node with the sum; the result is the sum's next version. */
static nc_code put_onto(sums *s, nc_value *v, const nc_card *card) {
    nc_node *n = v->def;
    bool product = card == &nc_card_gemm_onto, wanted = true;
    nc_value *in[4] = {product ? n->in[0] : s->sum, n->in[1], product ? s->sum : n->in[2], s->overwrite};
    nc_attr attrs[2] = {{.name = product ? "transA" : "axis", .kind = NC_A_INT},
                        {.name = "transB", .kind = NC_A_INT}};
    for (int i = 0; i < 1 + product; i++) attrs[i].i = nc_attr_int(n, attrs[i].name);
    nc_builder b = {.w = s->w,
                    .graph = n->graph,
                    .before = n,
                    .stage = NC_STAGE_UPDATE,
                    .place = n->place,
                    .infer = nc_infer_node};
    nc_node *onto = nc_build_card(&b, card, in, s->overwrite ? 4 : 3, &wanted, 1, attrs, 1 + product);
    if (!onto) return b.code;
    onto->out[0]->type = s->sum->type;
    onto->out[0]->var = s->sum->var;
    s->sum = onto->out[0];
    s->overwrite = NULL;
    return NC_OK;
}

/* The parts of v in the order of their nodes: v itself, or the two that it is the sum of. 0: one cannot be added so. */
static int parts_of(const sums *s, nc_value *v, int uses, nc_value **parts, const nc_card **cards) {
    nc_node *n = made_by(v);
    parts[0] = v;
    if ((cards[0] = onto_of(s, v, uses)) != NULL) return 1;
    if (!is_lane(n, NCK_LANE_add, 2) || v->uses.n != uses || v->n_outputs || v->var || n->in[0] == n->in[1]) return 0;
    for (int i = 0; i < 2; i++)
        if (!(cards[i] = onto_of(s, parts[i] = n->in[i], 1))) return 0;
    if (comes_before(parts[0]->def, parts[1]->def)) return 2;
    nc_value *first = parts[1];
    const nc_card *card = cards[1];
    parts[1] = parts[0], cards[1] = cards[0];
    parts[0] = first, cards[0] = card;
    return 2;
}

/* The node that makes the newest version as a sum: v, which it adds, and the flag; NULL: it is no such sum. */
static nc_node *sum_of(const nc_variable *var, nc_value **v, nc_value **overwrite) {
    nc_node *last = made_by(var->last), *add = last;
    *overwrite = NULL;
    if (is_lane(last, NCK_LANE_where, 3)) {
        add = made_by(last->in[2]);
        *overwrite = last->in[0];
        if (!add || last->in[2]->uses.n != 1 || last->in[2]->n_outputs || last->in[2]->var) return NULL;
    }
    if (!is_lane(add, NCK_LANE_add, 2) || add->recompute || last->graph->parent) return NULL;
    int at = add->in[0] == var->first ? 0 : add->in[1] == var->first ? 1 : -1;
    if (at < 0) return NULL;
    *v = add->in[!at];
    return *overwrite == NULL || last->in[1] == *v ? last : NULL;
}

static void remove_sum(nc_node *last, int n, nc_value **parts) {
    nc_node *add = is_lane(last, NCK_LANE_where, 3) ? last->in[2]->def : last;
    nc_node *both = n == 2 ? parts[0]->uses.v[0].node : NULL;
    nc_edit_remove(last);
    if (add != last) nc_edit_remove(add);
    if (both) nc_edit_remove(both);
    for (int i = 0; i < n; i++) nc_edit_remove(parts[i]->def);
}

static nc_code lower_variable(nc_work *w, const nc_plan_options *o, nc_variable *var) {
    sums s = {.w = w, .o = o, .sum = var->first};
    nc_value *v, *parts[2], *old = var->last;
    const nc_card *cards[2];
    bool moves = var->last != var->first && !nc_type_is_host(var->first->type);
    nc_node *last = moves ? sum_of(var, &v, &s.overwrite) : NULL;
    int n = last ? parts_of(&s, v, s.overwrite ? 2 : 1, parts, cards) : 0;
    if (n == 0 || !nc_type_equal(old->type, var->first->type) || !flag_is_there(&s, parts[0]->def)) return NC_OK;
    for (int i = 0; i < n; i++) NC_TRY(put_onto(&s, parts[i], cards[i]));
    nc_edit_replace(old, s.sum);
    remove_sum(last, n, parts);
    return NC_OK;
}

nc_code nc_lower_onto(nc_work *w, nc_model *m, const nc_plan_options *o) {
    for (int i = 0; !o->no_fusion && i < m->main->vars.n; i++) NC_TRY(lower_variable(w, o, m->main->vars.v[i]));
    return NC_OK;
}
