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
#define SOFTMAX_PLACE(op_name, domain_name, logs, is_grad)                                                \
    .op = op_name, .domain = domain_name, .prepare = nc_softmax_prepare, .own = &(const nc_softmax_row) { \
        logs, is_grad                                                                                     \
    }
#define SOFTMAX(op_name, domain_name, name, logs, is_grad)               \
    {SOFTMAX_PLACE(op_name, domain_name, logs, is_grad), WIDE(name)}, {  \
        SOFTMAX_PLACE(op_name, domain_name, logs, is_grad), NARROW(name) \
    }
#define LOSS(op_name, domain_name, how, name)                              \
    {.op = op_name, .domain = domain_name, .prepare = how, WIDE(name)}, {  \
        .op = op_name, .domain = domain_name, .prepare = how, NARROW(name) \
    }
#define CONV_PLACE(op_name, domain_name, row, takes) \
    .op = op_name, .domain = domain_name, .fits = takes, .prepare = nc_conv_prepare, .own = &row
#define CONV(op_name, domain_name, row, takes, name)                                                  \
    {CONV_PLACE(op_name, domain_name, row, takes), .workspace = nc_##name##_workspace, WIDE(name)}, { \
        CONV_PLACE(op_name, domain_name, row, takes), NARROW(name)                                    \
    }

const nc_binding nc_nn_cpu[] = {
    SOFTMAX("Softmax", NULL, softmax, false, false),
    SOFTMAX("LogSoftmax", NULL, softmax, true, false),
    SOFTMAX("SoftmaxGrad", "nacre", softmax_grad, false, true),
    SOFTMAX("LogSoftmaxGrad", "nacre", softmax_grad, true, true),
    {.op = "Dropout", .fits = nc_dropout_fits, .run = nc_dropout_run},
    {.op = "DropoutGrad", .domain = "nacre", WIDE(dropout_grad)},
    {.op = "DropoutGrad", .domain = "nacre", NARROW(dropout_grad)},
    {.op = "SoftmaxCrossEntropyLoss", .prepare = nc_loss_prepare, .workspace = nc_loss_workspace, WIDE(loss)},
    {.op = "SoftmaxCrossEntropyLoss", .prepare = nc_loss_prepare, NARROW(loss)},
    LOSS("SoftmaxCrossEntropyLossGrad", "nacre", nc_loss_grad_prepare, loss_grad),
    {.op = "CrossEntropyBoth",
     .domain = "nacre",
     .prepare = nc_loss_grad_prepare,
     .workspace = nc_loss_both_workspace,
     WIDE(loss_both)},
    LOSS("NegativeLogLikelihoodLoss", NULL, nc_loss_prepare, nll),
    LOSS("NegativeLogLikelihoodLossGrad", "nacre", nc_loss_grad_prepare, nll_grad),
    CONV("Conv", NULL, nc_conv_plain, nc_conv_fits, conv),
    CONV("ConvGrad", "nacre", nc_conv_grad, nc_conv_grad_fits, conv_grad),
    {.op = "ConvGradBlocked",
     .domain = "nacre",
     .prepare = nc_conv_grad_blocked_prepare,
     .own = &nc_conv_grad,
     .workspace = nc_conv_grad_blocked_workspace,
     .run = nc_conv_grad_blocked_run},
    CONV("ConvTranspose", NULL, nc_conv_transposed, nc_conv_fits, conv_transpose),
    {.op = "ConvTransposeBlocked",
     .domain = "nacre",
     .prepare = nc_conv_transpose_blocked_prepare,
     .own = &nc_conv_transposed,
     .workspace = nc_conv_transpose_blocked_workspace,
     .run = nc_conv_transpose_blocked_run},
    CONV("ConvTransposeGrad", "nacre", nc_conv_transposed_grad, nc_conv_grad_fits, conv_transpose_grad),
    {.op = "Col2Im", .fits = nc_col2im_fits, .prepare = nc_col2im_prepare, WIDE(col2im)},
    {.op = "Col2Im", .fits = nc_col2im_fits, .prepare = nc_col2im_prepare, NARROW(col2im)},
    {.op = "DeformConvGrad",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),
     .prepare = nc_deform_prepare,
     .workspace = nc_deform_grad_workspace,
     .run = nc_deform_grad_run},
    {.op = "DeformConvGrad",
     .domain = "nacre",
     .types = NC_WIDEN_HALF,
     .prepare = nc_deform_prepare,
     .workspace = nc_deform_grad_half_workspace,
     .run = nc_deform_grad_half_run},
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
