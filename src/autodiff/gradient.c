/* autodiff/gradient.c: nodes that ask for gradients inside a graph (NC_DIFFERENTIATES) give their place to them. Such a
 * node has as inputs a value for each of xs and zs, then y, xs and zs: the values that its attributes name.
 *
 * xs and zs are independent: y is a function of them, and no gradient goes on beyond one of them. Where the inputs are
 * xs and zs themselves, the nodes that made y serve as the forward pass. Where they are other values, the function is
 * copied to before the node and taken at those. y may stand in a graph around the node's: then the gradients are made
 * there, and captured. */
#include "autodiff/autodiff.h"

#include "infer/infer.h"
#include "ops/build.h"

typedef struct expansion {
    nc_work *w;
    nc_node *node;
    int n_x, n_at; /* of xs; of xs and zs */
    nc_graph *graph;
    nc_node *before;         /* where the gradients go: the node, or the node of y's graph that it is in */
    nc_value *y, **at, **dx; /* at: xs, then zs, as values of `graph`; NULL: y cannot depend on it */
} expansion;

/* ---- where values are ---- */

/* The value that v stands for, outside all graphs that capture it. */
static nc_value *origin_of(nc_value *v) {
    while (v->origin == NC_FROM_CAPTURE) {
        const nc_node *owner = v->graph->owner;
        nc_value *outer = NULL;
        for (int s = 0; s < owner->n_subs; s++)
            for (int i = 0; owner->subs[s].graph == v->graph && i < owner->subs[s].n_captures; i++)
                if (v->graph->captures.v[i] == v) outer = owner->in[owner->subs[s].first_capture + i];
        if (!outer) return v;
        v = outer;
    }
    return v;
}

static bool encloses(const nc_graph *outer, const nc_graph *g) {
    while (g && g != outer) g = g->parent;
    return g != NULL;
}

static nc_node *owner_in(const nc_graph *g, nc_node *n) {
    while (n->graph != g) n = n->graph->owner;
    return n;
}

static nc_value *named(const expansion *e, int i) { return e->node->in[e->n_at + 1 + i]; }

static bool is_elsewhere(const expansion *e) {
    for (int i = 0; i < e->n_at; i++)
        if (origin_of(e->node->in[i]) != origin_of(named(e, i))) return true;
    return false;
}

/* The function as it stands. */
static nc_code take_as_it_is(expansion *e) {
    e->y = origin_of(e->node->in[e->n_at]);
    e->graph = e->y->graph;
    e->before = owner_in(e->graph, e->node);
    for (int i = 0; i < e->n_at; i++) {
        nc_value *v = origin_of(named(e, i));
        if (!encloses(v->graph, e->graph)) continue;
        NC_NEED(e->w, e->at[i] = nc_edit_reach(e->graph, v));
    }
    return NC_OK;
}

/* ---- the function at another point ---- */

typedef struct copying {
    expansion *e;
    nc_map by;     /* id of a value -> what stands for it in the copy */
    nc_map wanted; /* ids of values that y is made of */
} copying;

static nc_value *copy_of(const copying *c, const nc_value *v) { return nc_map_get_bytes(&c->by, &v->id, sizeof v->id); }

static nc_code set_copy(copying *c, const nc_value *v, nc_value *by) {
    if (!nc_map_put_bytes(&c->by, &v->id, sizeof v->id, by)) NC_FAIL(c->e->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code want(copying *c, nc_value *v) {
    if (!nc_map_put_bytes(&c->wanted, &v->id, sizeof v->id, v)) NC_FAIL(c->e->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static bool is_wanted(const copying *c, const nc_node *n) {
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && !copy_of(c, n->out[i]) && nc_map_get_bytes(&c->wanted, &n->out[i]->id, sizeof n->out[i]->id))
            return true;
    return false;
}

/* What y is made of, back to the independent values, of which there are copies. */
static nc_code want_all(copying *c, nc_value *y) {
    NC_TRY(want(c, y));
    for (nc_node *n = y->graph->last; n; n = n->prev)
        for (int i = 0; is_wanted(c, n) && i < n->n_operands; i++)
            if (n->in[i]) NC_TRY(want(c, n->in[i]));
    return NC_OK;
}

static nc_code copy_node(copying *c, nc_node *n) {
    expansion *e = c->e;
    nc_node *copy = nc_edit_clone(e->graph, e->before, n);
    NC_NEED(e->w, copy);
    for (int i = 0; i < n->n_operands; i++) {
        if (!n->in[i]) continue;
        nc_value *by = copy_of(c, n->in[i]);
        if (!by) by = nc_edit_reach(e->graph, n->in[i]);
        NC_NEED(e->w, by);
        nc_edit_set_in(copy, i, by);
    }
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        copy->out[i]->type = NULL;
        copy->out[i]->lit = NULL;
        if (!copy_of(c, n->out[i])) NC_TRY(set_copy(c, n->out[i], copy->out[i]));
    }
    return nc_infer_node(e->w, copy);
}

static bool depends(const copying *c, const nc_node *n) {
    for (int i = 0; i < n->n_operands; i++)
        if (n->in[i] && copy_of(c, n->in[i])) return true;
    return false;
}

static nc_code take_elsewhere(expansion *e) {
    nc_value *y = origin_of(e->node->in[e->n_at]);
    copying c = {.e = e};
    nc_map_init(&c.by, &e->w->scratch);
    nc_map_init(&c.wanted, &e->w->scratch);
    e->graph = e->node->graph;
    e->before = e->node;
    for (int i = 0; i < e->n_at; i++) {
        nc_value *v = origin_of(named(e, i));
        e->at[i] = e->node->in[i];
        if (encloses(v->graph, y->graph)) NC_NEED(e->w, v = nc_edit_reach(y->graph, v));
        NC_TRY(set_copy(&c, v, e->at[i]));
    }
    NC_TRY(want_all(&c, y));
    nc_node *last = owner_in(y->graph, e->node);
    for (nc_node *n = y->graph->first; n != last; n = n->next)
        if (is_wanted(&c, n) && depends(&c, n)) NC_TRY(copy_node(&c, n));
    e->y = copy_of(&c, y);
    if (!e->y) NC_NEED(e->w, e->y = nc_edit_reach(e->graph, y));
    return NC_OK;
}

/* ---- one node ---- */

static nc_code hold(expansion *e, nc_node **stops) {
    for (int i = 0; i < e->n_at; i++)
        if (e->at[i] && e->at[i]->origin == NC_FROM_NODE) NC_TRY(nc_autodiff_stop(e->w, e->at[i], &stops[i]));
    return NC_OK;
}

static nc_code differentiate(expansion *e) {
    int n = 0;
    nc_value **xs = nc_arena_array(&e->w->scratch, (size_t)e->n_x + 1, sizeof *xs);
    nc_value **dx = nc_arena_array(&e->w->scratch, (size_t)e->n_x + 1, sizeof *dx);
    nc_node **stops = nc_arena_array(&e->w->scratch, (size_t)e->n_at + 1, sizeof *stops);
    if (!xs || !dx || !stops) NC_FAIL(e->w, NC_E_MEMORY, "out of memory");
    NC_TRY(hold(e, stops));
    for (int i = 0; i < e->n_x; i++)
        if (e->at[i]) xs[n++] = nc_autodiff_stopped(e->at[i]);
    nc_value *y = nc_autodiff_stopped(e->y);
    nc_autodiff_ask ask = {.ys = &y, .n_y = 1, .xs = xs, .n_x = n, .before = e->before, .stage = e->node->stage};
    NC_TRY(nc_autodiff_at(e->w, e->graph, &ask, dx));
    for (int i = e->n_x - 1; i >= 0; i--)
        if (e->at[i]) e->dx[i] = dx[--n];
    for (int i = 0; i < e->n_at; i++)
        if (stops[i]) nc_autodiff_unstop(stops[i]);
    return NC_OK;
}

static nc_code give_place(expansion *e) {
    nc_node *n = e->node;
    nc_builder b = {.w = e->w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        nc_value *dx = e->dx[i] ? nc_edit_reach(n->graph, e->dx[i]) : NULL;
        if (!e->dx[i]) {
            nc_autodiff_warn_zeros(n->in[e->n_at]->name, named(e, i)->name);
            dx = nc_build_zeros_like(&b, n->in[i]);
            NC_TRY(b.code);
        }
        NC_NEED(e->w, dx);
        nc_edit_replace(n->out[i], dx);
    }
    nc_edit_remove(n);
    return NC_OK;
}

static nc_code expand(nc_work *w, nc_node *n) {
    expansion e = {.w = w, .node = n, .n_x = nc_attr_n_strings(n, "xs")};
    e.n_at = (n->n_in - 1) / 2;
    e.at = nc_arena_array(&w->scratch, (size_t)e.n_at + 1, sizeof *e.at);
    e.dx = nc_arena_array(&w->scratch, (size_t)e.n_x + 1, sizeof *e.dx);
    if (!e.at || !e.dx) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(is_elsewhere(&e) ? take_elsewhere(&e) : take_as_it_is(&e));
    NC_TRY(differentiate(&e));
    return give_place(&e);
}

static nc_code expand_at(nc_work *w, nc_node *n) {
    const char *node = w->at_node, *op = w->at_op;
    w->at_node = n->name;
    w->at_op = n->card->name;
    NC_TRY(expand(w, n));
    w->at_node = node;
    w->at_op = op;
    return NC_OK;
}

/* ---- all of them ---- */

static nc_code expand_graph(nc_work *w, nc_graph *g) {
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->n_subs; i++) NC_TRY(expand_graph(w, n->subs[i].graph));
        if (n->card->traits & NC_DIFFERENTIATES) NC_TRY(expand_at(w, n));
    }
    return NC_OK;
}

nc_code nc_autodiff_expand(nc_work *w, nc_model *m) { return expand_graph(w, m->main); }
