/* ops/quant/quant_cpu.c: CPU bindings of the quant family. */
#include "ops/quant/quant.h"

#include "ops/contrib.h"
#include "ops/quant/nbits.h"

#define LINEAR .prepare = nc_quantize_prepare, .workspace = nc_quantize_workspace
#define MATMUL .prepare = nc_qmatmul_prepare, .workspace = nc_qmatmul_workspace, .run = nc_qmatmul_run
#define CONV .prepare = nc_qconv_prepare, .workspace = nc_qconv_workspace, .run = nc_qconv_run
#define ROW(kind) \
    .own = &(const nc_quant_row) { kind }

const nc_binding nc_quant_cpu[] = {
    {.op = "QuantizeLinear", LINEAR, .run = nc_quantize_run},
    {.op = "DequantizeLinear", LINEAR, .run = nc_dequantize_run},
    {.op = "DynamicQuantizeLinear", .run = nc_dynamic_quantize_run},
    {.op = "AtZero", .domain = "nacre", .run = nc_at_zero_run},
    {.op = "MatMulInteger", ROW(NC_QUANT_INTEGER), .types = T_BYTE, .fits = nc_matmul_integer_fits, MATMUL},
    {.op = "QLinearMatMul", ROW(NC_QUANT_LINEAR), .types = T_BYTE, .fits = nc_qlinear_matmul_fits, MATMUL},
    {.op = "MatMulIntegerToFloat",
     .domain = NC_MICROSOFT,
     ROW(NC_QUANT_TO_FLOAT),
     .fits = nc_matmul_to_float_fits,
     MATMUL},
    {.op = "DynamicQuantizeMatMul", .domain = NC_MICROSOFT, ROW(NC_QUANT_DYNAMIC), MATMUL},
    {.op = "QGemm", .domain = NC_MICROSOFT, ROW(NC_QUANT_GEMM), .fits = nc_qgemm_fits, MATMUL},
    {.op = "ConvInteger", ROW(NC_QUANT_INTEGER), .fits = nc_conv_integer_fits, CONV},
    {.op = "ConvIntegerToFloat", .domain = "nacre", ROW(NC_QUANT_TO_FLOAT), .fits = nc_conv_integer_fits, CONV},
    {.op = "QLinearConv", ROW(NC_QUANT_LINEAR), .fits = nc_qlinear_conv_fits, CONV},
    {.op = "QLinearConv", .domain = NC_MICROSOFT, ROW(NC_QUANT_LINEAR_LAST), .fits = nc_qlinear_conv_fits, CONV},
    {.op = "QLinearConvAdd", .domain = "nacre", ROW(NC_QUANT_LINEAR_SUM), .fits = nc_qlinear_conv_add_fits, CONV},
    {.op = "MapCodes", .domain = "nacre", .prepare = nc_map_codes_prepare, .run = nc_map_codes_run},
    {.op = "QLinearAdd", .domain = NC_MICROSOFT, .fits = nc_qadd_fits, .run = nc_qadd_run},
    {.op = "NhwcMaxPool",
     .domain = NC_MICROSOFT,
     .types = T_BYTE,
     .fits = nc_qpool_fits,
     .prepare = nc_qpool_prepare,
     .run = nc_qpool_run},
    {.op = "MatMulNBits",
     .domain = NC_MICROSOFT,
     .fits = nc_nbits_fits,
     .prepare = nc_nbits_prepare,
     .workspace = nc_nbits_workspace,
     .run = nc_nbits_run},
    {.op = "GatherBlockQuantized",
     .domain = NC_MICROSOFT,
     .prepare = nc_gather_blocks_prepare,
     .run = nc_gather_blocks_run},
    {0}};
