/* kernels/cpu/conv/conv_cols.c: convolution over columns, see conv_cols.h. Here columns are made, multiplied and
 * scattered back; the products are nck_gemm's. */
#include "kernels/cpu/conv/conv_cols.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/per_type.h"

#include <string.h>

/* Columns of the channels of one group: rows (channel, tap), for some images m places each from p0 on. */
typedef struct cols {
    const nck_window *w;
    int64_t images, p0, m;
    void *cols;             /* (channels * taps, ld) */
    int64_t ld, taps;       /* elements between rows; taps of the window */
    void *x;                /* first image and channel */
    int64_t image, channel; /* strides of x */
    int64_t step[NCK_WINDOW_DIMS];
} cols;

/* A run of places in one line of the output, seen by one tap. */
typedef struct cols_line {
    int64_t n, before, inside; /* places; those in front of the input, and within it */
    int64_t at;                /* of the first place inside, in x */
} cols_line;

/* The lines of a tap, one after the other: what all of them share, and where the next one begins. */
typedef struct cols_walk {
    int64_t first[NCK_WINDOW_DIMS], low, high; /* the element that place 0 sees; places of a line within the input */
    int64_t o[NCK_WINDOW_DIMS], left;          /* place; how many are left */
} cols_walk;

static cols_walk walk_begin(const cols *c, int64_t tap_number) {
    const nck_window *w = c->w;
    int64_t tap[NCK_WINDOW_DIMS];
    cols_walk k = {.left = c->m};
    nck_window_tap(w, tap_number, tap);
    nck_window_place(w, c->p0, k.o);
    for (int d = 0; d < NCK_WINDOW_DIMS; d++) k.first[d] = tap[d] * w->dil[d] - w->pad[d];
    nck_window_places(w, 2, tap[2], &k.low, &k.high);
    return k;
}

static cols_line walk_next(const cols *c, cols_walk *k) {
    const nck_window *w = c->w;
    int64_t o = k->o[2], i0 = k->o[0] * w->stride[0] + k->first[0], i1 = k->o[1] * w->stride[1] + k->first[1];
    cols_line l = {.n = nc_min64(w->out[2] - o, k->left)};
    int64_t low = nc_max64(k->low, o), high = nc_min64(k->high, o + l.n);
    if (i0 >= 0 && i0 < w->in[0] && i1 >= 0 && i1 < w->in[1] && low < high) {
        l.before = low - o;
        l.inside = high - low;
        l.at = i0 * c->step[0] + i1 * c->step[1] + (low * w->stride[2] + k->first[2]) * c->step[2];
    }
    k->left -= l.n;
    k->o[2] = 0;
    if (++k->o[1] == w->out[1]) k->o[1] = 0, k->o[0]++;
    return l;
}

#define TEXT "kernels/cpu/conv/conv_cols.inc"
#include "kernels/cpu/per_float.inc"

/* Columns in one product, at most: places of several images where one has few. */
static int64_t most_columns(const nck_conv_shape *s) {
    return nc_min64(s->N * nck_window_n_out(&s->w), NCK_COLS_CHUNK);
}

static size_t cols_bytes(const nck_conv_shape *s) {
    int64_t rows = s->C / s->group * nck_window_n_k(&s->w);
    return nc_align64((size_t)(rows * most_columns(s)) * nc_dtype_bytes(s->type));
}

/* The same columns of y or dy, of one group. */
static size_t side_bytes(const nck_conv_shape *s) {
    return nc_align64((size_t)(s->K / s->group * most_columns(s)) * nc_dtype_bytes(s->type));
}

size_t nck_conv_cols_workspace(const nck_conv_shape *s) {
    int64_t m = most_columns(s), Kg = s->K / s->group;
    int64_t rows = s->C / s->group * nck_window_n_k(&s->w);
    size_t y = nck_gemm_workspace(s->type, Kg, m, rows, false), dx = nck_gemm_workspace(s->type, rows, m, Kg, false);
    size_t dw = nck_gemm_workspace(s->type, Kg, rows, m, false), most = nc_max_size(y, dx);
    return cols_bytes(s) + side_bytes(s) + nc_max_size(most, dw);
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

/* What one product covers: a group of some images, and a chunk of their places. */
typedef struct cols_part {
    cols c;
    int64_t n, g;      /* first image; group */
    void *side, *rest; /* workspace: y's or dy's columns; the product's own */
    const nck_conv_shape *s;
    void *y;  /* move_side: y or dy */
    bool out; /* move_side: to y */
} cols_part;

typedef void cols_step(cols_part *p, const void *ctx, nc_pool *pool);

/* Columns over group g of x, images from n on. */
static cols cols_columns(const nck_conv_shape *s, const void *x, const int64_t strides[5], int64_t n, int64_t g,
                         void *workspace) {
    int64_t first = n * strides[0] + g * (s->C / s->group) * strides[1];
    return (cols){.w = &s->w,
                  .images = 1,
                  .cols = workspace,
                  .taps = nck_window_n_k(&s->w),
                  .x = (void *)(uintptr_t)cols_at(s, x, first),
                  .image = strides[0],
                  .channel = strides[1],
                  .step = {strides[2], strides[3], strides[4]}};
}

/* Calls step for each part, in order. */
static void cols_each(const nck_conv_shape *s, const void *x, const int64_t strides[5], void *workspace, cols_step step,
                      const void *ctx, nc_pool *pool) {
    int64_t places = nck_window_n_out(&s->w);
    if (places == 0) return;
    int64_t images = places < NCK_COLS_CHUNK ? NCK_COLS_CHUNK / places : 1;
    for (int64_t n = 0; n < s->N; n += images)
        for (int64_t g = 0; g < s->group; g++) {
            cols_part p = {.c = cols_columns(s, x, strides, n, g, workspace),
                           .n = n,
                           .g = g,
                           .side = (char *)workspace + cols_bytes(s),
                           .rest = (char *)workspace + cols_bytes(s) + side_bytes(s),
                           .s = s};
            p.c.images = nc_min64(images, s->N - n);
            for (int64_t p0 = 0; p0 < places; p0 += NCK_COLS_CHUNK) {
                p.c.p0 = p0;
                p.c.m = nc_min64(NCK_COLS_CHUNK, places - p0);
                p.c.ld = p.c.images * p.c.m;
                step(&p, ctx, pool);
            }
        }
}

/* Between y or dy and its columns: image and channel `item` of the part, whose places lie together. */
static void move_side(void *ctx, int64_t item) {
    const cols_part *p = ctx;
    const nck_conv_shape *s = p->s;
    int64_t Kg = s->K / s->group, image = item / Kg, k = item % Kg, places = nck_window_n_out(&s->w);
    char *y = (char *)p->y + ((p->n + image) * s->K + p->g * Kg + k) * places * (int64_t)nc_dtype_bytes(s->type);
    char *side = (char *)p->side + (k * p->c.ld + image * places) * (int64_t)nc_dtype_bytes(s->type);
    memcpy(p->out ? y : side, p->out ? side : y, (size_t)places * nc_dtype_bytes(s->type));
}

/* y or dy of the part as a matrix (Kg, ld): where it lies for one image, else in the workspace. */
static void *side_matrix(cols_part *p, void *y, bool out, int64_t *rs) {
    const nck_conv_shape *s = p->s;
    int64_t places = nck_window_n_out(&s->w);
    p->y = y, p->out = out;
    *rs = p->c.images > 1 ? p->c.ld : places;
    if (p->c.images > 1) return p->side;
    return (void *)(uintptr_t)cols_at(s, y, (p->n * s->K + p->g * (s->K / s->group)) * places + p->c.p0);
}

static void move_side_all(cols_part *p, nc_pool *pool) {
    int64_t items = p->c.images * (p->s->K / p->s->group);
    if (p->c.images > 1) nc_parallel(nc_pool_for(pool, items * p->c.m), items, move_side, p);
}

static void cols_gather(const nck_conv_shape *s, cols *c, nc_pool *pool) {
    int64_t rows = s->C / s->group * c->taps;
    nc_parallel(nc_pool_for(pool, rows * c->ld), rows, s->type == NC_FLOAT ? cols_gather_f32 : cols_gather_f64, c);
}

/* The window sees every element of x once, in order: x is its own columns. */
static bool is_pointwise(const nck_window *w, const int64_t strides[5]) {
    for (int d = 0; d < NCK_WINDOW_DIMS; d++)
        if (w->k[d] != 1 || w->stride[d] != 1 || w->pad[d] != 0 || w->in[d] != w->out[d]) return false;
    return strides[4] == 1 && strides[3] == w->in[2] && strides[2] == w->in[1] * w->in[2];
}

typedef struct forward {
    const void *w, *bias;
    void *y;
    bool pointwise;
} forward;

static void forward_part(cols_part *p, const void *ctx, nc_pool *pool) {
    const forward *f = ctx;
    const nck_conv_shape *s = p->s;
    int64_t Kg = s->K / s->group, rows = s->C / s->group * p->c.taps, c_rs;
    bool as_is = f->pointwise && p->c.images == 1;
    void *y = side_matrix(p, f->y, true, &c_rs);
    if (!as_is) cols_gather(s, &p->c, pool);
    nck_gemm_args a = {.type = s->type,
                       .M = Kg,
                       .N = p->c.ld,
                       .K = rows,
                       .alpha = 1,
                       .a = cols_at(s, f->w, p->g * Kg * rows),
                       .a_rs = rows,
                       .a_cs = 1,
                       .b = as_is ? cols_at(s, p->c.x, p->c.p0) : p->c.cols,
                       .b_rs = as_is ? p->c.channel : p->c.ld,
                       .b_cs = 1,
                       .c = y,
                       .c_rs = c_rs,
                       .c_cs = 1,
                       .bias = f->bias != NULL ? cols_at(s, f->bias, p->g * Kg) : NULL,
                       .bias_rs = 1};
    nck_gemm(&a, p->rest, pool);
    move_side_all(p, pool);
}

void nck_conv_cols(const nck_conv_shape *s, const void *x, const int64_t x_strides[5], const void *w, const void *bias,
                   void *y, void *workspace, nc_pool *pool) {
    forward f = {w, bias, y, is_pointwise(&s->w, x_strides)};
    cols_each(s, x, x_strides, workspace, forward_part, &f, pool);
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

typedef struct backward {
    const void *dy, *w;
    void *dw;
} backward;

static void dx_part(cols_part *p, const void *ctx, nc_pool *pool) {
    const backward *k = ctx;
    const nck_conv_shape *s = p->s;
    int64_t Kg = s->K / s->group, rows = s->C / s->group * p->c.taps, b_rs;
    const void *dy = side_matrix(p, (void *)(uintptr_t)k->dy, false, &b_rs);
    move_side_all(p, pool);
    nck_gemm_args a = {.type = s->type,
                       .M = rows,
                       .N = p->c.ld,
                       .K = Kg,
                       .alpha = 1,
                       .a = cols_at(s, k->w, p->g * Kg * rows),
                       .a_rs = 1,
                       .a_cs = rows,
                       .b = dy,
                       .b_rs = b_rs,
                       .b_cs = 1,
                       .c = p->c.cols,
                       .c_rs = p->c.ld,
                       .c_cs = 1};
    nck_gemm(&a, p->rest, pool);
    nc_parallel(nc_pool_for(pool, rows * p->c.ld), s->C / s->group,
                s->type == NC_FLOAT ? cols_scatter_f32 : cols_scatter_f64, &p->c);
}

void nck_conv_cols_dx(const nck_conv_shape *s, const void *dy, const void *w, const void *bias, void *dx,
                      void *workspace, nc_pool *pool) {
    int64_t strides[5];
    backward k = {.dy = dy, .w = w};
    dense_strides(s, strides);
    cols_begin(s, bias, dx);
    cols_each(s, dx, strides, workspace, dx_part, &k, pool);
}

static void dw_part(cols_part *p, const void *ctx, nc_pool *pool) {
    const backward *k = ctx;
    const nck_conv_shape *s = p->s;
    int64_t Kg = s->K / s->group, rows = s->C / s->group * p->c.taps, a_rs;
    const void *dy = side_matrix(p, (void *)(uintptr_t)k->dy, false, &a_rs);
    move_side_all(p, pool);
    cols_gather(s, &p->c, pool);
    nck_gemm_args a = {.type = s->type,
                       .M = Kg,
                       .N = rows,
                       .K = p->c.ld,
                       .alpha = 1,
                       .beta = p->n > 0 || p->c.p0 > 0 ? 1 : 0,
                       .a = dy,
                       .a_rs = a_rs,
                       .a_cs = 1,
                       .b = p->c.cols,
                       .b_rs = 1,
                       .b_cs = p->c.ld,
                       .c = (void *)(uintptr_t)cols_at(s, k->dw, p->g * Kg * rows),
                       .c_rs = rows,
                       .c_cs = 1};
    nck_gemm(&a, p->rest, pool);
}

void nck_conv_cols_dw(const nck_conv_shape *s, const void *x, const void *dy, void *dw, void *workspace,
                      nc_pool *pool) {
    int64_t rows = s->C / s->group * nck_window_n_k(&s->w), strides[5];
    backward k = {.dy = dy, .dw = dw};
    dense_strides(s, strides);
    if (s->N == 0 || nck_window_n_out(&s->w) == 0) memset(dw, 0, (size_t)(s->K * rows) * nc_dtype_bytes(s->type));
    cols_each(s, x, strides, workspace, dw_part, &k, pool);
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
