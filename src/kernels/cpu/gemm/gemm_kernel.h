/* kernels/cpu/gemm/gemm_kernel.h: what gemm.simd.c gives gemm.c, one table per ISA.
 * A micro-kernel multiplies one packed panel of A with one panel of B into a small tile, in C itself or row-major in
 * scratch; a store adds such a scratch tile to C. All are told sizes only; blocking and threads are gemm.c's.
 *
 * A panel holds for each k its lanes side by side: the lanes of A are rows, those of B columns, so that a micro-kernel
 * reads both from front to back. A panel of A has as many lanes as the kernel that reads it has rows; one of B has nr,
 * zero past the edge. An example: A of 5 rows and 3 terms in panels of 3 and 2 lanes is
 *     a00 a10 a20   a01 a11 a21   a02 a12 a22     and     a30 a40   a31 a41   a32 a42
 * Where a kernel adds several products at once, terms stand in groups: for each group the lanes side by side, each with
 * its terms, 0 past the last. In groups of 4 the first of those panels is
 *     a00 a01 a02 0   a10 a11 a12 0   a20 a21 a22 0 */
#ifndef NCK_GEMM_KERNEL_H
#define NCK_GEMM_KERNEL_H

#include "kernels/cpu/gemm/gemm.h"

#define NCK_GEMM_SMALL_K 64 /* terms that nck_gemm_small takes */
#define NCK_GEMM_MAX_MR 16
#define NCK_GEMM_MAX_TILE 512 /* doubles that are room for the largest tile, mr * nr elements */
#define NCK_GEMM_OVERREAD 64  /* bytes behind a panel of A that a micro-kernel may read */

/* c[r*ldc + j] = (old ? old[r*ld_old + j] : 0) + sum over k of a[k*rows + r] * b[k*ldb + j], for the rows the kernel
 * is made for and all nr columns. old is c itself, or a bias. Meanwhile kc / 2 lines of the cache from `ahead` on,
 * `apart` bytes from each to the next, are asked for, or kc lines side by side. */
typedef void nck_gemm_micro(int64_t kc, const void *a, const void *b, int64_t ldb, void *c, int64_t ldc,
                            const void *old, int64_t ld_old, const void *ahead, int64_t apart);
/* The same for any number of rows up to mr, behind tiles_open of the thread, which was told so many or one more. */
typedef void nck_gemm_tiles(int64_t rows, int64_t kc, const void *a, const void *b, void *c, int64_t ldc,
                            const void *old, int64_t ld_old, const void *ahead, int64_t apart);
/* The same with rows of A where they lie: a[r*lda + k]; kc lines are asked for. */
typedef void nck_gemm_direct(int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc,
                             const void *old, int64_t ld_old, const void *ahead);
/* acc[j] = sum over k of a[k] * b[k*ldb + j] for n columns, a multiple of nr. */
typedef void nck_gemm_band(int64_t kc, const void *a, const void *b, int64_t ldb, int64_t n, void *acc);
/* acc[p*nr + j] = sum over k of a[k] * b[p*apart + k*nr + j]: one row times packed panels. */
typedef void nck_gemm_line(int64_t kc, const void *a, const void *b, int64_t apart, int64_t panels, void *acc);
/* acc[r*acc_rs + p*nr + j] = sum over k of a[r*lda + k] * b[p*apart + k*nr + j]: two or three rows, which the kernel is
 * made for, times packed panels, NCK_GEMM_SIDE at most. */
typedef void nck_gemm_lines(int64_t kc, const void *a, int64_t lda, const void *b, int64_t apart, int64_t panels,
                            void *acc, int64_t acc_rs);
/* dst[k*width + l] = src[l*lane_stride + k*k_stride] for l < lanes, 0 for lanes <= l < width: a panel of kc terms, in
 * groups where the unit has them. Elements may be unaligned; width is at most NCK_GEMM_WIDEST. */
#define NCK_GEMM_WIDEST 32
typedef void nck_gemm_pack(int64_t kc, int64_t lanes, int64_t width, const void *src, int64_t lane_stride,
                           int64_t k_stride, void *dst);

typedef struct nck_gemm_out {
    const void *acc; /* (rows, nr); one row: (cols), with room for whole vectors */
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

/* The whole product, K at most NCK_GEMM_SMALL_K, without workspace: for what is too small to be packed and blocked.
 * nr: of the table that packed B. */
typedef void nck_gemm_small(const nck_gemm_args *g, int nr);

typedef struct nck_gemm_unit {
    int mr, nr, lanes; /* lanes: elements of a vector */
    int group;         /* terms that stand side by side */
    bool asks_once; /* the first tile of rows alone asks for panels of a packed B: the others find them in the cache */
    nck_gemm_micro *micro[NCK_GEMM_MAX_MR + 1]; /* by rows, 1..mr */
    nck_gemm_micro *narrow[2]; /* mr rows of one vector, or two, of a panel's columns; NULL: micro does all of them */
    nck_gemm_tiles *tiles;     /* NULL: micro; what is opened is closed before the thread does anything else */
    void (*tiles_open)(int64_t rows), (*tiles_close)(void);
    nck_gemm_direct *direct[NCK_GEMM_MAX_MR + 1]; /* by rows; NULL: so many are always packed */
    nck_gemm_band *band;
    nck_gemm_line *line;      /* NULL: micro does one row as well; band, store and small are then NULL too */
    nck_gemm_lines *lines[2]; /* of two rows, and of three; NULL: micro does them */
    nck_gemm_store *store;
    nck_gemm_pack *pack;
    nck_gemm_pack *pack_b; /* of panels of B, where their groups are laid in another way; NULL: pack */
    nck_gemm_small *small; /* of tables that nck_narrow_gemm may give */
} nck_gemm_unit;

typedef struct nck_gemm_table {
    int width; /* floats of a vector */
    const nck_gemm_unit *f32, *f64;
    const nck_gemm_unit *bf16; /* panels of bf16, sums of float, nr as f32 has it; NULL: no instructions for it */
} nck_gemm_table;

#endif
