/* ops/math/compare.c: cards of comparisons, logic and selection (lanes of kernels/lanes/compare.h). Outputs are bool
 * and have no gradient; Where passes the gradient to the side it took. */
#include "ops/math/math.h"

#define AB(types) IN({"A", types}, {"B", SAME(0)}), OUT({"C", T_BOOL})
#define OLD ATTR(A_INT("broadcast", 0), A_INT_OPT("axis"))

static const nc_op_version order_versions[] = {{.since = 13, AB(T_NUMBER_ALL), NO_ATTR},
                                               {.since = 9, AB(T_NUMBER), NO_ATTR},
                                               {.since = 7, AB(T_FLOAT), NO_ATTR},
                                               {.since = 1, AB(T_FLOAT), OLD},
                                               {0}};
static const nc_op_version or_equal_versions[] = {
    {.since = 16, AB(T_NUMBER_ALL), NO_ATTR}, {.since = 12, AB(T_NUMBER), NO_ATTR}, {0}};
static const nc_op_version equal_versions[] = {{.since = 19, AB(T_NUMBER_ALL | T_BOOL | T_STRING), NO_ATTR},
                                               {.since = 13, AB(T_NUMBER_ALL | T_BOOL), NO_ATTR},
                                               {.since = 11, AB(T_NUMBER | T_BOOL), NO_ATTR},
                                               {.since = 7, AB(T_BOOL | T_INDEX), NO_ATTR},
                                               {.since = 1, AB(T_BOOL | T_INDEX), OLD},
                                               {0}};
static const nc_op_version logic_versions[] = {{.since = 7, AB(T_BOOL), NO_ATTR}, {.since = 1, AB(T_BOOL), OLD}, {0}};
static const nc_op_version not_versions[] = {{.since = 1, IN({"X", T_BOOL}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};

#define COMPARE(symbol, op, rows, commutes, fold_, text)                  \
    const nc_card nc_card_##symbol = {.name = op,                         \
                                      .doc = text,                        \
                                      .versions = rows,                   \
                                      .decompose = nc_math_decompose_old, \
                                      NC_LANE_WITH(symbol, commutes),     \
                                      .fold = fold_,                      \
                                      .zero_grad = true};

COMPARE(less, "Less", order_versions, 0, nc_math_fold_less, "A < B, broadcast.")
COMPARE(greater, "Greater", order_versions, 0, nc_math_fold_greater, "A > B, broadcast.")
COMPARE(less_or_equal, "LessOrEqual", or_equal_versions, 0, NULL, "A <= B, broadcast.")
COMPARE(greater_or_equal, "GreaterOrEqual", or_equal_versions, 0, NULL, "A >= B, broadcast.")
COMPARE(equal, "Equal", equal_versions, NC_COMMUTES, nc_math_fold_equal, "A == B, broadcast.")
COMPARE(and, "And", logic_versions, NC_COMMUTES, NULL, "A and B, broadcast.")
COMPARE(or, "Or", logic_versions, NC_COMMUTES, NULL, "A or B, broadcast.")
COMPARE(xor, "Xor", logic_versions, NC_COMMUTES, NULL, "A or B but not both, broadcast.")

const nc_card nc_card_not = {
    .name = "Not", .doc = "Not X.", .versions = not_versions, NC_LANE(not ), .zero_grad = true};

#define CXY(types) IN({"condition", T_BOOL}, {"X", types}, {"Y", SAME(1)}), OUT({"output", SAME(1)}), NO_ATTR
static const nc_op_version where_versions[] = {{.since = 16, CXY(T_TENSOR_ALL)}, {.since = 9, CXY(T_TENSOR)}, {0}};

const nc_card nc_card_where = {.name = "Where",
                               .doc = "X where the condition holds, else Y, broadcast.",
                               .versions = where_versions,
                               NC_LANE(where),
                               .fold = nc_math_fold_where,
                               .no_grad_in = 1};
