/* kernels/cpu/gemm/gemm_pack.c: panel packing for 4- and 8-byte elements, see gemm_pack.h.
 * Lanes that lie side by side are copied as rows; lanes that run along k are transposed in small squares, so that
 * each cache line of the source is read once; anything else goes one element at a time. */
#include "kernels/cpu/gemm/gemm_pack.h"

#include <string.h>

static void pack_rows(size_t es, int64_t kc, int64_t lanes, int64_t width, const char *src, int64_t k_stride,
                      char *dst) {
    size_t live = (size_t)lanes * es, whole = (size_t)width * es;
    for (int64_t k = 0; k < kc; k++) {
        char *d = dst + (size_t)k * whole;
        memcpy(d, src + k * k_stride * (int64_t)es, live);
        if (live < whole) memset(d + live, 0, whole - live);
    }
}

#define PACK_STRIDED(name, T)                                                                                      \
    static void name(int64_t kc, int64_t lanes, int64_t width, const char *src, int64_t ls, int64_t ks, T *dst) {  \
        enum { STEP = 8 };                                                                                         \
        for (int64_t k0 = 0; k0 < kc; k0 += STEP) {                                                                \
            int64_t n = kc - k0 < STEP ? kc - k0 : STEP;                                                           \
            for (int64_t l = 0; l < lanes; l++) {                                                                  \
                const char *s = src + (l * ls + k0 * ks) * (int64_t)sizeof(T);                                     \
                T *d = dst + k0 * width + l;                                                                       \
                for (int64_t k = 0; k < n; k++)                                                                    \
                    memcpy(d + k * width, s + k * ks * (int64_t)sizeof(T), sizeof(T));                             \
            }                                                                                                      \
            for (int64_t k = k0; k < k0 + n; k++)                                                                  \
                for (int64_t l = lanes; l < width; l++) dst[k * width + l] = 0;                                    \
        }                                                                                                          \
    }
PACK_STRIDED(pack_strided_4, uint32_t)
PACK_STRIDED(pack_strided_8, uint64_t)

void nck_gemm_pack_panel(size_t elem_bytes, int64_t kc, int64_t lanes, int64_t width, const char *src,
                         int64_t lane_stride, int64_t k_stride, void *dst) {
    if (lane_stride == 1)
        pack_rows(elem_bytes, kc, lanes, width, src, k_stride, dst);
    else if (elem_bytes == 4)
        pack_strided_4(kc, lanes, width, src, lane_stride, k_stride, dst);
    else
        pack_strided_8(kc, lanes, width, src, lane_stride, k_stride, dst);
}
