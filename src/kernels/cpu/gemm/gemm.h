/* kernels/cpu/gemm/gemm.h: C (M,N) = alpha * A (M,K) * B (K,N) + beta * C + bias, in f32 or f64, over any strides; A
 * and B may also be f16 or bf16, with C and the bias in f32.
 *
 * Accumulation: in C's type, by fused multiply-add in the order of k, K cut into even parts of at most NCK_GEMM_KC
 * terms and the cuts joined through C. So the bits of an element depend only on its row, its column and K: not on
 * threads, packing, ISA or the size of the rest. bf16 alone is an exception where the processor has instructions for
 * it, which add in an order and with a rounding of their own and take denormals as 0 (docs/numerics.md): the ISA shows
 * then. beta == 0 does not read C; K == 0 gives beta * C + bias. C overlaps neither A, B nor bias. Workspace and packed
 * B are 64-byte aligned; A and B need no alignment at all. */
#ifndef NCK_GEMM_H
#define NCK_GEMM_H

#include "base/dtype.h"
#include "base/threads.h"
#include "kernels/cpu/tile.h"

/* A panel of B and one of A share the first cache: with tiles of 8 by 12 and 64 KiB, 512 terms leave it some room. */
#ifdef __aarch64__
#define NCK_GEMM_KC 512
#else
#define NCK_GEMM_KC 768
#endif

#define NCK_GEMM_AFTER_IN 12

/* Element formulas done to C when its sums are complete, tile by tile while they are in the cache: f32, C by rows. */
typedef struct nck_gemm_operand {
    const float *data; /* not C's memory */
    int64_t rs, cs;    /* a stride of 0 spreads a row, a column or a scalar; cs is 0 or 1 */
} nck_gemm_operand;
typedef struct nck_gemm_after {
    const nck_tile_prog *prog; /* as nck_tile_run_flat takes it; input 0 is C */
    nck_gemm_operand in[NCK_GEMM_AFTER_IN];
} nck_gemm_after;

typedef struct nck_gemm_args {
    nc_dtype type; /* of A and B: NC_FLOAT, NC_DOUBLE, NC_FLOAT16, NC_BFLOAT16; of halves C and the bias are NC_FLOAT */
    int64_t M, N, K;
    double alpha, beta;
    const void *a; /* (M,K) */
    int64_t a_rs, a_cs;
    const void *b; /* (K,N); not read when b_packed is given */
    int64_t b_rs, b_cs;
    const void *b_packed; /* from nck_gemm_pack_b, else NULL; it may have more columns, and */
    int64_t b_packed_k;   /* so many rows, of which the first K are taken; 0: K */
    void *c;              /* (M,N) */
    int64_t c_rs, c_cs;
    const void *bias; /* NULL: none; strides of 0 spread a row, a column or a scalar */
    int64_t bias_rs, bias_cs;
    const nck_gemm_after *after; /* NULL: none */
} nck_gemm_args;

/* Grows with each of M, N, K; never shrinks when one grows. */
size_t nck_gemm_workspace(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed);
void nck_gemm(const nck_gemm_args *g, void *workspace, nc_pool *pool);
/* What is enough without a pool. */
size_t nck_gemm_workspace_serial(nc_dtype type, int64_t M, int64_t N, int64_t K, bool b_packed);

/* nck_gemm, and for integers of 32 and 64 bits c = alpha a b + beta c, wrapping, by plain loops without workspace;
 * alpha and beta are cut to integers, b_packed and bias are for floats alone. */
void nck_gemm_any(const nck_gemm_args *g, void *workspace, nc_pool *pool);

/* The packed form belongs to the ISA in use; it is not a file format. Columns of floats and doubles from j on, a
 * multiple of nck_gemm_columns, begin with its element j * K. */
int64_t nck_gemm_columns(nc_dtype type);
enum { NCK_GEMM_SIDE = 4 }; /* so many times those columns are multiplied side by side where there is one row */
size_t nck_gemm_packed_b_bytes(nc_dtype type, int64_t K, int64_t N);
void nck_gemm_pack_b(nc_dtype type, int64_t K, int64_t N, const void *b, int64_t rs, int64_t cs, void *dst);

/* Three loops, accumulating in double. Ignores b_packed and after. */
void nck_gemm_ref(const nck_gemm_args *g);

#endif
