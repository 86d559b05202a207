/* kernels/cpu/gemm/igemm_kernel.h: what igemm.simd.c gives igemm.c, one table per ISA.
 *
 * A panel holds its terms in groups: for each group the lanes side by side, each with its `group` terms, so that a dot
 * product of a few terms (one instruction) finds them together. Terms and lanes past the edge are 0. An example: 5
 * terms of 2 lanes in groups of 4 are
 *     a00 a01 a02 a03  a10 a11 a12 a13    a04 0 0 0  a14 0 0 0
 * B is packed as int8, A as int8 or uint8 (a_signed); elements of the other kind are moved by 128, and so is their zero
 * point.
 *
 * Instructions that add neighbouring products in int16 are exact only if |b0| + |b1| is at most pair_limit. Packing
 * finds for each block of NCK_IGEMM_BLOCK terms of a panel whether that holds; where it does not the micro-kernel takes
 * a slower way. */
#ifndef NCK_IGEMM_KERNEL_H
#define NCK_IGEMM_KERNEL_H

#include "kernels/cpu/gemm/igemm.h"

#define NCK_IGEMM_BLOCK 64
#define NCK_IGEMM_MAX_MR 12
#define NCK_IGEMM_MAX_NR 32
#define NCK_IGEMM_MAX_GROUP 8
#define NCK_IGEMM_PLACES 4
#define NCK_IGEMM_OVERREAD 64 /* bytes behind a panel that a kernel may read or packing may write */

/* acc[r*nr + j] = sum over the groups of row r of a times column j of b. exact[k]: of block k. */
typedef void nck_igemm_micro(int64_t groups, const uint8_t *a, const int8_t *b, const uint8_t *exact, int32_t *acc);
/* A panel of K terms of `lanes` lanes, `width` apart: elements src[l*ls + k*ks] with flip's bits turned over. */
typedef void nck_igemm_pack(int64_t K, int64_t lanes, int64_t width, const uint8_t *src, int64_t ls, int64_t ks,
                            uint8_t flip, uint8_t *dst);
/* sums[l] = the sum of lane l of a panel of A's (a) or B's kind. */
typedef void nck_igemm_sums(int64_t groups, int64_t width, const uint8_t *panel, bool a, int32_t *sums);

/* acc[r*nr + j] = sum over t of at[r*taps + t][c + j] * b[t*ld + j]: elements by elements, as depthwise convolutions
 * have them, for at most NCK_IGEMM_PLACES rows. nr bytes of each are read; b has at most 9 bits. */
typedef void nck_igemm_taps(int rows, int64_t taps, const uint8_t *const *at, int64_t c, bool is_signed,
                            const int32_t *b, int64_t ld, int32_t *acc);

/* rows x cols sums from (i, j) on: acc - a_zero[r] * b_sum[j] - a_rest[r] * b_zero[j], then what out says. */
typedef struct nck_igemm_tile {
    const int32_t *acc; /* (rows, nr) */
    int64_t rows, cols, i, j;
    bool shifted;                   /* else the zero points are 0 and the four below are not read */
    const int32_t *a_zero, *a_rest; /* (rows) */
    const int32_t *b_sum, *b_zero;  /* (nr) */
    const nck_igemm_out *out;
} nck_igemm_tile;
typedef void nck_igemm_store(const nck_igemm_tile *t);

typedef struct nck_igemm_table {
    int mr, nr, group;
    bool a_signed;
    int pair_limit;                               /* 256: always exact */
    nck_igemm_micro *micro[NCK_IGEMM_MAX_MR + 1]; /* by rows, 1..mr */
    nck_igemm_pack *pack;
    nck_igemm_sums *sums;
    nck_igemm_taps *taps;
    nck_igemm_store *store;
} nck_igemm_table;

#endif
