/* kernels/cpu/conv/window.simd.c: lines of places under a window, for each ISA; see window_kernel.h. */
#include "kernels/cpu/conv/window_kernel.h"

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <math.h>

enum { VECTORS = 4 };

#define DEFINE(S, T, F)                                                                                         \
    static void max_##S(T *acc, const T *x, int64_t n) {                                                        \
        int64_t i = 0;                                                                                          \
        for (; i + V_LEN_##S <= n; i += V_LEN_##S)                                                              \
            v_store_##S(acc + i, v_max_##S(v_load_##S(acc + i), v_load_##S(x + i)));                            \
        for (; i < n; i++) acc[i] = acc[i] > x[i] || acc[i] != acc[i] ? acc[i] : x[i];                          \
    }                                                                                                           \
    static void taps_##S(T *acc, const T *x, int64_t row, int64_t col, const T *w, int64_t kh, int64_t kw,      \
                         int64_t n) {                                                                           \
        int64_t i = 0;                                                                                          \
        for (; i + VECTORS * V_LEN_##S <= n; i += VECTORS * V_LEN_##S) {                                        \
            v_##S r[VECTORS];                                                                                   \
            UNROLL                                                                                              \
            for (int v = 0; v < VECTORS; v++) r[v] = v_load_##S(acc + i + v * V_LEN_##S);                       \
            for (int64_t a = 0; a < kh; a++)                                                                    \
                for (int64_t t = 0; t < kw; t++) {                                                              \
                    v_##S k = v_set_##S(w[a * kw + t]);                                                         \
                    const T *p = x + a * row + t * col + i;                                                     \
                    UNROLL                                                                                      \
                    for (int v = 0; v < VECTORS; v++) r[v] = v_fma_##S(k, v_load_##S(p + v * V_LEN_##S), r[v]); \
                }                                                                                               \
            UNROLL                                                                                              \
            for (int v = 0; v < VECTORS; v++) v_store_##S(acc + i + v * V_LEN_##S, r[v]);                       \
        }                                                                                                       \
        for (; i + V_LEN_##S <= n; i += V_LEN_##S) {                                                            \
            v_##S r = v_load_##S(acc + i);                                                                      \
            for (int64_t a = 0; a < kh; a++)                                                                    \
                for (int64_t t = 0; t < kw; t++)                                                                \
                    r = v_fma_##S(v_set_##S(w[a * kw + t]), v_load_##S(x + a * row + t * col + i), r);          \
            v_store_##S(acc + i, r);                                                                            \
        }                                                                                                       \
        for (; i < n; i++) {                                                                                    \
            T r = acc[i];                                                                                       \
            for (int64_t a = 0; a < kh; a++)                                                                    \
                for (int64_t t = 0; t < kw; t++) r = fma##F(w[a * kw + t], x[a * row + t * col + i], r);        \
            acc[i] = r;                                                                                         \
        }                                                                                                       \
    }
DEFINE(f32, float, f)
DEFINE(f64, double, )

extern const nck_window_table NCK_ISA_NAME(nck_window_);
const nck_window_table NCK_ISA_NAME(nck_window_) = {.f32 = {max_f32, taps_f32}, .f64 = {max_f64, taps_f64}};
