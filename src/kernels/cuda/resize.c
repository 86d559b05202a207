/* cuda/resize.c: launchers of resize.cu, see resize.h. */
#include "kernels/cuda/resize.h"

#include "base/intmath.h"

#include <string.h>

/* MOST_TAPS: of both axes together, where two are one pass. */
enum { THREADS = 256, MOST_TAPS = 16 };

/* Mirrors resize_axis of resize.cu. */
typedef struct resize_axis {
    int64_t outer, in, out, inner;
    double scale, width, cubic_a, roi[2];
    int mode, coords, round, taps, antialias, exclude_outside;
} resize_axis;

/* Mirrors resize_axes of resize.cu. */
typedef struct resize_axes {
    int64_t outer, in[2], out[2], inner;
    void *first[2], *weight[2];
    int taps[2];
} resize_axes;

nc_code nck_cuda_resize_prepare(nc_device *d, nc_dtype t, bool moves, bool gradient, nck_cuda_resize *out,
                                nc_diag *diag) {
    static const char *const names[2][4] = {
        {"resize_only", "resize_first", "resize_between", "resize_last"},
        {"resize_back_only", "resize_back_first", "resize_back_between", "resize_back_last"}};
    const char *define = nck_cuda_move_define(nc_dtype_bytes(t));
    *out = (nck_cuda_resize){.type = t, .moves = moves, .gradient = gradient};
    NC_TRY(nck_cuda_move_prepare(d, nc_dtype_bytes(t), &out->move, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_resize, moves ? NC_FLOAT : t, define, "resize_outside", &out->outside, diag));
    if (!gradient)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_resize, moves ? NC_FLOAT : t, define, "resize_table", &out->table, diag));
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

static size_t table_bytes(int64_t in, int64_t out) { return nc_align64(nck_resize_table_bytes(in, out)); }

size_t nck_cuda_resize_workspace(const nc_tensor *x, const nc_tensor *y, nc_dtype t) {
    size_t bytes = 2 * buffer_bytes(x, y, t);
    for (int d = 0; d < x->rank; d++) bytes += table_bytes(x->dims[d], y->dims[d]);
    return bytes;
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

/* A run: what goes from pass to pass. */
typedef struct resize_run {
    const nck_cuda_resize *k;
    nck_cuda_at at;
    const nck_resize_rule *rule;
    const nck_resize_axis *axes;
    int64_t dims[NC_MAX_RANK]; /* of what a pass reads */
    int rank;
    char *tables;
} resize_run;

/* Of axis i: its lines, and behind them their weights. */
static char *table_of(const resize_run *r, int i) {
    char *at = r->tables;
    for (int k = 0; k < i; k++) at += table_bytes(r->axes[k].in, r->axes[k].out);
    return at;
}
static char *weights_of(const resize_run *r, int i) {
    return table_of(r, i) + (size_t)r->axes[i].out * sizeof(int64_t);
}

static nc_code make_tables(const resize_run *r, int n) {
    for (int i = 0; i < n; i++) {
        resize_axis a = axis_of(r->rule, &r->axes[i], r->dims, r->rank);
        void *first = table_of(r, i), *weight = weights_of(r, i), *args[] = {&a, &first, &weight};
        NC_TRY(nck_cuda_launch(r->at, r->k->table, nck_cuda_blocks(r->at.device, a.out, THREADS), THREADS, args));
    }
    return NC_OK;
}

/* Axis i, and the one before it where both are one pass. */
static nc_code run_forward(const resize_run *r, nc_function *f, int i, bool both, const void *x, void *y) {
    resize_axes a = {.outer = 1, .in = {1, 1}, .out = {1, 1}, .inner = 1};
    int first = r->axes[i - both].axis, last = r->axes[i].axis;
    for (int d = 0; d < r->rank; d++)
        if (d < first || d > last) *(d < first ? &a.outer : &a.inner) *= r->dims[d];
    for (int k = 0; k <= both; k++) {
        const nck_resize_axis *axis = &r->axes[i - k];
        a.in[1 - k] = axis->in, a.out[1 - k] = axis->out, a.taps[1 - k] = axis->taps;
        a.first[1 - k] = table_of(r, i - k), a.weight[1 - k] = weights_of(r, i - k);
    }
    nck_cuda_tiles t = nck_cuda_tiles_of(a.outer * a.out[0], a.out[1] * a.inner);
    void *args[] = {&a, &t.across, &t.count, &x, &y};
    return nck_cuda_launch_tiles(r->at, f, &t, args);
}

static nc_code run_backward(const resize_run *r, nc_function *f, int i, const void *x, void *y) {
    resize_axis a = axis_of(r->rule, &r->axes[i], r->dims, r->rank);
    void *args[] = {&a, &x, &y};
    uint32_t blocks = nck_cuda_blocks(r->at.device, a.outer * a.in * a.inner, THREADS);
    return nck_cuda_launch(r->at, f, blocks, THREADS, args);
}

static bool is_one_pass(const resize_run *r, int i) {
    const nck_resize_axis *a = r->axes;
    return !r->k->gradient && i > 0 && a[i - 1].axis + 1 == a[i].axis && a[i - 1].taps * a[i].taps <= MOST_TAPS;
}

nc_code nck_cuda_resize_run(const nck_cuda_resize *k, nck_cuda_at at, const nck_resize_rule *rule,
                            const nck_resize_axis *axes, int n, const nc_tensor *x, const nc_tensor *y,
                            void *workspace) {
    size_t bytes = buffer_bytes(x, y, k->type);
    resize_run r = {k, at, rule, axes, .rank = x->rank, .tables = (char *)workspace + 2 * bytes};
    const void *from = x->data;
    static const char zero[8];
    memcpy(r.dims, x->dims, (size_t)x->rank * sizeof *r.dims);
    if (nc_tensor_numel(y) == 0) return NC_OK;
    if (nc_tensor_numel(x) == 0) return nck_cuda_fill(&k->move, at, y, zero);
    if (n == 0) return nck_cuda_copy(&k->move, at, y->rank, y->dims, x->data, x->strides, y->data, y->strides);
    if (!k->gradient) NC_TRY(make_tables(&r, n));
    for (int i = n - 1, both, step = 0; i >= 0; i -= 1 + both, step++) {
        both = is_one_pass(&r, i);
        bool first = i == n - 1, last = i == both;
        nck_cuda_resize_pass pass = first && last ? NCK_RESIZE_ONLY
                                    : first       ? NCK_RESIZE_FIRST
                                    : last        ? NCK_RESIZE_LAST
                                                  : NCK_RESIZE_BETWEEN;
        void *to = last ? y->data : (char *)workspace + (size_t)(step % 2) * bytes;
        nc_function *f = k->pass[k->moves ? NCK_RESIZE_ONLY : pass];
        for (int j = i - both; j <= i; j++) r.dims[axes[j].axis] = y->dims[axes[j].axis];
        NC_TRY(k->gradient ? run_backward(&r, f, i, from, to) : run_forward(&r, f, i, both, from, to));
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
