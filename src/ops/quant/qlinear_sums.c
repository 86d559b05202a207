/* ops/quant/qlinear_sums.c: cards of com.microsoft that are exact sums of products of 8-bit codes with scales around
 * them: QLinearConv with channels last, QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul.
 * They run as MatMulInteger and QLinearConv where they have no kernel. */
#include "ops/contrib.h"
#include "ops/matmul/matmul.h"
#include "ops/nn/conv.h"
#include "ops/quant/quant.h"

#include <string.h>

/* Operand i is one number, or one of each of `columns`. */
static nc_code check_scale(nc_infer *c, int i, const nc_dim *columns) {
    int rank;
    int64_t n;
    if (!nc_in_rank(c, i, &rank) || rank == 0) return NC_OK;
    NC_TRY(nc_contrib_rank(c, i, 1));
    if (nc_dim_is_const(nc_in_dim(c, i, 0), &n) && n == 1) return NC_OK;
    return nc_in_expect(c, i, 0, columns != NULL ? columns : nc_in_dim(c, i, 0));
}

static nc_code infer_product(nc_infer *c, int a, int b, nc_dtype elem) {
    nc_infer_val in[2] = {c->in[a], c->in[b]};
    nc_infer product = *c;
    product.in = in;
    return nc_matmul_infer_as(&product, elem);
}

static const nc_dim *last_dim(nc_infer *c, int i) {
    int rank;
    return nc_in_rank(c, i, &rank) && rank > 0 ? nc_in_dim(c, i, rank - 1) : NULL;
}

/* (A - zero)(B - zero) in int32; zeros NULL: 0. */
static nc_value *sums(nc_builder *b, nc_value *A, nc_value *B, nc_value *a_zero, nc_value *b_zero) {
    nc_value *in[4] = {A, B, a_zero, b_zero};
    return nc_build_attr1(b, "", "MatMulInteger", in, b_zero != NULL ? 4 : a_zero != NULL ? 3 : 2, NULL, 0);
}

/* sums * (s * t) + bias, in f32. */
static nc_value *scaled(nc_builder *b, nc_value *sums, nc_value *s, nc_value *t, nc_value *bias) {
    nc_value *scale = nc_build1(b, "Mul", 2, nc_contrib_wide(b, s), nc_contrib_wide(b, t));
    nc_value *y = nc_build1(b, "Mul", 2, nc_build_cast(b, sums, NC_FLOAT), scale);
    return nc_contrib_add(b, y, nc_contrib_wide(b, bias));
}

/* ---- MatMulIntegerToFloat: A, B, a_scale, b_scale, a_zero, b_zero, bias ---- */

static nc_code to_float_infer(nc_infer *c) {
    const nc_type *scale = nc_in(c, 2);
    const nc_dim *one = nc_dim_const(c->dims, 1), *columns = last_dim(c, 1);
    NC_TRY(check_scale(c, 2, one));
    NC_TRY(check_scale(c, 3, columns));
    NC_TRY(check_scale(c, 4, one));
    NC_TRY(check_scale(c, 5, columns));
    if (columns != NULL) NC_TRY(nc_contrib_vector(c, 6, columns));
    return scale != NULL ? infer_product(c, 0, 1, scale->elem) : NC_OK;
}

static nc_code to_float_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *y = sums(b, n->in[0], n->in[1], nc_contrib_in(n, 4), nc_contrib_in(n, 5));
    y = scaled(b, y, n->in[2], n->in[3], nc_contrib_in(n, 6));
    if (b->code != NC_OK || n->in[2]->type == NULL) return b->code;
    out[0] = nc_build_cast(b, y, n->in[2]->type->elem);
    return b->code;
}

/* ---- DynamicQuantizeMatMul: A, B, b_scale, b_zero, bias ---- */

static nc_code dynamic_infer(nc_infer *c) {
    const nc_dim *columns = last_dim(c, 1);
    NC_TRY(check_scale(c, 2, columns));
    NC_TRY(check_scale(c, 3, columns));
    if (columns != NULL) NC_TRY(nc_contrib_vector(c, 4, columns));
    return infer_product(c, 0, 1, NC_FLOAT);
}

static nc_code dynamic_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_node *codes = nc_build(b, "", "DynamicQuantizeLinear", n->in, 1, 3, NULL, 0);
    if (codes == NULL) return b->code;
    nc_value *y = sums(b, codes->out[0], n->in[1], codes->out[2], nc_contrib_in(n, 3));
    out[0] = scaled(b, y, codes->out[1], n->in[2], nc_contrib_in(n, 4));
    return b->code;
}

/* ---- QGemm: A, scale, zero, B, scale, zero, C, Y's scale, zero ---- */

static nc_code qgemm_infer(nc_infer *c) {
    nc_infer_val in[3] = {c->in[0], c->in[3], c->node->n_in > 6 ? c->in[6] : (nc_infer_val){0}};
    nc_infer gemm = *c;
    const nc_type *y = nc_in(c, 8);
    bool coded = c->node->n_in > 7 && c->node->in[7] != NULL, has_zero = c->node->n_in > 8 && c->node->in[8] != NULL;
    gemm.in = in;
    if (coded != has_zero) NC_FAIL(c->w, NC_E_BAD_GRAPH, "y_scale and y_zero_point must come together");
    const nc_dim *columns = nc_in_dim(c, 3, nc_attr_int(c->node, "transB") != 0 ? 0 : 1);
    NC_TRY(check_scale(c, 1, nc_dim_const(c->dims, 1)));
    NC_TRY(check_scale(c, 4, columns));
    NC_TRY(check_scale(c, 5, columns));
    if (coded && y == NULL) return NC_OK;
    nc_node plain = *c->node; /* Gemm's inference looks for C among as many inputs as there are */
    plain.n_in = 3;
    gemm.node = &plain;
    NC_TRY(nc_gemm_infer(&gemm));
    const nc_type *t = c->out[0].type;
    return t != NULL ? nc_out(c, 0, coded ? y->elem : NC_FLOAT, t->rank, t->dims) : NC_OK;
}

static nc_code qgemm_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *A = nc_attr_int(n, "transA") != 0 ? nc_build_swap_last(b, n->in[0]) : n->in[0];
    nc_value *B = nc_attr_int(n, "transB") != 0 ? nc_build_swap_last(b, n->in[3]) : n->in[3];
    nc_value *y = nc_contrib_add(b, sums(b, A, B, n->in[2], n->in[5]), nc_contrib_in(n, 6));
    nc_value *alpha = nc_build_scalar(b, NC_FLOAT, nc_attr_float(n, "alpha"));
    y = scaled(b, y, nc_build1(b, "Mul", 2, n->in[1], alpha), n->in[4], NULL);
    nc_value *scale = nc_contrib_in(n, 7), *zero = nc_contrib_in(n, 8);
    if (b->code != NC_OK) return b->code;
    out[0] = scale != NULL ? nc_contrib_coded(b, y, scale, zero, zero->type->elem) : y;
    return b->code;
}

/* ---- QLinearConv ---- */

static bool channels_last(const nc_node *n) { return nc_attr_int(n, "channels_last") != 0; }

static nc_code conv_infer(nc_infer *c) {
    nc_infer_val in[2] = {c->in[0], c->in[3]};
    nc_infer conv = *c;
    const nc_type *y = nc_in(c, 7);
    conv.in = in;
    if (channels_last(c->node)) NC_TRY(nc_contrib_turned(c, in[0].type, false, &in[0].type));
    if (y == NULL) return NC_OK;
    NC_TRY(nc_contrib_vector(c, 8, nc_in_dim(c, 3, 0)));
    NC_TRY(nc_conv_infer_as(&conv, y->elem));
    return channels_last(c->node) ? nc_contrib_turned(c, c->out[0].type, true, &c->out[0].type) : NC_OK;
}

static nc_code conv_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const char *const own[] = {"channels_last"};
    nc_attr attrs[16];
    nc_value *in[9];
    int n_attrs = nc_contrib_attrs(n, own, 1, attrs);
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i];
    if (channels_last(n)) in[0] = nc_contrib_turn(b, in[0], false);
    nc_value *y = nc_build_attr1(b, "", "QLinearConv", in, n->n_in, attrs, n_attrs);
    out[0] = channels_last(n) ? nc_contrib_turn(b, y, true) : y;
    return b->code;
}

/* ---- cards ---- */

#define F32(name) \
    { name, T_F32 }
static const nc_op_version to_float_versions[] = {
    {.since = 1,
     IN({"A", T_BYTE}, {"B", T_BYTE}, {"a_scale", T_FLOAT_ALL}, {"b_scale", SAME(2)},
        {"a_zero_point", SAME(0), OPTIONAL}, {"b_zero_point", SAME(1), OPTIONAL}, {"bias", SAME(2), OPTIONAL}),
     OUT({"Y", SAME(2)}),
     NO_ATTR},
    {0}};
static const nc_op_version dynamic_versions[] = {{.since = 1,
                                                  IN({"A", T_F32}, {"B", T_BYTE}, {"b_scale", T_F32},
                                                     {"b_zero_point", SAME(1), OPTIONAL}, {"bias", T_F32, OPTIONAL}),
                                                  OUT({"Y", T_F32}),
                                                  NO_ATTR},
                                                 {0}};
static const nc_op_version qgemm_versions[] = {
    {.since = 1,
     IN({"A", T_BYTE}, F32("a_scale"), {"a_zero_point", SAME(0)}, {"B", T_BYTE}, F32("b_scale"),
        {"b_zero_point", SAME(3)}, {"C", T_I32, OPTIONAL}, {"y_scale", T_F32, OPTIONAL},
        {"y_zero_point", T_BYTE, OPTIONAL}),
     OUT({"Y", T_BYTE | T_F32}),
     ATTR(A_INT("transA", 0), A_INT("transB", 0), A_FLOAT("alpha", 1))},
    {0}};
static const nc_op_version conv_versions[] = {
    {.since = 1,
     IN({"x", T_BYTE}, F32("x_scale"), {"x_zero_point", SAME(0)}, {"w", T_BYTE}, F32("w_scale"),
        {"w_zero_point", SAME(3)}, F32("y_scale"), {"y_zero_point", T_BYTE}, {"B", T_I32, OPTIONAL}),
     OUT({"y", SAME(7)}),
     ATTR(A_STR("auto_pad", "NOTSET"), A_INTS_OPT("kernel_shape"), A_INTS_OPT("dilations"), A_INTS_OPT("strides"),
          A_INTS_OPT("pads"), A_INT("group", 1), A_INT("channels_last", 0))},
    {0}};
#define SUMS(card, op, text, rows, infers, decomposes)      \
    const nc_card nc_card_##card = {.name = op,             \
                                    .domain = NC_MICROSOFT, \
                                    .doc = text,            \
                                    .versions = rows,       \
                                    .zero_grad = true,      \
                                    .infer = infers,        \
                                    .decompose = decomposes}
SUMS(matmul_integer_to_float, "MatMulIntegerToFloat", "The product of two quantized matrices as numbers, plus a bias.",
     to_float_versions, to_float_infer, to_float_decompose);
SUMS(dynamic_quantize_matmul, "DynamicQuantizeMatMul", "A, quantized by its own range, times quantized B, plus a bias.",
     dynamic_versions, dynamic_infer, dynamic_decompose);
SUMS(qgemm, "QGemm", "Gemm of quantized matrices, as numbers or quantized again.", qgemm_versions, qgemm_infer,
     qgemm_decompose);
SUMS(ms_qlinear_conv, "QLinearConv", "QLinearConv with channels first or last.", conv_versions, conv_infer,
     conv_decompose);
