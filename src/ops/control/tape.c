/* ops/control/tape.c: the tape ops of domain nacre: what the forward pass of control flow leaves for its gradient. A
 * tape is a stack of records; a record is the values of one push. The gradient of a tape is a tape of gradients: where
 * values were pushed gradients are popped, and the other way round, so loops can be differentiated again. */
#include "ops/control/control.h"

const nc_type *nc_tape_type(nc_model *m) { return nc_type_holding(&m->arena, NC_T_TAPE, NULL); }

nc_value *nc_tape_empty(nc_builder *b) { return nc_build_attr1(b, "nacre", "TapeEmpty", NULL, 0, NULL, 0); }

nc_value *nc_tape_push(nc_builder *b, nc_value *tape, nc_value *const *values, int n) {
    if (b->code != NC_OK) return NULL;
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)n + 1, sizeof *in);
    if (!in) {
        b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
        return NULL;
    }
    in[0] = tape;
    for (int i = 0; i < n; i++) in[1 + i] = values[i];
    return nc_build_attr1(b, "nacre", "TapePush", in, n + 1, NULL, 0);
}

nc_value *nc_tape_zeros(nc_builder *b, nc_value *v) {
    if (b->code != NC_OK || !v) return NULL;
    if (v->type && v->type->kind == NC_T_TAPE) return nc_tape_empty(b);
    if (v->type && (v->type->kind == NC_T_TENSOR || v->type->kind == NC_T_SEQUENCE)) return nc_build_zeros_like(b, v);
    b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "a gradient of zeros for '%s', which is no tensor or sequence", v->name);
    return NULL;
}

static nc_code infer_tape(nc_infer *c) {
    c->out[0].type = nc_type_holding(c->arena, NC_T_TAPE, NULL);
    NC_NEED(c->w, c->out[0].type);
    return NC_OK;
}

/* Files cannot say that a value is a tape: what was popped and has no type there is one. */
static nc_code infer_pop(nc_infer *c) {
    NC_TRY(infer_tape(c));
    for (int i = 1; i < c->node->n_out; i++) {
        const nc_value *v = c->node->out[i];
        if (v) c->out[i].type = v->type ? v->type : c->out[0].type;
    }
    return NC_OK;
}

static nc_code infer_length(nc_infer *c) { return nc_out(c, 0, NC_INT64, 0, NULL); }

static nc_code grad_push(nc_grad *g) {
    nc_node *n = g->node;
    nc_value *dtape = nc_grad_dy(g, 0);
    nc_node *pop = nc_build(g->b, "nacre", "TapePop", &dtape, 1, n->n_in, NULL, 0);
    if (!pop) return g->b->code;
    for (int i = 0; i < n->n_in; i++) {
        if (i > 0) pop->out[i]->type = nc_build_popped_type(g->b, n->in[i]->type, NULL);
        nc_grad_set(g, i, pop->out[i]);
    }
    return nc_grad_end(g);
}

static nc_code grad_pop(nc_grad *g) {
    nc_node *n = g->node;
    nc_value *dtape = nc_grad_dy(g, 0);
    nc_value **d = nc_arena_array(&g->b->w->scratch, (size_t)n->n_out, sizeof *d);
    NC_NEED(g->b->w, d);
    for (int i = 1; i < n->n_out; i++) {
        d[i - 1] = nc_grad_dy(g, i);
        if (d[i - 1]) continue;
        /* What has no gradient (an index) still takes its place in the record. */
        bool zeros = n->out[i]->type && n->out[i]->type->kind == NC_T_TENSOR;
        d[i - 1] = zeros ? nc_build_zeros_like(g->b, nc_grad_y(g, i)) : nc_tape_empty(g->b);
    }
    nc_grad_set(g, 0, nc_tape_push(g->b, dtape ? dtape : nc_tape_empty(g->b), d, n->n_out - 1));
    return nc_grad_end(g);
}

static const nc_op_version empty_versions[] = {{.since = 1, NO_IN, OUT({"tape", T_TAPE}), NO_ATTR}, {0}};
static const nc_op_version push_versions[] = {
    {.since = 1, IN({"tape", T_TAPE}, {"values", T_ANYTHING, MIXED_OR_NONE}), OUT({"tape", T_TAPE}), NO_ATTR}, {0}};
static const nc_op_version pop_versions[] = {
    {.since = 1, IN({"tape", T_TAPE}), OUT({"tape", T_TAPE}, {"values", T_ANYTHING, MIXED_OR_NONE}), NO_ATTR}, {0}};
static const nc_op_version length_versions[] = {{.since = 1, IN({"tape", T_TAPE}), OUT({"n", T_I64}), NO_ATTR}, {0}};

const nc_card nc_card_tape_empty = {
    .name = "TapeEmpty",
    .domain = "nacre",
    .doc = "A tape without records.",
    .versions = empty_versions,
    .traits = NC_HOST_OBJECTS,
    .infer = infer_tape,
    .zero_grad = true,
};
const nc_card nc_card_tape_push = {
    .name = "TapePush",
    .domain = "nacre",
    .doc = "The tape with one more record, which holds the values.",
    .versions = push_versions,
    .traits = NC_HOST_OBJECTS,
    .infer = infer_tape,
    .grad = grad_push,
};
const nc_card nc_card_tape_pop = {
    .name = "TapePop",
    .domain = "nacre",
    .doc = "The tape without its last record, and the values of that.",
    .versions = pop_versions,
    .traits = NC_HOST_OBJECTS | NC_TYPES_GIVEN,
    .infer = infer_pop,
    .grad = grad_pop,
};
const nc_card nc_card_tape_length = {
    .name = "TapeLength",
    .domain = "nacre",
    .doc = "The number of records on a tape.",
    .versions = length_versions,
    .traits = NC_HOST_OBJECTS,
    .infer = infer_length,
    .zero_grad = true,
};
