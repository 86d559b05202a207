/* ops/quant/qmatmul.c: cards of MatMulInteger and QLinearMatMul: matrix products of quantized elements, batches
 * broadcast as in MatMul. Kernels are in qmatmul_cpu.c. */
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
                                        .traits = NC_ENCODES,
                                        .no_grad = NC_QLINEAR_NO_GRAD};
