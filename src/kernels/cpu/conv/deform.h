/* kernels/cpu/conv/deform.h: convolution of pixels that lie off the grid: every tap of every place has an offset of its
 * own and is read between pixels. Dense tensors of NC_FLOAT or NC_DOUBLE, two spatial dims. */
#ifndef NCK_DEFORM_H
#define NCK_DEFORM_H

#include "base/shape.h"
#include "base/threads.h"
#include "kernels/cpu/conv/window.h"

/* x (N, C, H, W), w (M, C / group, kH, kW), offset (N, offset_group * kH * kW * 2, oH, oW) as y then x of every tap,
 * bias (M) or NULL, mask (N, offset_group * kH * kW, oH, oW) or NULL: y (N, M, oH, oW). */
typedef struct nck_deform {
    nck_window window; /* its last two dims; pad_end is not used */
    int64_t group, offset_group;
    const nc_tensor *x, *w, *offset, *bias, *mask, *y;
    void *columns; /* nck_deform_bytes; of the gradient nck_deform_grad_bytes, aligned to 64 */
    /* Of the gradient, as what they are named after; NULL: not asked for. y is then what arrives. */
    const nc_tensor *dx, *dw, *doffset, *dbias, *dmask;
} nck_deform;

size_t nck_deform_bytes(const nc_tensor *x, const nc_tensor *w, const nc_tensor *y);
void nck_deform_run(const nck_deform *d, nc_pool *pool);

size_t nck_deform_grad_bytes(const nc_tensor *x, const nc_tensor *w, const nc_tensor *y);
void nck_deform_grad_run(const nck_deform *d, nc_pool *pool);

#endif
