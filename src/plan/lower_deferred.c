/* plan/lower_deferred.c: what needs a rank that is not known before the run is put off. Kernels are chosen by rank,
 * so where a tensor's rank is unknown (an If whose branches differ, an input declared without a shape, a Reshape to
 * a fed shape of unknown length) the nodes that touch it, and all that depends on them, become the body of one
 * nacre.Deferred at the end of their graph. Dynamic kernels take tensors of any rank and stay.
 *
 * A Deferred that is fed a tensor of unknown rank is planned once for each set of ranks. One that is not must
 * learn more: it is `exact`, planned once for each set of dims. What is still unknown when all dims are constants
 * is an error. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

typedef struct cutter {
    nc_work *w;
    nc_graph *g;
    bool *deferred;   /* by node id */
    nc_value **inner; /* by value id: what stands for it in the body */
    NC_VEC(nc_value *) in;
    NC_VEC(nc_value *) out;
} cutter;

static bool is_unknown(const nc_value *v) { return v && nc_rank_is_unknown(v->type); }

static bool is_dynamic(const nc_node *n) {
    const nc_binding *b = nc_binding_find(n, "cpu", NULL, 0);
    return b && b->kind == NC_K_DYNAMIC;
}

static bool has_constant_dims(const nc_value *v) {
    if (!v || nc_type_is_host(v->type)) return true;
    for (int d = 0; d < v->type->rank; d++)
        if (!nc_dim_is_const(v->type->dims[d], NULL)) return false;
    return v->type->rank >= 0;
}

/* Does n itself need a rank that nobody knows? */
static nc_code needs_rank(cutter *c, const nc_node *n, bool *out) {
    const nc_value *unknown = NULL;
    bool all_constant = true;
    *out = false;
    for (int i = 0; i < n->n_operands; i++) {
        if (is_unknown(n->in[i])) {
            *out = (n->card->traits & NC_CONTROL) || !is_dynamic(n);
            return NC_OK;
        }
        all_constant &= has_constant_dims(n->in[i]);
    }
    for (int i = 0; i < n->n_out; i++)
        if (is_unknown(n->out[i])) unknown = n->out[i];
    if (!unknown || is_dynamic(n)) return NC_OK;
    c->w->at_node = n->name, c->w->at_op = n->card->name;
    if (all_constant) NC_FAIL(c->w, NC_E_SHAPE, "the rank of its result '%s' is not known", unknown->name);
    *out = true;
    return NC_OK;
}

static nc_code mark(cutter *c, int *n_marked) {
    for (const nc_node *n = c->g->first; n; n = n->next) {
        bool *off = &c->deferred[n->id];
        for (int i = 0; i < n->n_operands && !*off; i++)
            *off = n->in[i] && n->in[i]->def && c->deferred[n->in[i]->def->id];
        if (!*off) NC_TRY(needs_rank(c, n, off));
        *n_marked += *off;
        for (int i = 0; *off && i < n->n_out; i++)
            if (n->out[i] && n->out[i]->var) {
                c->w->at_node = n->name, c->w->at_op = n->card->name;
                NC_FAIL(c->w, NC_E_UNSUPPORTED,
                        "it updates variable '%s' with a value whose rank is not known before the run",
                        n->out[i]->var->name);
            }
    }
    return NC_OK;
}

/* Outputs are written by kernels of their own (choose.c), which a value of unknown rank cannot be copied by: what is no
 * node's result, or an output already, passes through an Identity that is put off with the rest. */
static nc_code separate_outputs(nc_work *w, nc_graph *g) {
    for (int i = 0; i < g->outputs.n; i++) {
        nc_value *v = g->outputs.v[i];
        if (!is_unknown(v)) continue;
        bool own = v->origin == NC_FROM_NODE;
        for (int k = 0; v->n_outputs > 1 && k < i; k++) own &= g->outputs.v[k] != v;
        if (own) continue;
        nc_builder b = {.w = w, .graph = g, .infer = nc_infer_node};
        nc_value *same = nc_build_attr1(&b, "", "Identity", &v, 1, NULL, 0);
        if (!same) return b.code;
        nc_edit_set_output(g, i, same);
    }
    return NC_OK;
}

/* A value's origin through all enclosing graphs. */
static const nc_value *root_of(const nc_value *v) {
    while (v->origin == NC_FROM_CAPTURE) {
        const nc_node *owner = v->graph->owner;
        const nc_value *outer = NULL;
        for (int s = 0; s < owner->n_subs; s++)
            for (int k = 0; owner->subs[s].graph == v->graph && k < owner->subs[s].n_captures; k++)
                if (v->graph->captures.v[k] == v) outer = owner->in[owner->subs[s].first_capture + k];
        v = outer;
    }
    return v;
}

static nc_code collect(cutter *c) {
    for (const nc_node *n = c->g->first; n; n = n->next) {
        if (!c->deferred[n->id]) continue;
        for (int i = 0; i < n->n_operands; i++) {
            nc_value *v = n->in[i];
            if (!v || c->inner[v->id] || (v->def && c->deferred[v->def->id])) continue;
            if (root_of(v)->origin == NC_FROM_CONST && !v->var) continue;
            c->inner[v->id] = v; /* seen; the body's own comes below */
            if (!NC_PUSH(&c->w->scratch, c->in, v)) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
        }
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && n->out[i]->n_outputs && !NC_PUSH(&c->w->scratch, c->out, n->out[i]))
                NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static nc_code fill_inputs(cutter *c, nc_graph *body) {
    for (int i = 0; i < c->in.n; i++) {
        const nc_value *v = c->in.v[i];
        nc_value *x = nc_edit_input(body, v->name, v->type);
        NC_NEED(c->w, x);
        x->elems = v->elems, x->n_elems = v->n_elems;
        c->inner[v->id] = x;
    }
    return NC_OK;
}

static nc_value *inside(cutter *c, nc_graph *body, const nc_value *v) {
    if (c->inner[v->id]) return c->inner[v->id];
    const nc_value *root = root_of(v); /* a constant, or collect had made it an input */
    nc_value *k = nc_edit_const(body, v->name, root->lit);
    if (k) k->type = root->type, k->elems = root->elems, k->n_elems = root->n_elems;
    return c->inner[v->id] = k;
}

static nc_code fill_nodes(cutter *c, nc_graph *body) {
    for (const nc_node *n = c->g->first; n; n = n->next) {
        if (!c->deferred[n->id]) continue;
        nc_node *copy = nc_edit_clone(body, NULL, n);
        NC_NEED(c->w, copy);
        copy->name = n->name;
        for (int i = 0; i < n->n_operands; i++) {
            nc_value *v = n->in[i] ? inside(c, body, n->in[i]) : NULL;
            if (n->in[i]) NC_NEED(c->w, v);
            nc_edit_set_in(copy, i, v);
        }
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i]) c->inner[n->out[i]->id] = copy->out[i];
    }
    return NC_OK;
}

static nc_code make_deferred(cutter *c, nc_node **out) {
    const char **names = nc_arena_array(&c->w->scratch, (size_t)c->out.n + 1, sizeof *names);
    NC_NEED(c->w, names);
    bool exact = true;
    for (int i = 0; i < c->out.n; i++) names[i] = c->out.v[i]->name;
    for (int i = 0; i < c->in.n; i++) exact &= !is_unknown(c->in.v[i]);
    nc_node *n = nc_edit_node(c->g, NULL, &nc_card_deferred, nc_card_version(&nc_card_deferred, 1), NULL, c->in.v,
                              c->in.n, names, c->out.n);
    NC_NEED(c->w, n);
    nc_attr a = {.name = "exact", .kind = NC_A_INT, .i = exact};
    NC_TRY(nc_edit_set_attr(n, &a));
    nc_graph *body = nc_edit_subgraph(n, "body");
    NC_NEED(c->w, body);
    NC_TRY(fill_inputs(c, body));
    NC_TRY(fill_nodes(c, body));
    for (int i = 0; i < c->out.n; i++) {
        NC_TRY(nc_edit_output(body, c->inner[c->out.v[i]->id], names[i]));
        n->out[i]->type = c->out.v[i]->type;
    }
    *out = n;
    return NC_OK;
}

static nc_code defer(cutter *c) {
    nc_node *node = NULL;
    NC_TRY(collect(c));
    nc_node *last = c->g->last;
    NC_TRY(make_deferred(c, &node));
    for (int i = 0; i < c->out.n; i++) nc_edit_replace(c->out.v[i], node->out[i]);
    for (nc_node *n = last, *prev; n; n = prev) {
        prev = n->prev;
        if (c->deferred[n->id]) nc_edit_remove(n);
    }
    return NC_OK;
}

/* Most graphs have no tensor of unknown rank, and need no look at their nodes. */
static bool has_unknown(const nc_graph *g) {
    for (const nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_operands; i++)
            if (is_unknown(n->in[i])) return true;
        for (int i = 0; i < n->n_out; i++)
            if (is_unknown(n->out[i])) return true;
    }
    return false;
}

static nc_code defer_in(nc_work *w, nc_graph *g) {
    cutter c = {.w = w, .g = g};
    int n_marked = 0;
    size_t n_ids = (size_t)g->model->next_id + 1;
    NC_NEED(w, c.deferred = nc_arena_array(&w->scratch, n_ids, sizeof *c.deferred));
    NC_NEED(w, c.inner = nc_arena_array(&w->scratch, n_ids, sizeof *c.inner));
    NC_TRY(mark(&c, &n_marked));
    return n_marked ? defer(&c) : NC_OK;
}

nc_code nc_lower_deferred(nc_work *w, nc_graph *g) {
    NC_TRY(separate_outputs(w, g));
    if (has_unknown(g)) NC_TRY(defer_in(w, g));
    for (nc_node *n = g->first; n; n = n->next)
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(nc_lower_deferred(w, n->subs[i].graph));
    w->at_node = w->at_op = NULL;
    return NC_OK;
}
