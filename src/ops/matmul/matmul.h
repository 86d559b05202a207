/* ops/matmul/matmul.h: inference of MatMul and Gemm, for products whose result has another type or is fused. */
#ifndef NC_OPS_MATMUL_MATMUL_H
#define NC_OPS_MATMUL_MATMUL_H

#include "ir/card.h"

/* Output 0 as the matrix product of inputs 0 and 1, with elements of type elem. */
NC_MUST nc_code nc_matmul_infer_as(nc_infer *c, nc_dtype elem);

double nc_matmul_cost(const nc_node *n, const int64_t *const *in_dims);

/* Of nodes with Gemm's operands and attributes. */
#define NC_GEMM_ATTRS A_FLOAT("alpha", 1), A_FLOAT("beta", 1), A_INT("transA", 0), A_INT("transB", 0)
NC_MUST nc_code nc_gemm_infer(nc_infer *c);
double nc_gemm_cost(const nc_node *n, const int64_t *const *in_dims);

/* n is a product of two matrices and nothing else: MatMul, or Gemm without a third; which of them are read turned. */
bool nc_matmul_of_two(const nc_node *n, bool turned[2]);

/* The forms of both with element formulas behind them. */
extern const nc_card nc_card_matmul_chain, nc_card_gemm_chain;
/* A product with a bias, and GELU of it. */
extern const nc_card nc_card_matmul_gelu;
/* Several products of one A. */
extern const nc_card nc_card_matmul_group;
/* May such a node do the work of n, which makes its A: is it a norm of rows? n's inputs are then A and the scale. */
bool nc_matmul_group_takes(const nc_node *n);

#endif
