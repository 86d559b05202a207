/* ops/math/activation.c: cards of activation functions that are lanes (kernels/lanes/activation.h). */
#include "ops/math/math.h"

#define ONE(x, y, types) IN({x, types}), OUT({y, SAME(0)})
#define CONSUMED A_INTS_OPT("consumed_inputs")

static const nc_op_version tanh_versions[] = {{.since = 13, ONE("input", "output", T_FLOAT_ALL), NO_ATTR},
                                              {.since = 6, ONE("input", "output", T_FLOAT), NO_ATTR},
                                              {.since = 1, ONE("input", "output", T_FLOAT), ATTR(CONSUMED)},
                                              {0}};
const nc_card nc_card_tanh = {
    .name = "Tanh", .doc = "The hyperbolic tangent.", .versions = tanh_versions, NC_LANE(tanh)};

static const nc_op_version sigmoid_versions[] = {{.since = 13, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR},
                                                 {.since = 6, ONE("X", "Y", T_FLOAT), NO_ATTR},
                                                 {.since = 1, ONE("X", "Y", T_FLOAT), ATTR(CONSUMED)},
                                                 {0}};
const nc_card nc_card_sigmoid = {
    .name = "Sigmoid", .doc = "1 / (1 + exp(-X)).", .versions = sigmoid_versions, NC_LANE(sigmoid)};

static const nc_op_version relu_versions[] = {{.since = 14, ONE("X", "Y", T_FLOAT_ALL | T_SIGNED), NO_ATTR},
                                              {.since = 13, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR},
                                              {.since = 6, ONE("X", "Y", T_FLOAT), NO_ATTR},
                                              {.since = 1, ONE("X", "Y", T_FLOAT), ATTR(CONSUMED)},
                                              {0}};
const nc_card nc_card_relu = {
    .name = "Relu", .doc = "X where positive, else 0; NaN passes.", .versions = relu_versions, NC_LANE(relu)};

static const nc_op_version leaky_relu_versions[] = {
    {.since = 16, ONE("X", "Y", T_FLOAT_ALL), ATTR(A_FLOAT("alpha", 0.01f))},
    {.since = 6, ONE("X", "Y", T_FLOAT), ATTR(A_FLOAT("alpha", 0.01f))},
    {.since = 1, ONE("X", "Y", T_FLOAT), ATTR(A_FLOAT("alpha", 0.01f), CONSUMED)},
    {0}};
const nc_card nc_card_leaky_relu = {.name = "LeakyRelu",
                                    .doc = "Passes positive X, scales negative X by alpha.",
                                    .versions = leaky_relu_versions,
                                    NC_LANE(leaky_relu),
                                    .lane_params = {"alpha"}};

static const nc_op_version elu_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), ATTR(A_FLOAT("alpha", 1.0f))},
    {.since = 6, ONE("X", "Y", T_FLOAT), ATTR(A_FLOAT("alpha", 1.0f))},
    {.since = 1, ONE("X", "Y", T_FLOAT), ATTR(A_FLOAT("alpha", 1.0f), CONSUMED)},
    {0}};
const nc_card nc_card_elu = {.name = "Elu",
                             .doc = "Passes positive X, alpha * (exp(X) - 1) for negative X.",
                             .versions = elu_versions,
                             NC_LANE(elu),
                             .lane_params = {"alpha"}};

static const nc_op_version softplus_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR}, {.since = 1, ONE("X", "Y", T_FLOAT), NO_ATTR}, {0}};
const nc_card nc_card_softplus = {
    .name = "Softplus", .doc = "log(1 + exp(X)).", .versions = softplus_versions, NC_LANE_WITH(softplus, NC_WIDE)};
