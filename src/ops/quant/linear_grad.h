/* ops/quant/linear_grad.h: gradients of quantizing and back, for the cards in linear.c. */
#ifndef NC_OPS_QUANT_LINEAR_GRAD_H
#define NC_OPS_QUANT_LINEAR_GRAD_H

#include "ir/card.h"

NC_MUST nc_code nc_quantize_grad(nc_grad *g);
NC_MUST nc_code nc_dequantize_grad(nc_grad *g);
NC_MUST nc_code nc_dynamic_quantize_grad(nc_grad *g);

#endif
