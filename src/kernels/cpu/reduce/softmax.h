/* kernels/cpu/reduce/softmax.h: softmax and log-softmax along one axis, and their gradients, f32 and f64.
 *
 * Shifted by the row's maximum; a row of -inf alone, or one that holds +inf or NaN, gives NaN. Accumulation: runs of
 * NCK_REDUCE_RUN elements in the element type (reduce_kernel.h), runs added in double in order; forward, where rows
 * lie side by side, each element is added in double. Tensors may have any
 * strides; y may be x, dx may be dy, each with the same strides. An axis of length 0 does nothing. */
#ifndef NCK_SOFTMAX_H
#define NCK_SOFTMAX_H

#include "base/shape.h"
#include "base/threads.h"

typedef enum nck_softmax_kind { NCK_SOFTMAX, NCK_LOG_SOFTMAX } nck_softmax_kind;

/* x, y: the same dims, both f32 or both f64. */
void nck_softmax(nck_softmax_kind kind, const nc_tensor *x, const nc_tensor *y, int axis, nc_pool *pool);

/* From the forward result y: softmax dx = y * (dy - sum(dy*y)), log-softmax dx = dy - exp(y) * sum(dy). */
void nck_softmax_grad(nck_softmax_kind kind, const nc_tensor *y, const nc_tensor *dy, const nc_tensor *dx, int axis,
                      nc_pool *pool);

/* One element at a time in double. */
void nck_softmax_ref(nck_softmax_kind kind, const nc_tensor *x, const nc_tensor *y, int axis);
void nck_softmax_grad_ref(nck_softmax_kind kind, const nc_tensor *y, const nc_tensor *dy, const nc_tensor *dx,
                          int axis);

#endif
