/* kernels/cpu/gemm/gemm_batch.h: many matrix products of one size: MatMul's batches, Einsum's steps. What one product
 * computes is gemm.h's; the bits of a result do not tell how many there were, nor how they were cut. Products of one
 * batch may not write the same elements.
 *
 * An example: A (8,1,5,7) times B (3,7,2) is 24 products of (5,7) by (7,2). The walk has the dims {8, 3}; its strides
 * are {35, 0} for A, {0, 14} for B and {30, 10} for C: A's matrix stays for three products, B's three come again and
 * again. */
#ifndef NCK_GEMM_BATCH_H
#define NCK_GEMM_BATCH_H

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/move/walk.h"

typedef struct nck_gemm_batch {
    nck_gemm_args one; /* the first product; b_packed serves all of them, and so does what `after` has but for operands
                             with rows, which lie as C does */
    const nck_walk *walk; /* from product to product: offsets of a, b and c */
} nck_gemm_batch;

/* Enough for n products to run side by side where one is small. Grows with each size. */
size_t nck_gemm_batch_workspace(nc_dtype type, int64_t n, int64_t M, int64_t N, int64_t K, bool b_packed);
/* `bytes`: of the workspace, at least what nck_gemm needs for one product; with less than the above the products follow
 * one another. */
void nck_gemm_batch_run(const nck_gemm_batch *b, void *workspace, size_t bytes, nc_pool *pool);

#endif
