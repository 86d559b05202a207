/* ops/control/loop.c: Loop. The body runs at most M times, as long as its condition holds; it takes (iteration,
 * condition, carried...) and gives (condition, carried..., scan...). Here: card and inference; the gradient is in
 * loop_grad.c.
 *
 * Inference looks for types of the carried values that an iteration keeps: dims that the body changes become symbols
 * of their own, and the body is inferred again. Every round frees at least one dim or rank, so it ends. A carried
 * optional may come out of the body as what it holds: the body keeps taking an optional, the node gives what is
 * held. */
#include "ops/control/control.h"

#include <string.h>

static const nc_op_version versions[] = {
#define ROW(n, types, some)                                                                            \
    {.since = n,                                                                                       \
     IN({"M", T_I64, SINGLE_OPTIONAL}, {"cond", T_BOOL, SINGLE_OPTIONAL}, {"v_initial", types, some}), \
     OUT({"v_final_and_scan_outputs", types, MIXED}),                                                  \
     ATTR(A_GRAPH_REQ("body"))},
    ROW(25, T_FLOW_16 | T_NARROW_25, MIXED_OR_NONE) ROW(24, T_FLOW_16 | T_NARROW_24, MIXED_OR_NONE)
        ROW(23, T_FLOW_16 | T_NARROW_23, MIXED_OR_NONE) ROW(21, T_FLOW_16 | T_NARROW_21, MIXED_OR_NONE)
            ROW(19, T_FLOW_16 | T_NARROW_19, MIXED_OR_NONE) ROW(16, T_FLOW_16, MIXED_OR_NONE)
                ROW(13, T_FLOW_13, MIXED_OR_NONE) ROW(11, T_FLOW_1, MIXED_OR_NONE) ROW(1, T_FLOW_1, MIXED)
#undef ROW
                    {0}};

typedef struct loop {
    nc_infer *c;
    nc_graph *body;
    int n_carried, n_scan;
    nc_infer_val *in;           /* of the body */
    bool (*freed)[NC_MAX_RANK]; /* per carried value and axis: its own symbol already */
    nc_scope scope;
} loop;

static nc_code loop_counts(loop *l) {
    const nc_node *n = l->c->node;
    if (n->n_subs != 1) NC_FAIL(l->c->w, NC_E_BAD_GRAPH, "has %d subgraphs, expected 1", n->n_subs);
    l->body = n->subs[0].graph;
    l->n_carried = n->n_in > 2 ? n->n_in - 2 : 0;
    l->n_scan = n->n_out - l->n_carried;
    for (int i = 2; i < n->n_in; i++)
        if (!n->in[i]) NC_FAIL(l->c->w, NC_E_BAD_GRAPH, "the initial value %d is missing", i - 2);
    if (l->body->inputs.n != 2 + l->n_carried)
        NC_FAIL(l->c->w, NC_E_BAD_GRAPH, "body takes %d inputs, expected %d", l->body->inputs.n, 2 + l->n_carried);
    if (l->n_scan < 0 || l->body->outputs.n != 1 + n->n_out)
        NC_FAIL(l->c->w, NC_E_BAD_GRAPH, "body gives %d outputs, expected %d for %d outputs of the node",
                l->body->outputs.n, 1 + n->n_out, n->n_out);
    return NC_OK;
}

/* The iteration's number and the condition: scalars, or vectors of one element where the body says so. */
static nc_code one_element(nc_infer *c, nc_dtype t, const nc_type *declared, nc_infer_val *out) {
    const nc_dim *one = nc_dim_const(c->dims, 1);
    NC_NEED(c->w, one);
    bool vector = declared && declared->kind == NC_T_TENSOR && declared->rank == 1;
    *out = (nc_infer_val){.type = nc_type_tensor(c->arena, t, vector, &one), .present = true};
    NC_NEED(c->w, out->type);
    return NC_OK;
}

static nc_code first_types(loop *l) {
    nc_infer *c = l->c;
    l->in = nc_arena_array(&c->w->scratch, (size_t)(2 + l->n_carried), sizeof *l->in);
    l->freed = nc_arena_array(&c->w->scratch, (size_t)l->n_carried + 1, sizeof *l->freed);
    NC_NEED(c->w, l->in);
    NC_NEED(c->w, l->freed);
    for (int i = 0; i < 2; i++) NC_TRY(one_element(c, i ? NC_BOOL : NC_INT64, l->body->inputs.v[i]->type, &l->in[i]));
    for (int i = 0; i < l->n_carried; i++) l->in[2 + i] = (nc_infer_val){.type = nc_in(c, 2 + i), .present = true};
    return NC_OK;
}

/* The body takes an optional and gives its element: what is there is an optional that holds something. */
static bool is_filled(const nc_type *a, const nc_type *b) {
    return a->kind == NC_T_OPTIONAL && b->kind != NC_T_OPTIONAL &&
           (a->of == NULL || (a->of->kind == b->kind && a->of->elem == b->elem));
}

/* Makes room in the type of carried value i for what the body gave; *changed when that is another type. */
static nc_code widen(loop *l, int i, bool *changed) {
    nc_infer *c = l->c;
    const nc_type *a = l->in[2 + i].type, *b = l->body->outputs.v[1 + i]->type;
    if (!a || !b || a == b || is_filled(a, b)) return NC_OK;
    if (a->kind != b->kind || a->elem != b->elem) {
        const nc_type *none;
        return nc_scope_join(&l->scope, a, b, l->body->inputs.v[2 + i]->name, &none);
    }
    if (a->kind != NC_T_TENSOR) {
        /* What an empty sequence holds is known from the body alone. */
        if (!a->of && b->of) {
            l->in[2 + i].type = b;
            *changed = true;
        }
        return NC_OK;
    }
    if (a->rank < 0) return NC_OK;
    const nc_dim *dims[NC_MAX_RANK];
    bool differs = false;
    int rank = a->rank == b->rank ? a->rank : -1;
    for (int k = 0; k < rank; k++) {
        dims[k] = a->dims[k];
        if (a->dims[k] == b->dims[k] || l->freed[i][k]) continue;
        dims[k] = nc_fresh(c, "v");
        NC_NEED(c->w, dims[k]);
        l->freed[i][k] = differs = true;
    }
    if (rank >= 0 && !differs) return NC_OK;
    l->in[2 + i].type = nc_type_tensor(c->arena, a->elem, rank, dims);
    NC_NEED(c->w, l->in[2 + i].type);
    *changed = true;
    return NC_OK;
}

static bool is_true(const nc_value *v) {
    int64_t b, n;
    return v && v->lit && nc_literal_ints(v->lit, &b, 1, &n) && n == 1 && b != 0;
}

/* Is the condition true in every iteration, so that M alone ends the loop? */
static bool always(const loop *l) {
    const nc_node *n = l->c->node;
    const nc_value *first = n->n_in > 1 ? n->in[1] : NULL, *again = l->body->outputs.v[0];
    while (again->def && (again->def->card->traits & NC_IDENTITY) && again->def->in[0]) again = again->def->in[0];
    for (int k = 0; k < l->body->captures.n; k++)
        if (l->body->captures.v[k] == again) again = n->in[n->subs[0].first_capture + k];
    return (!first || is_true(first)) && (again == l->body->inputs.v[1] || is_true(again));
}

/* The number of iterations, where it is known before the run; else a fresh symbol. */
static const nc_dim *trips(loop *l) {
    nc_infer *c = l->c;
    int n = 0;
    const nc_dim *const *m = always(l) && c->node->n_in > 0 && c->node->in[0] ? nc_in_elems(c, 0, &n) : NULL;
    if (!m || n != 1 || !m[0]) return nc_fresh(c, "n");
    return nc_dim_sym_id(m[0]) >= 0 ? m[0] : nc_dim_max(c->dims, m[0], nc_dim_const(c->dims, 0));
}

static nc_code scan_types(loop *l) {
    nc_infer *c = l->c;
    const nc_dim *dims[NC_MAX_RANK] = {l->n_scan ? trips(l) : NULL};
    for (int i = 0; i < l->n_scan; i++) {
        const nc_type *t = l->body->outputs.v[1 + l->n_carried + i]->type, *seen;
        NC_NEED(c->w, dims[0]);
        if (!t) continue;
        if (t->kind != NC_T_TENSOR) NC_FAIL(c->w, NC_E_TYPE, "scan output %d is no tensor", i);
        if (t->rank >= NC_MAX_RANK)
            NC_FAIL(c->w, NC_E_SHAPE, "scan output %d has %d dims, at most %d are supported", i, t->rank + 1,
                    NC_MAX_RANK);
        NC_TRY(nc_scope_join(&l->scope, t, t, "scan output", &seen));
        for (int k = 0; k < t->rank; k++) dims[1 + k] = seen->dims[k];
        NC_TRY(nc_out(c, l->n_carried + i, t->elem, t->rank < 0 ? -1 : 1 + t->rank, dims));
    }
    return NC_OK;
}

static nc_code loop_infer(nc_infer *c) {
    loop l = {.c = c};
    NC_TRY(loop_counts(&l));
    NC_TRY(nc_scope_init(&l.scope, c));
    NC_TRY(first_types(&l));
    for (bool changed = true; changed;) {
        changed = false;
        NC_TRY(c->infer_sub(c, 0, l.in, 2 + l.n_carried));
        for (int i = 0; i < l.n_carried; i++) NC_TRY(widen(&l, i, &changed));
    }
    for (int i = 0; i < l.n_carried; i++) {
        const nc_type *t = l.in[2 + i].type, *given = l.body->outputs.v[1 + i]->type;
        if (t && given && is_filled(t, given)) t = given;
        NC_TRY(nc_scope_join(&l.scope, t, t, "", &c->out[i].type));
    }
    return scan_types(&l);
}

const nc_card nc_card_loop = {
    .name = "Loop",
    .doc = "Runs its body up to M times while a condition holds; carries values, stacks scan outputs.",
    .versions = versions,
    .traits = NC_CONTROL | NC_LOOPS,
    .host_in = 3,
    .host_sub_in = 3,
    .host_sub_out = 1,
    .no_grad_in = 3,
    .infer = loop_infer,
    .grad = nc_loop_grad,
};
