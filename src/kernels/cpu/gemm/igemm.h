/* kernels/cpu/gemm/igemm.h: (A - za) (M,K) times (B - zb) (K,N) of 8-bit integers, summed in int32, which wraps; stored
 * as they are, as numbers, or quantized again, while a tile of them is in the cache.
 *
 * The sums are exact on every ISA, so neither cuts nor threads nor ISA show in them. za is one number or one per row,
 * zb one or one per column. C overlaps neither A nor B; workspace and packed B are 64-byte aligned, A and B need no
 * alignment. A may be given by a function instead: convolutions read their patches so (quant/qconv.c). */
#ifndef NCK_IGEMM_H
#define NCK_IGEMM_H

#include "base/dtype.h"
#include "base/threads.h"

/* rows[r*step + k] = A[i + r][k] for all K terms and n rows. */
typedef void nck_igemm_rows(const void *ctx, int64_t i, int64_t n, int64_t step, uint8_t *rows);

/* What becomes of the sum s of row i and column j, with s' = s + sum_bias[j], a = a_scale[i % a_scales] and
 * b = b_scale[j % b_scales]:
 * NC_INT32: s'. NC_FLOAT: s' * (a * b) + bias[j], in f32, with `clamps` no less than low and no more than high; with
 * `adds`, which goes with c_cs 1 and no bias, that is added to what C holds.
 * NC_UINT8, NC_INT8: s' * (a * b / y_scale), in f32, rounded to nearest even, plus y_zero, saturated; NaN counts as 0.
 */
typedef struct nck_igemm_out {
    nc_dtype type;
    void *c; /* (M,N) */
    int64_t c_rs, c_cs;
    const int32_t *sum_bias; /* (N), NULL: none */
    const float *a_scale, *b_scale;
    int64_t a_scales, b_scales;
    const float *bias; /* (N), NULL: none */
    bool clamps, adds;
    float low, high;
    float y_scale;
    int y_zero;
} nck_igemm_out;

typedef struct nck_igemm_args {
    int64_t M, N, K;
    nc_dtype a_type, b_type; /* NC_INT8 or NC_UINT8 */
    const void *a;           /* (M,K) */
    int64_t a_rs, a_cs;
    nck_igemm_rows *rows; /* NULL: a is read */
    const void *rows_ctx;
    const void *a_zero; /* of a_type; row i has a_zero[i % a_zeros]; NULL: 0 */
    int64_t a_zeros;
    const void *b; /* (K,N); not read when b_packed is given */
    int64_t b_rs, b_cs;
    const void *b_packed; /* from nck_igemm_pack_b, else NULL */
    const void *b_zero;   /* of b_type; column j has b_zero[j % b_zeros]; NULL: 0 */
    int64_t b_zeros;
    nck_igemm_out out;
} nck_igemm_args;

/* Grows with each size. `by_rows`: A comes from a function. */
size_t nck_igemm_workspace(int64_t M, int64_t N, int64_t K, bool b_packed, bool by_rows);
void nck_igemm(const nck_igemm_args *g, void *workspace, nc_pool *pool);

/* For callers with a parallel loop of their own: the most rows worth doing together, the room that one thread needs,
 * columns of a panel, and the product of rows [i, i + n) with panels [p, end) of columns; B is packed. */
int64_t nck_igemm_block_rows(const nck_igemm_args *g);
size_t nck_igemm_block_bytes(int64_t K, bool by_rows);
int64_t nck_igemm_panel(void);
void nck_igemm_block(const nck_igemm_args *g, int64_t i, int64_t n, int64_t p, int64_t end, void *room);

/* The packed form belongs to the ISA in use; it is not a file format. It has the sums of columns too. */
size_t nck_igemm_packed_b_bytes(int64_t K, int64_t N);
void nck_igemm_pack_b(nc_dtype type, int64_t K, int64_t N, const void *b, int64_t rs, int64_t cs, void *dst,
                      nc_pool *pool);

/* Three loops in int64. Reads a and b. */
void nck_igemm_ref(const nck_igemm_args *g);

#endif
