/* kernels/cpu/conv/conv_cols.c: convolution over columns, see conv_cols.h. Here columns are made, multiplied and
 * scattered back; the products are nck_gemm's. */
#include "kernels/cpu/conv/conv_cols.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

/* Columns of the channels of one group: rows (channel, tap), m places from p0 on. */
typedef struct cols {
    const nck_window *w;
    int64_t p0, m;
    void *cols;       /* (channels * taps, ld) */
    int64_t ld, taps; /* elements between rows; taps of the window */
    void *x;          /* first channel */
    int64_t channel;  /* strides of x */
    int64_t step[NCK_WINDOW_DIMS];
} cols;

/* A run of places in one line of the output, seen by one tap. */
typedef struct cols_line {
    int64_t n, before, inside; /* places; those in front of the input, and within it */
    int64_t at;                /* of the first place inside, in x */
} cols_line;

static cols_line line_at(const cols *c, int64_t p, const int64_t tap[NCK_WINDOW_DIMS]) {
    const nck_window *w = c->w;
    int64_t o[NCK_WINDOW_DIMS] = {p / w->out[2] / w->out[1], p / w->out[2] % w->out[1], p % w->out[2]}, low, high;
    cols_line l = {.n = nc_min64(w->out[2] - o[2], c->p0 + c->m - p)};
    for (int d = 0; d < 2; d++) {
        int64_t i = o[d] * w->stride[d] - w->pad[d] + tap[d] * w->dil[d];
        if (i < 0 || i >= w->in[d]) return l;
        l.at += i * c->step[d];
    }
    nck_window_places(w, 2, tap[2], &low, &high);
    low = nc_max64(low, o[2]);
    high = nc_min64(high, o[2] + l.n);
    if (low >= high) return l;
    l.before = low - o[2];
    l.inside = high - low;
    l.at += (low * w->stride[2] - w->pad[2] + tap[2] * w->dil[2]) * c->step[2];
    return l;
}

#define TEXT "kernels/cpu/conv/conv_cols.inc"
#include "kernels/cpu/per_float.inc"

static size_t cols_bytes(const nck_conv_shape *s) {
    int64_t m = nc_min64(nck_window_n_out(&s->w), NCK_COLS_CHUNK);
    return nc_align64((size_t)(s->C / s->group * nck_window_n_k(&s->w) * m) * nc_dtype_bytes(s->type));
}

size_t nck_conv_cols_workspace(const nck_conv_shape *s) {
    int64_t m = nc_min64(nck_window_n_out(&s->w), NCK_COLS_CHUNK), Kg = s->K / s->group;
    int64_t rows = s->C / s->group * nck_window_n_k(&s->w);
    size_t y = nck_gemm_workspace(s->type, Kg, m, rows, false), dx = nck_gemm_workspace(s->type, rows, m, Kg, false);
    size_t dw = nck_gemm_workspace(s->type, Kg, rows, m, false), most = nc_max_size(y, dx);
    return cols_bytes(s) + nc_max_size(most, dw);
}

static void dense_strides(const nck_conv_shape *s, int64_t strides[5]) {
    const nck_window *w = &s->w;
    strides[4] = 1;
    strides[3] = w->in[2];
    strides[2] = w->in[1] * w->in[2];
    strides[1] = nck_window_n_in(w);
    strides[0] = s->C * strides[1];
}

static const char *cols_at(const nck_conv_shape *s, const void *p, int64_t i) {
    return (const char *)p + i * (int64_t)nc_dtype_bytes(s->type);
}

/* Columns over image n, group g of x. */
static cols cols_columns(const nck_conv_shape *s, const void *x, const int64_t strides[5], int64_t n, int64_t g,
                         void *workspace) {
    int64_t first = n * strides[0] + g * (s->C / s->group) * strides[1];
    return (cols){.w = &s->w,
                  .cols = workspace,
                  .taps = nck_window_n_k(&s->w),
                  .x = (void *)(uintptr_t)cols_at(s, x, first),
                  .channel = strides[1],
                  .step = {strides[2], strides[3], strides[4]}};
}

static void cols_chunk(cols *c, int64_t p0, int64_t places) {
    c->p0 = p0;
    c->m = c->ld = nc_min64(NCK_COLS_CHUNK, places - p0);
}

static void cols_gather(const nck_conv_shape *s, cols *c, nc_pool *pool) {
    int64_t rows = s->C / s->group * c->taps;
    nc_parallel(nc_pool_for(pool, rows * c->m), rows, s->type == NC_FLOAT ? cols_gather_f32 : cols_gather_f64, c);
}

/* The window sees every element of x once, in order: x is its own columns. */
static bool is_pointwise(const nck_window *w, const int64_t strides[5]) {
    for (int d = 0; d < NCK_WINDOW_DIMS; d++)
        if (w->k[d] != 1 || w->stride[d] != 1 || w->pad[d] != 0 || w->in[d] != w->out[d]) return false;
    return strides[4] == 1 && strides[3] == w->in[2] && strides[2] == w->in[1] * w->in[2];
}

void nck_conv_cols(const nck_conv_shape *s, const void *x, const int64_t x_strides[5], const void *w, const void *bias,
                   void *y, void *workspace, nc_pool *pool) {
    int64_t Kg = s->K / s->group, rows = s->C / s->group * nck_window_n_k(&s->w), places = nck_window_n_out(&s->w);
    bool pointwise = is_pointwise(&s->w, x_strides);
    void *rest = (char *)workspace + cols_bytes(s);
    for (int64_t item = 0; item < s->N * s->group; item++) {
        int64_t n = item / s->group, g = item % s->group;
        cols c = cols_columns(s, x, x_strides, n, g, workspace);
        for (int64_t p0 = 0; p0 < places; p0 += NCK_COLS_CHUNK) {
            cols_chunk(&c, p0, places);
            if (!pointwise) cols_gather(s, &c, pool);
            nck_gemm_args a = {.type = s->type,
                               .M = Kg,
                               .N = c.m,
                               .K = rows,
                               .alpha = 1,
                               .a = cols_at(s, w, g * Kg * rows),
                               .a_rs = rows,
                               .a_cs = 1,
                               .b = pointwise ? cols_at(s, c.x, p0) : c.cols,
                               .b_rs = pointwise ? c.channel : c.ld,
                               .b_cs = 1,
                               .c = (void *)(uintptr_t)cols_at(s, y, (n * s->K + g * Kg) * places + p0),
                               .c_rs = places,
                               .c_cs = 1,
                               .bias = bias != NULL ? cols_at(s, bias, g * Kg) : NULL,
                               .bias_rs = 1};
            nck_gemm(&a, rest, pool);
        }
    }
}

static void cols_begin(const nck_conv_shape *s, const void *bias, void *dx) {
    int64_t n_in = nck_window_n_in(&s->w);
    for (int64_t i = 0; i < s->N * s->C; i++) {
        void *to = (void *)(uintptr_t)cols_at(s, dx, i * n_in);
        const void *value = bias != NULL ? cols_at(s, bias, i % s->C) : NULL;
        if (s->type == NC_FLOAT)
            cols_fill_f32(to, n_in, value);
        else
            cols_fill_f64(to, n_in, value);
    }
}

void nck_conv_cols_dx(const nck_conv_shape *s, const void *dy, const void *w, const void *bias, void *dx,
                      void *workspace, nc_pool *pool) {
    int64_t Kg = s->K / s->group, rows = s->C / s->group * nck_window_n_k(&s->w), places = nck_window_n_out(&s->w);
    int64_t strides[5];
    void *rest = (char *)workspace + cols_bytes(s);
    dense_strides(s, strides);
    cols_begin(s, bias, dx);
    for (int64_t item = 0; item < s->N * s->group; item++) {
        int64_t n = item / s->group, g = item % s->group;
        cols c = cols_columns(s, dx, strides, n, g, workspace);
        for (int64_t p0 = 0; p0 < places; p0 += NCK_COLS_CHUNK) {
            cols_chunk(&c, p0, places);
            nck_gemm_args a = {.type = s->type,
                               .M = rows,
                               .N = c.m,
                               .K = Kg,
                               .alpha = 1,
                               .a = cols_at(s, w, g * Kg * rows),
                               .a_rs = 1,
                               .a_cs = rows,
                               .b = cols_at(s, dy, (n * s->K + g * Kg) * places + p0),
                               .b_rs = places,
                               .b_cs = 1,
                               .c = c.cols,
                               .c_rs = c.ld,
                               .c_cs = 1};
            nck_gemm(&a, rest, pool);
            nc_parallel(nc_pool_for(pool, rows * c.m), s->C / s->group,
                        s->type == NC_FLOAT ? cols_scatter_f32 : cols_scatter_f64, &c);
        }
    }
}

void nck_conv_cols_dw(const nck_conv_shape *s, const void *x, const void *dy, void *dw, void *workspace,
                      nc_pool *pool) {
    int64_t Kg = s->K / s->group, rows = s->C / s->group * nck_window_n_k(&s->w), places = nck_window_n_out(&s->w);
    int64_t strides[5];
    void *rest = (char *)workspace + cols_bytes(s);
    dense_strides(s, strides);
    if (s->N == 0 || places == 0) memset(dw, 0, (size_t)(s->K * rows) * nc_dtype_bytes(s->type));
    for (int64_t item = 0; item < s->N * s->group; item++) {
        int64_t n = item / s->group, g = item % s->group;
        cols c = cols_columns(s, x, strides, n, g, workspace);
        for (int64_t p0 = 0; p0 < places; p0 += NCK_COLS_CHUNK) {
            cols_chunk(&c, p0, places);
            cols_gather(s, &c, pool);
            nck_gemm_args a = {.type = s->type,
                               .M = Kg,
                               .N = rows,
                               .K = c.m,
                               .alpha = 1,
                               .beta = n > 0 || p0 > 0 ? 1 : 0,
                               .a = cols_at(s, dy, (n * s->K + g * Kg) * places + p0),
                               .a_rs = places,
                               .a_cs = 1,
                               .b = c.cols,
                               .b_rs = 1,
                               .b_cs = c.ld,
                               .c = (void *)(uintptr_t)cols_at(s, dw, g * Kg * rows),
                               .c_rs = rows,
                               .c_cs = 1};
            nck_gemm(&a, rest, pool);
        }
    }
}

void nck_cols_to_image(nc_dtype type, const nck_window *w, int64_t planes, const void *from, void *x, nc_pool *pool) {
    nck_conv_shape s = {.type = type, .N = planes, .C = 1, .K = 1, .group = 1, .w = *w};
    int64_t strides[5], places = nck_window_n_out(w);
    dense_strides(&s, strides);
    cols_begin(&s, NULL, x);
    cols c = cols_columns(&s, x, strides, 0, 0, (void *)(uintptr_t)from);
    c.m = c.ld = places;
    pool = nc_pool_for(pool, planes * c.taps * places);
    if (places > 0) nc_parallel(pool, planes, type == NC_FLOAT ? cols_scatter_f32 : cols_scatter_f64, &c);
}
