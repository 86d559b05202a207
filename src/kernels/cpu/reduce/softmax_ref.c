/* kernels/cpu/reduce/softmax_ref.c: softmax, log-softmax and their gradients one element at a time in double. */
#include "base/real.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/reduce/softmax.h"

#include <math.h>

/* Rows along the axis: all other dims, with offsets of up to three tensors of the same dims. */
static int64_t rows_of(nck_walk *w, int n, const nc_tensor *const *t, int axis) {
    int64_t dims[NC_MAX_RANK], strides[NCK_WALK_MAX][NC_MAX_RANK];
    int r = 0;
    for (int d = 0; d < t[0]->rank; d++) {
        if (d == axis) continue;
        dims[r] = t[0]->dims[d];
        for (int k = 0; k < n; k++) strides[k][r] = t[k]->strides[d];
        r++;
    }
    nck_walk_init(w, r, dims, n, strides);
    return nck_walk_rows(w);
}

void nck_softmax_ref(nck_softmax_kind kind, const nc_tensor *x, const nc_tensor *y, int axis) {
    nck_walk walk;
    nck_walk_at w;
    int64_t rows = rows_of(&walk, 2, (const nc_tensor *const[]){x, y}, axis), n = x->dims[axis];
    for (int64_t r = 0; r < rows; r++) {
        nck_walk_start(&w, &walk, r);
        double top = (double)-INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double v = nc_tensor_get(x, w.offset[0] + i * x->strides[axis]);
            top = top > v || isnan(top) ? top : v;
        }
        for (int64_t i = 0; i < n; i++) sum += exp(nc_tensor_get(x, w.offset[0] + i * x->strides[axis]) - top);
        for (int64_t i = 0; i < n; i++) {
            double v = nc_tensor_get(x, w.offset[0] + i * x->strides[axis]) - top;
            nc_tensor_put(y, w.offset[1] + i * y->strides[axis], kind == NCK_SOFTMAX ? exp(v) / sum : v - log(sum));
        }
    }
}

void nck_softmax_grad_ref(nck_softmax_kind kind, const nc_tensor *y, const nc_tensor *dy, const nc_tensor *dx,
                          int axis) {
    nck_walk walk;
    nck_walk_at w;
    int64_t rows = rows_of(&walk, 3, (const nc_tensor *const[]){y, dy, dx}, axis), n = y->dims[axis];
    for (int64_t r = 0; r < rows; r++) {
        nck_walk_start(&w, &walk, r);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double g = nc_tensor_get(dy, w.offset[1] + i * dy->strides[axis]);
            sum += kind == NCK_SOFTMAX ? g * nc_tensor_get(y, w.offset[0] + i * y->strides[axis]) : g;
        }
        for (int64_t i = 0; i < n; i++) {
            double v = nc_tensor_get(y, w.offset[0] + i * y->strides[axis]),
                   g = nc_tensor_get(dy, w.offset[1] + i * dy->strides[axis]);
            nc_tensor_put(dx, w.offset[2] + i * dx->strides[axis],
                          kind == NCK_SOFTMAX ? v * (g - sum) : g - exp(v) * sum);
        }
    }
}
