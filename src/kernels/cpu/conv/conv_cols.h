/* kernels/cpu/conv/conv_cols.h: convolution of up to three spatial dims and any groups as a matrix product over
 * columns: each column holds what the window sees at one place. Also both gradients, of which the one by x is the
 * transposed convolution, and a direct kernel for one channel per group.
 *
 * An example: one channel a b c d under a window of 3 with pad 1 has four places. Its columns, a row per tap, are
 *     tap 0   0 a b c
 *     tap 1   a b c d
 *     tap 2   b c d 0
 * and y is the row of weights (w0 w1 w2) times that matrix. With C channels there are 3 C rows, with K output channels
 * K rows of weights. The gradient by x adds column elements back to where they came from; a window of one tap needs no
 * columns at all.
 *
 * Places go in chunks of NCK_COLS_CHUNK, so the workspace does not grow with the image beyond that; images with fewer
 * share a product, whose columns of y or dy are then moved between their images and the workspace. Sums are nck_gemm's
 * (in the element type, in the order channel, tap); chunks and images are added in order: the same bits for any
 * threads. Padding counts as zeros, so an infinite weight over it gives NaN; not so in the direct kernel. */
#ifndef NCK_CONV_COLS_H
#define NCK_CONV_COLS_H

#include "kernels/cpu/conv/conv.h"

#include <stddef.h>

#define NCK_COLS_CHUNK 512

/* Enough for each function below; grows with every size. 64-byte aligned. */
size_t nck_conv_cols_workspace(const nck_conv_shape *s);

/* y (N,K,out...) = x (N,C,in...) under w (K, C/group, k...), plus bias (K) or NULL; x_strides: N, C, then three spatial
 * dims; the rest is dense, as below. */
void nck_conv_cols(const nck_conv_shape *s, const void *x, const int64_t x_strides[5], const void *w, const void *bias,
                   void *y, void *workspace, nc_pool *pool);
/* dx (N,C,in...) from dy (N,K,out...), added to bias (C), which may be NULL. */
void nck_conv_cols_dx(const nck_conv_shape *s, const void *dy, const void *w, const void *bias, void *dx,
                      void *workspace, nc_pool *pool);
void nck_conv_cols_dw(const nck_conv_shape *s, const void *x, const void *dy, void *dw, void *workspace, nc_pool *pool);
/* db (K) = the sum over images and places of y (N, K, places), in double. */
void nck_conv_sum_places(nc_dtype type, int64_t N, int64_t K, int64_t places, const void *y, void *db, nc_pool *pool);

/* x (planes, in...) from columns (planes, taps, places): each tap of each place added to where it was seen. */
void nck_cols_to_image(nc_dtype type, const nck_window *w, int64_t planes, const void *cols, void *x, nc_pool *pool);

/* One channel per group: C == group. Directly, in the element type, in the order of the taps; bias first. */
void nck_conv_depthwise(const nck_conv_shape *s, const void *x, const int64_t x_strides[5], const void *w,
                        const void *bias, void *y, nc_pool *pool);

#endif
