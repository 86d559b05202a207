/* kernels/cpu/conv/conv.simd.c: the register tiles of the blocked convolution, for each ISA; see conv_kernel.h.
 * Only logical channels are looped over: lanes past C may hold NaN. */
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

/* Two blocks of K by 5 pixels leave NEON's 32 registers room for the operands; AVX2 holds 6 pixels in its 16. */
#ifdef NCK_ISA_neon
enum { PIXELS = 5 };
#define EACH_PIXELS(X, kb) X(kb, 1) X(kb, 2) X(kb, 3) X(kb, 4) X(kb, 5)
#else
enum { PIXELS = 6 };
#define EACH_PIXELS(X, kb) X(kb, 1) X(kb, 2) X(kb, 3) X(kb, 4) X(kb, 5) X(kb, 6)
#endif
enum { BLOCK = 8, KV = BLOCK / V_LEN_f32 };
_Static_assert(BLOCK % V_LEN_f32 == 0, "a block of channels is whole vectors");

/* kb and pixels are constants where inlined; vector v of block b is number b * KV + v. */
__attribute__((always_inline)) static inline void tile(int kb, int pixels, const nck_conv_tile *t) {
    v_f32 acc[PIXELS][2 * KV];
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < kb * KV; v++) acc[p][v] = v_load_f32(t->bias + v * V_LEN_f32);
    int64_t x_pixel = t->x_pixel;
    for (int64_t c0 = 0; c0 < t->C; c0 += BLOCK) {
        int64_t channels = t->C - c0 < BLOCK ? t->C - c0 : BLOCK;
        for (int64_t i = 0; i < t->taps_h; i++)
            for (int64_t j = 0; j < t->taps_w; j++) {
                const float *x = t->x + c0 / BLOCK * t->x_block + i * t->x_row + j * t->x_col;
                const float *w = t->w + c0 / BLOCK * t->w_block + i * t->w_row + j * BLOCK * BLOCK;
                for (int64_t c = 0; c < channels; c++, x++, w += BLOCK) {
                    v_f32 wv[2 * KV];
                    UNROLL
                    for (int v = 0; v < kb * KV; v++)
                        wv[v] = v_load_f32(w + v / KV * t->w_k + v % KV * V_LEN_f32);
                    UNROLL
                    for (int p = 0; p < pixels; p++) {
                        v_f32 xv = v_set_f32(x[p * x_pixel]);
                        UNROLL
                        for (int v = 0; v < kb * KV; v++) acc[p][v] = v_fma_f32(xv, wv[v], acc[p][v]);
                    }
                }
            }
    }
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < kb * KV; v++)
            v_store_f32(t->y + v / KV * t->y_k + p * BLOCK + v % KV * V_LEN_f32, acc[p][v]);
}

#define TILE(kb, pixels) \
    static void tile_##kb##_##pixels(const nck_conv_tile *t) { tile(kb, pixels, t); }
EACH_PIXELS(TILE, 1)
EACH_PIXELS(TILE, 2)

#define ENTRY(kb, pixels) [pixels] = tile_##kb##_##pixels,
extern const nck_conv_table NCK_ISA_NAME(nck_conv_);
const nck_conv_table NCK_ISA_NAME(nck_conv_) = {
    .pixels = PIXELS,
    .tile = {{EACH_PIXELS(ENTRY, 1)}, {EACH_PIXELS(ENTRY, 2)}},
};
