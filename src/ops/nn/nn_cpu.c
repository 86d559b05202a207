/* ops/nn/nn_cpu.c: CPU bindings of the nn family. Kernels take f32 and f64; float16 and bfloat16 go through f32
 * (ops/widen.h). */
#include "ops/nn/nn_cpu.h"

#include "ops/card.h"
#include "ops/widen.h"

#define HALF(name, workspace_fn) NC_WIDENED(name##_half, NC_WIDEN_HALF, nc_##name##_run, workspace_fn)
HALF(softmax, NULL)
HALF(softmax_grad, NULL)
HALF(dropout_grad, NULL)
HALF(loss, nc_loss_workspace)
HALF(loss_grad, NULL)
HALF(nll, NULL)
HALF(nll_grad, NULL)
HALF(conv, nc_conv_workspace)
HALF(conv_grad, nc_conv_grad_workspace)
HALF(conv_transpose, nc_conv_transpose_workspace)
HALF(col2im, NULL)
HALF(conv_transpose_grad, nc_conv_transpose_grad_workspace)

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define NARROW(name) .types = NC_WIDEN_HALF, .workspace = name##_half_workspace, .run = name##_half_run
#define WIDE(name) .types = T_WIDE, .run = nc_##name##_run
#define SOFTMAX(op_name, domain_name, name)                                               \
    {.op = op_name, .domain = domain_name, .prepare = nc_softmax_prepare, WIDE(name)}, {  \
        .op = op_name, .domain = domain_name, .prepare = nc_softmax_prepare, NARROW(name) \
    }
#define LOSS(op_name, domain_name, name)                                               \
    {.op = op_name, .domain = domain_name, .prepare = nc_loss_prepare, WIDE(name)}, {  \
        .op = op_name, .domain = domain_name, .prepare = nc_loss_prepare, NARROW(name) \
    }
#define CONV_PLACE(op_name, domain_name) \
    .op = op_name, .domain = domain_name, .fits = nc_conv_plain_fits, .prepare = nc_conv_prepare
#define CONV(op_name, domain_name, name)                                                  \
    {CONV_PLACE(op_name, domain_name), .workspace = nc_##name##_workspace, WIDE(name)}, { \
        CONV_PLACE(op_name, domain_name), NARROW(name)                                    \
    }

const nc_binding nc_nn_cpu[] = {
    SOFTMAX("Softmax", NULL, softmax),
    SOFTMAX("LogSoftmax", NULL, softmax),
    SOFTMAX("SoftmaxGrad", "nacre", softmax_grad),
    SOFTMAX("LogSoftmaxGrad", "nacre", softmax_grad),
    {.op = "Dropout", .fits = nc_dropout_fits, .run = nc_dropout_run},
    {.op = "DropoutGrad", .domain = "nacre", WIDE(dropout_grad)},
    {.op = "DropoutGrad", .domain = "nacre", NARROW(dropout_grad)},
    {.op = "SoftmaxCrossEntropyLoss", .prepare = nc_loss_prepare, .workspace = nc_loss_workspace, WIDE(loss)},
    {.op = "SoftmaxCrossEntropyLoss", .prepare = nc_loss_prepare, NARROW(loss)},
    LOSS("SoftmaxCrossEntropyLossGrad", "nacre", loss_grad),
    LOSS("NegativeLogLikelihoodLoss", NULL, nll),
    LOSS("NegativeLogLikelihoodLossGrad", "nacre", nll_grad),
    CONV("Conv", NULL, conv),
    CONV("ConvGrad", "nacre", conv_grad),
    CONV("ConvTranspose", NULL, conv_transpose),
    CONV("ConvTransposeGrad", "nacre", conv_transpose_grad),
    {.op = "Col2Im", .fits = nc_col2im_fits, .prepare = nc_col2im_prepare, WIDE(col2im)},
    {.op = "Col2Im", .fits = nc_col2im_fits, .prepare = nc_col2im_prepare, NARROW(col2im)},
    {.op = "DeformConv",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),
     .prepare = nc_deform_prepare,
     .workspace = nc_deform_workspace,
     .run = nc_deform_run},
    {.op = "DeformConv",
     .types = NC_WIDEN_HALF,
     .prepare = nc_deform_prepare,
     .workspace = nc_deform_half_workspace,
     .run = nc_deform_half_run},
    {.op = "ConvBlocked",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT),
     .fits = nc_conv_blocked_fits,
     .prepare = nc_conv_blocked_prepare,
     .workspace = nc_conv_blocked_workspace,
     .run = nc_conv_blocked_run},
    {0}};
