/* kernels/cpu/conv/conv_blocked.c: cuts the blocked convolution into items and register tiles; see conv_blocked.h.
 * An item is a few output rows of one image for two blocks of K. In a row, pixels whose whole window lies inside the
 * input go in wide tiles; the few at the left and right edge go one by one with their own range of taps.
 *
 * The product of weights and columns is formed without the columns: a tile's taps are read where they lie. An example:
 * a row of 10 pixels under a window of 3 with pad 1, tiles of 6 pixels. Pixel 0 sees taps 1 and 2 and goes alone; 1 to
 * 6 are one tile, 7 and 8 another; pixel 9 sees taps 0 and 1 and goes alone. */
#include "kernels/cpu/conv/conv_blocked.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/isa.h"

enum { B = NCK_CONV_BLOCK, ITEM_WORK = 1 << 20 };

typedef struct conv_blocked_job {
    const nck_conv_shape *s;
    const nck_conv_table *table;
    const float *x, *w, *bias;
    float *y;
    int64_t Cb, Kb, OH, OW;
    int64_t inner0, inner1; /* output columns with whole windows */
    int64_t rows, n_row_items, n_k_items;
} conv_blocked_job;

/* t holds all but what depends on the column: taps [w0, w1), `pixels` outputs from ow on. */
static void conv_blocked_run_tile(const conv_blocked_job *j, nck_conv_tile t, int kb, int64_t ow, int64_t pixels,
                                  int64_t w0, int64_t w1) {
    const nck_window *v = &j->s->w;
    t.x += (ow * v->stride[2] - v->pad[2] + w0 * v->dil[2]) * B;
    t.w += w0 * B * B;
    t.taps_w = w1 - w0;
    t.y += ow * B;
    j->table->tile[kb - 1][pixels](&t);
}

static void conv_blocked_run_row(const conv_blocked_job *j, nck_conv_tile t, int kb) {
    const nck_window *v = &j->s->w;
    for (int64_t ow = 0; ow < j->OW;) {
        if (ow >= j->inner0 && ow < j->inner1) {
            int64_t pixels = nc_min64(j->table->pixels, j->inner1 - ow);
            conv_blocked_run_tile(j, t, kb, ow, pixels, 0, v->k[2]);
            ow += pixels;
        } else {
            int64_t first, w0, w1;
            nck_window_taps(v, 2, ow, &first, &w0, &w1);
            conv_blocked_run_tile(j, t, kb, ow++, 1, w0, w1);
        }
    }
}

static void conv_item(void *ctx, int64_t item) {
    const conv_blocked_job *j = ctx;
    const nck_conv_shape *s = j->s;
    const nck_window *v = &s->w;
    int64_t oh0 = item % j->n_row_items * j->rows, rest = item / j->n_row_items;
    int64_t kb0 = rest % j->n_k_items * 2, n = rest / j->n_k_items;
    int kb = j->Kb - kb0 < 2 ? 1 : 2;
    float bias[2 * B] = {0};
    for (int64_t k = 0; j->bias && k < nc_min64(2 * B, s->K - kb0 * B); k++) bias[k] = j->bias[kb0 * B + k];
    nck_conv_tile t = {.x_pixel = v->stride[2] * B,
                       .x_block = v->in[1] * v->in[2] * B,
                       .x_row = v->dil[1] * v->in[2] * B,
                       .x_col = v->dil[2] * B,
                       .w_k = j->Cb * v->k[1] * v->k[2] * B * B,
                       .w_block = v->k[1] * v->k[2] * B * B,
                       .w_row = v->k[2] * B * B,
                       .C = s->C,
                       .bias = bias,
                       .y_k = j->OH * j->OW * B};
    for (int64_t oh = oh0; oh < nc_min64(oh0 + j->rows, j->OH); oh++) {
        int64_t first, h0, h1;
        nck_window_taps(v, 1, oh, &first, &h0, &h1);
        t.taps_h = h1 - h0;
        t.x = j->x + (n * j->Cb * v->in[1] + (first + h0 * v->dil[1])) * v->in[2] * B;
        t.w = j->w + kb0 * t.w_k + h0 * t.w_row;
        t.y = j->y + ((n * j->Kb + kb0) * j->OH + oh) * j->OW * B;
        conv_blocked_run_row(j, t, kb);
    }
}

void nck_conv_blocked(const nck_conv_shape *s, const float *x, const float *w_packed, const float *bias, float *y,
                      nc_pool *pool) {
    const nck_window *v = &s->w;
    conv_blocked_job j = {.s = s,
                          .table = nck_isa_get()->conv,
                          .x = x,
                          .w = w_packed,
                          .bias = bias,
                          .y = y,
                          .Cb = nc_ceil_div(s->C, B),
                          .Kb = nc_ceil_div(s->K, B),
                          .OH = v->out[1],
                          .OW = v->out[2]};
    if (j.OH == 0 || j.OW == 0) return;
    j.inner0 = nc_ceil_div(nc_max64(v->pad[2], 0), v->stride[2]);
    int64_t room = v->in[2] - (v->k[2] - 1) * v->dil[2] - 1 + v->pad[2];
    j.inner1 = room < 0 ? 0 : nc_min64(j.OW, room / v->stride[2] + 1);
    j.rows = nc_max64(1, nc_min64(j.OH, ITEM_WORK / nc_max64(1, j.OW * s->C * v->k[1] * v->k[2] * 2 * B)));
    j.n_row_items = nc_ceil_div(j.OH, j.rows);
    j.n_k_items = nc_ceil_div(j.Kb, 2);
    nc_parallel(pool, s->N * j.n_k_items * j.n_row_items, conv_item, &j);
}
