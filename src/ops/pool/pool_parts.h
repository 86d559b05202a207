/* ops/pool/pool_parts.h: gradients of pools as what ONNX has. */
#ifndef NC_OPS_POOL_POOL_PARTS_H
#define NC_OPS_POOL_POOL_PARTS_H

#include "ops/build.h"

NC_MUST nc_code nc_average_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out);

#endif
