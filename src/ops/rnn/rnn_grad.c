/* ops/rnn/rnn_grad.c: cards of what the gradients of recurrent layers are made of: the layers once more, with what a
 * backward pass needs of every step as one output more (nacre.LSTMKept, ...), and that pass (nacre.LSTMGrad, ...). */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/rnn/rnn.h"

static nc_code kept_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *H;
    nc_rnn_attrs a;
    if (x == NULL) return NC_OK;
    NC_TRY(nc_rnn_infer(c, &H));
    NC_TRY(nc_rnn_read_attrs(c->w, c->node, &a));
    nck_rnn_kind kind = a.rule[0].kind;
    const nc_dim *T = nc_in_dim(c, 0, a.batch_first), *B = nc_in_dim(c, 0, !a.batch_first);
    if (T == NULL) T = nc_fresh(c, "steps");
    if (B == NULL) B = nc_fresh(c, "batch");
    const nc_dim *dims[4] = {nc_dim_const(c->dims, a.n_dirs), T, B,
                             nc_dim_mul(c->dims, nc_dim_const(c->dims, nck_rnn_kept(kind)), H)};
    return nc_out(c, nc_rnn_n_out(kind), x->elem, 4, dims);
}

static nc_code kept_grad(nc_grad *g) {
    enum { MAX_IN = 8 + 3 + 1 };
    const nc_rnn_own *own = g->node->card->own;
    int n_in = nc_rnn_n_in(own->kind), n_dy = nc_rnn_n_out(own->kind);
    nc_value *in[MAX_IN] = {NULL};
    bool wanted[8] = {false}, any_dy = false, any = false;
    for (int i = 0; i < n_in && i < g->node->n_in; i++) {
        in[i] = nc_grad_x(g, i);
        any |= wanted[i] = in[i] != NULL && g->wants[i];
    }
    for (int i = 0; i < n_dy; i++) any_dy |= (in[n_in + i] = nc_grad_dy(g, i)) != NULL;
    if (!any_dy || !any) return NC_OK;
    in[n_in + n_dy] = nc_grad_y(g, n_dy);
    nc_node *n =
        nc_build_wanted(g->b, "nacre", own->grad, in, n_in + n_dy + 1, wanted, n_in, g->node->attrs, g->node->n_attrs);
    for (int i = 0; n != NULL && i < n_in; i++)
        if (wanted[i]) nc_grad_set(g, i, n->out[i]);
    return nc_grad_end(g);
}

static nc_code back_infer(nc_infer *c) {
    for (int i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] != NULL) NC_TRY(nc_out_like(c, i, i));
    return NC_OK;
}

static nc_code back_grad(nc_grad *g) {
    nck_rnn_kind kind = nc_rnn_kind_of(g->node);
    return nc_grad_twice_by_parts(g, nc_rnn_n_in(kind), nc_rnn_n_out(kind), nc_rnn_parts);
}

/* Every attribute that some version of the layer has. */
#define COMMON(more)                                                                                       \
    ATTR(A_FLOATS_OPT("activation_alpha"), A_FLOATS_OPT("activation_beta"), A_STRINGS_OPT("activations"),  \
         A_FLOAT_OPT("clip"), A_STR("direction", "forward"), A_INT_OPT("hidden_size"), A_INT("layout", 0), \
         A_INT("output_sequence", 0), A_INT(more, 0))
#define WEIGHTS                                                                   \
    {"X", T_FLOAT_ALL}, {"W", SAME(0)}, {"R", SAME(0)}, {"B", SAME(0), OPTIONAL}, \
        {"sequence_lens", NC_BIT(NC_INT32), OPTIONAL}, {                          \
        "initial_h", SAME(0), OPTIONAL                                            \
    }
#define CELL \
    {"initial_c", SAME(0), OPTIONAL}, { "P", SAME(0), OPTIONAL }
#define GIVEN(name) \
    { name, SAME(0), OPTIONAL }
#define MADE GIVEN("dX"), GIVEN("dW"), GIVEN("dR"), GIVEN("dB"), GIVEN("none"), GIVEN("dinitial_h")

#define HIDDEN(more)                                                                                     \
    {                                                                                                    \
        {.since = 1, IN(WEIGHTS), OUT(GIVEN("Y"), GIVEN("Y_h"), {"kept", SAME(0)}), COMMON(more)}, { 0 } \
    }
#define HIDDEN_BACK(more)                                                                                        \
    {                                                                                                            \
        {.since = 1, IN(WEIGHTS, GIVEN("dY"), GIVEN("dY_h"), {"kept", SAME(0)}), OUT(MADE), COMMON(more)}, { 0 } \
    }

static const nc_op_version rnn_versions[] = HIDDEN("linear_before_reset");
static const nc_op_version rnn_back_versions[] = HIDDEN_BACK("linear_before_reset");
static const nc_op_version lstm_versions[] = {{.since = 1,
                                               IN(WEIGHTS, CELL),
                                               OUT(GIVEN("Y"), GIVEN("Y_h"), GIVEN("Y_c"), {"kept", SAME(0)}),
                                               COMMON("input_forget")},
                                              {0}};
static const nc_op_version lstm_back_versions[] = {
    {.since = 1,
     IN(WEIGHTS, CELL, GIVEN("dY"), GIVEN("dY_h"), GIVEN("dY_c"), {"kept", SAME(0)}),
     OUT(MADE, GIVEN("dinitial_c"), GIVEN("dP")),
     COMMON("input_forget")},
    {0}};

#define KEPT(symbol, op, kind, rows)                                                           \
    const nc_card nc_card_##symbol##_kept = {.name = op "Kept",                                \
                                             .domain = "nacre",                                \
                                             .doc = op " that keeps what its gradient needs.", \
                                             .versions = rows,                                 \
                                             .own = &(const nc_rnn_own){kind, op "Grad"},      \
                                             .no_grad_in = 1u << NC_RNN_LENS,                  \
                                             .infer = kept_infer,                              \
                                             .grad = kept_grad};
#define BACK(symbol, op, kind, rows, i_kept)                                                   \
    const nc_card nc_card_##symbol##_grad = {.name = op "Grad",                                \
                                             .domain = "nacre",                                \
                                             .doc = "Gradients of " op " by its operands.",    \
                                             .versions = rows,                                 \
                                             .own = &(const nc_rnn_own){kind, NULL},           \
                                             .no_grad_in = 1u << NC_RNN_LENS | 1u << (i_kept), \
                                             .infer = back_infer,                              \
                                             .grad = back_grad};
KEPT(rnn, "RNN", NCK_RNN, rnn_versions)
KEPT(gru, "GRU", NCK_GRU, rnn_versions)
KEPT(lstm, "LSTM", NCK_LSTM, lstm_versions)
BACK(rnn, "RNN", NCK_RNN, rnn_back_versions, 8)
BACK(gru, "GRU", NCK_GRU, rnn_back_versions, 8)
BACK(lstm, "LSTM", NCK_LSTM, lstm_back_versions, 11)
