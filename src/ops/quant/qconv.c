/* ops/quant/qconv.c: cards of ConvInteger, QLinearConv, nacre.ConvIntegerToFloat, which ConvInteger with channels last
 * becomes (plan/lower_conv_integer.c), and nacre.QLinearConvAdd, which QLinearConv with a QLinearAdd behind it becomes
 * (plan/lower_conv_codes.c): convolutions of quantized elements. Attributes and sizes are
 * Conv's (ops/nn/conv.h); kernels are in qconv_cpu.c; elsewhere they are convolutions of doubles, which hold
 * every sum. */
#include "ops/build.h"
#include "ops/contrib.h"
#include "ops/nn/conv.h"
#include "ops/quant/quant.h"

/* Conv's inference with X and W in other places. */
static nc_code infer_as(nc_infer *c, int i_w, nc_dtype elem) {
    nc_infer_val in[2] = {c->in[0], c->in[i_w]};
    nc_infer conv = *c;
    conv.in = in;
    return nc_conv_infer_as(&conv, elem);
}

static nc_code integer_infer(nc_infer *c) { return infer_as(c, 1, NC_INT32); }

static nc_code linear_infer(nc_infer *c) {
    const nc_type *y = nc_in(c, 7);
    return y != NULL ? infer_as(c, 3, y->elem) : NC_OK;
}

/* What numbers for each output channel are reshaped to: of the weight, and of the result. */
static nc_code shapes_of(nc_builder *b, const nc_node *n, int64_t of_w[NC_MAX_RANK], int64_t of_y[NC_MAX_RANK]) {
    const nc_type *x = n->in[0]->type;
    if (x == NULL || x->rank < 2) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    for (int i = 0; i < x->rank; i++) of_w[i] = i == 0 ? -1 : 1, of_y[i] = i == 1 ? -1 : 1;
    return NC_OK;
}

static nc_value *sums(nc_builder *b, const nc_node *n, nc_value *x_zero, nc_value *w, nc_value *w_zero,
                      const int64_t *of_w) {
    int rank = n->in[0]->type->rank;
    nc_value *in[2] = {nc_quant_code(b, n->in[0], x_zero, NULL, 0), nc_quant_code(b, w, w_zero, of_w, rank)};
    return nc_build_attr1(b, "", "Conv", in, 2, n->attrs, n->n_attrs);
}

static nc_code integer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t of_w[NC_MAX_RANK], of_y[NC_MAX_RANK];
    NC_TRY(shapes_of(b, n, of_w, of_y));
    nc_value *y = sums(b, n, nc_contrib_in(n, 2), n->in[1], nc_contrib_in(n, 3), of_w);
    if (b->code == NC_OK) y = nc_build_cast(b, y, NC_INT64); /* whole numbers; int32 wraps */
    if (b->code == NC_OK) out[0] = nc_build_cast(b, y, NC_INT32);
    return b->code;
}

/* X (N,...,C), W (K,C/group,...), a bias for each of K. */
static nc_code last_infer(nc_infer *c, int i_w, int i_bias, nc_dtype elem) {
    nc_infer_val in[2] = {c->in[0], c->in[i_w]};
    nc_infer conv = *c;
    conv.in = in;
    NC_TRY(nc_contrib_turned(c, in[0].type, false, &in[0].type));
    NC_TRY(nc_contrib_vector(c, i_bias, nc_in_dim(c, i_w, 0)));
    NC_TRY(nc_conv_infer_as(&conv, elem));
    return nc_contrib_turned(c, c->out[0].type, true, &c->out[0].type);
}

static nc_code to_float_infer(nc_infer *c) { return last_infer(c, 1, 5, NC_FLOAT); }

enum { CONV_IN = 8, SUM_BIAS = 13 };

static nc_code sum_infer(nc_infer *c) {
    const nc_type *y = nc_in(c, 7);
    return y != NULL ? last_infer(c, 3, SUM_BIAS, y->elem) : NC_OK;
}

static nc_code sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[17] = {{.name = "channels_last", .kind = NC_A_INT, .i = 1}};
    nc_value *in[CONV_IN + 1] = {NULL}, *bias = nc_contrib_in(n, SUM_BIAS);
    for (int i = 0; i < CONV_IN; i++) in[i] = n->in[i];
    in[CONV_IN] = bias;
    int n_attrs = 1 + nc_contrib_attrs(n, NULL, 0, attrs + 1);
    nc_value *y = nc_build_attr1(b, NC_MICROSOFT, "QLinearConv", in, bias ? CONV_IN + 1 : CONV_IN, attrs, n_attrs);
    nc_value *terms[8] = {y, n->in[6], n->in[7], n->in[8], n->in[9], n->in[10], n->in[11], n->in[12]};
    if (b->code == NC_OK) out[0] = nc_build_attr1(b, NC_MICROSOFT, "QLinearAdd", terms, 8, NULL, 0);
    return b->code;
}

static nc_code to_float_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *in[4] = {nc_contrib_turn(b, n->in[0], false), n->in[1], nc_contrib_in(n, 3), nc_contrib_in(n, 4)};
    static const char *const own[] = {"low", "high"};
    nc_attr attrs[16];
    int n_attrs = nc_contrib_attrs(n, own, 2, attrs);
    nc_value *y = nc_build_attr1(b, "", "ConvInteger", in, 4, attrs, n_attrs), *bias = nc_contrib_in(n, 5);
    if (b->code == NC_OK) y = nc_build_cast(b, y, NC_FLOAT);
    if (b->code == NC_OK) y = nc_build1(b, "Mul", 2, nc_contrib_turn(b, y, true), n->in[2]);
    if (b->code == NC_OK && bias != NULL) y = nc_build1(b, "Add", 2, y, bias);
    for (int i = 0; i < 2 && b->code == NC_OK; i++)
        if (nc_attr_has(n, own[i]))
            y = nc_build1(b, i ? "Min" : "Max", 2, y, nc_build_scalar(b, NC_FLOAT, nc_attr_float(n, own[i])));
    out[0] = y;
    return b->code;
}

static nc_code linear_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t of_w[NC_MAX_RANK], of_y[NC_MAX_RANK];
    NC_TRY(shapes_of(b, n, of_w, of_y));
    int rank = n->in[0]->type->rank;
    nc_value *y = sums(b, n, n->in[2], n->in[3], n->in[5], of_w), *bias = nc_contrib_in(n, 8);
    if (bias != NULL) y = nc_build1(b, "Add", 2, y, nc_build_cast(b, nc_quant_spread(b, bias, of_y, rank), NC_DOUBLE));
    nc_value *scale = nc_build1(b, "Mul", 2, n->in[1], nc_quant_spread(b, n->in[4], of_y, rank));
    if (b->code != NC_OK || n->in[7]->type == NULL) return b->code;
    y = nc_build1(b, "Mul", 2, nc_build_cast(b, y, NC_FLOAT), scale);
    out[0] = nc_contrib_coded(b, y, n->in[6], n->in[7], n->in[7]->type->elem);
    return b->code;
}

#define CONV_ATTR                                                                                             \
    ATTR(A_STR("auto_pad", "NOTSET"), A_INTS_OPT("dilations"), A_INT("group", 1), A_INTS_OPT("kernel_shape"), \
         A_INTS_OPT("pads"), A_INTS_OPT("strides"))
#define T_F32 NC_BIT(NC_FLOAT)
static const nc_op_version integer_versions[] = {
    {.since = 10,
     IN({"x", T_BYTE}, {"w", T_BYTE}, {"x_zero_point", SAME(0), OPTIONAL}, {"w_zero_point", SAME(1), OPTIONAL}),
     OUT({"y", NC_BIT(NC_INT32)}),
     CONV_ATTR},
    {0}};
static const nc_op_version to_float_versions[] = {
    {.since = 1,
     IN({"x", T_BYTE}, {"w", T_BYTE}, {"scale", T_F32}, {"x_zero_point", SAME(0), OPTIONAL},
        {"w_zero_point", SAME(1), OPTIONAL}, {"bias", T_F32, OPTIONAL}),
     OUT({"y", T_F32}),
     ATTR(NC_CONV_ATTRS, A_FLOAT_OPT("low"), A_FLOAT_OPT("high"))},
    {0}};
static const nc_op_version linear_versions[] = {
    {.since = 10,
     IN({"x", T_BYTE}, {"x_scale", T_F32}, {"x_zero_point", SAME(0)}, {"w", T_BYTE}, {"w_scale", T_F32},
        {"w_zero_point", SAME(3)}, {"y_scale", T_F32}, {"y_zero_point", T_BYTE}, {"B", NC_BIT(NC_INT32), OPTIONAL}),
     OUT({"y", SAME(7)}),
     CONV_ATTR},
    {0}};
static const nc_op_version sum_versions[] = {
    {.since = 1,
     IN({"x", T_BYTE}, {"x_scale", T_F32}, {"x_zero_point", SAME(0)}, {"w", T_BYTE}, {"w_scale", T_F32},
        {"w_zero_point", SAME(3)}, {"y_scale", T_F32}, {"y_zero_point", T_BYTE}, {"other", SAME(7)},
        {"other_scale", T_F32}, {"other_zero_point", SAME(7)}, {"sum_scale", T_F32}, {"sum_zero_point", SAME(7)},
        {"B", NC_BIT(NC_INT32), OPTIONAL}),
     OUT({"sum", SAME(7)}),
     CONV_ATTR},
    {0}};

const nc_card nc_card_conv_integer = {.name = "ConvInteger",
                                      .doc = "Convolution of x - x_zero_point with w - w_zero_point in int32.",
                                      .versions = integer_versions,
                                      .infer = integer_infer,
                                      .decompose = integer_decompose,
                                      .zero_grad = true};
const nc_card nc_card_conv_integer_to_float = {.name = "ConvIntegerToFloat",
                                               .domain = "nacre",
                                               .doc = "ConvInteger with channels last, its sums times a scale, plus a "
                                                      "bias, within bounds.",
                                               .versions = to_float_versions,
                                               .infer = to_float_infer,
                                               .decompose = to_float_decompose,
                                               .no_grad = NC_LOWERED_NO_GRAD};
const nc_card nc_card_qlinear_conv = {.name = "QLinearConv",
                                      .doc = "Convolution of quantized x and w plus a bias, quantized again.",
                                      .versions = linear_versions,
                                      .infer = linear_infer,
                                      .decompose = linear_decompose,
                                      .traits = NC_ENCODES,
                                      .no_grad = NC_QLINEAR_NO_GRAD};
const nc_card nc_card_qlinear_conv_add = {.name = "QLinearConvAdd",
                                          .domain = "nacre",
                                          .doc = "QLinearConv with channels last, its codes added to others.",
                                          .versions = sum_versions,
                                          .infer = sum_infer,
                                          .decompose = sum_decompose,
                                          .no_grad = NC_LOWERED_NO_GRAD};
