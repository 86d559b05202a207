/* kernels/cpu/conv/conv_back.h: gradients of a convolution of two spatial dims (the last of the window's three) in f32,
 * group 1, over channels in blocks, without columns. Tensors come and go in blocks, as in conv_blocked.h, or dense, as
 * in conv_cols.h: then some images at a time are laid into blocks in the workspace. Weights are dense, and packed there
 * in every run, or packed before: those of a transposed convolution, the gradient by x of what is given as dy, are
 * constant.
 *
 * By x: a convolution of dy. With strides, elements of x fall into sh * sw phases, and each meets its own taps only. An
 * example along one row, stride 2, window 3, pad 1: element 2q was tap 1 of place q, element 2q + 1 was tap 2 of place
 * q and tap 0 of place q + 1. So even elements are dy times (w1), odd ones dy times (w2 w0), both with stride 1, on the
 * kernels of conv_blocked.h, Winograd's too. By w: for each tap the sum over all places of the outer products of dy's
 * and x's channels (outer_kernel.h). Taps in the padding are left out.
 *
 * Accumulation: f32; by w up to NCK_CONV_BACK_CHUNK places, of several images where those are small, then chunks in
 * order: the same bits for any threads, other ones where blocks have another size. */
#ifndef NCK_CONV_BACK_H
#define NCK_CONV_BACK_H

#include "kernels/cpu/conv/conv.h"

#include <stddef.h>

#define NCK_CONV_BACK_CHUNK 256

/* Of a convolution of one or two spatial dims: f32, group 1. */
bool nck_conv_back_takes(const nck_conv_shape *s);

typedef struct nck_conv_back {
    nck_conv_shape shape;
    bool blocked;      /* x, dy and dx lie in blocks of channels; else dense */
    bool winograd;     /* by x: where it wins */
    bool packed;       /* by x, without Winograd: w is what nck_conv_back_dx_pack wrote */
    const float *bias; /* (C), by x in blocks: what sums begin with; NULL: 0 */
} nck_conv_back;

/* Workspaces grow with every size; 64-byte aligned. */
size_t nck_conv_back_dx_workspace(const nck_conv_back *b);
void nck_conv_back_dx(const nck_conv_back *b, const float *dy, const float *w, float *dx, void *workspace,
                      nc_pool *pool);
/* By the sizes of w, strides, dilations and pads alone. w may be unaligned; 64-byte aligned. */
size_t nck_conv_back_dx_packed_bytes(const nck_conv_back *b);
void nck_conv_back_dx_pack(const nck_conv_back *b, const void *w, float *dst);
size_t nck_conv_back_dw_workspace(const nck_conv_back *b);
void nck_conv_back_dw(const nck_conv_back *b, const float *x, const float *dy, float *dw, void *workspace,
                      nc_pool *pool);
/* The sums of dy (N, ceil(K / block), places, block) over places, each chunk in f32, those in double. */
void nck_conv_back_db_blocked(const nck_conv_shape *s, const float *dy, float *db, nc_pool *pool);

#endif
