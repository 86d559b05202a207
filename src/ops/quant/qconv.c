/* ops/quant/qconv.c: cards of ConvInteger and QLinearConv: convolutions of quantized elements. Attributes and sizes are
 * Conv's (ops/nn/conv.h); kernels are in qconv_cpu.c. */
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
static const nc_op_version linear_versions[] = {
    {.since = 10,
     IN({"x", T_BYTE}, {"x_scale", T_F32}, {"x_zero_point", SAME(0)}, {"w", T_BYTE}, {"w_scale", T_F32},
        {"w_zero_point", SAME(3)}, {"y_scale", T_F32}, {"y_zero_point", T_BYTE}, {"B", NC_BIT(NC_INT32), OPTIONAL}),
     OUT({"y", SAME(7)}),
     CONV_ATTR},
    {0}};

const nc_card nc_card_conv_integer = {.name = "ConvInteger",
                                      .doc = "Convolution of x - x_zero_point with w - w_zero_point in int32.",
                                      .versions = integer_versions,
                                      .infer = integer_infer,
                                      .zero_grad = true};
const nc_card nc_card_qlinear_conv = {.name = "QLinearConv",
                                      .doc = "Convolution of quantized x and w plus a bias, quantized again.",
                                      .versions = linear_versions,
                                      .infer = linear_infer,
                                      .traits = NC_ENCODES,
                                      .no_grad = NC_QLINEAR_NO_GRAD};
