/* ops/training/lstm.c: LSTMTraining, which gives every cell state and gate, and LSTMGrad, which takes them, over the
 * house's own pair (ops/rnn/rnn_grad.c): its forward form keeps the sums of the gates, so gates go through their
 * activations on the way out and back through the inverses, where a gate of 0 or 1 is an infinite sum. One direction,
 * the activations that ONNX has by default, no peepholes: what ONNX Runtime's own kernels take. */
#include "ops/training/training.h"

#include <string.h>

enum { GATES = 4, KEPT = 6 }; /* i o f c; the gates' sums, cell and state */

static nc_code check_form(nc_work *w, const nc_node *n) {
    static const char *const expected[3] = {"Sigmoid", "Tanh", "Tanh"};
    const char *direction = nc_attr_str(n, "direction");
    const nc_attr *names = nc_node_attr(n, "activations");
    if (strcmp(direction, "forward") != 0)
        NC_FAIL(w, NC_E_UNSUPPORTED, "direction is '%.40s', expected forward", direction);
    if (nc_contrib_float(n, "clip", 0) != 0 || nc_attr_int(n, "input_forget") != 0)
        NC_FAIL(w, NC_E_UNSUPPORTED, "clip and input_forget are expected to be absent");
    int count = 0;
    const nc_str *given = names != NULL ? nc_attr_strings(names, &count) : NULL;
    for (int i = 0; i < count; i++)
        if (i > 2 || strcmp(given[i].p, expected[i]) != 0)
            NC_FAIL(w, NC_E_UNSUPPORTED, "activation %d is '%.40s', expected Sigmoid, Tanh, Tanh", i, given[i].p);
    return NC_OK;
}

static const nc_dim *hidden(nc_infer *c) { return nc_in_dim(c, 2, 2); }

static nc_code rows_out(nc_infer *c, int i, const nc_dim *first, int gates) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *H = hidden(c), *one = nc_dim_const(c->dims, 1), *dims[4];
    int n = 0;
    if (x == NULL || x->rank != 3 || H == NULL) return x != NULL ? nc_out_unknown(c, i, x->elem, first ? 4 : 3) : NC_OK;
    if (first != NULL) dims[n++] = first;
    dims[n++] = one, dims[n++] = x->dims[1];
    dims[n++] = nc_dim_mul(c->dims, H, nc_dim_const(c->dims, gates));
    return nc_out(c, i, x->elem, n, dims);
}

static nc_code training_infer(nc_infer *c) {
    const nc_dim *T = nc_in_dim(c, 0, 0);
    NC_TRY(check_form(c->w, c->node));
    if (c->node->n_in > 7 && c->node->in[7] != NULL) NC_FAIL(c->w, NC_E_UNSUPPORTED, "peepholes are not supported");
    if (T == NULL) T = nc_fresh(c, "steps");
    NC_NEED(c->w, T);
    NC_TRY(rows_out(c, 0, T, 1));
    NC_TRY(rows_out(c, 1, NULL, 1));
    NC_TRY(rows_out(c, 2, NULL, 1));
    NC_TRY(rows_out(c, 3, T, 1));
    return rows_out(c, 4, T, GATES);
}

static nc_code grad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *H = hidden(c), *dims[2] = {nc_dim_const(c->dims, 1), NULL};
    NC_TRY(check_form(c->w, c->node));
    if (c->node->n_out > 6 && c->node->out[6] != NULL) NC_FAIL(c->w, NC_E_UNSUPPORTED, "peepholes are not supported");
    for (int i = 6; i < 9; i++)
        if (i >= c->node->n_in || c->node->in[i] == NULL)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s is missing", c->node->version->in[i].name);
    for (int i = 0; i < 3; i++) NC_TRY(nc_out_like(c, i, i));
    if (x == NULL) return NC_OK;
    dims[1] = H != NULL ? nc_dim_mul(c->dims, H, nc_dim_const(c->dims, 2 * GATES)) : nc_fresh(c, "b");
    NC_TRY(nc_out(c, 3, x->elem, 2, dims));
    NC_TRY(rows_out(c, 4, NULL, 1));
    return rows_out(c, 5, NULL, 1);
}

static nc_code size_of(nc_builder *b, const nc_node *n, int64_t *H) {
    const nc_type *r = n->in[2]->type;
    *H = nc_contrib_int(n, "hidden_size", 0);
    if (*H <= 0 && (r == NULL || r->rank != 3 || !nc_dim_is_const(r->dims[2], H)))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known hidden size");
    return NC_OK;
}

/* Of the last axis: [from, to) times H. */
static nc_value *part(nc_builder *b, nc_value *x, int64_t H, int from, int to) {
    int64_t start = from * H, end = to * H, axis = 3;
    return nc_build1(b, "Slice", 4, x, nc_build_ints(b, &start, 1), nc_build_ints(b, &end, 1),
                     nc_build_ints(b, &axis, 1));
}

static nc_value *joined(nc_builder *b, nc_value *const *in, int n) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 3};
    return nc_build_attr1(b, "", "Concat", in, n, &axis, 1);
}

/* (directions, steps, ...) as (steps, directions, ...), and back. */
static nc_value *turned(nc_builder *b, nc_value *x) {
    return nc_build_transpose(b, x, (const int64_t[]){1, 0, 2, 3}, 4);
}

static int layer_attrs(const nc_node *n, nc_attr *to) {
    static const char *const dropped[] = {"activation_alpha", "activation_beta", "activations"};
    return nc_contrib_attrs(n, dropped, 3, to);
}

static nc_code training_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[16];
    int64_t H;
    NC_TRY(size_of(b, n, &H));
    bool wanted[4] = {nc_contrib_wants(n, 0), nc_contrib_wants(n, 1), nc_contrib_wants(n, 2), true};
    nc_node *layer = nc_build_wanted(b, "nacre", "LSTMKept", n->in, n->n_in < 7 ? n->n_in : 7, wanted, 4, attrs,
                                     layer_attrs(n, attrs));
    if (layer == NULL) return b->code;
    for (int i = 0; i < 3 && i < n->n_out; i++) out[i] = layer->out[i];
    nc_value *kept = turned(b, layer->out[3]);
    if (nc_contrib_wants(n, 3)) out[3] = part(b, kept, H, 4, 5);
    if (nc_contrib_wants(n, 4)) {
        nc_value *gates[2] = {nc_build1(b, "Sigmoid", 1, part(b, kept, H, 0, 3)),
                              nc_build1(b, "Tanh", 1, part(b, kept, H, 3, 4))};
        out[4] = joined(b, gates, 2);
    }
    return b->code;
}

/* What nacre.LSTMKept would have kept. */
static nc_value *kept_of(nc_builder *b, const nc_node *n, int64_t H) {
    nc_value *gates = n->in[8], *sigmoid = part(b, gates, H, 0, 3);
    nc_value *rest = nc_training_op2(b, "Sub", nc_build_scalar(b, nc_training_elem(gates), 1), sigmoid);
    nc_value *sums = nc_training_op2(b, "Sub", nc_build1(b, "Log", 1, sigmoid), nc_build1(b, "Log", 1, rest));
    nc_value *in[4] = {sums, nc_build1(b, "Atanh", 1, part(b, gates, H, 3, 4)), n->in[7], n->in[6]};
    return turned(b, joined(b, in, 4));
}

static nc_code grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int from[6] = {0, 1, 2, 3, 5, 6}; /* which result of nacre.LSTMGrad */
    nc_attr attrs[16];
    int64_t H;
    NC_TRY(size_of(b, n, &H));
    nc_value *state = nc_build1(b, "Gather", 2, n->in[6], nc_build_int(b, 0));
    nc_value *none = nc_build_zeros_like(b, state), *h0 = nc_contrib_in(n, 4), *c0 = nc_contrib_in(n, 5);
    nc_value *bias = nc_build1(b, "Expand", 2, nc_build_scalar(b, nc_training_elem(n->in[0]), 0),
                               nc_build_ints(b, (const int64_t[]){1, 2 * GATES * H}, 2));
    nc_value *in[12] = {n->in[0],
                        n->in[1],
                        n->in[2],
                        bias,
                        nc_contrib_in(n, 3),
                        h0 != NULL ? h0 : none,
                        c0 != NULL ? c0 : none,
                        NULL,
                        nc_contrib_in(n, 9),
                        nc_contrib_in(n, 10),
                        nc_contrib_in(n, 11),
                        kept_of(b, n, H)};
    bool wanted[8] = {false};
    for (int i = 0; i < 6; i++) wanted[from[i]] = nc_contrib_wants(n, i);
    nc_node *d = nc_build_wanted(b, "nacre", "LSTMGrad", in, 12, wanted, 8, attrs, layer_attrs(n, attrs));
    for (int i = 0; d != NULL && i < 6 && i < n->n_out; i++)
        if (wanted[from[i]]) out[i] = d->out[from[i]];
    return b->code;
}

#define MAYBE(name) \
    { name, SAME(0), OPTIONAL }
#define LENS \
    { "SL", T_I32, OPTIONAL }
#define WEIGHTS \
    {"X", T_FLOAT_ALL}, {"W", SAME(0)}, { "R", SAME(0) }
#define LAYER                                                                                             \
    ATTR(A_STRINGS_OPT("activations"), A_FLOATS_OPT("activation_alpha"), A_FLOATS_OPT("activation_beta"), \
         A_FLOAT_OPT("clip"), A_INT("input_forget", 0), A_INT_OPT("hidden_size"), A_STR("direction", "forward"))
static const nc_op_version training_versions[] = {
    {.since = 1,
     IN(WEIGHTS, MAYBE("B"), LENS, MAYBE("Ht0"), MAYBE("Ct0"), MAYBE("P")),
     OUT(MAYBE("HAll"), MAYBE("HFinal"), MAYBE("CFinal"), MAYBE("CAll"), MAYBE("iofc")),
     LAYER},
    {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN(WEIGHTS, LENS, MAYBE("Ht0"), MAYBE("Ct0"), MAYBE("HAll"), MAYBE("CAll"), MAYBE("iofc"), MAYBE("dHAll"),
        MAYBE("dHFinal"), MAYBE("dCFinal")),
     OUT(MAYBE("dX"), MAYBE("dW"), MAYBE("dR"), MAYBE("dB"), MAYBE("dH0"), MAYBE("dC0"), MAYBE("dP")),
     LAYER},
    {0}};

NC_TRAINING_CARD(lstm, "LSTMTraining", "LSTM that gives all cell states and gates.", training_versions,
                 .infer = training_infer, .decompose = training_decompose, .no_grad_in = 1u << 4);
NC_TRAINING_CARD(lstm_grad, "LSTMGrad", "Gradients of LSTM from its states and gates.", grad_versions,
                 .infer = grad_infer, .decompose = grad_decompose, .no_grad_in = 1u << 3);
