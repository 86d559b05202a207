/* ops/nn/fused.c: cards of com.microsoft that are a layer with something around it: FusedConv, NhwcFusedConv and
 * NhwcConv (an activation, a sum, channels last) and BiasSoftmax. They run, and are differentiated, as Conv and
 * Softmax. */
#include "ops/contrib.h"
#include "ops/nn/conv.h"

enum { X, W, BIAS, SUM };

/* The own of the cards of convolutions. */
typedef struct fused_kind {
    bool channels_last;
} fused_kind;

static bool channels_last(const nc_node *n) { return ((const fused_kind *)n->card->own)->channels_last; }

/* ---- inference ---- */

static nc_code check_sum(nc_infer *c) {
    const nc_type *y = c->out[0].type;
    int rank;
    if (y == NULL || y->rank < 0 || !nc_in_rank(c, SUM, &rank)) return NC_OK;
    NC_TRY(nc_contrib_rank(c, SUM, y->rank));
    for (int i = 0; i < rank; i++) NC_TRY(nc_in_expect(c, SUM, i, y->dims[i]));
    return NC_OK;
}

static nc_code fused_infer(nc_infer *c) {
    nc_infer_val in[4] = {{0}};
    nc_infer conv = *c;
    const nc_attr *act = nc_node_attr(c->node, "activation"), *numbers = nc_node_attr(c->node, "activation_params");
    if (act != NULL) NC_TRY(nc_contrib_check_activation(c, act->s.p, numbers != NULL ? numbers->n : 0));
    for (int i = 0; i < 4 && i < c->node->n_in; i++) in[i] = c->in[i];
    conv.in = in;
    if (channels_last(c->node)) NC_TRY(nc_contrib_turned(c, in[X].type, false, &in[X].type));
    if (in[X].type == NULL) return NC_OK;
    NC_TRY(nc_contrib_vector(c, BIAS, nc_in_dim(c, W, 0)));
    NC_TRY(nc_conv_infer_as(&conv, in[X].type->elem));
    if (channels_last(c->node)) NC_TRY(nc_contrib_turned(c, c->out[0].type, true, &c->out[0].type));
    return check_sum(c);
}

/* ---- decomposition ---- */

static nc_code fused_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const char *const own[] = {"activation", "activation_params"};
    nc_attr attrs[16];
    int n_attrs = nc_contrib_attrs(n, own, 2, attrs);
    const nc_attr *act = nc_node_attr(n, "activation"), *numbers = nc_node_attr(n, "activation_params");
    if (n->in[X]->type == NULL || n->in[X]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *x = channels_last(n) ? nc_contrib_turn(b, n->in[X], false) : n->in[X], *bias = nc_contrib_in(n, BIAS);
    nc_value *in[3] = {x, n->in[W], bias};
    nc_value *y = nc_build_attr1(b, "", "Conv", in, bias != NULL ? 3 : 2, attrs, n_attrs);
    if (channels_last(n)) y = nc_contrib_turn(b, y, true);
    y = nc_contrib_add(b, y, nc_contrib_in(n, SUM));
    out[0] = act != NULL ? nc_contrib_activation(b, act->s.p, numbers != NULL ? numbers->floats : NULL, y) : y;
    return b->code;
}

/* ---- BiasSoftmax ---- */

static nc_code bias_softmax_infer(nc_infer *c) {
    const nc_dim *dims[NC_MAX_RANK];
    const nc_type *x = nc_in(c, 0);
    int rank, axis;
    if (x == NULL || x->rank < 0) return nc_out_like(c, 0, 0);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(nc_broadcast_in(c, 0, 2, dims, &rank));
    if (rank > x->rank) NC_FAIL(c->w, NC_E_SHAPE, "bias has %d dims, at most %d are expected", rank, x->rank);
    for (int i = 0; i < rank; i++) NC_TRY(nc_in_expect(c, 0, i, dims[i]));
    return nc_out_like(c, 0, 0);
}

/* All dims from the axis on are one row. */
static nc_code bias_softmax_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t axis = nc_attr_int(n, "axis");
    nc_attr flat = {.name = "axis", .kind = NC_A_INT, .i = axis}, last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *sum = nc_contrib_add(b, n->in[0], n->in[1]);
    bool is_last = axis == -1 || axis == n->in[0]->type->rank - 1;
    nc_value *rows = is_last ? sum : nc_build_attr1(b, "", "Flatten", &sum, 1, &flat, 1);
    nc_value *y = nc_build_attr1(b, "", "Softmax", &rows, 1, &last, 1);
    out[0] = is_last ? y : nc_build_reshape_like(b, y, n->in[0]);
    return b->code;
}

/* ---- cards ---- */

#define WINDOW                                                                                               \
    A_STR("auto_pad", "NOTSET"), A_INTS_OPT("kernel_shape"), A_INTS_OPT("dilations"), A_INTS_OPT("strides"), \
        A_INTS_OPT("pads"), A_INT("group", 1)
#define XWB(types) \
    {"X", types}, {"W", SAME(0)}, { "B", SAME(0), OPTIONAL }
#define FUSED(types)                                               \
    IN(XWB(types), {"Z", SAME(0), OPTIONAL}), OUT({"Y", SAME(0)}), \
        ATTR(WINDOW, A_STR_OPT("activation"), A_FLOATS_OPT("activation_params"))
static const nc_op_version fused_versions[] = {{.since = 1, FUSED(T_FLOAT_ALL)}, {0}};
static const nc_op_version nhwc_fused_versions[] = {{.since = 1, FUSED(T_FLOAT_ALL)}, {0}};
static const nc_op_version nhwc_versions[] = {
    {.since = 1,
     IN(XWB(T_FLOAT_ALL)),
     OUT({"Y", SAME(0)}),
     ATTR(A_STR("auto_pad", "NOTSET"), A_INTS_OPT("kernel_shape"), A_INTS_OPT("dilations"), A_INTS_OPT("strides"),
          A_INTS_OPT("pads"), A_INT("group", 1))},
    {0}};
static const nc_op_version bias_softmax_versions[] = {{.since = 1,
                                                       IN({"data", T_FLOAT_ALL}, {"bias", SAME(0)}),
                                                       OUT({"output", SAME(0)}),
                                                       ATTR(A_INT("axis", 1), A_INT_REQ("is_inner_broadcast"))},
                                                      {0}};

const nc_card nc_card_fused_conv = {.name = "FusedConv",
                                    .domain = NC_MICROSOFT,
                                    .doc = "Conv plus Z, and an activation.",
                                    .versions = fused_versions,
                                    .own = &(const fused_kind){.channels_last = false},
                                    .infer = fused_infer,
                                    .decompose = fused_decompose};
const nc_card nc_card_nhwc_fused_conv = {.name = "NhwcFusedConv",
                                         .domain = NC_MICROSOFT,
                                         .doc = "FusedConv of X and Z with channels last.",
                                         .versions = nhwc_fused_versions,
                                         .own = &(const fused_kind){.channels_last = true},
                                         .infer = fused_infer,
                                         .decompose = fused_decompose};
const nc_card nc_card_nhwc_conv = {.name = "NhwcConv",
                                   .domain = NC_MICROSOFT,
                                   .doc = "Conv of X with channels last.",
                                   .versions = nhwc_versions,
                                   .own = &(const fused_kind){.channels_last = true},
                                   .infer = fused_infer,
                                   .decompose = fused_decompose};
const nc_card nc_card_bias_softmax = {.name = "BiasSoftmax",
                                      .domain = NC_MICROSOFT,
                                      .doc = "Softmax of data plus a bias, over all dims from the axis on.",
                                      .versions = bias_softmax_versions,
                                      .infer = bias_softmax_infer,
                                      .decompose = bias_softmax_decompose};
