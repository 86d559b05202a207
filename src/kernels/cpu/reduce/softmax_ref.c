/* kernels/cpu/reduce/softmax_ref.c: softmax, log-softmax and their gradients one element at a time in double. */
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/reduce/softmax.h"

#include <math.h>

static double softmax_ref_load(const nc_tensor *t, int64_t at) {
    return t->dtype == NC_FLOAT ? (double)((const float *)t->data)[at] : ((const double *)t->data)[at];
}

static void softmax_ref_store(const nc_tensor *t, int64_t at, double v) {
    if (t->dtype == NC_FLOAT)
        ((float *)t->data)[at] = (float)v;
    else
        ((double *)t->data)[at] = v;
}

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
    nck_walk w;
    int64_t rows = rows_of(&w, 2, (const nc_tensor *const[]){x, y}, axis), n = x->dims[axis];
    for (int64_t r = 0; r < rows; r++) {
        nck_walk_start(&w, r);
        double top = (double)-INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double v = softmax_ref_load(x, w.offset[0] + i * x->strides[axis]);
            top = top > v || isnan(top) ? top : v;
        }
        for (int64_t i = 0; i < n; i++) sum += exp(softmax_ref_load(x, w.offset[0] + i * x->strides[axis]) - top);
        for (int64_t i = 0; i < n; i++) {
            double v = softmax_ref_load(x, w.offset[0] + i * x->strides[axis]) - top;
            softmax_ref_store(y, w.offset[1] + i * y->strides[axis], kind == NCK_SOFTMAX ? exp(v) / sum : v - log(sum));
        }
    }
}

void nck_softmax_grad_ref(nck_softmax_kind kind, const nc_tensor *y, const nc_tensor *dy, const nc_tensor *dx,
                          int axis) {
    nck_walk w;
    int64_t rows = rows_of(&w, 3, (const nc_tensor *const[]){y, dy, dx}, axis), n = y->dims[axis];
    for (int64_t r = 0; r < rows; r++) {
        nck_walk_start(&w, r);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double g = softmax_ref_load(dy, w.offset[1] + i * dy->strides[axis]);
            sum += kind == NCK_SOFTMAX ? g * softmax_ref_load(y, w.offset[0] + i * y->strides[axis]) : g;
        }
        for (int64_t i = 0; i < n; i++) {
            double v = softmax_ref_load(y, w.offset[0] + i * y->strides[axis]),
                   g = softmax_ref_load(dy, w.offset[1] + i * dy->strides[axis]);
            softmax_ref_store(dx, w.offset[2] + i * dx->strides[axis],
                              kind == NCK_SOFTMAX ? v * (g - sum) : g - exp(v) * sum);
        }
    }
}
