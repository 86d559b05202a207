/* kernels/cpu/reduce/reduce_ref.c: reduction element after element, the yardstick of reduce.c. */
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/reduce/reduce.h"

#include <math.h>

static double reduce_ref_start(nck_reduce_op op) {
    return op == NCK_REDUCE_MAX ? (double)-INFINITY : op == NCK_REDUCE_MIN ? (double)INFINITY : op == NCK_REDUCE_PROD;
}

static double reduce_ref_step(nck_reduce_op op, double a, double b) {
    if (op == NCK_REDUCE_MAX) return a > b || a != a ? a : b;
    if (op == NCK_REDUCE_MIN) return a < b || a != a ? a : b;
    return op == NCK_REDUCE_PROD ? a * b : a + b;
}

static int64_t step_int(nck_reduce_op op, int64_t a, int64_t b) {
    if (op == NCK_REDUCE_MAX) return a > b ? a : b;
    if (op == NCK_REDUCE_MIN) return a < b ? a : b;
    return (int64_t)(op == NCK_REDUCE_PROD ? (uint64_t)a * (uint64_t)b : (uint64_t)a + (uint64_t)b);
}

static void reduce_float(nck_reduce_op op, const nc_tensor *x, const nck_walk *walk, int64_t from, int64_t n, void *out,
                         int64_t o) {
    bool narrow = x->dtype == NC_FLOAT;
    double acc = reduce_ref_start(op);
    nck_walk_at w;
    for (int64_t r = 0; r < n; r++) {
        nck_walk_start(&w, walk, r);
        int64_t at = from + w.offset[0];
        acc = reduce_ref_step(op, acc, narrow ? (double)((const float *)x->data)[at] : ((const double *)x->data)[at]);
    }
    if (op == NCK_REDUCE_MEAN) acc /= (double)n;
    if (narrow)
        ((float *)out)[o] = (float)acc;
    else
        ((double *)out)[o] = acc;
}

static void reduce_int(nck_reduce_op op, const nc_tensor *x, const nck_walk *walk, int64_t from, int64_t n, void *out,
                       int64_t o) {
    bool narrow = x->dtype == NC_INT32;
    int64_t acc = op == NCK_REDUCE_PROD;
    nck_walk_at w;
    if (op == NCK_REDUCE_MAX) acc = narrow ? INT32_MIN : INT64_MIN;
    if (op == NCK_REDUCE_MIN) acc = narrow ? INT32_MAX : INT64_MAX;
    for (int64_t r = 0; r < n; r++) {
        nck_walk_start(&w, walk, r);
        int64_t at = from + w.offset[0];
        acc = step_int(op, acc, narrow ? ((const int32_t *)x->data)[at] : ((const int64_t *)x->data)[at]);
    }
    if (op == NCK_REDUCE_MEAN) acc = n ? acc / n : 0;
    if (narrow)
        ((int32_t *)out)[o] = (int32_t)acc;
    else
        ((int64_t *)out)[o] = acc;
}

nc_code nck_reduce_ref(nck_reduce_op op, const nc_tensor *x, nc_axes axes, void *out) {
    int64_t dims[2][NC_MAX_RANK], strides[2][1][NC_MAX_RANK];
    int n[2] = {0, 0};
    nck_walk w[2];
    nck_walk_at kept;
    for (int d = 0; d < x->rank; d++) {
        int reduced = axes >> d & 1;
        dims[reduced][n[reduced]] = x->dims[d];
        strides[reduced][0][n[reduced]++] = x->strides[d];
    }
    for (int i = 0; i < 2; i++) nck_walk_init(&w[i], n[i], dims[i], 1, strides[i]);
    int64_t n_out = nck_walk_rows(&w[0]), n_reduced = nck_walk_rows(&w[1]);
    bool is_float = x->dtype == NC_FLOAT || x->dtype == NC_DOUBLE;
    if (!is_float && x->dtype != NC_INT32 && x->dtype != NC_INT64) return NC_E_UNSUPPORTED;
    for (int64_t o = 0; o < n_out; o++) {
        nck_walk_start(&kept, &w[0], o);
        (is_float ? reduce_float : reduce_int)(op, x, &w[1], kept.offset[0], n_reduced, out, o);
    }
    return NC_OK;
}
