/* kernels/cpu/gemm/gemm_pack.h: copies strided matrices into panels of `width` lanes, zero-filled past the edge.
 * A panel holds for each k its lanes side by side. Elements are moved as bytes and may be unaligned.
 * Used by gemm.c for both operands; knows nothing of blocking. */
#ifndef NCK_GEMM_PACK_H
#define NCK_GEMM_PACK_H

#include <stddef.h>
#include <stdint.h>

/* dst[k*width + l] = src[l*lane_stride + k*k_stride] for l < lanes, 0 for lanes <= l < width. Strides in elements. */
void nck_gemm_pack_panel(size_t elem_bytes, int64_t kc, int64_t lanes, int64_t width, const char *src,
                         int64_t lane_stride, int64_t k_stride, void *dst);

#endif
