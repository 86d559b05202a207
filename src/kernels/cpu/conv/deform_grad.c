/* kernels/cpu/conv/deform_grad.c: the gradient of deformable convolution, see deform.h. Image after image: the columns
 * that its taps read times dy give dw; the weights times dy give the gradients of the columns, which go back to the
 * pixels (a channel is one item of work) and to the taps' places and masks (a tap is one). dw adds up over the images
 * in their order. */
#include "kernels/cpu/conv/deform.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/per_type.h"

#include <math.h>
#include <string.h>

typedef struct deform_back {
    const nck_deform *g;
    int64_t n, C, H, Wd, taps, places, groups, per; /* image; x; per image; offset groups and their channels */
    int64_t out_w, kernel_w;
    void *columns; /* (C * taps, places) */
    void *gemm;
} deform_back;

/* The four pixels around a tap, -1: outside; their weights, and how these change along y and x. */
typedef struct deform_place {
    int64_t at[4];
    double weight[4], slope[2][4], mask;
} deform_place;

static double deform_real(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_DOUBLE ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static deform_place deform_place_of(const deform_back *d, int64_t group, int64_t k, int64_t p) {
    const nck_window *v = &d->g->window;
    int64_t row = (d->n * d->groups + group) * d->taps + k, oy = p / d->out_w, ox = p % d->out_w;
    double y = (double)(oy * v->stride[1] - v->pad[1] + k / d->kernel_w * v->dil[1]) +
               deform_real(d->g->offset, 2 * row * d->places + p);
    double x = (double)(ox * v->stride[2] - v->pad[2] + k % d->kernel_w * v->dil[2]) +
               deform_real(d->g->offset, (2 * row + 1) * d->places + p);
    deform_place t = {.at = {-1, -1, -1, -1},
                      .mask = d->g->mask != NULL ? deform_real(d->g->mask, row * d->places + p) : 1};
    if (!(y > -1 && y < (double)d->H && x > -1 && x < (double)d->Wd)) return t;
    int64_t i = (int64_t)floor(y), j = (int64_t)floor(x);
    double dy = y - (double)i, dx = x - (double)j;
    for (int c = 0; c < 4; c++) {
        int64_t row_at = i + c / 2, column = j + c % 2;
        double wy = c / 2 ? dy : 1 - dy, wx = c % 2 ? dx : 1 - dx;
        if (row_at < 0 || row_at >= d->H || column < 0 || column >= d->Wd) continue;
        t.at[c] = row_at * d->Wd + column;
        t.weight[c] = wy * wx;
        t.slope[0][c] = c / 2 ? wx : -wx;
        t.slope[1][c] = c % 2 ? wy : -wy;
    }
    return t;
}

#define TEXT "kernels/cpu/conv/deform_grad.inc"
#include "kernels/cpu/per_float.inc"

static size_t deform_column_bytes(const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    return nc_align64((size_t)(x->dims[1] * w->dims[2] * w->dims[3] * y->dims[2] * y->dims[3]) *
                      nc_dtype_bytes(x->dtype));
}

size_t nck_deform_grad_bytes(const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    int64_t depth = w->dims[1] * w->dims[2] * w->dims[3], places = y->dims[2] * y->dims[3], M = y->dims[1];
    return deform_column_bytes(x, w, y) + nc_max_size(nck_gemm_workspace(x->dtype, M, depth, places, false),
                                                      nck_gemm_workspace(x->dtype, depth, places, M, false));
}

static void *deform_at(const nc_tensor *t, int64_t i) {
    return (char *)t->data + i * (int64_t)nc_dtype_bytes(t->dtype);
}

/* dw of group i: dy (M/group, places) times the columns, turned round. */
static void deform_dw(const deform_back *d, int64_t i, int64_t M, int64_t depth, nc_pool *pool) {
    const nck_deform *g = d->g;
    size_t es = nc_dtype_bytes(g->x->dtype);
    nck_gemm(&(nck_gemm_args){.type = g->x->dtype,
                              .M = M,
                              .N = depth,
                              .K = d->places,
                              .alpha = 1,
                              .beta = d->n > 0,
                              .a = deform_at(g->y, (d->n * g->y->dims[1] + i * M) * d->places),
                              .a_rs = d->places,
                              .a_cs = 1,
                              .b = (const char *)d->columns + (size_t)(i * depth * d->places) * es,
                              .b_rs = 1,
                              .b_cs = d->places,
                              .c = deform_at(g->dw, i * M * depth),
                              .c_rs = depth,
                              .c_cs = 1},
             d->gemm, pool);
}

/* The gradients of the columns of group i: the weights, turned round, times dy. */
static void deform_dcolumns(const deform_back *d, int64_t i, int64_t M, int64_t depth, nc_pool *pool) {
    const nck_deform *g = d->g;
    size_t es = nc_dtype_bytes(g->x->dtype);
    nck_gemm(&(nck_gemm_args){.type = g->x->dtype,
                              .M = depth,
                              .N = d->places,
                              .K = M,
                              .alpha = 1,
                              .a = deform_at(g->w, i * M * depth),
                              .a_rs = 1,
                              .a_cs = depth,
                              .b = deform_at(g->y, (d->n * g->y->dims[1] + i * M) * d->places),
                              .b_rs = d->places,
                              .b_cs = 1,
                              .c = (char *)d->columns + (size_t)(i * depth * d->places) * es,
                              .c_rs = d->places,
                              .c_cs = 1},
             d->gemm, pool);
}

static void deform_image(deform_back *d, nc_pool *pool) {
    const nck_deform *g = d->g;
    bool wide = g->x->dtype == NC_DOUBLE;
    int64_t M = g->y->dims[1] / g->group, depth = g->w->dims[1] * d->taps;
    if (g->dw != NULL) {
        nc_parallel(pool, d->C, wide ? deform_columns_f64 : deform_columns_f32, d);
        for (int64_t i = 0; i < g->group; i++) deform_dw(d, i, M, depth, pool);
    }
    if (g->dx == NULL && g->doffset == NULL && g->dmask == NULL) return;
    for (int64_t i = 0; i < g->group; i++) deform_dcolumns(d, i, M, depth, pool);
    if (g->dx != NULL) nc_parallel(pool, d->C, wide ? deform_dx_f64 : deform_dx_f32, d);
    if (g->doffset != NULL || g->dmask != NULL)
        nc_parallel(pool, d->groups * d->taps, wide ? deform_moves_f64 : deform_moves_f32, d);
}

static void deform_no_images(const nc_tensor *t) {
    if (t != NULL) memset(t->data, 0, (size_t)nc_tensor_numel(t) * nc_dtype_bytes(t->dtype));
}

void nck_deform_grad_run(const nck_deform *g, nc_pool *pool) {
    const int64_t *x = g->x->dims, *w = g->w->dims, *y = g->y->dims;
    deform_back d = {.g = g,
                     .C = x[1],
                     .H = x[2],
                     .Wd = x[3],
                     .taps = w[2] * w[3],
                     .places = y[2] * y[3],
                     .groups = g->offset_group,
                     .per = x[1] / g->offset_group,
                     .out_w = y[3],
                     .kernel_w = w[3],
                     .columns = g->columns,
                     .gemm = (char *)g->columns + deform_column_bytes(g->x, g->w, g->y)};
    pool = nc_pool_for(pool, nc_tensor_numel(g->y) * w[1] * w[2] * w[3]);
    if (y[0] == 0) deform_no_images(g->dw);
    for (d.n = 0; d.n < y[0]; d.n++) deform_image(&d, pool);
    if (g->dbias != NULL) nc_parallel(pool, y[1], g->x->dtype == NC_DOUBLE ? deform_dbias_f64 : deform_dbias_f32, &d);
}
