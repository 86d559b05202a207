/* ops/math/unary.c: cards of elementary functions of one input. Formula and derivative of each are lanes
 * (kernels/lanes/arith.h, activation.h); the gradient ops nacre.XGrad come from them. */
#include "ops/math/math.h"

#define ONE(x, y, types) IN({x, types}), OUT({y, SAME(0)})
#define OLD ATTR(A_INTS_OPT("consumed_inputs"))

static const nc_op_version neg_versions[] = {{.since = 13, ONE("X", "Y", T_FLOAT_ALL | T_SIGNED), NO_ATTR},
                                             {.since = 6, ONE("X", "Y", T_FLOAT | T_SIGNED), NO_ATTR},
                                             {.since = 1, ONE("X", "Y", T_FLOAT), OLD},
                                             {0}};
const nc_card nc_card_neg = {
    .name = "Neg", .doc = "-X.", .versions = neg_versions, NC_LANE(neg), .fold = nc_math_fold_neg};

static const nc_op_version abs_versions[] = {{.since = 13, ONE("X", "Y", T_NUMBER_ALL), NO_ATTR},
                                             {.since = 6, ONE("X", "Y", T_NUMBER), NO_ATTR},
                                             {.since = 1, ONE("X", "Y", T_FLOAT), OLD},
                                             {0}};
const nc_card nc_card_abs = {.name = "Abs", .doc = "The absolute value of X.", .versions = abs_versions, NC_LANE(abs)};

/* Versions 13, 6 and 1 over floats, with X and Y or input and output as the names. */
static const nc_op_version xy_versions[] = {{.since = 13, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR},
                                            {.since = 6, ONE("X", "Y", T_FLOAT), NO_ATTR},
                                            {.since = 1, ONE("X", "Y", T_FLOAT), OLD},
                                            {0}};
static const nc_op_version io_versions[] = {{.since = 13, ONE("input", "output", T_FLOAT_ALL), NO_ATTR},
                                            {.since = 6, ONE("input", "output", T_FLOAT), NO_ATTR},
                                            {.since = 1, ONE("input", "output", T_FLOAT), OLD},
                                            {0}};

const nc_card nc_card_sqrt = {.name = "Sqrt", .doc = "The square root of X.", .versions = xy_versions, NC_LANE(sqrt)};
const nc_card nc_card_reciprocal = {
    .name = "Reciprocal", .doc = "1 / X.", .versions = xy_versions, NC_LANE_WITH(reciprocal, NC_WIDE)};
const nc_card nc_card_floor = {.name = "Floor",
                               .doc = "The largest whole number not above X.",
                               .versions = xy_versions,
                               NC_LANE(floor),
                               .zero_grad = true};
const nc_card nc_card_exp = {
    .name = "Exp", .doc = "e to the power of X.", .versions = io_versions, NC_LANE_WITH(exp, NC_WIDE)};
const nc_card nc_card_log = {
    .name = "Log", .doc = "The natural logarithm.", .versions = io_versions, NC_LANE_WITH(log, NC_WIDE)};

static const nc_op_version erf_versions[] = {{.since = 13, ONE("input", "output", T_FLOAT_ALL), NO_ATTR},
                                             {.since = 9, ONE("input", "output", T_NUMBER), NO_ATTR},
                                             {0}};
const nc_card nc_card_erf = {.name = "Erf", .doc = "The error function.", .versions = erf_versions, NC_LANE(erf)};

static const nc_op_version wave_versions[] = {{.since = 22, ONE("input", "output", T_FLOAT_ALL), NO_ATTR},
                                              {.since = 7, ONE("input", "output", T_FLOAT), NO_ATTR},
                                              {0}};
const nc_card nc_card_sin = {.name = "Sin", .doc = "The sine, in radians.", .versions = wave_versions, NC_LANE(sin)};
const nc_card nc_card_cos = {.name = "Cos", .doc = "The cosine, in radians.", .versions = wave_versions, NC_LANE(cos)};
