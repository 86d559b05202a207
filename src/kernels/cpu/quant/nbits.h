/* kernels/cpu/quant/nbits.h: Y (M,N) = A (M,K) W' + bias, W (N,K) stored as codes of 2, 4 or 8 bits in blocks along K,
 * each with a scale and a zero point. f32; W is never held as numbers. With few rows of A, 4 bits and blocks of 32 or
 * more, codes are multiplied as they lie in memory (nbits_stream.c), with sums in float as nbits.simd.c says; else
 * tiles of NCK_NBITS_ROWS rows of W are made numbers in the workspace and multiplied there, as in kernels/cpu/gemm. */
#ifndef NCK_NBITS_H
#define NCK_NBITS_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCK_NBITS_ROWS 32

typedef struct nck_nbits {
    int64_t N, K, block; /* blocks of `block` codes; the last of a row may reach past K */
    int bits;
    const uint8_t *codes;      /* (N, blocks, block * bits / 8): low bits first */
    const float *scales;       /* (N, blocks) */
    const uint8_t *zeros;      /* (N, bytes): packed as codes are, rows on whole bytes; NULL: see below */
    const float *float_zeros;  /* (N, blocks); both NULL: the middle, 2^(bits-1) */
    const int32_t *group_of_k; /* (K): which block's scale and zero point count; NULL: its own */
    bool rounds;               /* A may be rounded to 8-bit codes, block by block, with the largest as 127 */
} nck_nbits;

/* Row n of W: K numbers. */
void nck_nbits_row(const nck_nbits *w, int64_t n, float *y);

size_t nck_nbits_workspace(int64_t M, int64_t N, int64_t K);
/* a (M,K) and y (M,N) dense; bias (N) or NULL. */
void nck_nbits_matmul(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, void *workspace,
                      nc_pool *pool);

/* What streaming needs and takes: false, and nothing is done, where it does not serve (see above; A with an infinity or
 * NaN too, which a zero point may not meet). */
size_t nck_nbits_stream_workspace(int64_t M, int64_t K);
bool nck_nbits_stream(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, void *workspace,
                      nc_pool *pool);

/* One element at a time, sums in double. */
void nck_nbits_matmul_ref(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y);

#endif
