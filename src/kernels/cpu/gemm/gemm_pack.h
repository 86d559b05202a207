/* kernels/cpu/gemm/gemm_pack.h: copies strided matrices into panels of `width` lanes, zero-filled past the edge.
 * A panel holds for each k its lanes side by side: rows are the lanes of A, columns those of B, so that a micro-kernel
 * reads both panels from front to back. Elements are moved as bytes and may be unaligned. Used by gemm.c for both
 * operands; knows nothing of blocking.
 *
 * An example: A of 6 rows and 3 terms in panels of 4 lanes. The first panel is
 *     a00 a10 a20 a30   a01 a11 a21 a31   a02 a12 a22 a32
 * and the second, with two lanes past the edge,
 *     a40 a50  0   0    a41 a51  0   0    a42 a52  0   0 */
#ifndef NCK_GEMM_PACK_H
#define NCK_GEMM_PACK_H

#include <stddef.h>
#include <stdint.h>

/* dst[k*width + l] = src[l*lane_stride + k*k_stride] for l < lanes, 0 for lanes <= l < width. Strides in elements. */
void nck_gemm_pack_panel(size_t elem_bytes, int64_t kc, int64_t lanes, int64_t width, const char *src,
                         int64_t lane_stride, int64_t k_stride, void *dst);

#endif
