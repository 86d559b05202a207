/* ops/math/activation_more.c: cards of the activation functions that came after the first ones (lanes of
 * kernels/lanes/activation.h). Gelu, whose attribute chooses between two formulas, is made of nacre.GeluErf or
 * nacre.GeluTanh. */
#include "ops/build.h"
#include "ops/math/math.h"
#include "ops/standard.h"

#include <string.h>

#define ONE(x, y, types) IN({x, types}), OUT({y, SAME(0)})
#define CONSUMED A_INTS_OPT("consumed_inputs")
#define ALPHA(v) A_FLOAT("alpha", v)

static const nc_op_version celu_versions[] = {{.since = 28, ONE("X", "Y", T_FLOAT_ALL), ATTR(ALPHA(1.0f))},
                                              {.since = 12, ONE("X", "Y", NC_BIT(NC_FLOAT)), ATTR(ALPHA(1.0f))},
                                              {0}};
const nc_card nc_card_celu = {.name = "Celu",
                              .doc = "Passes positive X, alpha * (exp(X / alpha) - 1) for negative X.",
                              .versions = celu_versions,
                              NC_LANE(celu),
                              .lane_params = {"alpha"}};

#define SELU ALPHA(1.6732631921768188f), A_FLOAT("gamma", 1.0507010221481323f)
static const nc_op_version selu_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), ATTR(SELU)},
    {.since = 6, ONE("X", "Y", T_FLOAT), ATTR(SELU)},
    {.since = 1,
     ONE("X", "Y", T_FLOAT),
     ATTR(CONSUMED, ALPHA(1.673200011253357f), A_FLOAT("gamma", 1.0506999492645264f))},
    {0}};
const nc_card nc_card_selu = {.name = "Selu",
                              .doc = "gamma times Elu.",
                              .versions = selu_versions,
                              NC_LANE(selu),
                              .lane_params = {"alpha", "gamma"}};

static const nc_op_version thresholded_relu_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), ATTR(ALPHA(1.0f))},
    {.since = 10, ONE("X", "Y", T_FLOAT), ATTR(ALPHA(1.0f))},
    {.since = 1, .foreign = true, ONE("X", "Y", T_FLOAT), ATTR(ALPHA(1.0f))},
    {0}};
const nc_card nc_card_thresholded_relu = {.name = "ThresholdedRelu",
                                          .doc = "X where above alpha, else 0; NaN passes.",
                                          .versions = thresholded_relu_versions,
                                          NC_LANE(thresholded_relu),
                                          .lane_params = {"alpha"}};

#define HARD ALPHA(0.20000000298023224f), A_FLOAT("beta", 0.5f)
static const nc_op_version hard_sigmoid_versions[] = {{.since = 22, ONE("X", "Y", T_FLOAT_ALL), ATTR(HARD)},
                                                      {.since = 6, ONE("X", "Y", T_FLOAT), ATTR(HARD)},
                                                      {.since = 1, ONE("X", "Y", T_FLOAT), ATTR(CONSUMED, HARD)},
                                                      {0}};
const nc_card nc_card_hard_sigmoid = {.name = "HardSigmoid",
                                      .doc = "alpha * X + beta, held between 0 and 1.",
                                      .versions = hard_sigmoid_versions,
                                      NC_LANE(hard_sigmoid),
                                      .lane_params = {"alpha", "beta"}};

static const nc_op_version hard_swish_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR}, {.since = 14, ONE("X", "Y", T_FLOAT), NO_ATTR}, {0}};
const nc_card nc_card_hard_swish = {.name = "HardSwish",
                                    .doc = "X times HardSigmoid(X; 1/6, 1/2).",
                                    .versions = hard_swish_versions,
                                    NC_LANE(hard_swish)};

static const nc_op_version mish_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR}, {.since = 18, ONE("X", "Y", T_FLOAT), NO_ATTR}, {0}};
const nc_card nc_card_mish = {
    .name = "Mish", .doc = "X * tanh(log(1 + exp(X))).", .versions = mish_versions, NC_LANE(mish)};

static const nc_op_version softsign_versions[] = {{.since = 22, ONE("input", "output", T_FLOAT_ALL), NO_ATTR},
                                                  {.since = 1, ONE("input", "output", T_FLOAT), NO_ATTR},
                                                  {0}};
const nc_card nc_card_softsign = {
    .name = "Softsign", .doc = "X / (1 + |X|).", .versions = softsign_versions, NC_LANE(softsign)};

static const nc_op_version swish_versions[] = {{.since = 24, ONE("X", "Y", T_FLOAT_ALL), ATTR(ALPHA(1.0f))}, {0}};
const nc_card nc_card_swish = {.name = "Swish",
                               .doc = "X * sigmoid(alpha * X).",
                               .versions = swish_versions,
                               NC_LANE(swish),
                               .lane_params = {"alpha"}};

/* Integers take the way through double: the bias need not be whole. */
static nc_code shrink_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[2] = {{.name = "bias", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "bias")},
                        {.name = "lambd", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "lambd")}};
    nc_dtype t = n->in[0]->type != NULL ? n->in[0]->type->elem : NC_UNDEFINED;
    nc_value *x = nc_build_cast(b, n->in[0], NC_DOUBLE);
    out[0] = nc_build_cast(b, nc_build_attr1(b, "", "Shrink", &x, 1, attrs, 2), t);
    return b->code;
}

static const nc_op_version shrink_versions[] = {
    {.since = 9, ONE("input", "output", T_NUMBER), ATTR(A_FLOAT("bias", 0.0f), A_FLOAT("lambd", 0.5f))}, {0}};
const nc_card nc_card_shrink = {.name = "Shrink",
                                .doc = "X moved by bias towards 0 outside -lambd to lambd, 0 inside.",
                                .versions = shrink_versions,
                                NC_LANE(shrink),
                                .lane_params = {"bias", "lambd"},
                                .grad = nc_lane_card_grad,
                                .decompose = shrink_decompose};

#define T_PRELU (T_FLOAT | T_INDEX | NC_BIT(NC_UINT32) | NC_BIT(NC_UINT64))
#define SLOPE(types) IN({"X", types}, {"slope", SAME(0)}), OUT({"Y", SAME(0)})
static const nc_op_version prelu_versions[] = {{.since = 16, SLOPE(T_PRELU | NC_BIT(NC_BFLOAT16)), NO_ATTR},
                                               {.since = 9, SLOPE(T_PRELU), NO_ATTR},
                                               {.since = 7, SLOPE(T_FLOAT), NO_ATTR},
                                               {.since = 6, SLOPE(T_FLOAT), NO_ATTR},
                                               {.since = 1, SLOPE(T_FLOAT), ATTR(CONSUMED)},
                                               {0}};
const nc_card nc_card_prelu = {.name = "PRelu",
                               .doc = "Passes positive X, scales negative X by the slope.",
                               .versions = prelu_versions,
                               NC_LANE(prelu),
                               .grad = nc_math_grad_binary,
                               .decompose = nc_math_decompose_old};

/* ---- Gelu ---- */

static const nc_op_version gelu_form_versions[] = {{.since = 1, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR}, {0}};
const nc_card nc_card_gelu_erf = {.name = "GeluErf",
                                  .domain = "nacre",
                                  .doc = "X times the normal distribution's integral up to X.",
                                  .versions = gelu_form_versions,
                                  NC_LANE(gelu)};
const nc_card nc_card_gelu_tanh = {.name = "GeluTanh",
                                   .domain = "nacre",
                                   .doc = "Gelu with the integral as a formula of tanh.",
                                   .versions = gelu_form_versions,
                                   NC_LANE(gelu_tanh)};

static const nc_op_version gelu_grad_y_versions[] = {
    {.since = 1, IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"Y", SAME(0)}), OUT({"dX", SAME(0)}), NO_ATTR}, {0}};
#define GELU_GRAD_Y(name_, lane_)                                                               \
    {.name = name_, .domain = "nacre", .no_grad = NC_LOWERED_NO_GRAD,                           \
     .doc = "The gradient of the op it is named after, from its input X and its result Y.",     \
     .versions = gelu_grad_y_versions, NC_LANE(lane_)}
const nc_card nc_card_gelu_erf_grad_y = GELU_GRAD_Y("GeluErfGradY", gelu_grad_y);
const nc_card nc_card_gelu_tanh_grad_y = GELU_GRAD_Y("GeluTanhGradY", gelu_tanh_grad_y);

static nc_code gelu_infer(nc_infer *c) {
    const char *way = nc_attr_str(c->node, "approximate");
    if (way == NULL || (strcmp(way, "none") != 0 && strcmp(way, "tanh") != 0))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "approximate is '%s', expected 'none' or 'tanh'", way ? way : "");
    return nc_lane_infer(c);
}

static nc_code gelu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool is_tanh = strcmp(nc_attr_str(n, "approximate"), "tanh") == 0;
    out[0] = nc_build_attr1(b, "nacre", is_tanh ? "GeluTanh" : "GeluErf", n->in, 1, NULL, 0);
    return b->code;
}

nc_code nc_gelu_standard(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attr = {.name = "approximate", .kind = NC_A_STRING, .s = {"none", 4}};
    if (n->card == &nc_card_gelu_tanh) attr.s.p = "tanh";
    out[0] = nc_build_newest1(b, "Gelu", n->in, 1, &attr, 1);
    return b->code;
}

static const nc_op_version gelu_versions[] = {
    {.since = 20, ONE("X", "Y", T_FLOAT_ALL), ATTR(A_STR("approximate", "none"))}, {0}};
const nc_card nc_card_gelu = {.name = "Gelu",
                              .doc =
                                  "X times the normal distribution's integral up to X, or its approximation by tanh.",
                              .versions = gelu_versions,
                              .traits = NC_ELEMENTWISE,
                              .infer = gelu_infer,
                              .decompose = gelu_decompose};
