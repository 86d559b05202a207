/* ops/matmul/pack.h: the right operand of a matrix product as packed panels, when it is a constant matrix. */
#ifndef NC_OPS_MATMUL_PACK_H
#define NC_OPS_MATMUL_PACK_H

#include "kernels/cpu/gemm/gemm.h"
#include "ops/binding.h"
#include "ops/matmul/after.h"

typedef struct nc_gemm_state {
    bool packed;           /* call->packed[0] holds B */
    bool turned;           /* B is the transpose of the constant that is packed */
    bool trans_a, trans_b; /* Gemm */
    double alpha, beta;    /* Gemm */
    const nc_product_body *body;
} nc_gemm_state;

/* For ops/widen.h: the product takes A and B in half precision as they lie; the rest of it is f32. */
enum { NC_GEMM_LEFT = 1u << 0 | 1u << 1 };

/* Asks for B (input 1) in packed form where it is a constant matrix of floats with elements, one made of codes
 * (nc_pack_source), or the transpose of one, which is packed from where it lies, and notes it in s. s->trans_b must be
 * set. */
NC_MUST nc_code nc_gemm_ask_pack(nc_prep *p, nc_gemm_state *s);

#endif
