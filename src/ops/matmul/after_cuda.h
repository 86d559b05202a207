/* ops/matmul/after_cuda.h: element formulas done to a product's result on CUDA (plan/lower_epilogue.c): by cuBLASLt
 * where they are a sum with a bias and another tensor and, for half types, the tanh form of GELU, or that form's
 * derivative; else by one generated kernel over the result. */
#ifndef NC_OPS_MATMUL_AFTER_CUDA_H
#define NC_OPS_MATMUL_AFTER_CUDA_H

#include "kernels/cuda/chain.h"
#include "kernels/cuda/gemm.h"
#include "ops/binding.h"

enum { NC_CUDA_BODY_SUMMANDS = 2 };

typedef struct nc_cuda_body {
    int first;                        /* input of the node that is the body's input 1 */
    int n_added;                      /* -1: not a sum that cuBLASLt may do */
    int added[NC_CUDA_BODY_SUMMANDS]; /* inputs of the node */
    bool gelu;
    int gelu_at; /* input of the node at which GELU's derivative is taken; 0: it is not */
    nck_cuda_chain chain;
} nc_cuda_body;

/* *out stays NULL for a node without a body. first: inputs of the op itself. */
NC_MUST nc_code nc_cuda_body_read(nc_prep *p, int first, const nc_cuda_body **out);
/* Puts the body into g, whose result lies dense; false: cuBLASLt cannot do it to these operands. */
bool nc_cuda_body_join(const nc_cuda_body *b, const nc_call *c, nck_cuda_gemm_args *g);
/* Does the body to the product in out[0]. */
NC_MUST nc_code nc_cuda_body_run(const nc_cuda_body *b, const nc_call *c);

#endif
