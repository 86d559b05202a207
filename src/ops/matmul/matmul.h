/* ops/matmul/matmul.h: inference of MatMul and Gemm, for products whose result has another type or is fused. */
#ifndef NC_OPS_MATMUL_MATMUL_H
#define NC_OPS_MATMUL_MATMUL_H

#include "ir/card.h"

/* Output 0 as the matrix product of inputs 0 and 1, with elements of type elem. */
NC_MUST nc_code nc_matmul_infer_as(nc_infer *c, nc_dtype elem);

/* Of nodes with Gemm's operands and attributes. */
NC_MUST nc_code nc_gemm_infer(nc_infer *c);

#endif
