/* ops/math/trig.c: cards of the circle's and the hyperbola's functions and their inverses (lanes of
 * kernels/lanes/arith.h). Sin, Cos and Tanh stand in unary.c and activation.c. */
#include "ops/math/math.h"

#define ONE(types) IN({"input", types}), OUT({"output", SAME(0)}), NO_ATTR
static const nc_op_version since_7[] = {{.since = 22, ONE(T_FLOAT_ALL)}, {.since = 7, ONE(T_FLOAT)}, {0}};
static const nc_op_version since_9[] = {{.since = 22, ONE(T_FLOAT_ALL)}, {.since = 9, ONE(T_FLOAT)}, {0}};

#define CARD(symbol, op, rows, text) \
    const nc_card nc_card_##symbol = {.name = op, .doc = text, .versions = rows, NC_LANE(symbol)};

CARD(tan, "Tan", since_7, "The tangent, in radians.")
CARD(asin, "Asin", since_7, "The angle whose sine is X.")
CARD(acos, "Acos", since_7, "The angle whose cosine is X.")
CARD(atan, "Atan", since_7, "The angle whose tangent is X.")
CARD(sinh, "Sinh", since_9, "The hyperbolic sine.")
CARD(cosh, "Cosh", since_9, "The hyperbolic cosine.")
CARD(asinh, "Asinh", since_9, "The inverse of Sinh.")
CARD(acosh, "Acosh", since_9, "The inverse of Cosh; NaN below 1.")
CARD(atanh, "Atanh", since_9, "The inverse of Tanh; NaN outside -1 to 1.")
