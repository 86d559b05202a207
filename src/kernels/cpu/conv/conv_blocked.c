/* kernels/cpu/conv/conv_blocked.c: cuts the blocked convolution into items and register tiles; see conv_blocked.h.
 * Strip after strip of the input (conv_strip.h) meets all weights: an item is some rows of one strip, or columns where
 * it has one row, for two blocks of K; or all of a strip, which then is smaller and one thread's own. The product of
 * weights and columns is formed without the columns: a tile's taps are read where they lie. */
#include "kernels/cpu/conv/conv_blocked.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_depthwise.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/conv/conv_strip.h"
#include "kernels/cpu/conv/conv_wino.h"
#include "kernels/cpu/isa.h"

/* Multiplications of an item; elements of the weights that pass over an item's pixels at once: with a strip and the
 * chunk that comes next, which is asked for meanwhile, they fit the second cache. */
enum { ITEM_WORK = 1 << 21, CHUNK_WEIGHTS = 128 << 8 };
/* Elements of the smallest item that copies. */
enum { LEAST_COPY = 2048 };
/* Vectors that could be multiplied while threads wait for each other at the end of a loop. */
enum { LOOP_END = 1 << 14 };

typedef struct conv_blocked_job {
    const nck_conv_blocked_args *a;
    const nck_conv_table *table;
    nck_strips t;
    const int64_t *taps;
    int64_t n_taps;
    int64_t B, Kb, Kgb, Cg;  /* blocks of K, of K in a group, channels of a group */
    int64_t pairs;           /* pairs of blocks of K in a group */
    int64_t parts, part;     /* of a strip; rows of a part, or tiles of columns where it has one row */
    int64_t x_row, x_image;  /* elements of the memory that tiles read */
    int64_t x_block, w_pair; /* weights of a whole pair of blocks */
    int64_t chunk;           /* input channels whose products are summed at once */
    int own;                 /* copied: most threads that have strips of their own; 0: all share each strip */
    float *strip;            /* of lane 0 */
    int64_t image, oh, ow;   /* copied: the strip at hand */
    int64_t copied;          /* rows of an item that copies */
} conv_blocked_job;

int64_t nck_channel_block(void) { return nck_isa_get()->conv->block; }

/* Some rows and columns of a strip, for one pair of blocks of K. */
typedef struct conv_area {
    int64_t image, oh, ow, rows, cols;
    int64_t kb0; /* first block of K */
    int kb;
    const float *x;        /* first pixel */
    const float *w, *next; /* the pair's weights, and those that are read after them */
} conv_area;

static void run_pixels(const conv_blocked_job *j, nck_conv_tile t, int kb, int64_t pixels) {
    bool planes = j->a->form == NCK_CONV_PLANES;
    nck_conv_tile_fn *const *fns = (planes ? j->table->planes : j->table->blocked)[kb - 1];
    nck_conv_run_tiles(fns, j->table->pixels, t, j->t.in, j->B, pixels);
}

/* The first pixel of an image of the output, of block kb, counted in pixels from y on. An image is one depth of one of
 * the N. */
static int64_t first_pixel(const conv_blocked_job *j, int64_t image, int64_t kb) {
    const nck_window *v = &j->a->shape.w;
    return ((image / v->out[0] * j->Kb + kb) * v->out[0] + image % v->out[0]) * v->out[1] * v->out[2];
}

static void after_pixels(const conv_blocked_job *j, int64_t image, int64_t kb, int64_t pixel, int64_t pixels) {
    const nck_window *v = &j->a->shape.w;
    int64_t in_block = image % v->out[0] * v->out[1] * v->out[2] + pixel;
    float *y = j->a->y + (first_pixel(j, image, kb) + pixel) * j->B;
    nck_conv_after_run(j->a->after, image / v->out[0], kb, in_block, pixels, j->B, y);
}

/* All pixels of an area, over the input channels that t has. */
static void run_lines(const conv_blocked_job *j, const conv_area *p, nck_conv_tile t) {
    int64_t runs = j->t.flat ? 1 : p->rows, pixels = j->t.flat ? p->rows * p->cols : p->cols;
    int64_t y_row = j->a->shape.w.out[2] * j->B, tiles = nc_ceil_div(pixels, j->table->pixels);
    t.share = nc_ceil_div(j->chunk * t.n_taps * p->kb * j->B, runs * tiles);
    for (int64_t r = 0; r < runs; r++) {
        run_pixels(j, t, p->kb, pixels);
        t.x += j->x_row;
        t.y += y_row;
        if (t.add) t.add += y_row;
        t.ahead += tiles * t.share;
    }
}

static void run_area(const conv_blocked_job *j, const conv_area *p) {
    const nck_conv_blocked_args *a = j->a;
    const nck_conv_after *after = a->after;
    const nck_window *v = &a->shape.w;
    int64_t B = j->B, OW = v->out[2], y_k = nck_window_n_out(v) * B, n_taps = j->n_taps;
    float bias[2 * NCK_CONV_MAX_BLOCK] = {0};
    for (int64_t k = 0; a->bias && k < nc_min64(p->kb * B, a->shape.K - p->kb0 * B); k++)
        bias[k] = a->bias[p->kb0 * B + k];
    int64_t at = (first_pixel(j, p->image, p->kb0) + p->oh * OW + p->ow) * B, c0 = 0;
    do {
        bool last = j->Cg - c0 <= j->chunk;
        const float *w = p->w + c0 * n_taps * p->kb * B;
        nck_conv_tile t = {.x = p->x + c0 / j->t.in * j->x_block,
                           .x_block = j->x_block,
                           .taps = j->taps,
                           .n_taps = n_taps,
                           .C = last ? j->Cg - c0 : j->chunk,
                           .w = w,
                           .bias = c0 == 0 ? bias : NULL,
                           .y = a->y + at,
                           .y_k = y_k,
                           .add = last && after && after->add ? after->add + at : NULL,
                           .low = after ? after->low : 0,
                           .high = after ? after->high : 0,
                           .clamps = last && after && after->clamps,
                           .ahead = last ? p->next : w + j->chunk * n_taps * p->kb * B};
        run_lines(j, p, t);
        c0 += j->chunk;
    } while (c0 < j->Cg);
    if (after == NULL || after->prog == NULL) return;
    bool whole = p->cols == OW;
    for (int b = 0; b < p->kb; b++)
        for (int64_t r = 0; r < (whole ? 1 : p->rows); r++)
            after_pixels(j, p->image, p->kb0 + b, (p->oh + r) * OW + p->ow, whole ? p->rows * OW : p->cols);
}

/* After the last part of a pair come the weights of the next one, after the last pair those of the first. */
static const float *weights_after(const conv_blocked_job *j, int64_t item, const float *w, int kb) {
    if (item % j->parts + 1 < j->parts) return w;
    if (item / j->parts + 1 == j->a->shape.group * j->pairs) return j->a->w;
    return w + j->Cg * j->n_taps * kb * j->B;
}

/* Item numbers: pair of blocks of K (of all groups) slowest, part of the strip fastest. */
static void run_strip_item(const conv_blocked_job *j, int64_t item, int64_t image, int64_t oh, int64_t ow,
                           const float *x) {
    const nck_window *v = &j->a->shape.w;
    int64_t u0 = item % j->parts * j->part, pair = item / j->parts, g = pair / j->pairs, in_group = pair % j->pairs;
    int64_t width = j->table->pixels, r0 = j->t.rows > 1 ? u0 : 0, c0 = j->t.rows > 1 ? 0 : u0 * width;
    int64_t rows = nc_min64(nc_min64(j->t.rows, v->out[1] - oh), r0 + j->part) - r0;
    int64_t cols = nc_min64(j->t.cols, v->out[2] - ow) - c0;
    if (j->t.rows == 1) cols = nc_min64(cols, j->part * width);
    if (rows <= 0 || cols <= 0) return;
    int64_t blocks = j->Cg / j->t.in; /* of a group; groups of several are whole blocks */
    conv_area p = {.image = image,
                   .oh = oh + r0,
                   .ow = ow + c0,
                   .rows = rows,
                   .cols = cols,
                   .kb0 = g * j->Kgb + in_group * 2,
                   .kb = in_group * 2 + 1 == j->Kgb ? 1 : 2,
                   .x = x + g * blocks * j->x_block + r0 * j->x_row + c0 * j->t.in};
    p.w = j->a->w + g * j->Cg * j->n_taps * j->Kgb * j->B + in_group * j->w_pair;
    p.next = weights_after(j, item, p.w, p.kb);
    run_area(j, &p);
}

static void copied_item(void *ctx, int64_t item) {
    const conv_blocked_job *j = ctx;
    run_strip_item(j, item, j->image, j->oh, j->ow, j->strip);
}

static void copy_item(void *ctx, int64_t item) {
    const conv_blocked_job *j = ctx;
    int64_t depths = j->a->shape.w.out[0], rows = nck_strip_rows(&j->t), parts = nc_ceil_div(rows, j->copied);
    int64_t row = item % parts * j->copied;
    nck_strip_place p = {.block = item / parts, .od = j->image % depths, .oh = j->oh, .ow = j->ow};
    nck_strip_copy(&j->t, j->a->x + j->image / depths * j->x_image, &p, row, nc_min64(rows, row + j->copied), j->strip);
}

/* Few channels are few blocks: items are rows of them. */
static void copy_strip(conv_blocked_job *j, nc_pool *pool) {
    int64_t rows = nck_strip_rows(&j->t), width = j->t.width * j->t.in, block = rows * width;
    j->copied = nc_max64(1, nc_pool_item(pool, j->t.blocks * block, LEAST_COPY, block) / nc_max64(1, width));
    nc_parallel(pool, j->t.blocks * nc_ceil_div(rows, j->copied), copy_item, j);
}

static int64_t n_images(const conv_blocked_job *j) { return j->a->shape.N * j->a->shape.w.out[0]; }

static int64_t items_of_strip(const conv_blocked_job *j) { return j->a->shape.group * j->pairs * j->parts; }

static void direct_item(void *ctx, int64_t item) {
    const conv_blocked_job *j = ctx;
    const nck_window *v = &j->a->shape.w;
    int64_t per = items_of_strip(j), strip = item / per;
    int64_t ow = strip % j->t.n_cols * j->t.cols, oh = strip / j->t.n_cols % j->t.n_rows * j->t.rows;
    int64_t image = strip / j->t.n_cols / j->t.n_rows, row = image % v->out[0] * v->stride[0] * v->in[1] + oh;
    const float *x = j->a->x + image / v->out[0] * j->x_image + (row * v->in[2] + ow) * j->t.in;
    run_strip_item(j, item % per, image, oh, ow, x);
}

static int64_t n_strips(const conv_blocked_job *j) { return n_images(j) * j->t.n_rows * j->t.n_cols; }

static void run_copied_strip(conv_blocked_job *j, int64_t strip, nc_pool *pool) {
    j->ow = strip % j->t.n_cols * j->t.cols;
    j->oh = strip / j->t.n_cols % j->t.n_rows * j->t.rows;
    j->image = strip / j->t.n_cols / j->t.n_rows;
    copy_strip(j, pool);
    nc_parallel(pool, items_of_strip(j), copied_item, j);
}

static void own_item(void *ctx, int64_t strip) {
    conv_blocked_job j = *(const conv_blocked_job *)ctx;
    j.strip += nc_parallel_lane() * nck_strip_elements(&j.t);
    run_copied_strip(&j, strip, NULL);
}

static void run_copied(conv_blocked_job *j, nc_pool *pool) {
    if (j->own)
        nc_parallel_upto(pool, j->own, n_strips(j), own_item, j);
    else
        for (int64_t strip = 0; strip < n_strips(j); strip++) run_copied_strip(j, strip, pool);
}

/* Groups merged; and where the window sees one column and one row alone, as they are, those are one row of a picture
 * whose rows are the depths. */
static nck_conv_shape flattened(const nck_conv_shape *of) {
    nck_conv_shape s = nck_conv_merged(of);
    nck_window *w = &s.w;
    if (w->in[0] == 1 && w->k[0] == 1) return s;
    for (int d = 1; d < NCK_WINDOW_DIMS; d++)
        if (w->k[d] != 1 || w->stride[d] != 1 || w->pad[d] != 0 || w->in[d] != w->out[d]) return s;
    s.w = (nck_window){.in = {1, w->in[0], w->in[1] * w->in[2]},
                       .k = {1, w->k[0], 1},
                       .out = {1, w->out[0], w->out[1] * w->out[2]},
                       .stride = {1, w->stride[0], 1},
                       .dil = {1, w->dil[0], 1},
                       .pad = {0, w->pad[0], 0},
                       .pad_end = {0, w->pad_end[0], 0}};
    return s;
}

static size_t taps_bytes(const nck_window *v) { return nc_align64((size_t)nck_window_n_k(v) * sizeof(int64_t)); }

static bool is_depthwise(const nck_conv_shape *s) { return s->group > 1 && s->C == s->group && s->K == s->group; }

size_t nck_conv_blocked_workspace(const nck_conv_shape *of, nck_conv_form form) {
    nck_conv_shape merged = flattened(of), *s = &merged;
    if (is_depthwise(s)) return 0;
    if (form == NCK_CONV_WINO) return nck_conv_wino_workspace(s, nck_channel_block());
    bool planes = form == NCK_CONV_PLANES;
    return taps_bytes(&s->w) + (size_t)nck_strip_room(s, planes, nck_channel_block()) * sizeof(float);
}

/* Items of one loop, were strips not cut into parts. */
static int64_t uncut_items(const conv_blocked_job *j) {
    int64_t strips = j->t.copies ? 1 : n_strips(j);
    return strips * j->a->shape.group * j->pairs;
}

/* Parts of rows are small enough to be dealt out evenly, and there are two for each thread where rows allow; of columns
 * four. No sum depends on them. */
static void size_items(conv_blocked_job *j, int threads) {
    int64_t work = j->t.cols * j->Cg * j->n_taps * 2 * j->B;
    if (j->t.rows > 1) {
        int64_t most = nc_max64(1, ITEM_WORK / nc_max64(1, work)), units = j->t.rows;
        int64_t parts = nc_ceil_div(units, nc_min64(units, most));
        if (threads > 1) parts = nc_max64(parts, nc_min64(units, nc_ceil_div(2 * threads, uncut_items(j))));
        j->part = nc_ceil_div(units, parts);
        j->parts = nc_ceil_div(units, j->part);
    } else {
        int64_t units = nc_ceil_div(j->t.cols, j->table->pixels);
        j->part = threads > 1 ? nc_max64(1, units * uncut_items(j) / (4 * threads)) : units;
        j->parts = nc_ceil_div(units, j->part);
    }
    bool over = j->a->after && j->a->after->add == j->a->y; /* y may not hold sums before what it held is added */
    int64_t chunks = over ? 1 : nc_ceil_div(j->w_pair, CHUNK_WEIGHTS), blocks = nc_ceil_div(j->Cg, j->t.in);
    j->chunk = nc_max64(1, nc_ceil_div(blocks, nc_max64(1, chunks))) * j->t.in;
}

/* Strips that threads have for themselves, where that ends earlier: nobody waits for the others, and what a thread has
 * copied is in its own cache. Counted an eighth longer, since all weights pass by each of those strips. */
static void take_own(conv_blocked_job *j, int threads) {
    const nck_conv_shape *s = &j->a->shape;
    bool planes = j->a->form == NCK_CONV_PLANES;
    int64_t lanes = nc_min64(threads, NCK_STRIP_LANES), work = nck_conv_vectors(s, j->B);
    int64_t share = nc_ceil_div(n_images(j) * s->w.out[1] * s->w.out[2], lanes);
    nck_strips own = nck_strips_of(s, planes, j->B, j->table->pixels, NCK_STRIP_OWN, share);
    int64_t n = n_images(j) * own.n_rows * own.n_cols, elements = nck_strip_elements(&own);
    if (!own.copies || elements == 0 || elements > NCK_STRIP_OWN) return;
    lanes = nc_min64(nc_min64(lanes, n), nck_strip_room(s, planes, j->B) / elements);
    int64_t shared = work / threads + n_strips(j) * 2 * LOOP_END;
    if (lanes < 1 || nc_ceil_div(n, lanes) * (work / n) * 9 / 8 > shared) return;
    j->t = own;
    j->own = (int)lanes;
}

static conv_blocked_job make_job(const nck_conv_blocked_args *a, int threads) {
    const nck_conv_shape *s = &a->shape;
    const nck_window *v = &s->w;
    const nck_conv_table *table = nck_isa_get()->conv;
    conv_blocked_job j = {.a = a,
                          .table = table,
                          .t = nck_strips_of(s, a->form == NCK_CONV_PLANES, table->block, table->pixels,
                                             threads > 1 ? NCK_STRIP_SHARED : NCK_STRIP_OWN, INT64_MAX),
                          .n_taps = nck_window_n_k(v),
                          .B = table->block,
                          .Kb = nc_ceil_div(s->K, table->block),
                          .Kgb = nc_ceil_div(s->K / s->group, table->block),
                          .Cg = s->C / s->group};
    if (threads > 1) take_own(&j, threads);
    j.pairs = nc_ceil_div(j.Kgb, 2);
    j.x_image = j.t.blocks * j.t.in * nck_window_n_in(v);
    j.x_row = (j.t.copies ? j.t.width : v->in[2]) * j.t.in;
    j.x_block = j.t.copies ? nck_strip_block(&j.t) : nck_window_n_in(v) * j.t.in;
    j.w_pair = j.Cg * j.n_taps * 2 * j.B;
    size_items(&j, j.own ? 1 : threads);
    return j;
}

int64_t nck_conv_blocked_items(const nck_conv_shape *s, nck_conv_form form, int threads) {
    nck_conv_blocked_args a = {.shape = flattened(s), .form = form};
    conv_blocked_job j = make_job(&a, threads);
    return j.own ? n_strips(&j) : uncut_items(&j) * j.parts;
}

void nck_conv_blocked(const nck_conv_blocked_args *of, void *workspace, nc_pool *pool) {
    nck_conv_blocked_args merged = *of, *a = &merged;
    const nck_conv_shape *s = &a->shape;
    merged.shape = flattened(&of->shape);
    const nck_window *v = &s->w;
    if (nck_window_n_out(v) == 0 || s->K == 0 || s->N == 0) return;
    if (is_depthwise(s)) {
        nck_conv_blocked_depthwise(a, pool);
        return;
    }
    if (a->form == NCK_CONV_WINO) {
        nck_conv_wino(a, workspace, pool);
        return;
    }
    pool = nc_pool_for(pool, nck_conv_vectors(s, nck_channel_block()));
    conv_blocked_job j = make_job(a, pool ? nc_pool_threads(pool) : 1);
    int64_t *taps = workspace;
    j.taps = taps;
    j.strip = (float *)(void *)((char *)workspace + taps_bytes(v));
    nck_strip_taps(&j.t, taps);
    if (j.t.copies)
        run_copied(&j, pool);
    else
        nc_parallel(pool, n_strips(&j) * items_of_strip(&j), direct_item, &j);
}
