/* ops/quant/quant.h: what the files of the quant family share. Cards are in linear.c, qmatmul.c and qconv.c; their
 * kernels in the *_cpu.c of the same name; quant_cpu.c lists the bindings. */
#ifndef NC_OPS_QUANT_QUANT_H
#define NC_OPS_QUANT_QUANT_H

#include "kernels/cpu/quant/linear.h"
#include "ops/binding.h"
#include "ops/card.h"

#define T_BYTE (NC_BIT(NC_INT8) | NC_BIT(NC_UINT8))

NC_MUST nc_code nc_quantize_prepare(nc_prep *p);
size_t nc_quantize_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_quantize_run(const nc_call *c);
NC_MUST nc_code nc_dequantize_run(const nc_call *c);
NC_MUST nc_code nc_dynamic_quantize_run(const nc_call *c);
NC_MUST nc_code nc_map_codes_prepare(nc_prep *p);
NC_MUST nc_code nc_map_codes_run(const nc_call *c);
NC_MUST nc_code nc_at_zero_check(const nc_call *c); /* the sizes of its operands */
NC_MUST nc_code nc_at_zero_run(const nc_call *c);

/* Rows of nc_qmatmul_prepare and nc_qconv_prepare: sums as they are, or quantized again. Of the latter also:
 * quantized again, where an attribute may put channels last, the same added to other codes, and as numbers, both with
 * channels last; of the former: as numbers, the same of an A that is numbers itself, and Gemm's, as numbers or
 * quantized again. */
typedef enum nc_quant_row {
    NC_QUANT_INTEGER,
    NC_QUANT_LINEAR,
    NC_QUANT_LINEAR_LAST,
    NC_QUANT_LINEAR_SUM,
    NC_QUANT_TO_FLOAT,
    NC_QUANT_DYNAMIC,
    NC_QUANT_GEMM
} nc_quant_row;

bool nc_matmul_integer_fits(const nc_node *n, const char **why);
bool nc_qlinear_matmul_fits(const nc_node *n, const char **why);
bool nc_matmul_to_float_fits(const nc_node *n, const char **why);
bool nc_qgemm_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_qmatmul_prepare(nc_prep *p);
size_t nc_qmatmul_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_qmatmul_run(const nc_call *c);

bool nc_conv_integer_fits(const nc_node *n, const char **why);
bool nc_qlinear_conv_fits(const nc_node *n, const char **why);
bool nc_qlinear_conv_add_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_qconv_prepare(nc_prep *p);
size_t nc_qconv_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_qconv_run(const nc_call *c);

nck_codes nc_quant_codes(const nc_call *c, nc_dtype type, int scale); /* of inputs scale and scale + 1 */
bool nc_qadd_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_qadd_run(const nc_call *c);

bool nc_qpool_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_qpool_prepare(nc_prep *p);
NC_MUST nc_code nc_qpool_run(const nc_call *c);

/* Why ops on codes alone have no gradient by their scales. */
#define NC_QLINEAR_NO_GRAD \
    "it computes on codes; QuantizeLinear and DequantizeLinear around the op that it stands for have one"

/* linear_parts.c: QuantizeLinear and DequantizeLinear in simple ops. */
NC_MUST nc_code nc_dynamic_quantize_decompose(nc_builder *b, const nc_node *n, nc_value **out);
NC_MUST nc_code nc_quantize_decompose(nc_builder *b, const nc_node *n, nc_value **out);
NC_MUST nc_code nc_dequantize_decompose(nc_builder *b, const nc_node *n, nc_value **out);

/* ---- sums of codes in simple ops, for devices that have no kernel for them: exact, since doubles hold them ---- */

/* x - zero as doubles; zero NULL: 0. shape: what a zero of several numbers is reshaped to, n numbers; n 0: as it is. */
nc_value *nc_quant_code(nc_builder *b, nc_value *x, nc_value *zero, const int64_t *shape, int n);
/* v, reshaped where it holds more than one number. */
nc_value *nc_quant_spread(nc_builder *b, nc_value *v, const int64_t *shape, int n);

#endif
