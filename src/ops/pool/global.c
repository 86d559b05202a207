/* ops/pool/global.c: cards of the pools over whole planes: reductions over all dims but the first two, and nothing
 * else: they have no kernels of their own. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/pool/pool.h"

nc_code nc_pool_global_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1);
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", x->rank);
    for (int i = 0; i < x->rank; i++) dims[i] = i < 2 ? x->dims[i] : one;
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_value *reduced(nc_builder *b, const nc_node *n, const char *op, nc_value *x) {
    const nc_type *t = n->in[0]->type;
    int64_t axes[NC_MAX_RANK];
    if (b->code == NC_OK && (t == NULL || t->rank < 0))
        b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "a pool over whole planes needs a known rank of X");
    if (b->code != NC_OK) return NULL;
    for (int i = 2; i < t->rank; i++) axes[i - 2] = i;
    nc_value *in[2] = {x, nc_build_ints(b, axes, t->rank - 2)};
    nc_attr attrs[2] = {{.name = "keepdims", .kind = NC_A_INT, .i = 1},
                        {.name = "noop_with_empty_axes", .kind = NC_A_INT, .i = 1}};
    return nc_build_attr1(b, "", op, in, 2, attrs, 2);
}

static nc_code average_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = reduced(b, n, "ReduceMean", n->in[0]);
    return b->code;
}

static nc_code max_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = reduced(b, n, "ReduceMax", n->in[0]);
    return b->code;
}

/* Sums of powers go beyond float16 where their root does not. */
static nc_code lp_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    double p = n->version->since == 1 ? nc_attr_float(n, "p") : (double)nc_attr_int(n, "p");
    nc_value *x = n->in[0];
    nc_dtype elem = x->type != NULL ? x->type->elem : NC_UNDEFINED;
    if (x->type == NULL || !(p > 0)) NC_FAIL(b->w, NC_E_UNSUPPORTED, "p is %g, expected more than 0", p);
    if (nc_dtype_bits(elem) < 32) x = nc_build_cast(b, x, NC_FLOAT);
    if (x == NULL) return b->code;
    nc_value *power = p == 2 ? nc_build1(b, "Mul", 2, x, x) : nc_build1(b, "Abs", 1, x);
    if (p != 2 && p != 1) power = nc_build1(b, "Pow", 2, power, nc_build_scalar(b, x->type->elem, p));
    nc_value *sum = reduced(b, n, "ReduceSum", power);
    if (p == 2)
        sum = nc_build1(b, "Sqrt", 1, sum);
    else if (p != 1)
        sum = nc_build1(b, "Pow", 2, sum, nc_build_scalar(b, x->type->elem, 1 / p));
    out[0] = nc_build_cast(b, sum, elem);
    return b->code;
}

#define X_Y(types) IN({"X", types}), OUT({"Y", SAME(0)})
static const nc_op_version versions[] = {
    {.since = 22, X_Y(T_FLOAT_ALL), NO_ATTR}, {.since = 1, X_Y(T_FLOAT), NO_ATTR}, {0}};
static const nc_op_version lp_versions[] = {{.since = 22, X_Y(T_FLOAT_ALL), ATTR(A_INT("p", 2))},
                                            {.since = 2, X_Y(T_FLOAT), ATTR(A_INT("p", 2))},
                                            {.since = 1, X_Y(T_FLOAT), ATTR(A_FLOAT("p", 2))},
                                            {0}};

const nc_card nc_card_global_average_pool = {.name = "GlobalAveragePool",
                                             .doc = "The mean of each plane.",
                                             .versions = versions,
                                             .infer = nc_pool_global_infer,
                                             .decompose = average_decompose};
const nc_card nc_card_global_max_pool = {.name = "GlobalMaxPool",
                                         .doc = "The greatest element of each plane.",
                                         .versions = versions,
                                         .traits = NC_PASSES_ON,
                                         .infer = nc_pool_global_infer,
                                         .decompose = max_decompose};
const nc_card nc_card_global_lp_pool = {.name = "GlobalLpPool",
                                        .doc = "The p-norm of each plane.",
                                        .versions = lp_versions,
                                        .infer = nc_pool_global_infer,
                                        .decompose = lp_decompose};
