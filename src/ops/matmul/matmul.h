/* ops/matmul/matmul.h: MatMul's inference, for products whose result has another type. */
#ifndef NC_OPS_MATMUL_MATMUL_H
#define NC_OPS_MATMUL_MATMUL_H

#include "ir/card.h"

/* Output 0 as the matrix product of inputs 0 and 1, with elements of type elem. */
NC_MUST nc_code nc_matmul_infer_as(nc_infer *c, nc_dtype elem);

#endif
