/* plan/lower_epilogue.c: element formulas that follow a kernel able to do them to its result while that is still in
 * registers or a near cache (card->with_body, where the place has a kernel for it) become its subgraph `body`. Comes
 * after lower_chain.c: what follows is one lane or one chain of them, the only user of the result.
 *
 * Two examples: y = Chain{Add Relu}(c, r) with c = ConvBlocked(x, w, b) becomes y = ConvBlocked(x, w, b, r) with the
 * body {Add Relu}, whose inputs are the convolution's sum and r. y = Add(m, v) with m = MatMul(a, b) becomes y =
 * MatMulChain(a, b, v). Of two kernels whose results are added the later one takes the sum: the other's result is there
 * by then. */
#include "ops/build.h"
#include "ops/lane_prog.h"
#include "plan/plan.h"

enum { MAX_OPERANDS = 12 };

/* What a node computes as a body: its operands, the kernel's result first. */
typedef struct epilogue {
    nc_node *kernel, *lanes;
    nc_value *operand[MAX_OPERANDS];
    int n;
} epilogue;

static bool is_lanes(const nc_node *n) {
    if (n->n_out != 1 || n->out[0]->var || n->recompute) return false;
    nc_lane_prog p;
    return nc_lane_prog_make(&p, n) && p.compute == NC_FLOAT;
}

/* Is v the result of a kernel that takes a body, used by n alone? */
static bool is_kernel_of(const nc_value *v, const nc_node *n, const nc_plan_options *o) {
    const nc_node *k = v->def;
    if (!k || !k->card->with_body || k->n_subs || k->n_out != 1) return false;
    if (nck_tile_compute(v->type->elem) != NC_FLOAT) return false;
    if (!nc_binding_exists(k->card->with_body, nc_kernels_at(o, k->place), v->type->elem)) return false;
    if (k->recompute || v->n_outputs || v->var) return false;
    for (int i = 0; i < v->uses.n; i++)
        if (v->uses.v[i].node != n) return false;
    return k->place == n->place && k->stage == n->stage && nc_type_equal(v->type, n->out[0]->type);
}

static bool is_one(const nc_dim *d) {
    int64_t v;
    return nc_dim_is_const(d, &v) && v == 1;
}

/* One number for each channel. */
static bool is_per_channel(const nc_type *t, const nc_type *y) {
    if (t->rank != y->rank || !t->layout.block || t->layout.block != y->layout.block) return false;
    for (int i = 0; i < t->rank; i++) {
        bool one = is_one(t->dims[i]), same = t->dims[i] == y->dims[i];
        bool spatial = i > 1 && i < t->rank - 1;
        if (spatial ? !one : i == 0 ? !one && !same : !same) return false;
    }
    return true;
}

/* One number for each column of a product. One by a vector has none: its last dim is that of its rows. */
static bool is_per_column(const nc_type *t, const nc_type *y, const nc_node *kernel) {
    if (y->layout.block || t->rank < 1 || t->rank > y->rank) return false;
    const nc_type *b = kernel->n_in > 1 && kernel->in[1] ? kernel->in[1]->type : NULL;
    for (int i = 0; i < t->rank - 1; i++)
        if (!is_one(t->dims[i])) return false;
    return b && b->rank > 1 && t->dims[t->rank - 1] == y->dims[y->rank - 1];
}

/* One number, one for each channel or column, or one for each element. */
static bool is_operand(const nc_value *v, const nc_type *y, const nc_node *kernel) {
    const nc_type *t = v->type;
    int ones = 0;
    if (!t || t->elem != y->elem || t->rank < 0) return false;
    if (nc_type_equal(t, y)) return true;
    for (int i = 0; i < t->rank; i++) ones += is_one(t->dims[i]);
    return ones == t->rank || is_per_channel(t, y) || is_per_column(t, y, kernel);
}

static bool find(nc_node *n, const nc_plan_options *o, const int *order, epilogue *e) {
    *e = (epilogue){.lanes = n};
    if (n->n_in > MAX_OPERANDS || !(n->card->traits & NC_ELEMENTWISE)) return false;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) return false;
        nc_node *k = n->in[i]->def;
        if (is_kernel_of(n->in[i], n, o) && (!e->kernel || order[k->id] > order[e->kernel->id])) e->kernel = k;
    }
    if (!e->kernel || !is_lanes(n)) return false;
    e->operand[e->n++] = e->kernel->out[0];
    for (int i = 0; i < n->n_in; i++) {
        bool known = false;
        for (int k = 0; k < e->n; k++) known |= e->operand[k] == n->in[i];
        if (known) continue;
        if (!is_operand(n->in[i], n->out[0]->type, e->kernel)) return false;
        e->operand[e->n++] = n->in[i];
    }
    return true;
}

/* ---- the body ---- */

static nc_value *inner_of(const nc_graph *body, const epilogue *e, const nc_value *v) {
    for (int i = 0; i < e->n; i++)
        if (e->operand[i] == v) return body->inputs.v[i];
    return NULL;
}

static nc_code fill_lane(nc_work *w, nc_graph *body, const epilogue *e) {
    nc_node *c = nc_edit_clone(body, NULL, e->lanes);
    NC_NEED(w, c);
    for (int i = 0; i < e->lanes->n_in; i++) nc_edit_set_in(c, i, inner_of(body, e, e->lanes->in[i]));
    c->out[0]->type = e->lanes->out[0]->type;
    return nc_edit_output(body, c->out[0], c->out[0]->name);
}

static nc_code fill_chain(nc_work *w, nc_graph *body, const epilogue *e) {
    const nc_graph *from = e->lanes->subs[0].graph;
    nc_map made;
    nc_map_init(&made, &w->scratch);
    for (int i = 0; i < from->inputs.n; i++) {
        nc_value *v = inner_of(body, e, e->lanes->in[i]);
        if (!nc_map_put_bytes(&made, &from->inputs.v[i]->id, sizeof(int), v)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    for (const nc_node *n = from->first; n; n = n->next) {
        nc_node *c = nc_edit_clone(body, NULL, n);
        NC_NEED(w, c);
        for (int i = 0; i < n->n_in; i++) nc_edit_set_in(c, i, nc_map_get_bytes(&made, &n->in[i]->id, sizeof(int)));
        c->out[0]->type = n->out[0]->type;
        if (!nc_map_put_bytes(&made, &n->out[0]->id, sizeof(int), c->out[0])) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    nc_value *y = nc_map_get_bytes(&made, &from->outputs.v[0]->id, sizeof(int));
    return nc_edit_output(body, y, y->name);
}

static nc_code add_body(nc_work *w, nc_node *both, const epilogue *e) {
    nc_graph *body = nc_edit_subgraph(both, "body");
    NC_NEED(w, body);
    for (int i = 0; i < e->n; i++) NC_NEED(w, nc_edit_input(body, e->operand[i]->name, e->operand[i]->type));
    return e->lanes->n_subs ? fill_chain(w, body, e) : fill_lane(w, body, e);
}

nc_code nc_lower_body(nc_work *w, nc_node *both, nc_node *lanes, nc_value *const *operands, int n) {
    epilogue e = {.lanes = lanes, .n = n};
    for (int i = 0; i < n; i++) e.operand[i] = operands[i];
    return add_body(w, both, &e);
}

static nc_code join(nc_work *w, const epilogue *e) {
    nc_node *k = e->kernel, *n = e->lanes;
    const char *name = n->out[0]->name;
    const nc_card *card = k->card->with_body;
    const nc_op_version *version = card == k->card ? k->version : nc_card_version(card, 1);
    nc_node *both = nc_edit_node(n->graph, n, card, version, k->name, k->in, k->n_in, &name, 1);
    NC_NEED(w, both);
    for (int i = 0; i < k->n_attrs; i++) NC_TRY(nc_edit_set_attr(both, &k->attrs[i]));
    for (int i = k->n_in; i < card->epilogue_in; i++) NC_TRY(nc_edit_add_in(both, NULL));
    for (int i = 1; i < e->n; i++) NC_TRY(nc_edit_add_in(both, e->operand[i]));
    NC_TRY(add_body(w, both, e));
    both->stage = k->stage, both->place = k->place;
    both->out[0]->type = n->out[0]->type;
    nc_edit_replace(n->out[0], both->out[0]);
    nc_edit_remove(n);
    nc_edit_remove(k);
    return NC_OK;
}

static nc_code epilogues_of(nc_work *w, nc_graph *g, const nc_plan_options *o, int *order) {
    int at = 0;
    epilogue e;
    for (nc_node *n = g->first; n; n = n->next) order[n->id] = at++;
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(epilogues_of(w, n->subs[i].graph, o, order));
        if (find(n, o, order, &e)) NC_TRY(join(w, &e));
    }
    return NC_OK;
}

nc_code nc_lower_epilogue(nc_work *w, nc_model *m, const nc_plan_options *o) {
    if (o->no_fusion) return NC_OK;
    int *order = nc_arena_array(&w->scratch, (size_t)m->next_id, sizeof *order);
    NC_NEED(w, order);
    return epilogues_of(w, m->main, o, order);
}
