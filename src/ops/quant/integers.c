/* ops/quant/integers.c: cards of com.microsoft that count with 8-bit integers: MulInteger and ReduceSumInteger. They
 * run as Sub, Mul and ReduceSum of 32 bits. */
#include "ops/contrib.h"
#include "ops/reduce/reduce_card.h"

enum { A, A_ZERO, B, B_ZERO };

static nc_code mul_infer(nc_infer *c) {
    const nc_dim *dims[NC_MAX_RANK];
    nc_infer_val in[2] = {c->in[A], c->in[B]};
    nc_infer both = *c;
    int rank;
    both.in = in;
    NC_TRY(nc_broadcast_in(&both, 0, 2, dims, &rank));
    return rank < 0 ? nc_out_unknown(c, 0, NC_INT32, -1) : nc_out(c, 0, NC_INT32, rank, dims);
}

static nc_value *centered(nc_builder *b, nc_value *x, nc_value *zero) {
    nc_value *wide = nc_build_cast(b, x, NC_INT32);
    if (zero == NULL) return wide;
    nc_value *one = nc_build1(b, "Reshape", 2, nc_build_cast(b, zero, NC_INT32), nc_build_ints(b, NULL, 0));
    return nc_build1(b, "Sub", 2, wide, one);
}

static nc_code mul_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = centered(b, n->in[A], nc_contrib_in(n, A_ZERO)), *y = centered(b, n->in[B], nc_contrib_in(n, B_ZERO));
    out[0] = nc_build1(b, "Mul", 2, x, y);
    return b->code;
}

/* Sums of signed numbers are signed. */
static nc_dtype sum_type(const nc_type *x) { return x->elem == NC_UINT8 ? NC_UINT32 : NC_INT32; }

static nc_code sum_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_reduce_infer(c));
    const nc_type *t = c->out[0].type;
    if (x == NULL || t == NULL) return NC_OK;
    return t->rank < 0 ? nc_out_unknown(c, 0, sum_type(x), -1) : nc_out(c, 0, sum_type(x), t->rank, t->dims);
}

static nc_code sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int count;
    const int64_t *axes = nc_attr_ints(n, "axes", &count);
    if (n->in[0]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *x = nc_build_cast(b, n->in[0], sum_type(n->in[0]->type));
    out[0] = nc_build_reduce_sum(b, x, axes, count, nc_attr_int(n, "keepdims") != 0);
    return b->code;
}

#define I8 (NC_BIT(NC_INT8) | NC_BIT(NC_UINT8))
static const nc_op_version mul_versions[] = {{.since = 1,
                                              IN({"A", I8}, {"A_zero_point", SAME(0), SINGLE_OPTIONAL}, {"B", SAME(0)},
                                                 {"B_zero_point", SAME(0), SINGLE_OPTIONAL}),
                                              OUT({"C", T_I32}),
                                              NO_ATTR},
                                             {0}};
static const nc_op_version sum_versions[] = {{.since = 1,
                                              IN({"data", I8}),
                                              OUT({"reduced", NC_BIT(NC_INT32) | NC_BIT(NC_UINT32)}),
                                              ATTR(A_INTS_REQ("axes"), A_INT_REQ("keepdims"))},
                                             {0}};

const nc_card nc_card_mul_integer = {.name = "MulInteger",
                                     .domain = NC_MICROSOFT,
                                     .doc = "Products of 8-bit integers less their zero points, in 32 bits.",
                                     .versions = mul_versions,
                                     .zero_grad = true,
                                     .infer = mul_infer,
                                     .decompose = mul_decompose};
const nc_card nc_card_reduce_sum_integer = {.name = "ReduceSumInteger",
                                            .domain = NC_MICROSOFT,
                                            .doc = "Sums of 8-bit integers along axes, in 32 bits.",
                                            .versions = sum_versions,
                                            .zero_grad = true,
                                            .infer = sum_infer,
                                            .decompose = sum_decompose};
