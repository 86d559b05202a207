/* cuda/resize.c: launchers of resize.cu, see resize.h. */
#include "kernels/cuda/resize.h"

#include "base/intmath.h"

#include <string.h>

enum { THREADS = 256 };

/* Mirrors resize_axis of resize.cu. */
typedef struct resize_axis {
    int64_t outer, in, out, inner;
    double scale, width, cubic_a, roi[2];
    int mode, coords, round, taps, antialias, exclude_outside;
} resize_axis;

nc_code nck_cuda_resize_prepare(nc_device *d, nc_dtype t, bool moves, bool gradient, nck_cuda_resize *out,
                                nc_diag *diag) {
    static const char *const names[2][4] = {
        {"resize_only", "resize_first", "resize_between", "resize_last"},
        {"resize_back_only", "resize_back_first", "resize_back_between", "resize_back_last"}};
    const char *define = nck_cuda_move_define(nc_dtype_bytes(t));
    *out = (nck_cuda_resize){.type = t, .moves = moves};
    NC_TRY(nck_cuda_move_prepare(d, nc_dtype_bytes(t), &out->move, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_resize, moves ? NC_FLOAT : t, define, "resize_outside", &out->outside, diag));
    if (moves) return nck_cuda_find(d, NCK_CUDA_TEXT_resize, NC_FLOAT, define, "resize_pick", &out->pass[0], diag);
    for (int i = 0; i < 4; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_resize, t, define, names[gradient][i], &out->pass[i], diag));
    return NC_OK;
}

static size_t number_bytes(nc_dtype t) {
    size_t a = nck_cuda_accumulator(t) != NC_UNDEFINED ? nc_dtype_bytes(nck_cuda_accumulator(t)) : 0;
    return a > nc_dtype_bytes(t) ? a : nc_dtype_bytes(t);
}

static size_t buffer_bytes(const nc_tensor *x, const nc_tensor *y, nc_dtype t) {
    return nc_align64((size_t)nck_resize_buffer(x, y) * number_bytes(t));
}

size_t nck_cuda_resize_workspace(const nc_tensor *x, const nc_tensor *y, nc_dtype t) {
    return 2 * buffer_bytes(x, y, t);
}

static resize_axis axis_of(const nck_resize_rule *rule, const nck_resize_axis *axis, const int64_t *dims, int rank) {
    resize_axis a = {.outer = 1,
                     .in = axis->in,
                     .out = axis->out,
                     .inner = 1,
                     .scale = axis->scale,
                     .width = rule->whole && rule->coords == NCK_COORDS_ALIGN_CORNERS ? (double)axis->out
                                                                                      : axis->scale * (double)axis->in,
                     .roi = {axis->roi[0], axis->roi[1]},
                     .cubic_a = rule->cubic_a,
                     .mode = (int)rule->mode,
                     .coords = (int)rule->coords,
                     .round = (int)rule->round,
                     .taps = axis->taps,
                     .antialias = rule->antialias,
                     .exclude_outside = rule->exclude_outside};
    for (int d = 0; d < rank; d++)
        if (d != axis->axis) *(d < axis->axis ? &a.outer : &a.inner) *= dims[d];
    return a;
}

static nc_code run_pass(nck_cuda_at at, nc_function *f, const nck_resize_rule *rule, const nck_resize_axis *axis,
                        const int64_t *dims, int rank, int64_t lines, const void *x, void *y) {
    resize_axis a = axis_of(rule, axis, dims, rank);
    void *args[] = {&a, &x, &y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, a.outer * lines * a.inner, THREADS), THREADS, args);
}

nc_code nck_cuda_resize_run(const nck_cuda_resize *k, nck_cuda_at at, const nck_resize_rule *rule,
                            const nck_resize_axis *axes, int n, const nc_tensor *x, const nc_tensor *y,
                            void *workspace) {
    int64_t dims[NC_MAX_RANK];
    const void *from = x->data;
    static const char zero[8];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    if (nc_tensor_numel(y) == 0) return NC_OK;
    if (nc_tensor_numel(x) == 0) return nck_cuda_fill(&k->move, at, y, zero);
    if (n == 0) return nck_cuda_copy(&k->move, at, y->rank, y->dims, x->data, x->strides, y->data, y->strides);
    for (int i = n - 1; i >= 0; i--) {
        bool first = i == n - 1, last = i == 0;
        nck_cuda_resize_pass pass = first && last ? NCK_RESIZE_ONLY
                                    : first       ? NCK_RESIZE_FIRST
                                    : last        ? NCK_RESIZE_LAST
                                                  : NCK_RESIZE_BETWEEN;
        void *to = last ? y->data : (char *)workspace + (size_t)(i % 2) * buffer_bytes(x, y, k->type);
        dims[axes[i].axis] = y->dims[axes[i].axis];
        NC_TRY(run_pass(at, k->pass[k->moves ? NCK_RESIZE_ONLY : pass], rule, &axes[i], dims, x->rank,
                        dims[axes[i].axis], from, to));
        from = to;
    }
    return NC_OK;
}

nc_code nck_cuda_resize_fill_outside(const nck_cuda_resize *k, nck_cuda_at at, const nck_resize_rule *rule,
                                     const nck_resize_axis *axes, int n, const nc_tensor *y, const void *value) {
    uint64_t bits = 0;
    void *data = y->data;
    memcpy(&bits, value, nc_dtype_bytes(y->dtype));
    for (int i = 0; i < n; i++) {
        resize_axis a = axis_of(rule, &axes[i], y->dims, y->rank);
        void *args[] = {&a, &bits, &data};
        int64_t all = a.outer * a.out * a.inner;
        NC_TRY(nck_cuda_launch(at, k->outside, nck_cuda_blocks(at.device, all, THREADS), THREADS, args));
    }
    return NC_OK;
}
