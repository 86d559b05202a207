/* ops/control/scan.c: Scan: states carried over the slices of its scan inputs, and what each step gives, stacked. It is
 * a Loop whose body picks the slices, and is run and differentiated as that. Version 8 has a batch in front: a Loop
 * over it around a Scan of the newer kind. */
#include "ops/control/control.h"

#include <stdint.h>
#include <string.h>

static const nc_op_version versions[] = {
#define ATTRS                                                                              \
    ATTR(A_GRAPH_REQ("body"), A_INT_REQ("num_scan_inputs"), A_INTS_OPT("scan_input_axes"), \
         A_INTS_OPT("scan_input_directions"), A_INTS_OPT("scan_output_axes"), A_INTS_OPT("scan_output_directions"))
#define ROW(n, types)                                     \
    {.since = n,                                          \
     IN({"initial_state_and_scan_inputs", types, MIXED}), \
     OUT({"final_state_and_scan_outputs", types, MIXED}), \
     ATTRS},
    ROW(25, T_TENSOR_ALL | T_NARROW_25) ROW(24, T_TENSOR_ALL | T_NARROW_24) ROW(23, T_TENSOR_ALL | T_NARROW_23)
        ROW(21, T_TENSOR_ALL | T_NARROW_21) ROW(19, T_TENSOR_ALL | T_NARROW_19) ROW(16, T_TENSOR_ALL) ROW(11, T_TENSOR)
            ROW(9, T_TENSOR){.since = 8,
                             IN({"sequence_lens", T_I64, OPTIONAL}, {"initial_state_and_scan_inputs", T_TENSOR, MIXED}),
                             OUT({"final_state_and_scan_outputs", T_TENSOR, MIXED}),
                             ATTR(A_GRAPH_REQ("body"), A_INT_REQ("num_scan_inputs"), A_INTS_OPT("directions"))},
#undef ROW
#undef ATTRS
    {0}};

typedef struct scan {
    const nc_node *n;
    const nc_graph *body;
    int first, n_states, n_scan, n_outs; /* first: where the states begin among the inputs */
    bool batched;
} scan;

static nc_code scan_measure(nc_work *w, const nc_node *n, scan *s) {
    if (n->n_subs != 1) NC_FAIL(w, NC_E_BAD_GRAPH, "has %d subgraphs, expected 1", n->n_subs);
    *s = (scan){.n = n, .body = n->subs[0].graph, .batched = n->version->since == 8};
    s->first = s->batched;
    s->n_scan = (int)nc_attr_int(n, "num_scan_inputs");
    s->n_states = n->n_in - s->first - s->n_scan;
    s->n_outs = n->n_out - s->n_states;
    if (s->n_scan < 1 || s->n_states < 0 || s->n_outs < 0)
        NC_FAIL(w, NC_E_BAD_GRAPH, "has %d inputs and %d outputs, %d of the inputs are scanned", n->n_in, n->n_out,
                s->n_scan);
    if (s->body->inputs.n != s->n_states + s->n_scan || s->body->outputs.n != n->n_out)
        NC_FAIL(w, NC_E_BAD_GRAPH, "body takes %d and gives %d values, expected %d and %d", s->body->inputs.n,
                s->body->outputs.n, s->n_states + s->n_scan, n->n_out);
    for (int i = s->first; i < n->n_in; i++)
        if (n->in[i] == NULL) NC_FAIL(w, NC_E_BAD_GRAPH, "input %d is missing", i);
    return NC_OK;
}

/* Element i of a list attribute; 0 where the list is absent. */
static int64_t listed(const nc_node *n, const char *name, int i) {
    const nc_attr *a = nc_node_attr(n, name);
    return a != NULL && a->kind == NC_A_INTS && i < a->n ? a->ints[i] : 0;
}

static bool runs_back(const scan *s, int i) {
    return listed(s->n, s->batched ? "directions" : "scan_input_directions", i) != 0;
}

/* ---- inference ---- */

/* The type of a slice: t without dims [lo, hi). */
static const nc_type *without(nc_infer *c, const nc_type *t, int lo, int hi) {
    const nc_dim *dims[NC_MAX_RANK];
    int n = 0;
    if (t == NULL || t->rank < 0) return t;
    for (int k = 0; k < t->rank; k++)
        if (k < lo || k >= hi) dims[n++] = t->dims[k];
    return nc_type_tensor(c->arena, t->elem, n, dims);
}

static nc_code input_types(nc_infer *c, const scan *s, nc_infer_val *in, const nc_dim **steps) {
    for (int i = 0; i < s->n_states + s->n_scan; i++) {
        const nc_type *t = nc_in(c, s->first + i);
        int axis = 0, scanned = i >= s->n_states;
        in[i] = (nc_infer_val){.type = t, .present = true};
        if (t == NULL || t->rank < 0) continue;
        if (t->rank < scanned + s->batched) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims", i, t->rank);
        if (scanned && !s->batched)
            NC_TRY(nc_axis(c, listed(s->n, "scan_input_axes", i - s->n_states), t->rank, &axis));
        if (scanned && s->batched) axis = 1;
        if (scanned && *steps == NULL) *steps = t->dims[axis];
        in[i].type = s->batched ? without(c, t, 0, 1 + scanned) : scanned ? without(c, t, axis, axis + 1) : t;
        NC_NEED(c->w, in[i].type);
    }
    return NC_OK;
}

/* t with `more` put in at axis, and the batch in front. */
static nc_code out_type(nc_infer *c, const scan *s, int i, const nc_type *t, int64_t at, const nc_dim *more,
                        const nc_dim *batch) {
    const nc_dim *dims[NC_MAX_RANK + 2];
    int n = 0, axis = 0, rank = t->rank + (more != NULL);
    if (t->rank < 0) return nc_out_unknown(c, i, t->elem, -1);
    if (rank + s->batched > NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "output %d has %d dims, at most %d are supported", i, rank + s->batched, NC_MAX_RANK);
    if (more != NULL) NC_TRY(nc_axis(c, at, rank, &axis));
    if (batch != NULL) dims[n++] = batch;
    for (int k = 0, from = 0; k < rank; k++) dims[n++] = more != NULL && k == axis ? more : t->dims[from++];
    return nc_out(c, i, t->elem, n, dims);
}

static nc_code scan_infer(nc_infer *c) {
    scan s;
    nc_scope scope;
    NC_TRY(scan_measure(c->w, c->node, &s));
    NC_TRY(nc_scope_init(&scope, c));
    nc_infer_val *in = nc_arena_array(&c->w->scratch, (size_t)(s.n_states + s.n_scan), sizeof *in);
    NC_NEED(c->w, in);
    const nc_dim *steps = NULL, *batch = s.batched ? nc_in_dim(c, c->node->n_in - 1, 0) : NULL;
    NC_TRY(input_types(c, &s, in, &steps));
    NC_TRY(c->infer_sub(c, 0, in, s.n_states + s.n_scan));
    if (steps == NULL) steps = nc_fresh(c, "n");
    NC_NEED(c->w, steps);
    if (s.batched && batch == NULL) NC_NEED(c->w, batch = nc_fresh(c, "batch"));
    for (int i = 0; i < c->node->n_out; i++) {
        const nc_type *t = s.body->outputs.v[i]->type, *seen;
        bool state = i < s.n_states;
        if (t == NULL || c->node->out[i] == NULL) continue;
        if (t->kind != NC_T_TENSOR) NC_FAIL(c->w, NC_E_TYPE, "output %d is no tensor", i);
        NC_TRY(nc_scope_join(&scope, state && in[i].type != NULL ? in[i].type : t, t, "output", &seen));
        int64_t axis = state || s.batched ? 0 : listed(c->node, "scan_output_axes", i - s.n_states);
        NC_TRY(out_type(c, &s, i, seen, axis, state ? NULL : steps, batch));
    }
    return NC_OK;
}

/* ---- decomposition ---- */

static nc_value *pick(nc_builder *b, nc_value *x, nc_value *at, int64_t axis) {
    nc_value *in[2] = {nc_edit_reach(b->graph, x), at};
    if (in[0] == NULL && b->code == NC_OK) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return nc_build_attr1(b, "", "Gather", in, 2, &attr, 1);
}

/* The length of an axis as a number of rank 0. */
static nc_value *length(nc_builder *b, nc_value *x, int64_t axis) {
    if (axis < 0 && x->type != NULL && x->type->rank > 0) axis += x->type->rank;
    nc_value *shape = nc_build_shape(b, x);
    return nc_build1(b, "Gather", 2, shape, nc_build_int(b, axis));
}

/* A stacked output as the node gives it: turned round, and with its steps at another axis. */
static nc_value *placed(nc_builder *b, const scan *s, int i, nc_value *y) {
    int64_t last = -1, first = INT64_MIN, zero = 0, axis = listed(s->n, "scan_output_axes", i), perm[NC_MAX_RANK];
    if (listed(s->n, "scan_output_directions", i) != 0)
        y = nc_build1(b, "Slice", 5, y, nc_build_ints(b, &last, 1), nc_build_ints(b, &first, 1),
                      nc_build_ints(b, &zero, 1), nc_build_ints(b, &last, 1));
    if (y == NULL || axis == 0) return y;
    if (y->type == NULL || y->type->rank < 0) {
        b->code =
            nc_fail(b->w, NC_E_SHAPE, "scan output %d has an unknown rank, and its axis is %lld", i, (long long)axis);
        return NULL;
    }
    if (axis < 0) axis += y->type->rank;
    for (int k = 0, from = 1; k < y->type->rank; k++) perm[k] = k == axis ? 0 : from++;
    return nc_build_transpose(b, y, perm, y->type->rank);
}

static nc_code decompose_steps(nc_builder *b, const scan *s, nc_value **out) {
    const nc_node *n = s->n;
    nc_control_loop l;
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)n->n_in, sizeof *in);
    NC_NEED(b->w, in);
    nc_value *trips = length(b, n->in[s->n_states], listed(n, "scan_input_axes", 0));
    nc_value *last = nc_build1(b, "Sub", 2, trips, nc_build_int(b, 1));
    NC_TRY(b->code);
    NC_TRY(nc_control_loop_begin(b, trips, n->in, s->n_states, s->n_outs, &l));
    nc_value *back = NULL;
    for (int i = 0; i < s->n_states; i++) in[i] = l.carried[i];
    for (int i = 0; i < s->n_scan; i++) {
        if (runs_back(s, i) && back == NULL) back = nc_build1(&l.b, "Sub", 2, nc_edit_reach(l.b.graph, last), l.iter);
        nc_value *at = runs_back(s, i) ? back : l.iter;
        in[s->n_states + i] = pick(&l.b, n->in[s->n_states + i], at, listed(n, "scan_input_axes", i));
    }
    NC_TRY(l.b.code);
    nc_value **given = nc_arena_array(&b->w->scratch, (size_t)n->n_out + 1, sizeof *given);
    NC_NEED(b->w, given);
    NC_TRY(nc_control_inline(&l.b, n, 0, in, given));
    NC_TRY(nc_control_loop_end(b, &l, given));
    for (int i = 0; i < n->n_out; i++)
        out[i] = i < s->n_states ? l.node->out[i] : placed(b, s, i - s->n_states, l.node->out[i]);
    return b->code;
}

/* One item of the batch: a Scan of the newer kind in the body of a Loop. */
static nc_code inner_scan(nc_builder *b, const scan *s, nc_value *const *in, nc_node **out) {
    const nc_node *n = s->n;
    nc_node *inner =
        nc_edit_node(b->graph, NULL, n->card, nc_card_version(n->card, 18), NULL, in, n->n_in - 1, NULL, n->n_out);
    NC_NEED(b->w, inner);
    nc_builder body = *b;
    nc_attr count = {.name = "num_scan_inputs", .kind = NC_A_INT, .i = s->n_scan};
    nc_attr turns = {.name = "scan_input_directions", .kind = NC_A_INTS};
    const nc_attr *directions = nc_node_attr(n, "directions");
    nc_code code = nc_edit_set_attr(inner, &count);
    if (directions != NULL) {
        turns.n = directions->n, turns.ints = directions->ints;
        if (code == NC_OK) code = nc_edit_set_attr(inner, &turns);
    }
    body.graph = nc_edit_subgraph(inner, "body");
    if (code != NC_OK || body.graph == NULL) NC_FAIL(b->w, NC_E_MEMORY, "out of memory");
    nc_value **formal = nc_arena_array(&b->w->scratch, (size_t)n->n_in, sizeof *formal);
    nc_value **given = nc_arena_array(&b->w->scratch, (size_t)n->n_out + 1, sizeof *given);
    if (formal == NULL || given == NULL) NC_FAIL(b->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < s->body->inputs.n; i++) {
        formal[i] = nc_edit_input(body.graph, s->body->inputs.v[i]->name, s->body->inputs.v[i]->type);
        NC_NEED(b->w, formal[i]);
    }
    NC_TRY(nc_control_inline(&body, n, 0, formal, given));
    for (int i = 0; i < n->n_out; i++)
        if (nc_edit_output(body.graph, given[i], NULL) != NC_OK) NC_FAIL(b->w, NC_E_MEMORY, "out of memory");
    *out = inner;
    return b->infer != NULL ? b->infer(b->w, inner) : NC_OK;
}

static nc_code decompose_batch(nc_builder *b, const scan *s, nc_value **out) {
    const nc_node *n = s->n;
    nc_control_loop l;
    nc_node *inner = NULL;
    if (n->in[0] != NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "sequence_lens is given: only whole sequences are scanned");
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)n->n_in, sizeof *in);
    NC_NEED(b->w, in);
    nc_value *trips = length(b, n->in[1], 0);
    NC_TRY(b->code);
    NC_TRY(nc_control_loop_begin(b, trips, NULL, 0, n->n_out, &l));
    for (int i = 1; i < n->n_in; i++) in[i - 1] = pick(&l.b, n->in[i], l.iter, 0);
    NC_TRY(l.b.code);
    NC_TRY(inner_scan(&l.b, s, in, &inner));
    NC_TRY(nc_control_loop_end(b, &l, inner->out));
    for (int i = 0; i < n->n_out; i++) out[i] = l.node->out[i];
    return b->code;
}

static nc_code scan_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    scan s;
    NC_TRY(scan_measure(b->w, n, &s));
    return s.batched ? decompose_batch(b, &s, out) : decompose_steps(b, &s, out);
}

const nc_card nc_card_scan = {
    .name = "Scan",
    .doc = "Runs its body over the slices of its scan inputs; carries states, stacks outputs.",
    .versions = versions,
    .traits = NC_CONTROL,
    .infer = scan_infer,
    .decompose = scan_decompose,
};
