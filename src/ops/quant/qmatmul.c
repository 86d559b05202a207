/* ops/quant/qmatmul.c: cards of MatMulInteger and QLinearMatMul: matrix products of quantized elements, batches
 * broadcast as in MatMul. Kernels are in qmatmul_cpu.c; elsewhere they are products of doubles, which hold every
 * sum. */
#include "ops/build.h"
#include "ops/contrib.h"
#include "ops/matmul/matmul.h"
#include "ops/quant/quant.h"

/* MatMul's inference with A and B in other places. */
static nc_code infer_as(nc_infer *c, int i_a, int i_b, nc_dtype elem) {
    nc_infer_val in[2] = {c->in[i_a], c->in[i_b]};
    nc_infer product = *c;
    product.in = in;
    return nc_matmul_infer_as(&product, elem);
}

static nc_code integer_infer(nc_infer *c) { return infer_as(c, 0, 1, NC_INT32); }

static nc_code linear_infer(nc_infer *c) {
    const nc_type *y = nc_in(c, 7);
    return y != NULL ? infer_as(c, 0, 3, y->elem) : NC_OK;
}

nc_value *nc_quant_spread(nc_builder *b, nc_value *v, const int64_t *shape, int n) {
    int64_t one;
    if (v == NULL || n == 0 || v->type == NULL || v->type->rank != 1) return v;
    if (nc_dim_is_const(v->type->dims[0], &one) && one == 1) return v;
    return nc_build1(b, "Reshape", 2, v, nc_build_ints(b, shape, n));
}

nc_value *nc_quant_code(nc_builder *b, nc_value *x, nc_value *zero, const int64_t *shape, int n) {
    nc_value *wide = nc_build_cast(b, x, NC_DOUBLE);
    if (zero == NULL) return wide;
    return nc_build1(b, "Sub", 2, wide, nc_build_cast(b, nc_quant_spread(b, zero, shape, n), NC_DOUBLE));
}

/* Numbers of A are one for each row. */
static const int64_t rows_of_a[2] = {-1, 1};

static nc_value *product(nc_builder *b, nc_value *A, nc_value *a_zero, nc_value *B, nc_value *b_zero) {
    return nc_build1(b, "MatMul", 2, nc_quant_code(b, A, a_zero, rows_of_a, 2), nc_quant_code(b, B, b_zero, NULL, 0));
}

static nc_code integer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *y = product(b, n->in[0], nc_contrib_in(n, 2), n->in[1], nc_contrib_in(n, 3));
    if (b->code == NC_OK) y = nc_build_cast(b, y, NC_INT64); /* whole numbers; int32 wraps */
    if (b->code == NC_OK) out[0] = nc_build_cast(b, y, NC_INT32);
    return b->code;
}

static nc_code linear_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *t = n->in[0]->type, *made = n->in[7]->type;
    if (t == NULL || made == NULL || !(NC_BIT(t->elem) & T_BYTE) || !(NC_BIT(made->elem) & T_BYTE))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for codes of 8-bit integers");
    nc_value *sums = product(b, n->in[0], n->in[2], n->in[3], n->in[5]);
    nc_value *a_scale = nc_contrib_wide(b, nc_quant_spread(b, n->in[1], rows_of_a, 2));
    nc_value *scale = nc_build1(b, "Mul", 2, a_scale, nc_contrib_wide(b, n->in[4]));
    if (b->code != NC_OK) return b->code;
    nc_value *y = nc_build1(b, "Mul", 2, nc_build_cast(b, sums, NC_FLOAT), scale);
    out[0] = nc_contrib_coded(b, y, nc_contrib_wide(b, n->in[6]), n->in[7], made->elem);
    return b->code;
}

static const nc_op_version integer_versions[] = {
    {.since = 10,
     IN({"A", T_BYTE}, {"B", T_BYTE}, {"a_zero_point", SAME(0), OPTIONAL}, {"b_zero_point", SAME(1), OPTIONAL}),
     OUT({"Y", NC_BIT(NC_INT32)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_matmul_integer = {.name = "MatMulInteger",
                                        .doc = "(A - a_zero_point)(B - b_zero_point) in int32.",
                                        .versions = integer_versions,
                                        .infer = integer_infer,
                                        .decompose = integer_decompose,
                                        .zero_grad = true};

#define LINEAR(scale, types)                                                                            \
    IN({"a", types}, {"a_scale", scale}, {"a_zero_point", SAME(0)}, {"b", types}, {"b_scale", SAME(1)}, \
       {"b_zero_point", SAME(3)}, {"y_scale", SAME(1)}, {"y_zero_point", types}),                       \
        OUT({"y", SAME(7)}), NO_ATTR
static const nc_op_version linear_versions[] = {
    {.since = 21, LINEAR(NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16), T_BYTE | T_F8)},
    {.since = 10, LINEAR(NC_BIT(NC_FLOAT), T_BYTE)},
    {0}};

const nc_card nc_card_qlinear_matmul = {.name = "QLinearMatMul",
                                        .doc = "The product of two quantized matrices, quantized again.",
                                        .versions = linear_versions,
                                        .infer = linear_infer,
                                        .decompose = linear_decompose,
                                        .traits = NC_ENCODES,
                                        .no_grad = NC_QLINEAR_NO_GRAD};
