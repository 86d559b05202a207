/* kernels/cpu/attn/attn_grad.h: the gradient of attention (attn.h) by Q, K and V. Nothing is kept of the forward pass:
 * the shares of some queries with all keys are computed once more, P = softmax(softcap(scale Q K') + bias), then
 *   dV += P' dY,  dS = P * (dY V' - rowsum(P * dY V')) * slope of softcap,  dQ = scale dS K,  dK += scale dS' Q.
 * Accumulation: in the element type, queries in order; bits depend on sizes, not on threads. */
#ifndef NCK_ATTN_GRAD_H
#define NCK_ATTN_GRAD_H

#include "kernels/cpu/attn/attn.h"

typedef struct nck_attn_grad_args {
    nck_attn_args a;                 /* y, qk and sink are not read */
    nck_attn_operand dy, dq, dk, dv; /* shaped as y, q, k, v; results NULL: not wanted, else columns side by side */
} nck_attn_grad_args;

/* Grows with each size. */
size_t nck_attn_grad_workspace(nc_dtype type, int64_t B, int64_t Hkv, int64_t S, int64_t T, int64_t D, int64_t Dv);
void nck_attn_grad(const nck_attn_grad_args *g, void *workspace, nc_pool *pool);

/* One query at a time in double, from the shares in a.qk, as nck_attn_ref shows them. All operands are dense in the
 * order (B,H,rows,columns) but may be read with other strides; rows is scratch of 2 T. */
void nck_attn_grad_ref(const nck_attn_grad_args *g, double *rows);

#endif
