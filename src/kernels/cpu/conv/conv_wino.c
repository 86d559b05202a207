/* kernels/cpu/conv/conv_wino.c: strips, items and their order; see conv_wino.h.
 * v holds a strip as (point, block of C, tile, lane), m what an item sums as (point, block of K, tile, lane): one such
 * for each thread that takes part, or, where items are points, one for the strip. */
#include "kernels/cpu/conv/conv_wino.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_depthwise.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/conv/wino_kernel.h"
#include "kernels/cpu/isa.h"

#include <string.h>

/* A strip's points fit the second cache of the one thread that works, or lie in what threads share. Weights are read
 * once for each chunk (where items are no points), so a chunk is two register tiles of AVX-512, and half of one at
 * least. */
enum {
    STRIP_BYTES = 400 << 10,
    SHARED_BYTES = 2 << 20,
    OWN_BYTES = 8 << 20, /* of strips that threads have for themselves */
    CHUNK = 28,
    MIN_CHUNK = 7,
    MIN_OWN = 21,       /* tiles */
    GROUP = 8,          /* tiles of an item that transforms inputs, or sums of points */
    LANES = 16,         /* most threads that sum chunks */
    WEIGHTS = 10,       /* tiles that take as long as their weights take to pass by */
    SUM_PASS = 20,      /* vectors multiplied while one of sums passes from thread to thread */
    LOOP_END = 1 << 14, /* and while threads wait for each other */
    PACK_RUN = 128      /* weights of a point that are packed together */
};
_Static_assert(PACK_RUN >= 2 * NCK_CONV_MAX_BLOCK, "a pair of blocks fits");
enum { POINTS = NCK_WINO_POINTS, IN = NCK_WINO_IN, OUT = NCK_WINO_OUT };

typedef struct wino_job {
    const nck_conv_blocked_args *a;
    const nck_conv_table *conv;
    const nck_wino_table *wino;
    nck_wino_cut cut;
    int64_t B, Cb, Kb;            /* Cb: all depths of the window */
    int64_t first, tiles, groups; /* the strip at hand */
    float *v, *m;                 /* of lane 0 */
    int64_t v_lane, m_lane;
} wino_job;

bool nck_conv_wino_fits(const nck_conv_shape *s) {
    const nck_window *w = &s->w;
    bool threes = w->k[1] == 3 && w->k[2] == 3;
    if (w->k[0] != 1 && s->C % nck_channel_block() != 0) return false;
    return s->type == NC_FLOAT && s->group == 1 && threes && w->stride[1] == 1 && w->stride[2] == 1;
}

static int64_t phases(const nck_window *w, int d) { return nc_min64(w->dil[d], w->out[d]); }
static int64_t tiles_along(const nck_window *w, int d) { return nc_ceil_div(nc_ceil_div(w->out[d], w->dil[d]), OUT); }
static int64_t tiles_of_image(const nck_window *w) {
    return phases(w, 1) * phases(w, 2) * tiles_along(w, 1) * tiles_along(w, 2);
}

/* Counted in multiplications. Every number of a tile's input and output is loaded, added up some ten times and stored,
 * which is as long as 32 vectors multiplied; four times as many weights pass by, which is as long as 10 tiles. */
bool nck_conv_wino_wins(const nck_conv_shape *s) {
    const nck_window *w = &s->w;
    if (!nck_conv_wino_fits(s) || s->C < 16 || s->K < 16) return false;
    double images = (double)(s->N * w->out[0]), C = (double)(s->C * w->k[0]), K = (double)s->K;
    double tiles = images * (double)tiles_of_image(w);
    double direct = images * (double)(w->out[1] * w->out[2]) * 9 * C * K;
    return POINTS * ((tiles + 10) * C * K + 32 * tiles * (C + K)) < direct;
}

static int64_t spread(int64_t n, int64_t most) { return nc_ceil_div(n, nc_ceil_div(n, nc_max64(1, most))); }

static int64_t most_tiles(int64_t channels, int64_t bytes) {
    return nc_max64(CHUNK, bytes / (POINTS * (int64_t)sizeof(float) * nc_max64(1, channels)));
}

/* Tiles of a strip that one thread works on, the same number of strips for each. */
static int64_t own_strip(int64_t tiles, int64_t channels, int threads) {
    int64_t strips = nc_ceil_div(tiles, most_tiles(channels, STRIP_BYTES));
    return nc_ceil_div(tiles, nc_ceil_div(strips, threads) * threads);
}

/* Cuts a strip that threads share into chunks of tiles: the fewer pairs of blocks of K, the more. */
static void cut_chunks(nck_wino_cut *c, int threads) {
    int64_t wanted = c->own ? 1 : nc_ceil_div(threads, c->pairs), most = nc_ceil_div(c->strip, wanted);
    c->chunk = spread(c->strip, nc_min64(CHUNK, nc_max64(MIN_CHUNK, most)));
    c->n_chunks = nc_ceil_div(c->strip, c->chunk);
}

/* Does a strip end earlier with points for items? Then all tiles meet a point's weights at once, which otherwise pass
 * by every chunk, but sums go to memory and wait for a loop of their own. In vectors multiplied, of a channel and a
 * pair's block. */
static bool points_win(const nck_wino_cut *c, int64_t C, int64_t Kb, int threads) {
    if (threads == 1 || c->own || Kb * c->strip > LANES * 2 * nc_min64(CHUNK, c->tiles)) return false;
    int64_t sums = POINTS * Kb * c->strip / threads * SUM_PASS;
    int64_t points =
        nc_ceil_div(POINTS * c->pairs, threads) * (c->strip + WEIGHTS) + (sums + LOOP_END) / nc_max64(1, 2 * C);
    int64_t chunks = nc_ceil_div(c->pairs * c->n_chunks, threads) * c->chunk;
    return points < POINTS * (chunks + WEIGHTS * nc_ceil_div(c->pairs, threads));
}

nck_wino_cut nck_conv_wino_cut(const nck_conv_shape *s, int64_t block, int threads) {
    nck_wino_cut c = {.phases_h = phases(&s->w, 1),
                      .phases_w = phases(&s->w, 2),
                      .down = tiles_along(&s->w, 1),
                      .across = tiles_along(&s->w, 2)};
    int64_t channels = s->w.k[0] * nc_ceil_div(s->C, block) * block, Kb = nc_ceil_div(s->K, block);
    c.tiles = s->N * s->w.out[0] * tiles_of_image(&s->w);
    c.pairs = nc_ceil_div(Kb, 2);
    if (c.tiles == 0 || c.pairs == 0) return c;
    c.strip = own_strip(c.tiles, channels, threads);
    c.own = threads == 1 || (c.strip >= MIN_OWN && threads * c.strip <= most_tiles(channels, OWN_BYTES));
    if (!c.own) c.strip = spread(c.tiles, most_tiles(channels, SHARED_BYTES));
    c.n_strips = nc_ceil_div(c.tiles, c.strip);
    cut_chunks(&c, threads);
    c.by_points = points_win(&c, channels, Kb, threads);
    return c;
}

/* ---- inputs ---- */

/* A tile of a phase of an image. Going on to the next one costs no division. */
typedef struct wino_place {
    int64_t image, phase_h, phase_w, down, across;
} wino_place;

static wino_place place_of(const nck_wino_cut *c, int64_t tile) {
    int64_t phase = tile / c->across / c->down;
    return (wino_place){.image = phase / c->phases_w / c->phases_h,
                        .phase_h = phase / c->phases_w % c->phases_h,
                        .phase_w = phase % c->phases_w,
                        .down = tile / c->across % c->down,
                        .across = tile % c->across};
}

static void go_on(const nck_wino_cut *c, wino_place *p) {
    if (++p->across < c->across) return;
    p->across = 0;
    if (++p->down < c->down) return;
    p->down = 0;
    if (++p->phase_w < c->phases_w) return;
    p->phase_w = 0;
    if (++p->phase_h < c->phases_h) return;
    p->phase_h = 0;
    p->image++;
}

/* Its first output, and how many rows and columns of its phase there are from that on: none where the phase ends. */
static int64_t first_row(const nck_window *w, const wino_place *p) { return p->down * OUT * w->dil[1] + p->phase_h; }
static int64_t first_col(const nck_window *w, const wino_place *p) { return p->across * OUT * w->dil[2] + p->phase_w; }
static int64_t left(const nck_window *w, int d, int64_t first) {
    return nck_window_steps(nc_max64(0, w->out[d] - first), w->dil[d]);
}

/* The pixels from (ih, iw) on, with zeros outside. bytes: of a pixel, a constant where inlined. */
static inline void copy_pixels(const wino_job *j, const float *plane, int64_t ih, int64_t iw, float *to, size_t bytes) {
    const nck_window *w = &j->a->shape.w;
    for (int64_t r = ih; r < ih + IN * w->dil[1]; r += w->dil[1])
        for (int64_t c = iw; c < iw + IN * w->dil[2]; c += w->dil[2], to += j->B) {
            if (r >= 0 && r < w->in[1] && c >= 0 && c < w->in[2])
                memcpy(to, plane + (r * w->in[2] + c) * j->B, bytes);
            else
                memset(to, 0, bytes);
        }
}

static void copy_patch(const wino_job *j, const float *plane, int64_t ih, int64_t iw, float *to) {
    if (j->B == NCK_CONV_MAX_BLOCK)
        copy_pixels(j, plane, ih, iw, to, NCK_CONV_MAX_BLOCK * sizeof *to);
    else
        copy_pixels(j, plane, ih, iw, to, (size_t)j->B * sizeof *to);
}

/* Block cb of an image, which is one depth of one of the N; NULL: zeros. */
static const float *input_plane(const wino_job *j, int64_t image, int64_t cb) {
    const nck_window *w = &j->a->shape.w;
    int64_t blocks = j->Cb / w->k[0], n = image / w->out[0];
    int64_t id = image % w->out[0] * w->stride[0] - w->pad[0] + cb / blocks * w->dil[0];
    if (id < 0 || id >= w->in[0]) return NULL;
    return j->a->x + ((n * blocks + cb % blocks) * w->in[0] + id) * w->in[1] * w->in[2] * j->B;
}

static void input_tile(const wino_job *j, int64_t cb, int64_t t, const wino_place *at) {
    const nck_window *w = &j->a->shape.w;
    int64_t ih = first_row(w, at) - w->pad[1], iw = first_col(w, at) - w->pad[2];
    const float *plane = input_plane(j, at->image, cb);
    float *v = j->v + (cb * j->tiles + t) * j->B, patch[IN * IN * NCK_CONV_MAX_BLOCK];
    int64_t v_point = j->Cb * j->tiles * j->B;
    if (plane == NULL) {
        for (int64_t p = 0; p < POINTS; p++) memset(v + p * v_point, 0, (size_t)j->B * sizeof *v);
    } else if (ih >= 0 && iw >= 0 && ih + (IN - 1) * w->dil[1] < w->in[1] && iw + (IN - 1) * w->dil[2] < w->in[2]) {
        const float *x = plane + (ih * w->in[2] + iw) * j->B;
        j->wino->input(j->B, x, w->dil[2] * j->B, w->dil[1] * w->in[2] * j->B, v, v_point);
    } else {
        copy_patch(j, plane, ih, iw, patch);
        j->wino->input(j->B, patch, j->B, IN * j->B, v, v_point);
    }
}

static void input_item(void *ctx, int64_t item) {
    const wino_job *j = ctx;
    int64_t t0 = item % j->groups * GROUP, t1 = nc_min64(j->tiles, t0 + GROUP);
    wino_place at = place_of(&j->cut, j->first + t0);
    for (int64_t t = t0; t < t1; t++, go_on(&j->cut, &at)) input_tile(j, item / j->groups, t, &at);
}

/* ---- products and outputs ---- */

/* A point of a pair of blocks of K for tiles [t0, t0 + n) of the strip, into y, whose blocks are y_k apart; next:
 * weights that are read after these. */
typedef struct wino_product {
    int64_t pair, point, t0, n;
    float *y;
    int64_t y_k;
    const float *next;
} wino_product;

static int blocks_of(const wino_job *j, int64_t pair) { return pair * 2 + 1 == j->Kb ? 1 : 2; }
static int64_t channels(const wino_job *j) { return j->a->shape.C * j->a->shape.w.k[0]; }

static const float *weights_at(const wino_job *j, int64_t pair, int64_t point) {
    return j->a->w + channels(j) * j->B * (pair * POINTS * 2 + point * blocks_of(j, pair));
}

static void multiply(const wino_job *j, const wino_product *p) {
    static const float zero[2 * NCK_CONV_MAX_BLOCK];
    static const int64_t taps[1];
    int64_t C = channels(j), B = j->B;
    int kb = blocks_of(j, p->pair);
    nck_conv_tile t = {.x = j->v + (p->point * j->Cb * j->tiles + p->t0) * B,
                       .x_block = j->tiles * B,
                       .taps = taps,
                       .n_taps = 1,
                       .C = C,
                       .w = weights_at(j, p->pair, p->point),
                       .bias = zero,
                       .y = p->y,
                       .y_k = p->y_k,
                       .ahead = p->next,
                       .share = nc_ceil_div(C * kb * B, nc_ceil_div(p->n, j->conv->pixels))};
    nck_conv_run_tiles(j->conv->blocked[kb - 1], j->conv->pixels, t, B, B, p->n);
}

/* The first pixel of an image in block kb, counted from those of y, or of that block, on. */
static int64_t first_pixel(const wino_job *j, int64_t image, int64_t kb, bool in_block) {
    const nck_window *w = &j->a->shape.w;
    int64_t depths = w->out[0], block = in_block ? 0 : image / depths * j->Kb + kb;
    return (block * depths + image % depths) * w->out[1] * w->out[2];
}

/* m: of this block. */
static void output_tile(const wino_job *j, int64_t kb, const wino_place *p, const float *bias, const float *m,
                        int64_t m_point) {
    const nck_window *w = &j->a->shape.w;
    const nck_conv_after *after = j->a->after;
    int64_t oh = first_row(w, p), ow = first_col(w, p), cols = left(w, 2, ow);
    int64_t at = (first_pixel(j, p->image, kb, false) + oh * w->out[2] + ow) * j->B;
    nck_wino_out o = {.m = m,
                      .m_point = m_point,
                      .bias = bias,
                      .y = j->a->y + at,
                      .y_pixel = w->dil[2] * j->B,
                      .y_row = w->dil[1] * w->out[2] * j->B,
                      .add = after && after->add ? after->add + at : NULL,
                      .rows = cols > 0 ? nc_min64(OUT, left(w, 1, oh)) : 0,
                      .cols = nc_min64(OUT, cols),
                      .low = after ? after->low : 0,
                      .high = after ? after->high : 0,
                      .clamps = after && after->clamps};
    j->wino->output(j->B, &o);
}

/* The program over `pixels` outputs of a row from (oh, ow) on. */
static void run_after_row(const wino_job *j, int64_t kb, int64_t image, int64_t oh, int64_t ow, int64_t pixels) {
    const nck_window *w = &j->a->shape.w;
    int64_t pixel = oh * w->out[2] + ow, run = w->dil[2] == 1 ? pixels : 1, step = w->dil[2];
    for (int64_t i = 0; i < pixels; i += run, pixel += step)
        nck_conv_after_run(j->a->after, image / w->out[0], kb, first_pixel(j, image, kb, true) + pixel, run, j->B,
                           j->a->y + (first_pixel(j, image, kb, false) + pixel) * j->B);
}

/* The program over what tiles [tile, end) have written, in runs of neighbouring pixels. */
static void run_after(const wino_job *j, int64_t kb, int64_t tile, int64_t end) {
    const nck_window *w = &j->a->shape.w;
    while (tile < end) {
        wino_place p = place_of(&j->cut, tile);
        int64_t n = nc_min64(j->cut.across - p.across, end - tile), oh = first_row(w, &p), ow = first_col(w, &p);
        for (int64_t r = 0; r < nc_min64(OUT, left(w, 1, oh)); r++)
            run_after_row(j, kb, p.image, oh + r * w->dil[1], ow, nc_min64(left(w, 2, ow), n * OUT));
        tile += n;
    }
}

/* Outputs of block kb, tiles [t0, t0 + n) of the strip, whose sums are m. */
static void output_tiles(const wino_job *j, int64_t kb, int64_t t0, int64_t n, const float *m, int64_t m_point) {
    const nck_conv_blocked_args *a = j->a;
    float bias[NCK_CONV_MAX_BLOCK] = {0};
    for (int64_t k = 0; a->bias && k < nc_min64(j->B, a->shape.K - kb * j->B); k++) bias[k] = a->bias[kb * j->B + k];
    wino_place p = place_of(&j->cut, j->first + t0);
    for (int64_t t = 0; t < n; t++, go_on(&j->cut, &p)) output_tile(j, kb, &p, bias, m + t * j->B, m_point);
    if (a->after && a->after->prog) run_after(j, kb, j->first + t0, j->first + t0 + n);
}

/* Some tiles for a pair of blocks of K, from products to outputs. */
static void chunk_item(void *ctx, int64_t item) {
    const wino_job *j = ctx;
    int64_t pair = item / j->cut.n_chunks, t0 = item % j->cut.n_chunks * j->cut.chunk, B = j->B;
    int64_t n = nc_min64(j->tiles - t0, j->cut.chunk);
    if (n <= 0) return;
    float *m = j->m + nc_parallel_lane() * j->m_lane;
    for (int point = 0; point < POINTS; point++)
        multiply(j, &(wino_product){.pair = pair,
                                    .point = point,
                                    .t0 = t0,
                                    .n = n,
                                    .y = m + point * 2 * n * B,
                                    .y_k = n * B,
                                    .next = weights_at(j, pair, point + 1)});
    for (int b = 0; b < blocks_of(j, pair); b++) output_tiles(j, pair * 2 + b, t0, n, m + b * n * B, 2 * n * B);
}

/* A point of all tiles; the items of one point, which read the same inputs, stand side by side. */
static void point_item(void *ctx, int64_t item) {
    const wino_job *j = ctx;
    int64_t pair = item % j->cut.pairs, point = item / j->cut.pairs, block = j->tiles * j->B;
    bool last = pair + 1 == j->cut.pairs;
    multiply(j, &(wino_product){.pair = pair,
                                .point = point,
                                .n = j->tiles,
                                .y = j->m + (point * j->Kb + pair * 2) * block,
                                .y_k = block,
                                .next = weights_at(j, last ? 0 : pair + 1, last ? point + 1 : point)});
}

static void output_item(void *ctx, int64_t item) {
    const wino_job *j = ctx;
    int64_t kb = item / j->groups, t0 = item % j->groups * GROUP;
    output_tiles(j, kb, t0, nc_min64(j->tiles - t0, GROUP), j->m + (kb * j->tiles + t0) * j->B,
                 j->Kb * j->tiles * j->B);
}

/* ---- all of it ---- */

/* Strips of equal size may hold a tile more for each lane than there are. */
static int64_t v_elements(int64_t channels, int64_t tiles) {
    return POINTS * channels * nc_min64(tiles + LANES, most_tiles(channels, OWN_BYTES));
}

static int64_t m_elements(int64_t tiles, int64_t block) { return POINTS * 2 * block * nc_min64(CHUNK, tiles); }

size_t nck_conv_wino_workspace(const nck_conv_shape *s, int64_t block) {
    int64_t tiles = s->N * s->w.out[0] * tiles_of_image(&s->w);
    int64_t v = v_elements(s->w.k[0] * nc_ceil_div(s->C, block) * block, tiles);
    return (size_t)(v + LANES * m_elements(tiles, block)) * sizeof(float);
}

static void take_strip(wino_job *j, int64_t strip) {
    j->first = strip * j->cut.strip;
    j->tiles = nc_min64(j->cut.strip, j->cut.tiles - j->first);
    j->groups = nc_ceil_div(j->tiles, GROUP);
}

static void run_strip(wino_job *j, nc_pool *pool) {
    nc_parallel(pool, j->Cb * j->groups, input_item, j);
    if (!j->cut.by_points) {
        nc_parallel_upto(pool, LANES, j->cut.pairs * j->cut.n_chunks, chunk_item, j);
        return;
    }
    nc_parallel(pool, POINTS * j->cut.pairs, point_item, j);
    nc_parallel(pool, j->Kb * j->groups, output_item, j);
}

/* Alone: what a thread transformed is in its own cache. */
static void own_item(void *ctx, int64_t strip) {
    wino_job j = *(const wino_job *)ctx;
    int lane = nc_parallel_lane();
    j.v += lane * j.v_lane;
    j.m += lane * j.m_lane;
    take_strip(&j, strip);
    run_strip(&j, NULL);
}

void nck_conv_wino(const nck_conv_blocked_args *a, void *workspace, nc_pool *pool) {
    const nck_conv_shape *s = &a->shape;
    const nck_isa *isa = nck_isa_get();
    int64_t B = isa->conv->block;
    pool = nc_pool_for(pool, s->N * nck_window_n_out(&s->w) * s->C * s->w.k[0] * nc_ceil_div(s->K, B));
    int threads = pool ? (int)nc_min64(LANES, nc_pool_threads(pool)) : 1;
    wino_job j = {.a = a,
                  .conv = isa->conv,
                  .wino = isa->wino,
                  .cut = nck_conv_wino_cut(s, B, threads),
                  .B = B,
                  .Cb = s->w.k[0] * nc_ceil_div(s->C, B),
                  .Kb = nc_ceil_div(s->K, B),
                  .v = workspace};
    j.m = j.v + v_elements(j.Cb * B, j.cut.tiles);
    j.m_lane = m_elements(j.cut.tiles, B);
    j.v_lane = POINTS * j.Cb * B * j.cut.strip;
    if (j.cut.own) {
        nc_parallel_upto(pool, LANES, j.cut.n_strips, own_item, &j);
        return;
    }
    for (int64_t strip = 0; strip < j.cut.n_strips; strip++) {
        take_strip(&j, strip);
        run_strip(&j, pool);
    }
}

/* ---- weights ---- */

size_t nck_conv_wino_weights_bytes(const nck_conv_shape *s, int64_t block) {
    return (size_t)(nc_ceil_div(s->K, block) * block * s->C * s->w.k[0] * POINTS) * sizeof(float);
}

/* n channels of a pair of blocks, `wide` filters of each of which `live` are there: w is the first one's. They are put
 * together where they fit the first cache: a point's weights then leave for memory as one long run. */
static void wino_pack_channels(const nck_conv_shape *s, int64_t n, int64_t wide, int64_t live, const char *w,
                               float *dst) {
    const nck_wino_table *t = nck_isa_get()->wino;
    float room[POINTS * PACK_RUN];
    int64_t bytes = 9 * s->w.k[0] * (int64_t)sizeof(float), C = s->C;
    if (live < wide) memset(room, 0, sizeof room);
    for (int64_t c = 0; c < n; c++)
        for (int64_t k = 0; k < live; k += NCK_WINO_FILTERS)
            t->weights(w + (k * C + c) * bytes, C * bytes, (int)nc_min64(NCK_WINO_FILTERS, live - k),
                       room + c * wide + k, PACK_RUN);
    for (int64_t p = 0; p < POINTS; p++)
        memcpy(dst + p * s->w.k[0] * C * wide, room + p * PACK_RUN, (size_t)(n * wide) * sizeof *dst);
}

void nck_conv_wino_pack(const nck_conv_shape *s, int64_t block, const void *w, float *dst) {
    int64_t C = s->C, depths = s->w.k[0], Kb = nc_ceil_div(s->K, block);
    for (int64_t pair = 0; pair * 2 < Kb; pair++) {
        int64_t wide = nc_min64(2, Kb - pair * 2) * block, k0 = pair * 2 * block, live = nc_min64(s->K - k0, wide);
        int64_t step = PACK_RUN / wide;
        for (int64_t i = 0; i < depths; i++)
            for (int64_t c = 0; c < C; c += step)
                wino_pack_channels(s, nc_min64(step, C - c), wide, live,
                                   (const char *)w + ((k0 * C + c) * depths + i) * 9 * (int64_t)sizeof(float),
                                   dst + pair * POINTS * depths * C * 2 * block + (i * C + c) * wide);
    }
}
