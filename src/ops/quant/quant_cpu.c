/* ops/quant/quant_cpu.c: CPU bindings of the quant family. */
#include "ops/quant/quant.h"

#define LINEAR .prepare = nc_quantize_prepare, .workspace = nc_quantize_workspace
#define MATMUL                                                                                                  \
    .types = T_BYTE, .fits = nc_qmatmul_fits, .prepare = nc_qmatmul_prepare, .workspace = nc_qmatmul_workspace, \
    .run = nc_qmatmul_run
#define CONV .fits = nc_qconv_fits, .prepare = nc_qconv_prepare, .workspace = nc_qconv_workspace, .run = nc_qconv_run

const nc_binding nc_quant_cpu[] = {{.op = "QuantizeLinear", LINEAR, .run = nc_quantize_run},
                                   {.op = "DequantizeLinear", LINEAR, .run = nc_dequantize_run},
                                   {.op = "DynamicQuantizeLinear", .run = nc_dynamic_quantize_run},
                                   {.op = "MatMulInteger", MATMUL},
                                   {.op = "QLinearMatMul", MATMUL},
                                   {.op = "ConvInteger", CONV},
                                   {.op = "QLinearConv", CONV},
                                   {0}};
