/* ops/rnn/rnn.c: the cards of RNN, GRU and LSTM. Their kernels are in rnn_cpu.c. */
#include "ops/rnn/rnn.h"

#include "ops/card.h"

/* Hidden size: the attribute, or the last dim of R. */
static const nc_dim *hidden(nc_infer *c) {
    if (nc_attr_has(c->node, "hidden_size")) return nc_dim_const(c->dims, nc_attr_int(c->node, "hidden_size"));
    const nc_dim *d = nc_in_dim(c, 2, 2);
    return d != NULL ? d : nc_fresh(c, "hidden");
}

static nc_code check_dim(nc_infer *c, int i, int axis, const char *name, const nc_dim *want) {
    int64_t a, b;
    const nc_dim *d = nc_in_dim(c, i, axis);
    if (d != NULL && want != NULL && nc_dim_is_const(d, &a) && nc_dim_is_const(want, &b) && a != b)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %lld at dim %d, expected %lld", name, (long long)a, axis, (long long)b);
    return NC_OK;
}

static nc_code check_rank(nc_infer *c, int i, const char *name, int want) {
    int rank;
    if (nc_in_rank(c, i, &rank) && rank != want)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %d", name, rank, want);
    return NC_OK;
}

/* G*H rows per direction, the inputs or the hidden units as columns. */
static nc_code check_weights(nc_infer *c, const nc_rnn_attrs *a, const nc_dim *H) {
    int G = nck_rnn_gates(a->rule[0].kind);
    const nc_dim *dirs = nc_dim_const(c->dims, a->n_dirs), *GH = nc_dim_mul(c->dims, nc_dim_const(c->dims, G), H),
                 *GH2 = nc_dim_mul(c->dims, nc_dim_const(c->dims, 2), GH);
    const struct {
        int i;
        const char *name;
        int rank;
        const nc_dim *dims[3];
    } rows[] = {{1, "W", 3, {dirs, GH, nc_in_dim(c, 0, 2)}},
                {2, "R", 3, {dirs, GH, H}},
                {3, "B", 2, {dirs, GH2}},
                {7, "P", 2, {dirs, nc_dim_mul(c->dims, nc_dim_const(c->dims, 3), H)}}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        NC_TRY(check_rank(c, rows[k].i, rows[k].name, rows[k].rank));
        for (int d = 0; d < rows[k].rank; d++) NC_TRY(check_dim(c, rows[k].i, d, rows[k].name, rows[k].dims[d]));
    }
    return NC_OK;
}

nc_code nc_rnn_infer(nc_infer *c, const nc_dim **hidden_units) {
    const nc_type *x = nc_in(c, 0);
    nc_rnn_attrs a;
    if (x == NULL) return NC_OK;
    NC_TRY(nc_rnn_read_attrs(c->w, c->node, &a));
    if (a.more) c->assumes = NC_ASSUME_ACTIVATIONS;
    NC_TRY(check_rank(c, 0, "X", 3));
    const nc_dim *H = *hidden_units = hidden(c), *dirs = nc_dim_const(c->dims, a.n_dirs);
    const nc_dim *T = nc_in_dim(c, 0, a.batch_first), *B = nc_in_dim(c, 0, !a.batch_first);
    if (T == NULL) T = nc_fresh(c, "steps");
    if (B == NULL) B = nc_fresh(c, "batch");
    NC_TRY(check_weights(c, &a, H));
    const nc_dim *state[3] = {a.batch_first ? B : dirs, a.batch_first ? dirs : B, H};
    NC_TRY(check_rank(c, 4, "sequence_lens", 1));
    NC_TRY(check_dim(c, 4, 0, "sequence_lens", B));
    for (int i = 5; i < 7; i++) {
        const char *name = i == 5 ? "initial_h" : "initial_c";
        NC_TRY(check_rank(c, i, name, 3));
        for (int d = 0; d < 3; d++) NC_TRY(check_dim(c, i, d, name, state[d]));
    }
    NC_TRY(nc_out(c, 0, x->elem, 4,
                  a.batch_first ? (const nc_dim *[]){B, T, dirs, H} : (const nc_dim *[]){T, dirs, B, H}));
    NC_TRY(nc_out(c, 1, x->elem, 3, state));
    return a.rule[0].kind == NCK_LSTM ? nc_out(c, 2, x->elem, 3, state) : NC_OK;
}

static nc_code rnn_infer(nc_infer *c) {
    const nc_dim *H;
    return nc_rnn_infer(c, &H);
}

static double rnn_cost(const nc_node *n, const int64_t *const *in_dims) {
    (void)n;
    const int64_t *x = in_dims[0], *w = in_dims[1], *r = in_dims[2];
    return 2.0 * (double)(x[0] * x[1]) * (double)(w[0] * w[1]) * (double)(w[2] + r[2]);
}

/* Attributes in every version; those of a version's own follow. */
#define COMMON(direction)                                                                            \
    A_FLOATS_OPT("activation_alpha"), A_FLOATS_OPT("activation_beta"), A_STRINGS_OPT("activations"), \
        A_FLOAT_OPT("clip"), A_STR("direction", direction), A_INT_OPT("hidden_size")
#define WEIGHTS(types)                                                      \
    {"X", types}, {"W", SAME(0)}, {"R", SAME(0)}, {"B", SAME(0), OPTIONAL}, \
        {"sequence_lens", NC_BIT(NC_INT32), OPTIONAL}, {                    \
        "initial_h", SAME(0), OPTIONAL                                      \
    }
#define HIDDEN(types) IN(WEIGHTS(types)), OUT({"Y", SAME(0), OPTIONAL}, {"Y_h", SAME(0), OPTIONAL})
#define LAYOUT A_INT("layout", 0)
#define SEQUENCE A_INT("output_sequence", 0)
static const nc_op_version rnn_versions[] = {{.since = 22, HIDDEN(T_FLOAT_ALL), ATTR(COMMON("forward"), LAYOUT)},
                                             {.since = 14, HIDDEN(T_FLOAT), ATTR(COMMON("forward"), LAYOUT)},
                                             {.since = 7, HIDDEN(T_FLOAT), ATTR(COMMON("forward"))},
                                             {.since = 1, HIDDEN(T_FLOAT), ATTR(COMMON("forward"), SEQUENCE)},
                                             {0}};

#define BEFORE_RESET A_INT("linear_before_reset", 0)
static const nc_op_version gru_versions[] = {
    {.since = 22, HIDDEN(T_FLOAT_ALL), ATTR(COMMON("forward"), BEFORE_RESET, LAYOUT)},
    {.since = 14, HIDDEN(T_FLOAT), ATTR(COMMON("forward"), BEFORE_RESET, LAYOUT)},
    {.since = 7, HIDDEN(T_FLOAT), ATTR(COMMON("forward"), BEFORE_RESET)},
    {.since = 3, HIDDEN(T_FLOAT), ATTR(COMMON("forward"), BEFORE_RESET, SEQUENCE)},
    {.since = 1,
     IN(WEIGHTS(T_FLOAT)),
     OUT({"Y", SAME(0), OPTIONAL}, {"Y_h", SAME(0)}),
     ATTR(COMMON("foward"), SEQUENCE)},
    {0}};

#define CELL(types)                                                                 \
    IN(WEIGHTS(types), {"initial_c", SAME(0), OPTIONAL}, {"P", SAME(0), OPTIONAL}), \
        OUT({"Y", SAME(0), OPTIONAL}, {"Y_h", SAME(0), OPTIONAL}, {"Y_c", SAME(0), OPTIONAL})
#define FORGET A_INT("input_forget", 0)
static const nc_op_version lstm_versions[] = {{.since = 22, CELL(T_FLOAT_ALL), ATTR(COMMON("forward"), FORGET, LAYOUT)},
                                              {.since = 14, CELL(T_FLOAT), ATTR(COMMON("forward"), FORGET, LAYOUT)},
                                              {.since = 7, CELL(T_FLOAT), ATTR(COMMON("forward"), FORGET)},
                                              {.since = 1, CELL(T_FLOAT), ATTR(COMMON("forward"), FORGET, SEQUENCE)},
                                              {0}};

const nc_card nc_card_rnn = {.name = "RNN",
                             .doc = "A recurrent layer with one activation.",
                             .versions = rnn_versions,
                             .own = &(const nc_rnn_own){NCK_RNN, NULL},
                             .grad_form = "RNNKept",
                             .no_grad_in = 1u << 4,
                             .infer = rnn_infer,
                             .cost = rnn_cost};
const nc_card nc_card_gru = {.name = "GRU",
                             .doc = "A layer of gated recurrent units.",
                             .versions = gru_versions,
                             .own = &(const nc_rnn_own){NCK_GRU, NULL},
                             .grad_form = "GRUKept",
                             .no_grad_in = 1u << 4,
                             .infer = rnn_infer,
                             .cost = rnn_cost};
const nc_card nc_card_lstm = {.name = "LSTM",
                              .doc = "A layer of long short-term memory units.",
                              .versions = lstm_versions,
                              .own = &(const nc_rnn_own){NCK_LSTM, NULL},
                              .grad_form = "LSTMKept",
                              .no_grad_in = 1u << 4,
                              .infer = rnn_infer,
                              .cost = rnn_cost};
