/* ops/quant/quant_cuda.c: CUDA bindings of the quant family: products with weights of few bits. The others run as what
 * their cards are made of, or on the host. */
#include "ops/quant/quant.h"

#include "ops/contrib.h"
#include "ops/quant/nbits.h"

const nc_binding nc_quant_cuda[] = {{.op = "MatMulNBits",
                                     .domain = NC_MICROSOFT,
                                     .fits = nc_nbits_cuda_fits,
                                     .prepare = nc_nbits_cuda_prepare,
                                     .workspace = nc_nbits_cuda_workspace,
                                     .run = nc_nbits_cuda_run},
                                    {.op = "MatMulBnb4",
                                     .domain = NC_MICROSOFT,
                                     .fits = nc_bnb4_cuda_fits,
                                     .prepare = nc_bnb4_cuda_prepare,
                                     .workspace = nc_nbits_cuda_workspace,
                                     .run = nc_bnb4_cuda_run},
                                    {0}};
