/* kernels/cpu/conv/conv.simd.c: the register tiles of the blocked convolution, for each ISA; see conv_kernel.h.
 * Only logical channels are looped over: lanes past C may hold NaN. */
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

/* Blocks of 16 channels are one vector of AVX-512, whose 32 registers hold 14 pixels by 2 blocks, two vectors of
 * weights and one of x. NEON's hold 6 pixels by 2 blocks of 8 (conv_neon.inc), AVX2 6 pixels by one in its 16. Plain C
 * has arrays for vectors: more pixels than one only keep the compiler busy. ROWS_A_LINE: rows of w that pass before a
 * line of `ahead` is asked for. */
#if defined NCK_ISA_avx512
enum { BLOCK = 16, PIXELS = 14, ROWS_A_LINE = 2 };
#define EACH_PIXELS(X, ...)                                                                                      \
    X(__VA_ARGS__, 1)                                                                                            \
    X(__VA_ARGS__, 2)                                                                                            \
    X(__VA_ARGS__, 3)                                                                                            \
    X(__VA_ARGS__, 4)                                                                                            \
    X(__VA_ARGS__, 5) X(__VA_ARGS__, 6) X(__VA_ARGS__, 7) X(__VA_ARGS__, 8) X(__VA_ARGS__, 9) X(__VA_ARGS__, 10) \
        X(__VA_ARGS__, 11) X(__VA_ARGS__, 12) X(__VA_ARGS__, 13) X(__VA_ARGS__, 14)
#elif defined NCK_ISA_neon || defined NCK_ISA_avx2
enum { BLOCK = 8, PIXELS = 6, ROWS_A_LINE = 1 };
#define EACH_PIXELS(X, ...) \
    X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4) X(__VA_ARGS__, 5) X(__VA_ARGS__, 6)
#else
enum { BLOCK = 8, PIXELS = 1, ROWS_A_LINE = 1 };
#define EACH_PIXELS(X, ...) X(__VA_ARGS__, 1)
#endif
/* Of a row with one channel per group. */
#ifdef NCK_ISA_portable
#define PIXELS_IN_ROW 1
#else
#define PIXELS_IN_ROW 8
#endif
enum { KV = BLOCK / V_LEN_f32, STEPS = 4, LINE = 16 }; /* LINE: of the cache, in floats */
_Static_assert(BLOCK % V_LEN_f32 == 0 && BLOCK <= NCK_CONV_MAX_BLOCK, "a block of channels is whole vectors");
_Static_assert(PIXELS <= NCK_CONV_MAX_PIXELS, "the table has room");

#ifdef NCK_ISA_avx512
#include "kernels/cpu/conv/conv_avx512.inc"
#else
/* What step takes for x: here the first pixel's. */
__attribute__((always_inline)) static inline const float *middle(int in, int pixels, const float *x) {
    (void)in, (void)pixels;
    return x;
}

/* One channel x times its weights w: of one tap, for all pixels. */
__attribute__((always_inline)) static inline void step(int kb, int in, int pixels, const float *x, const float *w,
                                                       v_f32 acc[PIXELS][2 * KV]) {
    v_f32 wv[2 * KV];
    UNROLL
    for (int v = 0; v < kb * KV; v++) wv[v] = v_load_f32(w + v * V_LEN_f32);
    UNROLL
    for (int p = 0; p < pixels; p++) {
        v_f32 xv = v_set_f32(x[p * in]);
        UNROLL
        for (int v = 0; v < kb * KV; v++) acc[p][v] = v_fma_f32(xv, wv[v], acc[p][v]);
    }
}
#endif

/* kb, pixels and in are constants where inlined: blocks of K, and channels of a block of x. Vector v of block b is
 * number b * KV + v. */
__attribute__((always_inline)) static inline void start(int kb, int pixels, const nck_conv_tile *t,
                                                        v_f32 acc[PIXELS][2 * KV]) {
    const float *from = t->bias ? t->bias : t->y;
    int64_t from_pixel = t->bias ? 0 : BLOCK, from_k = t->bias ? BLOCK : t->y_k;
    UNROLL
    for (int p = 0; p < pixels; p++) UNROLL
    for (int v = 0; v < kb * KV; v++)
        acc[p][v] = v_load_f32(from + v / KV * from_k + p * from_pixel + v % KV * V_LEN_f32);
}

/* STEPS channels of a block at a time: what counts the loop and asks for lines of `ahead` would else take slots that
 * the multiplications need. */
__attribute__((always_inline)) static inline void sum(int kb, int in, int pixels, const nck_conv_tile *t,
                                                      v_f32 acc[PIXELS][2 * KV]) {
    const float *w = t->w, *block = t->x, *ahead = t->ahead;
    for (int64_t c0 = 0; c0 < t->C; c0 += in, block += t->x_block) {
        int64_t channels = in == 1 || t->C - c0 >= in ? in : t->C - c0;
        for (int64_t i = 0; i < t->n_taps; i++) {
            const float *x = middle(in, pixels, block + t->taps[i]), *end = x + channels;
            for (; end - x >= STEPS; x += STEPS, w += STEPS * kb * BLOCK, ahead += STEPS / ROWS_A_LINE * LINE) UNROLL
            for (int c = 0; c < STEPS; c++) {
                if (c % ROWS_A_LINE == 0) __builtin_prefetch(ahead + c / ROWS_A_LINE * LINE, 0, 2);
                step(kb, in, pixels, x + c, w + c * kb * BLOCK, acc);
            }
            for (; x < end; x++, w += kb * BLOCK) step(kb, in, pixels, x, w, acc);
        }
    }
}

__attribute__((always_inline)) static inline void finish(int kb, int pixels, const nck_conv_tile *t,
                                                         v_f32 acc[PIXELS][2 * KV]) {
    if (t->add) UNROLL
    for (int p = 0; p < pixels; p++) UNROLL
    for (int v = 0; v < kb * KV; v++)
        acc[p][v] = v_add_f32(acc[p][v], v_load_f32(t->add + v / KV * t->y_k + p * BLOCK + v % KV * V_LEN_f32));
    if (t->clamps) {
        v_f32 low = v_set_f32(t->low), high = v_set_f32(t->high);
        UNROLL
        for (int p = 0; p < pixels; p++) UNROLL
        for (int v = 0; v < kb * KV; v++) acc[p][v] = v_clamp_f32(acc[p][v], low, high);
    }
    UNROLL
    for (int p = 0; p < pixels; p++) UNROLL
    for (int v = 0; v < kb * KV; v++) v_store_f32(t->y + v / KV * t->y_k + p * BLOCK + v % KV * V_LEN_f32, acc[p][v]);
}

#define TILE(name, in, kb, pixels)                                      \
    static void tile_##name##_##kb##_##pixels(const nck_conv_tile *t) { \
        v_f32 acc[PIXELS][2 * KV];                                      \
        start(kb, pixels, t, acc);                                      \
        sum(kb, in, pixels, t, acc);                                    \
        finish(kb, pixels, t, acc);                                     \
    }
#ifdef NCK_ISA_neon
#include "kernels/cpu/conv/conv_neon.inc"
#else
EACH_PIXELS(TILE, blocked, BLOCK, 1)
EACH_PIXELS(TILE, blocked, BLOCK, 2)
EACH_PIXELS(TILE, planes, 1, 1)
EACH_PIXELS(TILE, planes, 1, 2)
#endif

/* ---- one channel per group ---- */

/* The weights of a tap serve all pixels; what bounds it is one load of x for each multiplication. */
__attribute__((always_inline)) static inline void row_sums(int pixels, int64_t x_pixel, const nck_conv_row *r,
                                                           int64_t at, v_f32 acc[PIXELS_IN_ROW][KV]) {
    const float *row = r->x + at * x_pixel, *w_row = r->w;
    for (int64_t i = 0; i < r->taps_h; i++, row += r->x_row, w_row += r->w_row) {
        const float *x = row, *w = w_row;
        for (int64_t j = 0; j < r->taps_w; j++, x += r->x_col, w += BLOCK) {
            UNROLL
            for (int v = 0; v < KV; v++) {
                v_f32 wv = v_load_f32(w + v * V_LEN_f32);
                UNROLL
                for (int p = 0; p < pixels; p++)
                    acc[p][v] = v_fma_f32(wv, v_load_f32(x + p * x_pixel + v * V_LEN_f32), acc[p][v]);
            }
        }
    }
}

#ifdef NCK_ISA_neon
/* Three taps and all pixels side by side: what several pixels see is loaded once. The order of the sums is the same. */
__attribute__((always_inline)) static inline void row_sums_of_three(int pixels, const nck_conv_row *r, int64_t at,
                                                                    v_f32 acc[PIXELS_IN_ROW][KV]) {
    const float *row = r->x + at * BLOCK, *w = r->w;
    for (int64_t i = 0; i < r->taps_h; i++, row += r->x_row, w += r->w_row) UNROLL
    for (int v = 0; v < KV; v++) {
        v_f32 x[PIXELS_IN_ROW + 2];
        UNROLL
        for (int p = 0; p < pixels + 2; p++) x[p] = v_load_f32(row + p * BLOCK + v * V_LEN_f32);
        UNROLL
        for (int j = 0; j < 3; j++) {
            v_f32 wv = v_load_f32(w + j * BLOCK + v * V_LEN_f32);
            UNROLL
            for (int p = 0; p < pixels; p++) acc[p][v] = v_fma_f32(wv, x[p + j], acc[p][v]);
        }
    }
}
#endif

__attribute__((always_inline)) static inline void row_piece(int pixels, int64_t x_pixel, const nck_conv_row *r,
                                                            int64_t at) {
    v_f32 acc[PIXELS_IN_ROW][KV];
    UNROLL
    for (int p = 0; p < pixels; p++) UNROLL
    for (int v = 0; v < KV; v++) acc[p][v] = v_load_f32(r->bias + v * V_LEN_f32);
#ifdef NCK_ISA_neon
    if (x_pixel == BLOCK && r->taps_w == 3 && r->x_col == BLOCK)
        row_sums_of_three(pixels, r, at, acc);
    else
#endif
        row_sums(pixels, x_pixel, r, at, acc);
    int64_t y_pixel = r->y_pixel, first = at * y_pixel;
    if (r->add) UNROLL
    for (int p = 0; p < pixels; p++) UNROLL
    for (int v = 0; v < KV; v++)
        acc[p][v] = v_add_f32(acc[p][v], v_load_f32(r->add + first + p * y_pixel + v * V_LEN_f32));
    if (r->clamps) {
        v_f32 low = v_set_f32(r->low), high = v_set_f32(r->high);
        UNROLL
        for (int p = 0; p < pixels; p++) UNROLL
        for (int v = 0; v < KV; v++) acc[p][v] = v_clamp_f32(acc[p][v], low, high);
    }
    UNROLL
    for (int p = 0; p < pixels; p++) UNROLL
    for (int v = 0; v < KV; v++) v_store_f32(r->y + first + p * y_pixel + v * V_LEN_f32, acc[p][v]);
}

#if PIXELS_IN_ROW > 1
__attribute__((always_inline)) static inline void row_rest(int64_t x_pixel, const nck_conv_row *r, int64_t at) {
    switch (r->n - at) {
    case 7: row_piece(7, x_pixel, r, at); break;
    case 6: row_piece(6, x_pixel, r, at); break;
    case 5: row_piece(5, x_pixel, r, at); break;
    case 4: row_piece(4, x_pixel, r, at); break;
    case 3: row_piece(3, x_pixel, r, at); break;
    case 2: row_piece(2, x_pixel, r, at); break;
    case 1: row_piece(1, x_pixel, r, at); break;
    default: break;
    }
}
#else
static inline void row_rest(int64_t x_pixel, const nck_conv_row *r, int64_t at) { (void)x_pixel, (void)r, (void)at; }
#endif

__attribute__((always_inline)) static inline void row_of(int64_t x_pixel, const nck_conv_row *r) {
    int64_t at = 0;
    for (; r->n - at >= PIXELS_IN_ROW; at += PIXELS_IN_ROW) row_piece(PIXELS_IN_ROW, x_pixel, r, at);
    row_rest(x_pixel, r, at);
}

static void depthwise(const nck_conv_row *r) {
    if (r->x_pixel == BLOCK)
        row_of(BLOCK, r);
    else if (r->x_pixel == 2 * BLOCK)
        row_of(2 * BLOCK, r);
    else
        row_of(r->x_pixel, r);
}

#define ENTRY(name, kb, pixels) [pixels] = tile_##name##_##kb##_##pixels,
extern const nck_conv_table NCK_ISA_NAME(nck_conv_);
const nck_conv_table NCK_ISA_NAME(nck_conv_) = {
    .block = BLOCK,
    .pixels = PIXELS,
    .blocked = {{EACH_PIXELS(ENTRY, blocked, 1)}, {EACH_PIXELS(ENTRY, blocked, 2)}},
    .planes = {{EACH_PIXELS(ENTRY, planes, 1)}, {EACH_PIXELS(ENTRY, planes, 2)}},
    .depthwise = depthwise,
};
