/* kernels/cpu/gemm/igemm_kernel.h: what igemm.simd.c gives igemm.c, one table per ISA.
 *
 * A panel holds its terms in groups: for each group the lanes side by side, each with its `group` terms, so that a dot
 * product of a few terms (one instruction) finds them together. Terms and lanes past the edge are 0. An example: 5
 * terms of 2 lanes in groups of 4 are
 *     a00 a01 a02 a03  a10 a11 a12 a13    a04 0 0 0  a14 0 0 0
 * Where `lay` is there, panels of A are rows as they lie, any bytes behind the last term; rows that need no change are
 * read in place. Where tiles are there, groups of B are 16 such small ones of 4 terms, and what a panel of A lacks of
 * mr rows is read and not used.
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
#define NCK_IGEMM_MAX_MR 32
#define NCK_IGEMM_MICROS 14 /* most rows of kernels that are made for a number of rows */
#define NCK_IGEMM_MAX_NR 32
#define NCK_IGEMM_PLACES 4
#define NCK_IGEMM_MAX_DEPTH 64 /* most channels of a depthwise convolution at a time */
#define NCK_IGEMM_OVERREAD 64  /* bytes behind a panel that a kernel may read or packing may write */

/* What is asked for meanwhile, where a kernel does so: `pace` bytes for each group, from `at` on. Weights that come
 * from memory are so there when their panel's turn is, without a burst that would hold up the loads. */
typedef struct nck_igemm_ahead {
    const int8_t *at;
    int64_t pace;
} nck_igemm_ahead;

/* acc[r*nr + j] = sum over the groups of row r of a times column j of b. step: from row to row of a, where they lie so.
 * exact[k]: of block k. */
typedef void nck_igemm_micro(int64_t groups, const uint8_t *a, int64_t step, const int8_t *b, const uint8_t *exact,
                             nck_igemm_ahead ahead, int32_t *acc);
/* The same of any number of rows, between a call of tiles_open and one of tiles_close. */
typedef void nck_igemm_tiles(int64_t rows, int64_t groups, const uint8_t *a, int64_t step, const int8_t *b,
                             int32_t *acc);
typedef void nck_igemm_turn(void);
/* A panel of K terms of `lanes` lanes, `width` apart: elements src[l*ls + k*ks] with flip's bits turned over. */
typedef void nck_igemm_pack(int64_t K, int64_t lanes, int64_t width, const uint8_t *src, int64_t ls, int64_t ks,
                            uint8_t flip, uint8_t *dst);
/* dst[r*step + k] = src[r*rs + k*cs] with flip's bits turned over; dst may be src. */
typedef void nck_igemm_lay(int64_t K, int64_t rows, const uint8_t *src, int64_t rs, int64_t cs, uint8_t flip,
                           int64_t step, uint8_t *dst);
/* sums[r] = the sum of row r of uint8. */
typedef void nck_igemm_row_sums(int64_t K, int64_t rows, const uint8_t *a, int64_t step, int32_t *sums);
/* sums[l] = the sum of lane l of a panel of A's (a) or B's kind. */
typedef void nck_igemm_sums(int64_t groups, int64_t width, const uint8_t *panel, bool a, int32_t *sums);

/* At least the largest sum of |b| over a column of a panel of B. */
typedef int32_t nck_igemm_most(int64_t groups, const int8_t *panel);

/* acc[r*nr + j] = sum over t of at[r*taps + t][c + j] * b[t*ld + j]: elements by elements, as depthwise convolutions
 * have them, for at most NCK_IGEMM_PLACES rows. nr bytes of each are read; b has at most 9 bits. */
typedef void nck_igemm_taps(int rows, int64_t taps, const uint8_t *const *at, int64_t c, bool is_signed,
                            const int32_t *b, int64_t ld, int32_t *acc);

/* What the rows of a panel of columns have in common, found once for all its tiles. */
typedef struct nck_igemm_columns {
    int32_t offset[NCK_IGEMM_MAX_NR]; /* sum_bias, less A's zero point times b_sum where it is one for all rows */
    float scale[NCK_IGEMM_MAX_NR];    /* that of the sums where A has one, else B's */
    float bias[NCK_IGEMM_MAX_NR];
    bool finite; /* all scales are */
    bool near;   /* sums with their offsets are less than 2^22 and, scaled, less than 2^15 with any zero point */
} nck_igemm_columns;
/* Columns [j, j + cols). a_zero: of all rows. most: no sum of products is larger. */
typedef void nck_igemm_read_columns(const nck_igemm_out *out, int64_t j, int64_t cols, int32_t a_zero, float most,
                                    const int32_t *b_sum, nck_igemm_columns *c);

/* rows x cols sums from (i, j) on: acc + offset - a_zero[r] * b_sum[j] - a_rest[r] * b_zero[j], then what out says. */
typedef struct nck_igemm_tile {
    const int32_t *acc; /* (rows, nr) */
    int64_t rows, cols, i, j;
    const int32_t *a_zero, *a_rest; /* (rows); NULL: nothing is taken off */
    const int32_t *b_sum, *b_zero;  /* (nr); read beside them */
    const nck_igemm_columns *columns;
    const nck_igemm_out *out;
} nck_igemm_tile;
typedef void nck_igemm_store(const nck_igemm_tile *t);

/* One row of sums of whole panels as numbers: y[j] = (acc[j] - zero * sum[j]) * (a * b[j]) + bias[j]. y may be bias. */
#define NCK_IGEMM_LINE 16 /* panels at a time */
typedef struct nck_igemm_line {
    const int32_t *acc, *sum;
    int64_t panels;
    int32_t zero;
    float a;
    const float *b;    /* one for all, or */
    bool each;         /* one for each column */
    const float *bias; /* NULL: none */
    float *y;
} nck_igemm_line;
typedef void nck_igemm_store_line(const nck_igemm_line *l);

/* Both at once, of all columns of a panel, near ones with one zero point for A and none for B; to: where the tile's
 * codes begin. */
typedef void nck_igemm_codes(int64_t groups, const uint8_t *a, const int8_t *b, const nck_igemm_columns *columns,
                             const nck_igemm_out *out, uint8_t *to);

/* How four taps of a channel are added: as pairs of neighbours, which are exact in int16 (see above); as dot products
 * of the lanes of 16 bytes that x86 shuffles in; as dot products of int8. Dots have no limit. */
typedef enum nck_depth_form { NCK_DEPTH_PAIRS, NCK_DEPTH_LANES, NCK_DEPTH_DOTS } nck_depth_form;

/* A depthwise convolution of codes quantized again: channels [c, c + cols), at most depth_width, of some places.
 * at[(r*next + q)*4 + t]: what tap t of quad q of place r sees. But for NCK_DEPTH_PAIRS, quads of windows of 3 x 3 with
 * strides of 1 and 2 are the window's columns, so that those of neighbouring places overlap; else next is quads. */
typedef struct nck_igemm_depth {
    int64_t quads, next, c, cols, ld; /* ld: from place to place of y */
    uint8_t flip;                     /* bits of x to turn over, so that it is uint8, for NCK_DEPTH_DOTS int8 */
    bool is_signed;                   /* y is */
    bool near;                        /* all sums are, see nck_igemm_columns */
    int zero;                         /* of y */
    const int8_t *w;                  /* (quads, 4 * depth_width), as nck_igemm_weave says */
    const int32_t *offset;            /* (depth_width), in the order of nck_igemm_sum_at */
    const float *scale;
} nck_igemm_depth;
typedef void nck_igemm_depthwise(const nck_igemm_depth *d, int64_t places, const uint8_t *const *at, uint8_t *y);

/* Where the sum of channel c stands. */
static inline int64_t nck_igemm_sum_at(nck_depth_form form, int64_t c, int64_t width) {
    if (form == NCK_DEPTH_DOTS) return c;
    return c % 16 / 4 * (width / 4) + c / 16 * 4 + c % 4;
}
/* Where the weight of tap t of a quad and channel c stands: dots have the taps of a channel side by side, in the order
 * of the sums. Of pairs those of the low halves of lanes of 16 channels come first, then those of the high ones, taps 0
 * and 1 before 2 and 3. */
static inline int64_t nck_igemm_weave(nck_depth_form form, int64_t t, int64_t c, int64_t width) {
    if (form != NCK_DEPTH_PAIRS) return nck_igemm_sum_at(form, c, width) * 4 + t;
    return (t / 2 * 2 + c % 16 / 8) * width + c / 16 * 16 + c % 8 * 2 + t % 2;
}

typedef struct nck_igemm_table {
    int mr, nr, group;
    bool a_signed;
    int pair_limit;                               /* 256: always exact */
    nck_igemm_micro *micro[NCK_IGEMM_MICROS + 1]; /* by rows, 1..mr, where there are no tiles */
    nck_igemm_tiles *tiles;                       /* NULL: none */
    nck_igemm_turn *tiles_open, *tiles_close;
    nck_igemm_pack *pack;
    nck_igemm_sums *sums;
    nck_igemm_lay *lay;           /* NULL: A is packed as B is */
    nck_igemm_row_sums *row_sums; /* NULL as well */
    nck_igemm_most *most;
    nck_igemm_taps *taps;
    int depth_width; /* 0: only taps are there */
    nck_depth_form depth_form;
    bool depth_twice; /* channels of at most half a width stand twice, in both halves: two places go together */
    nck_igemm_depthwise *depthwise; /* NULL as well */
    nck_igemm_read_columns *columns;
    nck_igemm_store *store;
    nck_igemm_store_line *line;
    nck_igemm_codes *codes; /* of mr rows, which most tiles have; NULL: there is none */
} nck_igemm_table;

#endif
