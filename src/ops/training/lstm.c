/* ops/training/lstm.c: LSTMTraining, which gives every cell state and gate, and LSTMGrad, which takes them, over the
 * house's own pair (ops/rnn/rnn_grad.c): its forward form keeps the sums of the gates, so gates go through their
 * activations on the way out and back through the inverses, where a gate of 0 or 1 is an infinite sum. One direction,
 * the activations that ONNX has by default, no peepholes: what ONNX Runtime's own kernels take. */
#include "ops/training/layer.h"
#include "ops/training/training.h"

enum { GATES = 4, KEPT = 6 }; /* i o f c; the gates' sums, cell and state */

static nc_code check_form(nc_work *w, const nc_node *n) {
    static const char *const expected[] = {"Sigmoid", "Tanh", "Tanh", NULL};
    NC_TRY(nc_layer_check(w, n, expected));
    if (nc_attr_int(n, "input_forget") != 0) NC_FAIL(w, NC_E_UNSUPPORTED, "input_forget is expected to be absent");
    return NC_OK;
}

static nc_code training_infer(nc_infer *c) {
    const nc_dim *T = nc_in_dim(c, 0, 0);
    NC_TRY(check_form(c->w, c->node));
    if (c->node->n_in > 7 && c->node->in[7] != NULL) NC_FAIL(c->w, NC_E_UNSUPPORTED, "peepholes are not supported");
    if (T == NULL) T = nc_fresh(c, "steps");
    NC_NEED(c->w, T);
    NC_TRY(nc_layer_rows_out(c, 0, T, 1));
    NC_TRY(nc_layer_rows_out(c, 1, NULL, 1));
    NC_TRY(nc_layer_rows_out(c, 2, NULL, 1));
    NC_TRY(nc_layer_rows_out(c, 3, T, 1));
    return nc_layer_rows_out(c, 4, T, GATES);
}

static nc_code grad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *H = nc_in_dim(c, 2, 2), *dims[2] = {nc_dim_const(c->dims, 1), NULL};
    NC_TRY(check_form(c->w, c->node));
    if (c->node->n_out > 6 && c->node->out[6] != NULL) NC_FAIL(c->w, NC_E_UNSUPPORTED, "peepholes are not supported");
    for (int i = 6; i < 9; i++)
        if (i >= c->node->n_in || c->node->in[i] == NULL)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s is missing", c->node->version->in[i].name);
    for (int i = 0; i < 3; i++) NC_TRY(nc_out_like(c, i, i));
    if (x == NULL) return NC_OK;
    dims[1] = H != NULL ? nc_dim_mul(c->dims, H, nc_dim_const(c->dims, 2 * GATES)) : nc_fresh(c, "b");
    NC_TRY(nc_out(c, 3, x->elem, 2, dims));
    NC_TRY(nc_layer_rows_out(c, 4, NULL, 1));
    return nc_layer_rows_out(c, 5, NULL, 1);
}

static nc_code training_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[16];
    int64_t H;
    NC_TRY(nc_layer_size(b, n, &H));
    bool wanted[4] = {nc_contrib_wants(n, 0), nc_contrib_wants(n, 1), nc_contrib_wants(n, 2), true};
    nc_node *layer = nc_build_wanted(b, "nacre", "LSTMKept", n->in, n->n_in < 7 ? n->n_in : 7, wanted, 4, attrs,
                                     nc_layer_attrs(n, attrs));
    if (layer == NULL) return b->code;
    for (int i = 0; i < 3 && i < n->n_out; i++) out[i] = layer->out[i];
    nc_value *kept = nc_layer_turned(b, layer->out[3]);
    if (nc_contrib_wants(n, 3)) out[3] = nc_layer_part(b, kept, H, 4, 5);
    if (nc_contrib_wants(n, 4)) {
        nc_value *gates[2] = {nc_build1(b, "Sigmoid", 1, nc_layer_part(b, kept, H, 0, 3)),
                              nc_build1(b, "Tanh", 1, nc_layer_part(b, kept, H, 3, 4))};
        out[4] = nc_layer_joined(b, gates, 2);
    }
    return b->code;
}

/* What nacre.LSTMKept would have kept. */
static nc_value *kept_of(nc_builder *b, const nc_node *n, int64_t H) {
    nc_value *gates = n->in[8], *sums = nc_layer_logit(b, nc_layer_part(b, gates, H, 0, 3));
    nc_value *in[4] = {sums, nc_build1(b, "Atanh", 1, nc_layer_part(b, gates, H, 3, 4)), n->in[7], n->in[6]};
    return nc_layer_turned(b, nc_layer_joined(b, in, 4));
}

static nc_code grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int from[6] = {0, 1, 2, 3, 5, 6}; /* which result of nacre.LSTMGrad */
    nc_attr attrs[16];
    int64_t H;
    NC_TRY(nc_layer_size(b, n, &H));
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
    nc_node *d = nc_build_wanted(b, "nacre", "LSTMGrad", in, 12, wanted, 8, attrs, nc_layer_attrs(n, attrs));
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
