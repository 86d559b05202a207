/* kernels/cpu/quant/nbits_kernel.h: what nbits.simd.c gives the products with weights of few bits, one table per ISA.
 *
 * Weights lie in panels of `lanes` rows of W, so that a vector has a few codes of each row: words of 4 bytes, as they
 * are in the model, one of each row side by side. Byte j of a word has 8 / bits codes, from its low bits on; so the
 * mask that takes one code out of each byte gives four terms that lie 8 / bits apart. A's elements lie in that order:
 * for each word first code 0 of its four bytes, then code 1 (nck_nbits_place). */
#ifndef NCK_NBITS_KERNEL_H
#define NCK_NBITS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { NCK_NBITS_LANES = 16, NCK_NBITS_TOGETHER = 4, NCK_NBITS_PIECE = 32 }; /* most lanes; most rows of A at a time */

typedef struct nck_nbits_panel {
    int64_t blocks, block; /* of a row of W; terms of each, at least 16 */
    int bits;
    const uint8_t *codes;    /* (blocks, block * bits / 32, lanes) words */
    const float *scale;      /* (blocks, lanes) */
    const uint8_t *zero;     /* (blocks, lanes); NULL: */
    const float *float_zero; /* (blocks, lanes); both NULL: the middle */
} nck_nbits_panel;

/* A row of A as numbers, or as codes: element = code * scale of its block. */
typedef struct nck_nbits_row {
    float *x, *sum; /* in the order above; (blocks) */
    int8_t *codes;
    float *scale; /* (blocks) */
    int32_t *code_sum;
} nck_nbits_row;

/* y[r*lanes + l] = row r of A times row l of the panel, for n <= NCK_NBITS_TOGETHER rows; of more than two y has room
 * for as many. */
typedef void nck_nbits_product(const nck_nbits_panel *p, const nck_nbits_row *rows, int n, float *y);

typedef struct nck_nbits_table {
    int lanes;
    nck_nbits_product *numbers, *codes; /* sums in f32; of codes a block's in int32 */
    /* y[k*ld + l]: the numbers that the first K terms of row l stand for. */
    void (*decode)(const nck_nbits_panel *p, int64_t K, float *y, int64_t ld);
    /* The largest |x| of n, and whether all are finite. */
    bool (*most)(const float *x, int64_t n, float *most);
    /* NCK_NBITS_PIECE codes y = x * by, rounded to nearest even, which is at most 127, in the order above; returns
     * their sum. */
    int32_t (*round)(const float *x, float by, int bits, int8_t *y);
} nck_nbits_table;

/* Where term k of a row of A lies. */
static inline int64_t nck_nbits_place(int64_t k, int bits) {
    int64_t per = 8 / bits, word = k / (4 * per), in = k % (4 * per);
    return word * 4 * per + in % per * 4 + in / per;
}

#endif
