/* ops/math/arith.c: cards of arithmetic on two or more inputs: Add Sub Mul Div Pow Min Max. The formulas and
 * derivatives are lanes (kernels/lanes/arith.h); shape arithmetic is in fold.c. */
#include "ops/build.h"
#include "ops/math/math.h"

#define OLD_BROADCAST A_INT("broadcast", 0), A_INT_OPT("axis")

#define AB(types) IN({"A", types}, {"B", SAME(0)}), OUT({"C", SAME(0)})
static const nc_op_version arith_versions[] = {
    {.since = 14, AB(T_NUMBER_ALL), NO_ATTR},
    {.since = 13, AB(T_BIG_NUMBER_ALL), NO_ATTR},
    {.since = 7, AB(T_BIG_NUMBER), NO_ATTR},
    {.since = 6, AB(T_BIG_NUMBER), ATTR(OLD_BROADCAST)},
    {.since = 1, AB(T_FLOAT), ATTR(OLD_BROADCAST, A_INTS_OPT("consumed_inputs"))},
    {0}};

#define ARITH(symbol, op, commutes, text)                                 \
    const nc_card nc_card_##symbol = {.name = op,                         \
                                      .doc = text,                        \
                                      .versions = arith_versions,         \
                                      .grad = nc_math_grad_binary,        \
                                      .decompose = nc_math_decompose_old, \
                                      NC_LANE_WITH(symbol, commutes),     \
                                      .fold = nc_math_fold_##symbol};

ARITH(add, "Add", NC_COMMUTES, "A + B, broadcast.")
ARITH(sub, "Sub", 0, "A - B, broadcast.")
ARITH(mul, "Mul", NC_COMMUTES, "A * B, broadcast.")
ARITH(div, "Div", 0, "A / B, broadcast; integers divide towards zero.")

#define T_POW (T_FLOAT | T_INDEX)
#define XY(x, y) IN({"X", x}, {"Y", y}), OUT({"Z", SAME(0)})
static const nc_op_version pow_versions[] = {
    {.since = 15, XY(T_POW | NC_BIT(NC_BFLOAT16), T_NUMBER_ALL), NO_ATTR},
    {.since = 13, XY(T_POW | NC_BIT(NC_BFLOAT16), T_NUMBER), NO_ATTR},
    {.since = 12, XY(T_POW, T_NUMBER), NO_ATTR},
    {.since = 7, IN({"X", T_FLOAT}, {"Y", SAME(0)}), OUT({"Z", SAME(0)}), NO_ATTR},
    {.since = 1, IN({"X", T_FLOAT}, {"Y", SAME(0)}), OUT({"Z", SAME(0)}), ATTR(OLD_BROADCAST)},
    {0}};

/* An int32 base under a float exponent: in double, and back as Cast does it. Else old broadcasting. */
static nc_code pow_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *x = n->in[0]->type, *y = n->in[1]->type;
    if (x == NULL || y == NULL || x->elem != NC_INT32 || !nc_dtype_is_float(y->elem))
        return nc_math_decompose_old(b, n, out);
    nc_value *wide =
        nc_build1(b, "Pow", 2, nc_build_cast(b, n->in[0], NC_DOUBLE), nc_build_cast(b, n->in[1], NC_DOUBLE));
    out[0] = nc_build_cast(b, wide, NC_INT32);
    return b->code;
}

const nc_card nc_card_pow = {.name = "Pow",
                             .doc = "X to the power of Y, broadcast, in X's type.",
                             .versions = pow_versions,
                             .grad = nc_math_grad_binary,
                             .decompose = pow_decompose,
                             NC_LANE_WITH(pow, NC_WIDE)};

/* ---- Min and Max: any number of inputs ---- */

/* One input: itself. Two: the lane. More: y_k = f(y_(k-1), x_k), the y_k between being computed again here. */
static nc_code extreme_grad(nc_grad *g) {
    const nc_node *n = g->node;
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    if (n->n_in == 2) return nc_lane_card_grad(g);
    if (n->n_in == 1) {
        nc_grad_set(g, 0, dy);
        return nc_grad_end(g);
    }
    nc_value **y = nc_arena_array(&g->b->w->scratch, (size_t)n->n_in, sizeof(nc_value *));
    NC_NEED(g->b->w, y);
    y[0] = nc_grad_x(g, 0);
    for (int i = 1; i < n->n_in; i++) {
        nc_value *in[2] = {y[i - 1], nc_grad_x(g, i)};
        y[i] = nc_build_card1(g->b, n->card, in, 2, NULL, 0);
    }
    for (int i = n->n_in - 1; i > 0; i--) {
        nc_value *in[2] = {y[i - 1], nc_grad_x(g, i)};
        int lane = n->card->lane - 1;
        if (g->wants[i]) nc_grad_set(g, i, nc_grad_sum_to(g, nc_lane_pull(g->b, lane, 1, dy, in, y[i], NULL), i));
        dy = nc_build_sum_to(g->b, nc_lane_pull(g->b, lane, 0, dy, in, y[i], NULL), y[i - 1]);
    }
    nc_grad_set(g, 0, dy);
    return nc_grad_end(g);
}

static bool extreme_is_identity(const nc_node *n) { return n->n_in == 1; }

static nc_code extreme_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = n->in[0];
    for (int i = 1; i < n->n_in; i++) {
        nc_value *in[2] = {out[0], n->in[i]};
        out[0] = nc_build_card1(b, n->card, in, 2, NULL, 0);
    }
    return b->code;
}

#define DATA(out_name, types) IN({"data_0", types, VARIADIC}), OUT({out_name, SAME(0)})
#define EXTREME(symbol, op, out_name, text)                                         \
    static const nc_op_version symbol##_versions[] = {                              \
        {.since = 13, DATA(out_name, T_NUMBER_ALL), NO_ATTR},                       \
        {.since = 12, DATA(out_name, T_NUMBER), NO_ATTR},                           \
        {.since = 8, DATA(out_name, T_FLOAT), NO_ATTR},                             \
        {.since = 6, DATA(out_name, T_FLOAT), NO_ATTR},                             \
        {.since = 1, DATA(out_name, T_FLOAT), ATTR(A_INTS_OPT("consumed_inputs"))}, \
        {0}};                                                                       \
    const nc_card nc_card_##symbol = {.name = op,                                   \
                                      .doc = text,                                  \
                                      .versions = symbol##_versions,                \
                                      .grad = extreme_grad,                         \
                                      NC_LANE_WITH(symbol, NC_COMMUTES),            \
                                      .fold = nc_math_fold_##symbol,                \
                                      .is_identity = extreme_is_identity,           \
                                      .decompose = extreme_decompose};

EXTREME(min, "Min", "min", "The smallest of the inputs, broadcast; NaN where any is NaN.")
EXTREME(max, "Max", "max", "The largest of the inputs, broadcast; NaN where any is NaN.")
