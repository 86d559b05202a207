/* kernels/cpu/conv/conv_depthwise.c: one channel per group over blocks of channels; see conv_blocked.h. An item is some
 * output rows of one block. In a row the pixels that see the whole width of the window go together; those at the left
 * and right edge, with their own range of taps, go column by column, as far down as rows see the whole height, and in
 * the corners one by one. Small images, which are mostly edge, are first copied with zeros around them, into memory of
 * the stack, and have no edge then; where windows are large, also those that are copied in a few parts. */
#include "kernels/cpu/conv/conv_depthwise.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/isa.h"

#include <string.h>

/* SMALL: elements of a copy, with its zeros. LARGE: taps of a window against which copying costs little. */
enum { ITEM_WORK = 1 << 18, SMALL = 4608, LARGE = 25 };

typedef struct blocked_rows {
    const nck_conv_blocked_args *a;
    const nck_conv_table *table;
    int64_t B, blocks, rows, parts;
    int64_t low, high;  /* columns that see all taps of a row */
    int64_t top, under; /* rows that see all taps of a column */
    int64_t wide;       /* columns that all windows together see, with the padding */
    bool small;
} blocked_rows;

/* r holds all but what depends on the column: taps [w0, w1), n pixels from ow on. */
static void run_columns(const blocked_rows *j, nck_conv_row r, int64_t ow, int64_t n, int64_t w0, int64_t w1) {
    const nck_window *v = &j->a->shape.w;
    r.x += (ow * v->stride[2] - v->pad[2] + w0 * v->dil[2]) * j->B;
    r.w += w0 * j->B;
    r.taps_w = w1 - w0;
    r.y += ow * j->B;
    if (r.add) r.add += ow * j->B;
    r.n = n;
    j->table->depthwise(&r);
}

/* The edges left and right: n pixels of each column from r on, whose x_pixel and y_pixel lead down. */
static void run_edges(const blocked_rows *j, nck_conv_row r, int64_t n) {
    const nck_window *v = &j->a->shape.w;
    for (int64_t ow = 0; ow < v->out[2]; ow++) {
        int64_t first, w0, w1;
        if (ow >= j->low && ow < j->high) ow = j->high;
        if (ow == v->out[2]) break;
        nck_window_taps(v, 2, ow, &first, &w0, &w1);
        run_columns(j, r, ow, n, w0, w1);
    }
}

/* Output row oh of the plane x. */
static nck_conv_row row_at(const blocked_rows *j, nck_conv_row r, const float *x, int64_t oh) {
    const nck_window *v = &j->a->shape.w;
    int64_t first, h0, h1;
    nck_window_taps(v, 1, oh, &first, &h0, &h1);
    r.taps_h = h1 - h0;
    r.x = x + (first + h0 * v->dil[1]) * v->in[2] * j->B;
    r.w += h0 * r.w_row;
    return r;
}

/* Rows that the windows of so many rows see. */
static int64_t tall(const nck_window *v, int64_t rows) {
    return (rows - 1) * v->stride[1] + (v->k[1] - 1) * v->dil[1] + 1;
}

/* What output rows [oh0, oh1) see of the plane x, with zeros around it. */
static void copy_rows(const blocked_rows *j, const float *x, int64_t oh0, int64_t oh1, float *to) {
    const nck_window *v = &j->a->shape.w;
    int64_t B = j->B, left = v->pad[2], low = nc_min64(nc_max64(left, 0), j->wide);
    int64_t high = nc_max64(low, nc_min64(j->wide, left + v->in[2]));
    for (int64_t r = 0; r < tall(v, oh1 - oh0); r++, to += j->wide * B) {
        int64_t ih = oh0 * v->stride[1] + r - v->pad[1], n = ih >= 0 && ih < v->in[1] ? high - low : 0;
        memset(to, 0, (size_t)(low * B) * sizeof *to);
        if (n > 0) memcpy(to + low * B, x + (ih * v->in[2] + low - left) * B, (size_t)(n * B) * sizeof *to);
        memset(to + (low + n) * B, 0, (size_t)((j->wide - low - n) * B) * sizeof *to);
    }
}

/* Where the results of row oh go: r has those of oh0. */
static nck_conv_row result_at(const blocked_rows *j, nck_conv_row r, int64_t rows) {
    r.y += rows * j->a->shape.w.out[2] * j->B;
    if (r.add) r.add += rows * j->a->shape.w.out[2] * j->B;
    return r;
}

static void run_copied(const blocked_rows *j, nck_conv_row r, const float *copy, int64_t rows) {
    const nck_window *v = &j->a->shape.w;
    r.taps_h = v->k[1];
    r.taps_w = v->k[2];
    r.n = v->out[2];
    for (int64_t i = 0; i < rows; i++) {
        nck_conv_row row = result_at(j, r, i);
        row.x = copy + i * v->stride[1] * j->wide * j->B;
        j->table->depthwise(&row);
    }
}

static void run_rows(const blocked_rows *j, nck_conv_row r, const float *x, int64_t oh0, int64_t oh1) {
    const nck_window *v = &j->a->shape.w;
    int64_t top = nc_max64(oh0, j->top), under = nc_min64(oh1, j->under);
    for (int64_t oh = oh0; oh < oh1; oh++) {
        nck_conv_row row = row_at(j, result_at(j, r, oh - oh0), x, oh);
        if (j->low < j->high) run_columns(j, row, j->low, j->high - j->low, 0, v->k[2]);
        if (oh < top || oh >= under) run_edges(j, row, 1);
    }
    if (top >= under) return;
    nck_conv_row down = row_at(j, result_at(j, r, top - oh0), x, top);
    down.x_pixel = v->stride[1] * v->in[2] * j->B;
    down.y_pixel = v->out[2] * j->B;
    run_edges(j, down, under - top);
}

static void rows_item(void *ctx, int64_t item) {
    const blocked_rows *j = ctx;
    const nck_conv_blocked_args *a = j->a;
    const nck_conv_after *after = a->after;
    const nck_window *v = &a->shape.w;
    int64_t oh0 = item % j->parts * j->rows, b = item / j->parts % j->blocks, n = item / j->parts / j->blocks;
    int64_t oh1 = nc_min64(oh0 + j->rows, v->out[1]), B = j->B, plane = n * j->blocks + b;
    int64_t at = (plane * v->out[1] + oh0) * v->out[2] * B;
    float bias[NCK_CONV_MAX_BLOCK] = {0}, copy[SMALL];
    const float *x = a->x + plane * v->in[1] * v->in[2] * B;
    for (int64_t k = 0; a->bias && k < nc_min64(B, a->shape.K - b * B); k++) bias[k] = a->bias[b * B + k];
    nck_conv_row r = {.x_pixel = v->stride[2] * B,
                      .x_row = v->dil[1] * (j->small ? j->wide : v->in[2]) * B,
                      .x_col = v->dil[2] * B,
                      .w = a->w + b * v->k[1] * v->k[2] * B,
                      .w_row = v->k[2] * B,
                      .bias = bias,
                      .y = a->y + at,
                      .y_pixel = B,
                      .add = after && after->add ? after->add + at : NULL,
                      .low = after ? after->low : 0,
                      .high = after ? after->high : 0,
                      .clamps = after && after->clamps};
    if (j->small) {
        copy_rows(j, x, oh0, oh1, copy);
        run_copied(j, r, copy, oh1 - oh0);
    } else {
        run_rows(j, r, x, oh0, oh1);
    }
    if (after && after->prog && oh1 > oh0)
        nck_conv_after_run(after, n, b, oh0 * v->out[2], (oh1 - oh0) * v->out[2], B, a->y + at);
}

void nck_conv_blocked_depthwise(const nck_conv_blocked_args *a, nc_pool *pool) {
    const nck_window *v = &a->shape.w;
    const nck_conv_table *table = nck_isa_get()->conv;
    blocked_rows j = {.a = a, .table = table, .B = table->block, .blocks = nc_ceil_div(a->shape.C, table->block)};
    int64_t end, work = v->out[2] * v->k[1] * v->k[2] * j.B;
    nck_window_places(v, 2, 0, &j.low, &end);
    nck_window_places(v, 2, v->k[2] - 1, &end, &j.high);
    nck_window_places(v, 1, 0, &j.top, &end);
    nck_window_places(v, 1, v->k[1] - 1, &end, &j.under);
    j.wide = (v->out[2] - 1) * v->stride[2] + (v->k[2] - 1) * v->dil[2] + 1;
    int64_t room = SMALL / j.B / j.wide - tall(v, 1), copied = room < 0 ? 0 : room / v->stride[1] + 1;
    bool in_parts = v->k[1] * v->k[2] >= LARGE && copied > (v->k[1] - 1) * v->dil[1];
    j.small = (j.low > 0 || j.high < v->out[2]) && (copied >= v->out[1] || in_parts);
    j.rows = nc_max64(1, nc_min64(v->out[1], j.small ? copied : ITEM_WORK / nc_max64(1, work)));
    j.parts = nc_ceil_div(v->out[1], j.rows);
    j.rows = nc_ceil_div(v->out[1], j.parts);
    pool = nc_pool_for(pool, a->shape.N * j.blocks * v->out[1] * v->out[2] * v->k[1] * v->k[2]);
    nc_parallel(pool, a->shape.N * j.blocks * j.parts, rows_item, &j);
}

void nck_conv_after_run(const nck_conv_after *after, int64_t n, int64_t kb, int64_t pixel, int64_t pixels, int64_t B,
                        float *y) {
    nck_tile_run_in in[NCK_TILE_MAX_REG];
    in[0] = (nck_tile_run_in){y, 0};
    for (int i = 1; i < after->prog->n_in; i++) {
        const nck_conv_operand *o = &after->in[i];
        const float *at = o->data + n * o->image + kb * o->block_step + (o->period == 0 ? pixel * B : 0);
        in[i] = (nck_tile_run_in){at, o->period};
    }
    nck_tile_run_flat(after->prog, in, y, pixels * B);
}
