/* ops/nn/dropout.c: the cards of Dropout and nacre.DropoutGrad. Out of training (always before version 12) the
 * output is the input and the mask is all true. In training the planner turns the node into nacre.PhiloxDropout
 * (ops/random), which draws from the session's random state. An explicit `seed` attribute takes the place of that
 * state's seed where the graph trains, and its step still counts; elsewhere the node becomes nacre.NumpyDropout. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code dropout_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_out_like(c, 0, 0));
    if (x == NULL || c->node->version->since < 10) return nc_out_like(c, 1, 0);
    return x->rank < 0 ? nc_out_unknown(c, 1, NC_BOOL, -1) : nc_out(c, 1, NC_BOOL, x->rank, x->dims);
}

/* Whether the node can be in training mode, as far as constants tell. */
static bool may_train(const nc_node *n) {
    if (n->version->since < 12 || n->n_in < 3 || n->in[2] == NULL) return false;
    int64_t v, count;
    const nc_literal *l = n->in[2]->lit;
    return !(l != NULL && nc_literal_ints(l, &v, 1, &count) && count == 1 && v == 0);
}

static bool dropout_is_identity(const nc_node *n) {
    bool mask_used = n->n_out > 1 && n->out[1] != NULL && (n->out[1]->uses.n > 0 || n->out[1]->n_outputs > 0);
    return !mask_used && !may_train(n);
}

/* The mask is what keeps the draw: a node without that output gets it. */
static nc_value *mask_of(nc_grad *g) {
    nc_node *n = g->node->out[0]->def;
    if (n->n_out < 2 || n->out[1] == NULL) {
        nc_value *mask = n->n_out < 2 ? nc_edit_add_out(n, NULL) : NULL;
        if (mask == NULL) {
            g->b->code = n->n_out < 2 ? nc_fail(g->b->w, NC_E_MEMORY, "out of memory")
                                      : nc_fail(g->b->w, NC_E_UNSUPPORTED, "the mask is an output that is left out");
            return NULL;
        }
        if (g->b->infer != NULL) g->b->code = g->b->infer(g->b->w, n);
    }
    return nc_grad_y(g, 1);
}

static nc_code dropout_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    if (!may_train(g->node)) {
        nc_grad_set(g, 0, dy);
        return nc_grad_end(g);
    }
    nc_value *ratio = g->node->in[1] != NULL ? nc_grad_x(g, 1) : nc_build_scalar(g->b, NC_FLOAT, 0.5);
    nc_value *in[4] = {dy, mask_of(g), ratio, nc_grad_x(g, 2)};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "DropoutGrad", in, 4, NULL, 0));
    return nc_grad_end(g);
}

/* Out of training: the input, and a mask of nothing but true. */
static nc_code dropout_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (may_train(n)) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for what does not train");
    out[0] = n->in[0];
    if (n->n_out < 2 || n->out[1] == NULL) return NC_OK;
    nc_dtype t = n->version->since < 10 ? n->in[0]->type->elem : NC_BOOL;
    out[1] = nc_build_expand_like(b, nc_build_scalar(b, t, 1), n->in[0]);
    return b->code;
}

#define DATA(types, ratio) \
    {"data", types}, {"ratio", ratio, SINGLE_OPTIONAL}, { "training_mode", T_BOOL, SINGLE_OPTIONAL }
#define NEW(types, ratio) \
    IN(DATA(types, ratio)), OUT({"output", SAME(0)}, {"mask", T_BOOL, OPTIONAL}), ATTR(A_INT_OPT("seed"))
#define OLD(mask) \
    IN({"data", T_FLOAT}), OUT({"output", SAME(0)}, {"mask", mask, OPTIONAL}), ATTR(A_FLOAT("ratio", 0.5f))
#define OLDEST IN({"data", T_FLOAT}), OUT({"output", SAME(0)}, {"mask", SAME(0), OPTIONAL})
#define TESTED A_FLOAT("ratio", 0.5f), A_INT("is_test", 0)
static const nc_op_version versions[] = {{.since = 22, NEW(T_FLOAT_ALL, T_FLOAT_ALL)},
                                         {.since = 13, NEW(T_FLOAT_ALL, T_FLOAT)},
                                         {.since = 12, NEW(T_FLOAT, T_FLOAT)},
                                         {.since = 10, OLD(T_BOOL)},
                                         {.since = 7, OLD(SAME(0))},
                                         {.since = 6, OLDEST, ATTR(TESTED)},
                                         {.since = 1, OLDEST, ATTR(TESTED, A_INTS_OPT("consumed_inputs"))},
                                         {0}};

const nc_card nc_card_dropout = {
    .name = "Dropout",
    .doc = "In training zeroes a random part of the input and scales the rest; else the input.",
    .versions = versions,
    .traits = NC_RANDOM | NC_PASSES_ON,
    .host_in = 3u << 1,
    .no_grad_in = 3u << 1,
    .infer = dropout_infer,
    .decompose = dropout_decompose,
    .grad = dropout_grad,
    .is_identity = dropout_is_identity,
    .is_random = may_train,
    .random_form = "PhiloxDropout",
    .seeded_form = "NumpyDropout"};

/* ---- nacre.DropoutGrad ---- */

static nc_code dropout_grad_infer(nc_infer *c) {
    NC_TRY(nc_in_same(c, 1, 0));
    return nc_out_like(c, 0, 0);
}

/* mask ? dy * (training ? 1 / (1 - ratio) : 1) : 0 */
static nc_code dropout_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = n->in[0]->type->elem;
    nc_value *one = nc_build_scalar(b, t, 1), *zero = nc_build_scalar(b, t, 0);
    nc_value *keep = nc_build1(b, "Sub", 2, one, nc_build_cast(b, n->in[2], t));
    nc_value *scale = nc_build1(b, "Where", 3, n->in[3], nc_build1(b, "Div", 2, one, keep), one);
    out[0] = nc_build1(b, "Where", 3, n->in[1], nc_build1(b, "Mul", 2, n->in[0], scale), zero);
    return b->code;
}

static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"mask", T_BOOL}, {"ratio", T_FLOAT_ALL, SINGLE}, {"training_mode", T_BOOL, SINGLE}),
     OUT({"dX", SAME(0)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_dropout_grad = {.name = "DropoutGrad",
                                      .domain = "nacre",
                                      .doc = "Gradient of Dropout from its mask.",
                                      .versions = grad_versions,
                                      .host_in = 3u << 2,
                                      .infer = dropout_grad_infer,
                                      .decompose = dropout_grad_decompose};
