/* kernels/cpu/quant/nbits.h: Y (M,N) = A (M,K) W' + bias, W (N,K) stored as codes of 2, 4 or 8 bits in blocks along K,
 * each with a scale and a zero point. f32; W is never held as numbers. Codes are multiplied as they are (nbits.simd.c),
 * with few rows of A as numbers, with any number of rows where A may be rounded; else tiles of some rows of W are made
 * numbers in the workspace and multiplied there, as in kernels/cpu/gemm (nbits_tiles.c).
 *
 * Constant codes, scales and zero points are packed into panels once (nbits_pack.c); others panel by panel in a run. */
#ifndef NCK_NBITS_H
#define NCK_NBITS_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nck_nbits {
    int64_t N, K, block; /* blocks of `block` codes, at least 16; the last of a row may reach past K */
    int bits;
    const uint8_t *codes;      /* (N, blocks, block * bits / 8): low bits first */
    const float *scales;       /* (N, blocks) */
    const uint8_t *zeros;      /* (N, bytes): packed as codes are, rows on whole bytes; NULL: see below */
    const float *float_zeros;  /* (N, blocks); both NULL: the middle, 2^(bits-1) */
    const int32_t *group_of_k; /* (K): which block's scale and zero point count; NULL: its own */
    bool rounds;               /* A may be rounded to 8-bit codes, block by block, with the largest as 127 */
    bool packed;               /* codes, scales and zero points are panels; not with group_of_k */
} nck_nbits;

/* Panels belong to the ISA in use. Sources need no alignment. */
size_t nck_nbits_codes_bytes(const nck_nbits *w);
size_t nck_nbits_scales_bytes(const nck_nbits *w); /* of float zero points too */
size_t nck_nbits_zeros_bytes(const nck_nbits *w);
void nck_nbits_pack_codes(const nck_nbits *w, const void *codes, void *dst);
void nck_nbits_pack_scales(const nck_nbits *w, const void *scales, void *dst);
void nck_nbits_pack_zeros(const nck_nbits *w, const void *zeros, void *dst);

/* Reads sizes and `rounds`. */
size_t nck_nbits_workspace(const nck_nbits *w, int64_t M);
/* a (M,K) and y (M,N) dense; bias (N) or NULL. */
void nck_nbits_matmul(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y, void *workspace,
                      nc_pool *pool);

/* One element at a time, sums in double; not packed. */
void nck_nbits_matmul_ref(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y);

#endif
