/* kernels/cpu/quant/qgemm.h: C (M,N) = (A - za) (M,K) * (B - zb) (K,N) of 8-bit integers, accumulated in int32, which
 * wraps. Exact, so neither the cuts nor the number of threads show in the result.
 *
 * za is one number or one per row, zb one or one per column. B may be given by a function that writes panels instead:
 * convolutions read their patches so (qconv.c). C overlaps neither A nor B; the workspace is 64-byte aligned. */
#ifndef NCK_QUANT_QGEMM_H
#define NCK_QUANT_QGEMM_H

#include "base/dtype.h"
#include "base/threads.h"

enum { NCK_QGEMM_MR = 4, NCK_QGEMM_NR = 16 };

/* dst[k*NCK_QGEMM_NR + l] = (B - zb)[k0 + k][j0 + l] for k < kc, l < lanes; 0 for further lanes. */
typedef void nck_qgemm_panel(const void *ctx, int64_t k0, int64_t kc, int64_t j0, int64_t lanes, int16_t *dst);

typedef struct nck_qgemm_args {
    int64_t M, N, K;
    nc_dtype a_type, b_type; /* NC_INT8 or NC_UINT8 */
    const void *a;           /* (M,K) */
    int64_t a_rs, a_cs;
    const void *a_zero; /* of a_type; row i has a_zero[i % a_zeros]; NULL: 0 */
    int64_t a_zeros;
    const void *b; /* (K,N) */
    int64_t b_rs, b_cs;
    const void *b_zero; /* of b_type; column j has b_zero[j % b_zeros]; NULL: 0 */
    int64_t b_zeros;
    nck_qgemm_panel *panel; /* NULL: b is read */
    const void *panel_ctx;
    int32_t *c; /* (M,N), columns side by side */
    int64_t c_rs;
} nck_qgemm_args;

size_t nck_qgemm_workspace(int64_t M, int64_t N, int64_t K); /* grows with each */
void nck_qgemm(const nck_qgemm_args *g, void *workspace, nc_pool *pool);
void nck_qgemm_ref(const nck_qgemm_args *g); /* three loops; reads b */

#endif
