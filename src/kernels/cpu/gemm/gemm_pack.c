/* kernels/cpu/gemm/gemm_pack.c: panel packing for 4- and 8-byte elements, see gemm_pack.h.
 * Lanes that lie side by side are copied as rows; lanes that run along k are transposed in small squares, so that
 * each cache line of the source is read once; anything else goes one element at a time. */
#include "kernels/cpu/gemm/gemm_pack.h"

#include "kernels/cpu/per_type.h"

#include <string.h>

static void gemm_pack_rows(size_t es, int64_t kc, int64_t lanes, int64_t width, const char *src, int64_t k_stride,
                           char *dst) {
    size_t live = (size_t)lanes * es, whole = (size_t)width * es;
    for (int64_t k = 0; k < kc; k++) {
        char *d = dst + (size_t)k * whole;
        memcpy(d, src + k * k_stride * (int64_t)es, live);
        if (live < whole) memset(d + live, 0, whole - live);
    }
}

#define SUFFIX 4
#define ELEM uint32_t
#include "kernels/cpu/gemm/gemm_pack_strided.inc"

#define SUFFIX 8
#define ELEM uint64_t
#include "kernels/cpu/gemm/gemm_pack_strided.inc"

void nck_gemm_pack_panel(size_t elem_bytes, int64_t kc, int64_t lanes, int64_t width, const char *src,
                         int64_t lane_stride, int64_t k_stride, void *dst) {
    if (lane_stride == 1)
        gemm_pack_rows(elem_bytes, kc, lanes, width, src, k_stride, dst);
    else if (elem_bytes == 4)
        gemm_pack_strided_4(kc, lanes, width, src, lane_stride, k_stride, dst);
    else
        gemm_pack_strided_8(kc, lanes, width, src, lane_stride, k_stride, dst);
}
