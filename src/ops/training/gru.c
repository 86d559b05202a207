/* ops/training/gru.c: GRUTraining, which gives every gate, and GRUGrad, which takes them, over the house's own pair, as
 * lstm.c has them. Beside the sums of the gates the house keeps what the state adds to the hidden gate: R h + b with
 * linear_before_reset, r * h without. */
#include "ops/training/layer.h"
#include "ops/training/training.h"

enum { GATES = 3 }; /* z r h */

static nc_code check_form(nc_work *w, const nc_node *n) {
    static const char *const expected[] = {"Sigmoid", "Tanh", NULL};
    return nc_layer_check(w, n, expected);
}

static nc_code training_infer(nc_infer *c) {
    const nc_dim *T = nc_in_dim(c, 0, 0);
    NC_TRY(check_form(c->w, c->node));
    if (T == NULL) T = nc_fresh(c, "steps");
    NC_NEED(c->w, T);
    NC_TRY(nc_layer_rows_out(c, 0, T, 1));
    NC_TRY(nc_layer_rows_out(c, 1, NULL, 1));
    return nc_layer_rows_out(c, 2, T, GATES);
}

static nc_code grad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *H = nc_in_dim(c, 2, 2), *dims[2] = {nc_dim_const(c->dims, 1), NULL};
    NC_TRY(check_form(c->w, c->node));
    for (int i = 6; i < 8; i++)
        if (i >= c->node->n_in || c->node->in[i] == NULL)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s is missing", c->node->version->in[i].name);
    for (int i = 0; i < 3; i++) NC_TRY(nc_out_like(c, i, i));
    if (x == NULL) return NC_OK;
    dims[1] = H != NULL ? nc_dim_mul(c->dims, H, nc_dim_const(c->dims, 2 * GATES)) : nc_fresh(c, "b");
    NC_TRY(nc_out(c, 3, x->elem, 2, dims));
    return nc_layer_rows_out(c, 4, NULL, 1);
}

static nc_code training_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[16];
    int64_t H;
    NC_TRY(nc_layer_size(b, n, &H));
    bool wanted[3] = {nc_contrib_wants(n, 0), nc_contrib_wants(n, 1), true};
    bool before = nc_attr_int(n, "linear_before_reset") != 0;
    nc_node *layer = nc_build_wanted(b, "nacre", "GRUKept", n->in, n->n_in, wanted, 3, attrs, nc_layer_attrs(n, attrs));
    if (layer == NULL) return b->code;
    for (int i = 0; i < 2 && i < n->n_out; i++) out[i] = layer->out[i];
    if (!nc_contrib_wants(n, 2)) return b->code;
    nc_value *kept = nc_layer_turned(b, layer->out[2]);
    nc_value *gates[2] = {nc_build1(b, "Sigmoid", 1, nc_layer_part(b, kept, H, 0, 2)), nc_layer_part(b, kept, H, 2, 3)};
    if (before) {
        nc_value *r = nc_layer_part(b, gates[0], H, 1, 2), *rec = nc_layer_part(b, kept, H, 3, 4);
        gates[1] = nc_training_op2(b, "Add", gates[1], nc_training_op2(b, "Mul", r, rec));
    }
    gates[1] = nc_build1(b, "Tanh", 1, gates[1]);
    out[2] = nc_layer_joined(b, gates, 2);
    return b->code;
}

/* ---- the gradient ---- */

/* The state in front of each step, (steps, 1, batch, hidden): the first one, and all but the last. */
static nc_value *states_before(nc_builder *b, nc_value *h0, nc_value *all) {
    int64_t zero = 0, last = -1;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *ends[2] = {nc_build1(b, "Unsqueeze", 2, h0, nc_build_ints(b, &zero, 1)),
                         nc_build1(b, "Slice", 4, all, nc_build_ints(b, &zero, 1), nc_build_ints(b, &last, 1),
                                   nc_build_ints(b, &zero, 1))};
    return nc_build_attr1(b, "", "Concat", ends, 2, &axis, 1);
}

/* x (1, n, ...) along axis 1: [from, to). */
static nc_value *rows_of(nc_builder *b, nc_value *x, int64_t from, int64_t to) {
    int64_t axis = 1;
    return nc_build1(b, "Slice", 4, x, nc_build_ints(b, &from, 1), nc_build_ints(b, &to, 1),
                     nc_build_ints(b, &axis, 1));
}

/* What the state adds to the hidden gate. */
static nc_value *recurrent(nc_builder *b, const nc_node *n, int64_t H, nc_value *before, nc_value *r) {
    if (nc_attr_int(n, "linear_before_reset") == 0) return nc_training_op2(b, "Mul", r, before);
    nc_value *w = nc_build_transpose(b, rows_of(b, n->in[2], 2 * H, 3 * H), (const int64_t[]){0, 2, 1}, 3);
    nc_value *sum = nc_build1(b, "MatMul", 2, before, w), *bias = nc_contrib_in(n, 3);
    return bias != NULL ? nc_training_op2(b, "Add", sum, rows_of(b, bias, 5 * H, 6 * H)) : sum;
}

/* What nacre.GRUKept would have kept. */
static nc_value *kept_of(nc_builder *b, const nc_node *n, int64_t H, nc_value *h0) {
    nc_value *gates = n->in[7], *r = nc_layer_part(b, gates, H, 1, 2);
    nc_value *rec = recurrent(b, n, H, states_before(b, h0, n->in[6]), r);
    nc_value *hidden = nc_build1(b, "Atanh", 1, nc_layer_part(b, gates, H, 2, 3));
    if (nc_attr_int(n, "linear_before_reset") != 0)
        hidden = nc_training_op2(b, "Sub", hidden, nc_training_op2(b, "Mul", r, rec));
    nc_value *in[4] = {nc_layer_logit(b, nc_layer_part(b, gates, H, 0, 2)), hidden, rec, n->in[6]};
    return nc_layer_turned(b, nc_layer_joined(b, in, 4));
}

static nc_code grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int from[5] = {0, 1, 2, 3, 5}; /* which result of nacre.GRUGrad */
    nc_attr attrs[16];
    int64_t H;
    NC_TRY(nc_layer_size(b, n, &H));
    nc_value *h0 = nc_contrib_in(n, 5), *bias = nc_contrib_in(n, 3);
    if (h0 == NULL) h0 = nc_build_zeros_like(b, nc_build1(b, "Gather", 2, n->in[6], nc_build_int(b, 0)));
    if (bias == NULL)
        bias = nc_build1(b, "Expand", 2, nc_build_scalar(b, nc_training_elem(n->in[0]), 0),
                         nc_build_ints(b, (const int64_t[]){1, 2 * GATES * H}, 2));
    nc_value *in[9] = {n->in[0],
                       n->in[1],
                       n->in[2],
                       bias,
                       nc_contrib_in(n, 4),
                       h0,
                       nc_contrib_in(n, 8),
                       nc_contrib_in(n, 9),
                       kept_of(b, n, H, h0)};
    bool wanted[6] = {false};
    for (int i = 0; i < 5; i++) wanted[from[i]] = nc_contrib_wants(n, i);
    nc_node *d = nc_build_wanted(b, "nacre", "GRUGrad", in, 9, wanted, 6, attrs, nc_layer_attrs(n, attrs));
    for (int i = 0; d != NULL && i < 5 && i < n->n_out; i++)
        if (wanted[from[i]]) out[i] = d->out[from[i]];
    return b->code;
}

#define MAYBE(name) \
    { name, SAME(0), OPTIONAL }
#define OPERANDS {"X", T_FLOAT_ALL}, {"W", SAME(0)}, {"R", SAME(0)}, MAYBE("B"), {"SL", T_I32, OPTIONAL}, MAYBE("Ht0")
#define LAYER                                                                                             \
    ATTR(A_STRINGS_OPT("activations"), A_FLOATS_OPT("activation_alpha"), A_FLOATS_OPT("activation_beta"), \
         A_FLOAT_OPT("clip"), A_INT("linear_before_reset", 0), A_INT_OPT("hidden_size"),                  \
         A_STR("direction", "forward"))
static const nc_op_version training_versions[] = {
    {.since = 1, IN(OPERANDS), OUT(MAYBE("HAll"), MAYBE("HFinal"), MAYBE("ZRH")), LAYER}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN(OPERANDS, MAYBE("HAll"), MAYBE("ZRH"), MAYBE("dHAll"), MAYBE("dHFinal")),
     OUT(MAYBE("dX"), MAYBE("dW"), MAYBE("dR"), MAYBE("dB"), MAYBE("dH0")),
     LAYER},
    {0}};

NC_TRAINING_CARD(gru, "GRUTraining", "GRU that gives all gates.", training_versions, .infer = training_infer,
                 .decompose = training_decompose, .no_grad_in = 1u << 4);
NC_TRAINING_CARD(gru_grad, "GRUGrad", "Gradients of GRU from its states and gates.", grad_versions, .infer = grad_infer,
                 .decompose = grad_decompose, .no_grad_in = 1u << 4);
