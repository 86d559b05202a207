/* ops/quant/quant_cuda.c: the quant family has no GPU kernels; its nodes run on the host. */
#include "ops/quant/quant.h"

const nc_binding nc_quant_cuda[] = {{0}};
