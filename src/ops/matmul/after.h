/* ops/matmul/after.h: element formulas that a product's kernel does to its result (plan/lower_epilogue.c), for MatMul
 * and Gemm on the CPU. */
#ifndef NC_OPS_MATMUL_AFTER_H
#define NC_OPS_MATMUL_AFTER_H

#include "kernels/cpu/gemm/gemm.h"
#include "ops/binding.h"
#include "ops/lane_prog.h"

typedef struct nc_product_body {
    nc_lane_prog lanes;
    nck_tile_prog prog;
    int first;          /* input of the node that is the body's input 1 */
    int bias;           /* input of the body that its first formula adds to the product; 0: none */
    nc_lane_prog rest;  /* the body without that */
    nck_tile_prog then;
} nc_product_body;

/* *out stays NULL for a node without a body. first: inputs of the op itself. */
NC_MUST nc_code nc_product_body_read(nc_prep *p, int first, const nc_product_body **out);
/* Sets what comes after g's sums: dense operands of the result's size, of its columns, or of one element. A row that is
 * added first is g's bias, where its kernels put sums on top of that. after: room, used where there is a body. */
void nc_product_after(const nc_product_body *b, const nc_call *c, nck_gemm_args *g, nck_gemm_after *after);

#endif
