/* kernels/cpu/quant/qpool.h: the largest code under a window that moves over images with channels last: x (N, in...,
 * C) to y (N, out..., C), both dense. Codes of one kind keep the order of their numbers. A window that sees no element
 * gives the least code. */
#ifndef NCK_QUANT_QPOOL_H
#define NCK_QUANT_QPOOL_H

#include "base/dtype.h"
#include "base/threads.h"
#include "kernels/cpu/conv/window.h"

typedef struct nck_qpool_args {
    nc_dtype type; /* NC_UINT8 or NC_INT8 */
    nck_window w;
    int64_t N, C;
    const void *x;
    void *y;
} nck_qpool_args;

void nck_qpool_max(const nck_qpool_args *a, nc_pool *pool);
void nck_qpool_max_ref(const nck_qpool_args *a);

#endif
