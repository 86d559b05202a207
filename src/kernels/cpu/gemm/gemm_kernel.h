/* kernels/cpu/gemm/gemm_kernel.h: what gemm.simd.c gives gemm.c, one table per ISA.
 * A micro-kernel multiplies one packed panel of A with one panel of B into a small row-major tile; a store adds that
 * tile to C. Both are told sizes only; blocking and threads are gemm.c's. */
#ifndef NCK_GEMM_KERNEL_H
#define NCK_GEMM_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#define NCK_GEMM_MAX_MR 16
#define NCK_GEMM_MAX_TILE 512 /* elements of the largest tile, mr * nr */

/* acc[r*nr + j] = sum over k of a[k*mr + r] * b[k*ldb + j], for the rows the kernel is made for and all nr columns. */
typedef void nck_gemm_micro(int64_t kc, const void *a, const void *b, int64_t ldb, void *acc);
/* acc[j] = sum over k of a[k*mr] * b[k*ldb + j] for n columns, a multiple of nr. */
typedef void nck_gemm_band(int64_t kc, const void *a, const void *b, int64_t ldb, int64_t n, void *acc);

typedef struct nck_gemm_out {
    const void *acc; /* (rows, nr) */
    int64_t rows, cols;
    void *c;
    int64_t c_rs, c_cs;
    const void *bias; /* NULL: none */
    int64_t bias_rs, bias_cs;
    double alpha, beta;
    bool first; /* the first cut of K: C takes part by beta only; later cuts add to C */
    bool last;  /* the last cut: bias is added */
} nck_gemm_out;
typedef void nck_gemm_store(const nck_gemm_out *o);

typedef struct nck_gemm_unit {
    int mr, nr;
    nck_gemm_micro *micro[NCK_GEMM_MAX_MR + 1]; /* by rows, 1..mr */
    nck_gemm_band *band;
    nck_gemm_store *store;
} nck_gemm_unit;

typedef struct nck_gemm_table {
    nck_gemm_unit f32, f64;
} nck_gemm_table;

#endif
