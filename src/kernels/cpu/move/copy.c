/* kernels/cpu/move/copy.c: strided copy and fill, see move.h.
 *
 * Dims that both sides step through as one are merged first. What is left is one of: a single dense run (memcpy in
 * pieces), dense rows (memcpy each), a transpose (dst rows dense, src dense along another dim: square tiles, so that
 * both sides use whole cache lines), or rows with any strides. Items are runs of rows of about ITEM_BYTES, or less
 * where there are many threads. */
#include "base/intmath.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

enum { ITEM_BYTES = 1 << 16, LEAST_BYTES = 1 << 13, TILE = 32, STEP = 32, LINE = 16 }; /* LINE: words of a cache line */

typedef struct copy_job {
    const nck_walk *walk;    /* outer dims; operands: src, dst */
    int64_t rows;            /* of the walk */
    int64_t row;             /* elements of a row */
    int64_t piece, n_pieces; /* elements a row is cut into, cuts per row */
    int64_t per_item;        /* cuts per item */
    int64_t es, ss, ds;      /* element bytes; strides of the row */
    int64_t col, cd;         /* transposes: length and stride of the other dim, dense in src; planes: in dst, of src */
    const char *src;
    char *dst;
    void (*move)(const struct copy_job *j, const char *src, char *dst, int64_t n);
} copy_job;

static void copy_move_dense(const copy_job *j, const char *src, char *dst, int64_t n) {
    memcpy(dst, src, (size_t)(n * j->es));
}

/* Element moves go through memcpy of a fixed size: unaligned elements are legal and compile to plain loads. */
#define SUFFIX 1
#include "kernels/cpu/move/copy_strided.inc"
#define SUFFIX 2
#include "kernels/cpu/move/copy_strided.inc"
#define SUFFIX 4
#include "kernels/cpu/move/copy_strided.inc"
#define SUFFIX 8
#include "kernels/cpu/move/copy_strided.inc"
#define SUFFIX 16
#include "kernels/cpu/move/copy_strided.inc"

/* 8 x 8 bytes are turned in registers: neighbouring rows are woven byte by byte, then by pairs, then by fours. */
typedef uint8_t bytes_v __attribute__((vector_size(16)));
typedef uint16_t pairs_v __attribute__((vector_size(16)));
typedef uint32_t words_v __attribute__((vector_size(16)));
typedef uint64_t halves_v __attribute__((vector_size(16)));

static inline bytes_v load_8(const char *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return (bytes_v)(halves_v){v, 0};
}

static inline void store_8s(char *p, int64_t step, words_v v) {
    uint64_t low = ((halves_v)v)[0], high = ((halves_v)v)[1];
    memcpy(p, &low, 8), memcpy(p + step, &high, 8);
}

static inline bytes_v weave_bytes(bytes_v a, bytes_v b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline words_v weave_pairs(bytes_v a, bytes_v b, bool high) {
    pairs_v x = (pairs_v)a, y = (pairs_v)b;
    return high ? (words_v)__builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
                : (words_v)__builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline void turn_square(const char *src, int64_t ss, char *dst, int64_t cd) {
    bytes_v v[4];
    for (int i = 0; i < 4; i++) v[i] = weave_bytes(load_8(src + 2 * i * ss), load_8(src + (2 * i + 1) * ss));
    for (int half = 0; half < 2; half++, dst += 4 * cd) { /* of the columns */
        words_v a = weave_pairs(v[0], v[1], half), b = weave_pairs(v[2], v[3], half);
        store_8s(dst, cd, __builtin_shufflevector(a, b, 0, 4, 1, 5));
        store_8s(dst + 2 * cd, cd, __builtin_shufflevector(a, b, 2, 6, 3, 7));
    }
}

/* A transpose of bytes: whole squares, then what is left on both sides. */
static void turn_bytes(const copy_job *j, const char *src, char *dst, int64_t n) {
    int64_t cols = j->col / 8 * 8, rows = n / 8 * 8;
    for (int64_t i = 0; i < rows; i += 8)
        for (int64_t c = 0; c < cols; c += 8) turn_square(src + i * j->ss + c, j->ss, dst + c * j->cd + i, j->cd);
    for (int64_t c = 0; c < j->col; c++)
        for (int64_t i = c < cols ? rows : 0; i < n; i++) dst[c * j->cd + i] = src[i * j->ss + c];
}

/* The lower three bytes of each word, and one more behind them. */
static inline void store_threes(char *p, words_v v) {
    for (int k = 0; k < 2; k++, p += 6) {
        uint64_t two = ((halves_v)v)[k];
        uint32_t first = (uint32_t)two, second = (uint32_t)(two >> 32);
        memcpy(p, &first, 4), memcpy(p + 3, &second, 4);
    }
}

/* Two or three planes of bytes become elements of so many, as those of an image do: eight at a time, each written with
 * the byte behind it, which the next one overwrites, so that one is left. */
static void join_planes(const copy_job *j, const char *src, char *dst, int64_t n) {
    const int64_t planes = j->col, step = j->cd;
    int64_t i = 0;
    for (; i + 8 < n; i += 8, dst += 8 * planes) {
        bytes_v ab = weave_bytes(load_8(src + i), load_8(src + i + step)), c = {0};
        if (planes == 2) {
            memcpy(dst, &ab, sizeof ab);
            continue;
        }
        c = weave_bytes(load_8(src + i + 2 * step), c);
        store_threes(dst, weave_pairs(ab, c, false));
        store_threes(dst + 12, weave_pairs(ab, c, true));
    }
    for (; i < n; i++, dst += planes)
        for (int64_t p = 0; p < planes; p++) dst[p] = src[i + p * step];
}

/* 4 x 4 words the same way. */
static inline void turn_words_square(const char *src, int64_t ss, char *dst, int64_t cd) {
    words_v a, b, c, d;
    memcpy(&a, src, 16), memcpy(&b, src + ss, 16), memcpy(&c, src + 2 * ss, 16), memcpy(&d, src + 3 * ss, 16);
    words_v ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    words_v de = __builtin_shufflevector(c, d, 0, 4, 1, 5), de2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = __builtin_shufflevector(ab, de, 0, 1, 4, 5), b = __builtin_shufflevector(ab, de, 2, 3, 6, 7);
    c = __builtin_shufflevector(ab2, de2, 0, 1, 4, 5), d = __builtin_shufflevector(ab2, de2, 2, 3, 6, 7);
    memcpy(dst, &a, 16), memcpy(dst + cd, &b, 16), memcpy(dst + 2 * cd, &c, 16), memcpy(dst + 3 * cd, &d, 16);
}

/* Tiles of whole cache lines on both sides, few enough of them that lines 4 KiB apart, which share a place in the first
 * cache, do not push each other out; then what is left on both sides. */
void nck_turn_words(int64_t rows, int64_t cols, const void *src, int64_t src_row, void *dst, int64_t dst_col) {
    int64_t ss = src_row * 4, cd = dst_col * 4, whole = cols / 4 * 4, fours = rows / 4 * 4;
    const char *x = src;
    char *y = dst;
    for (int64_t c0 = 0; c0 < whole; c0 += LINE)
        for (int64_t i = 0; i < fours; i += 4)
            for (int64_t c = c0; c < nc_min64(c0 + LINE, whole); c += 4)
                turn_words_square(x + i * ss + c * 4, ss, y + c * cd + i * 4, cd);
    for (int64_t c = 0; c < cols; c++)
        for (int64_t i = c < whole ? fours : 0; i < rows; i++) memcpy(y + c * cd + i * 4, x + i * ss + c * 4, 4);
}

static void turn_words(const copy_job *j, const char *src, char *dst, int64_t n) {
    nck_turn_words(n, j->col, src, j->ss, dst, j->cd);
}

static const struct {
    void (*strided)(const copy_job *, const char *, char *, int64_t);
    void (*turn)(const copy_job *, const char *, char *, int64_t);
    void (*fill)(const copy_job *, const char *, char *, int64_t);
} movers[] = {{copy_move_1, turn_bytes, copy_fill_1},
              {copy_move_2, copy_turn_2, copy_fill_2},
              {copy_move_4, turn_words, copy_fill_4},
              {copy_move_8, copy_turn_8, copy_fill_8},
              {copy_move_16, copy_turn_16, copy_fill_16}};

static int mover_of(int64_t es) { return es == 1 ? 0 : es == 2 ? 1 : es == 4 ? 2 : es == 8 ? 3 : 4; }

static void copy_rows_item(void *ctx, int64_t item) {
    const copy_job *j = ctx;
    int64_t at = item * j->per_item, end = nc_min64(at + j->per_item, j->rows * j->n_pieces);
    nck_walk_at w;
    nck_walk_start(&w, j->walk, at / j->n_pieces);
    for (int64_t p = at % j->n_pieces; at < end; at++) {
        int64_t e = p * j->piece;
        j->move(j, j->src + (w.offset[0] + e * j->ss) * j->es, j->dst + (w.offset[1] + e * j->ds) * j->es,
                nc_min64(j->piece, j->row - e));
        if (++p == j->n_pieces) {
            p = 0;
            nck_walk_next(&w);
        }
    }
}

/* The dim of src with stride 1 when dst's rows are dense and src's are not; -1: no transpose. */
static int find_turn(int rank, const int64_t *dims, int64_t (*strides)[NC_MAX_RANK]) {
    if (strides[1][rank - 1] != 1 || strides[0][rank - 1] == 1 || strides[0][rank - 1] == 0) return -1;
    for (int d = 0; d < rank - 1; d++)
        if (strides[0][d] == 1 && dims[d] >= 4 && dims[rank - 1] >= 4) return d;
    return -1;
}

/* Rows of fewer than this many elements, as channels of an image are, and those along which dst is not dense give way
 * to a dim along which a side is dense. */
enum { SHORT = 4 };

static void lengthen_rows(int rank, int64_t *dims, int64_t (*strides)[NC_MAX_RANK]) {
    int last = rank - 1;
    for (int d = 0; d < last; d++) {
        if (strides[1][last] == 1 && (strides[0][last] == 1 || dims[last] >= SHORT)) return;
        if ((strides[0][d] != 1 && strides[1][d] != 1) || dims[d] < SHORT) continue;
        int64_t n = dims[d], s = strides[0][d], t = strides[1][d];
        dims[d] = dims[last], strides[0][d] = strides[0][last], strides[1][d] = strides[1][last];
        dims[last] = n, strides[0][last] = s, strides[1][last] = t;
    }
}

/* The dim of two or three planes of bytes whose elements lie side by side in dst; -1: none. */
static int find_planes(int rank, const int64_t *dims, int64_t (*strides)[NC_MAX_RANK], int64_t es) {
    for (int d = 0; d < rank - 1 && es == 1; d++)
        if ((dims[d] == 2 || dims[d] == 3) && strides[1][d] == 1 && strides[1][rank - 1] == dims[d] &&
            strides[0][rank - 1] == 1)
            return d;
    return -1;
}

static void take_out(int rank, int d, int64_t *dims, int64_t (*strides)[NC_MAX_RANK]) {
    for (int e = d; e < rank - 1; e++) {
        dims[e] = dims[e + 1];
        strides[0][e] = strides[0][e + 1];
        strides[1][e] = strides[1][e + 1];
    }
}

/* Dense rows that are as long as a larger element become one: what their elements are, and the new rank. */
static int join_row(int rank, const int64_t *dims, int64_t (*strides)[NC_MAX_RANK], int64_t *es) {
    int64_t n = dims[rank - 1], bytes = n * *es;
    if (rank < 2 || strides[0][rank - 1] != 1 || strides[1][rank - 1] != 1) return rank;
    if (bytes > 16 || (bytes & (bytes - 1)) != 0) return rank;
    for (int d = 0; d < rank - 1; d++)
        if (strides[0][d] % n != 0 || strides[1][d] % n != 0) return rank;
    for (int d = 0; d < rank - 1; d++) strides[0][d] /= n, strides[1][d] /= n;
    *es = bytes;
    return rank - 1;
}

static void copy_run(copy_job *j, int rank, const int64_t *dims, int64_t (*strides)[NC_MAX_RANK], nc_pool *pool) {
    nck_walk walk;
    nck_walk_init(&walk, rank - 1, dims, 2, strides);
    j->walk = &walk;
    j->rows = nck_walk_rows(&walk);
    j->row = dims[rank - 1];
    if (j->rows == 0 || j->row == 0) return;
    j->ss = strides[0][rank - 1];
    j->ds = strides[1][rank - 1];
    int64_t element = j->es * j->col, bytes = j->rows * j->row * element;
    int64_t item = bytes <= ITEM_BYTES ? ITEM_BYTES : nc_pool_item(pool, bytes, LEAST_BYTES, ITEM_BYTES);
    int64_t budget = nc_max64(1, item / element);
    if (budget > TILE) budget -= budget % LINE;
    j->piece = nc_min64(j->row, nc_max64(budget, TILE));
    j->n_pieces = nc_ceil_div(j->row, j->piece);
    j->per_item = nc_max64(1, budget / j->piece);
    int64_t n = j->rows * j->n_pieces;
    nc_parallel(pool, nc_ceil_div(n, j->per_item), copy_rows_item, j);
}

static int take_strides(int rank, const int64_t *dims, const int64_t *src_strides, const int64_t *dst_strides,
                        int64_t *out_dims, int64_t (*strides)[NC_MAX_RANK]) {
    for (int d = 0; d < rank; d++) {
        out_dims[d] = dims[d];
        strides[0][d] = src_strides ? src_strides[d] : 0;
        strides[1][d] = dst_strides[d];
        if (dims[d] == 0) return 0;
    }
    return nc_coalesce(rank, out_dims, 2, strides);
}

void nck_copy(int rank, const int64_t *dims, size_t elem_bytes, const void *src, const int64_t *src_strides, void *dst,
              const int64_t *dst_strides, nc_pool *pool) {
    int64_t m[NC_MAX_RANK], strides[2][NC_MAX_RANK];
    rank = take_strides(rank, dims, src_strides, dst_strides, m, strides);
    if (rank == 0) return;
    copy_job j = {.es = (int64_t)elem_bytes, .src = src, .dst = dst, .col = 1};
    rank = join_row(rank, m, strides, &j.es);
    lengthen_rows(rank, m, strides);
    int turn = find_turn(rank, m, strides), planes = find_planes(rank, m, strides, j.es);
    if (turn >= 0 || planes >= 0) {
        int other = turn >= 0 ? turn : planes;
        j.col = m[other];
        j.cd = strides[turn >= 0][other];
        take_out(rank, other, m, strides);
        rank--;
        j.move = turn >= 0 ? movers[mover_of(j.es)].turn : join_planes;
    } else {
        bool dense = strides[0][rank - 1] == 1 && strides[1][rank - 1] == 1;
        j.move = dense ? copy_move_dense : movers[mover_of(j.es)].strided;
    }
    copy_run(&j, rank, m, strides, pool);
}

void nck_fill(int rank, const int64_t *dims, size_t elem_bytes, const void *value, void *dst,
              const int64_t *dst_strides, nc_pool *pool) {
    int64_t m[NC_MAX_RANK], strides[2][NC_MAX_RANK];
    rank = take_strides(rank, dims, NULL, dst_strides, m, strides);
    if (rank == 0) return;
    copy_job j = {.es = (int64_t)elem_bytes, .src = value, .dst = dst, .col = 1};
    j.move = movers[mover_of(j.es)].fill;
    copy_run(&j, rank, m, strides, pool);
}
