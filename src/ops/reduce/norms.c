/* ops/reduce/norms.c: cards of reductions that are made of others: ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum
 * ReduceLogSumExp. What needs a root or a logarithm of a sum takes the way through a type that holds the sum: integers
 * through double, half types through float. */
#include "ops/build.h"
#include "ops/reduce/reduce_card.h"
#include "ops/reduce/reduce_grad.h"

static nc_dtype elem_of(const nc_node *n) { return n->in[0]->type != NULL ? n->in[0]->type->elem : NC_UNDEFINED; }

/* `op` of x along the axes of n. */
static nc_value *along(nc_builder *b, const nc_node *n, const char *op, nc_value *x, bool keepdims) {
    nc_value *in[2] = {x, n->n_in > 1 ? n->in[1] : NULL};
    const nc_attr *axes = nc_node_attr(n, "axes"), *noop = nc_node_attr(n, "noop_with_empty_axes");
    if (axes != NULL && axes->n > 0) in[1] = nc_build_ints(b, axes->ints, axes->n);
    nc_attr attrs[2] = {{.name = "keepdims", .kind = NC_A_INT, .i = keepdims},
                        {.name = "noop_with_empty_axes", .kind = NC_A_INT, .i = noop != NULL ? noop->i : 0}};
    return nc_build_attr1(b, "", op, in, in[1] != NULL ? 2 : 1, attrs, 2);
}

static nc_value *sum_of(nc_builder *b, const nc_node *n, nc_value *x) {
    return along(b, n, "ReduceSum", x, nc_attr_int(n, "keepdims") != 0);
}

static nc_value *as_wide(nc_builder *b, nc_value *x) {
    if (x == NULL || x->type == NULL) return x;
    if (!nc_dtype_is_float(x->type->elem)) return nc_build_cast(b, x, NC_DOUBLE);
    return nc_dtype_bits(x->type->elem) < 32 ? nc_build_cast(b, x, NC_FLOAT) : x;
}

static nc_code l1_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    char class = nc_dtype_class(elem_of(n));
    out[0] = sum_of(b, n, class == 'U' ? n->in[0] : nc_build1(b, "Abs", 1, n->in[0]));
    return b->code;
}

static nc_code sum_square_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = sum_of(b, n, nc_build1(b, "Mul", 2, n->in[0], n->in[0]));
    return b->code;
}

static nc_code l2_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = as_wide(b, n->in[0]);
    nc_value *y = nc_build1(b, "Sqrt", 1, sum_of(b, n, nc_build1(b, "Mul", 2, x, x)));
    out[0] = nc_build_cast(b, y, elem_of(n));
    return b->code;
}

static nc_code log_sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *y = nc_build1(b, "Log", 1, sum_of(b, n, as_wide(b, n->in[0])));
    out[0] = nc_build_cast(b, y, elem_of(n));
    return b->code;
}

/* log(sum exp(x - m)) + m, m the largest x, or 0 where that is infinite: then x - m would be no number. */
static nc_code log_sum_exp_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = as_wide(b, n->in[0]), *m = along(b, n, "ReduceMax", x, true);
    if (b->code != NC_OK) return b->code;
    nc_value *infinite = nc_build_attr1(b, "nacre", "IsInfinite", &m, 1, NULL, 0);
    m = nc_build1(b, "Where", 3, infinite, nc_build_scalar(b, x->type->elem, 0), m);
    nc_value *sum = along(b, n, "ReduceSum", nc_build1(b, "Exp", 1, nc_build1(b, "Sub", 2, x, m)), true);
    nc_value *y = nc_build1(b, "Add", 2, nc_build1(b, "Log", 1, sum), m);
    if (nc_attr_int(n, "keepdims") == 0) y = along(b, n, "ReduceSum", y, false);
    out[0] = nc_build_cast(b, y, elem_of(n));
    return b->code;
}

static const nc_op_version versions[] = {{.since = 18, BY_INPUT(T_BIG_NUMBER_ALL)},
                                         {.since = 13, BY_ATTR(T_BIG_NUMBER_ALL)},
                                         {.since = 11, BY_ATTR(T_BIG_NUMBER)},
                                         {.since = 1, BY_ATTR(T_BIG_NUMBER)},
                                         {0}};
static const nc_op_version log_versions[] = {
    {.since = 28, BY_INPUT(T_FLOAT_ALL)},     {.since = 18, BY_INPUT(T_BIG_NUMBER_ALL)},
    {.since = 13, BY_ATTR(T_BIG_NUMBER_ALL)}, {.since = 11, BY_ATTR(T_BIG_NUMBER)},
    {.since = 1, BY_ATTR(T_BIG_NUMBER)},      {0}};

#define NORM(symbol, op, rows, pieces, grad_fn, text)           \
    const nc_card nc_card_##symbol = {.name = op,               \
                                      .doc = text,              \
                                      .versions = rows,         \
                                      .infer = nc_reduce_infer, \
                                      .grad = grad_fn,          \
                                      .decompose = pieces,      \
                                      .cost = nc_reduce_cost,   \
                                      .host_in = 1u << 1,       \
                                      .no_grad_in = 1u << 1};

NORM(reduce_l1, "ReduceL1", versions, l1_decompose, NULL, "The sum of absolute values along axes.")
NORM(reduce_l2, "ReduceL2", versions, l2_decompose, nc_reduce_grad_l2, "The root of the sum of squares along axes.")
NORM(reduce_sum_square, "ReduceSumSquare", versions, sum_square_decompose, NULL, "The sum of squares along axes.")
NORM(reduce_log_sum, "ReduceLogSum", log_versions, log_sum_decompose, NULL, "The logarithm of the sum along axes.")
NORM(reduce_log_sum_exp, "ReduceLogSumExp", log_versions, log_sum_exp_decompose, nc_reduce_grad_log_sum_exp,
     "The logarithm of the sum of exp(x) along axes.")
