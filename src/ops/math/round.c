/* ops/math/round.c: cards of functions whose derivative is 0 almost everywhere: Ceil Round Sign IsNaN IsInf. Lanes,
 * but for IsInf, whose attributes choose the sign: it is made of nacre.IsInfinite and a comparison. */
#include "ops/build.h"
#include "ops/math/math.h"

#define ONE(x, y, types) IN({x, types}), OUT({y, SAME(0)})
static const nc_op_version ceil_versions[] = {{.since = 13, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR},
                                              {.since = 6, ONE("X", "Y", T_FLOAT), NO_ATTR},
                                              {.since = 1, ONE("X", "Y", T_FLOAT), ATTR(A_INTS_OPT("consumed_inputs"))},
                                              {0}};
static const nc_op_version round_versions[] = {
    {.since = 22, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR}, {.since = 11, ONE("X", "Y", T_FLOAT), NO_ATTR}, {0}};
static const nc_op_version sign_versions[] = {{.since = 13, ONE("input", "output", T_NUMBER_ALL), NO_ATTR},
                                              {.since = 9, ONE("input", "output", T_NUMBER), NO_ATTR},
                                              {0}};

const nc_card nc_card_ceil = {.name = "Ceil",
                              .doc = "The smallest whole number not below X.",
                              .versions = ceil_versions,
                              NC_LANE(ceil),
                              .zero_grad = true};
const nc_card nc_card_round = {.name = "Round",
                               .doc = "The nearest whole number, halves to the even one.",
                               .versions = round_versions,
                               NC_LANE(round),
                               .zero_grad = true};
const nc_card nc_card_sign = {.name = "Sign",
                              .doc = "-1, 0 or 1 as X is negative, zero or positive; NaN passes.",
                              .versions = sign_versions,
                              NC_LANE(sign),
                              .zero_grad = true};

#define TEST_OF(types) IN({"X", types}), OUT({"Y", T_BOOL})
static const nc_op_version is_nan_versions[] = {{.since = 20, TEST_OF(T_FLOAT_ALL), NO_ATTR},
                                                {.since = 13, TEST_OF(T_FLOAT_ALL), NO_ATTR},
                                                {.since = 9, TEST_OF(T_FLOAT), NO_ATTR},
                                                {0}};
const nc_card nc_card_is_nan = {
    .name = "IsNaN", .doc = "X is not a number.", .versions = is_nan_versions, NC_LANE(is_nan), .zero_grad = true};

static const nc_op_version is_infinite_versions[] = {{.since = 1, TEST_OF(T_FLOAT_ALL), NO_ATTR}, {0}};
const nc_card nc_card_is_infinite = {.name = "IsInfinite",
                                     .domain = "nacre",
                                     .doc = "X is infinite.",
                                     .versions = is_infinite_versions,
                                     NC_LANE(is_inf),
                                     .zero_grad = true};

static nc_code is_inf_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool negative = nc_attr_int(n, "detect_negative") != 0, positive = nc_attr_int(n, "detect_positive") != 0;
    nc_value *x = n->in[0];
    out[0] = nc_build_attr1(b, "nacre", "IsInfinite", &x, 1, NULL, 0);
    if (negative && positive) return b->code;
    nc_value *zero = nc_build_scalar(b, x->type != NULL ? x->type->elem : NC_FLOAT, 0);
    nc_value *side = negative   ? nc_build1(b, "Less", 2, x, zero)
                     : positive ? nc_build1(b, "Less", 2, zero, x)
                                : nc_build1(b, "Less", 2, x, x);
    out[0] = nc_build1(b, "And", 2, out[0], side);
    return b->code;
}

#define SIGNS ATTR(A_INT("detect_negative", 1), A_INT("detect_positive", 1))
static const nc_op_version is_inf_versions[] = {{.since = 20, TEST_OF(T_FLOAT_ALL), SIGNS},
                                                {.since = 10, TEST_OF(NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE)), SIGNS},
                                                {0}};
const nc_card nc_card_is_inf = {.name = "IsInf",
                                .doc = "X is infinite, of the signs that are asked for.",
                                .versions = is_inf_versions,
                                .traits = NC_ELEMENTWISE,
                                .infer = nc_lane_infer,
                                .decompose = is_inf_decompose,
                                .zero_grad = true};
