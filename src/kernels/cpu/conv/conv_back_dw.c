/* kernels/cpu/conv/conv_back_dw.c: the gradient of a convolution by its weights as sums of outer products, and by its
 * bias; see conv_back.h. One side enters as vectors (`many`: channels in pairs of blocks), the other in groups of a few
 * channels (`one`); an item is a pair with a group, and sums all taps of them over all places. */
#include "kernels/cpu/conv/conv_back.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/conv/outer_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/norm/lanes_kernel.h"

#include <string.h>

enum { PIXELS = 1024 }; /* of the images that are laid into blocks together, where one has fewer */

typedef struct dw_job {
    const nck_conv_shape *s;
    const nck_outer_table *table;
    bool x_many;           /* x's channels are the vectors, dy's come one by one; else the other way round */
    int64_t images;        /* at hand */
    int64_t pairs, groups; /* of the many side, of the other */
    const float *x, *dy;   /* in blocks */
    float *sums, *dw;      /* sums (pair, group, tap, each, 2 * block) */
} dw_job;

static int64_t pixels_in(const nck_window *v) { return v->in[1] * v->in[2]; }
static int64_t pixels_out(const nck_window *v) { return v->out[1] * v->out[2]; }
static int64_t most_pixels(const nck_conv_shape *s, int64_t pixels) {
    return nc_min64(s->N * pixels, nc_max64(PIXELS, pixels));
}

/* Blocks that are nearly empty cost vectors as much as full ones. */
static bool x_is_many(const nck_conv_shape *s, int64_t block) { return s->C % block == 0 || s->C >= s->K; }

static dw_job job_of(const nck_conv_shape *s) {
    dw_job j = {.s = s, .table = nck_isa_get()->outer};
    j.x_many = x_is_many(s, j.table->block);
    int64_t many = j.x_many ? s->C : s->K, one = j.x_many ? s->K : s->C;
    j.pairs = nc_ceil_div(many, 2 * j.table->block);
    j.groups = nc_ceil_div(one, j.table->each);
    return j;
}

static int64_t taps_of(const nck_conv_shape *s) { return s->w.k[1] * s->w.k[2]; }

static int64_t sums_of_item(const dw_job *j) { return taps_of(j->s) * j->table->each * 2 * j->table->block; }

/* Enough for any C and K up to those of s: which side is `many` may change with them. */
static size_t sums_bytes(const nck_conv_shape *s) {
    const nck_outer_table *t = nck_isa_get()->outer;
    int64_t C = nc_ceil_div(s->C, 2 * t->block) * 2 * t->block, K = nc_ceil_div(s->K, 2 * t->block) * 2 * t->block;
    return nc_align64((size_t)(C * K * taps_of(s)) * sizeof(float));
}

size_t nck_conv_back_dw_workspace(const nck_conv_back *b) {
    const nck_conv_shape *s = &b->shape;
    int64_t B = nck_isa_get()->outer->block;
    if (b->blocked) return sums_bytes(s);
    return sums_bytes(s) + nc_align64(nck_packed_channels_bytes(B, 1, s->C, most_pixels(s, pixels_in(&s->w)))) +
           nc_align64(nck_packed_channels_bytes(B, 1, s->K, most_pixels(s, pixels_out(&s->w))));
}

/* One tap over rows [oh, end) of r.images images from n on, where it falls inside. */
static void run_tap(const dw_job *j, nck_outer_run r, int64_t n, int64_t item, int64_t tap, int64_t oh, int64_t end) {
    const nck_window *v = &j->s->w;
    int64_t B = j->table->block, each = j->table->each, pair = item / j->groups, one = item % j->groups * each;
    int64_t at[NCK_WINDOW_DIMS], low, high, left, right;
    nck_window_tap(v, tap, at);
    nck_window_places(v, 1, at[1], &low, &high);
    nck_window_places(v, 2, at[2], &left, &right);
    low = nc_max64(low, oh), high = nc_min64(high, end);
    if (low >= high || left >= right) return;
    int64_t ih = low * v->stride[1] - v->pad[1] + at[1] * v->dil[1];
    int64_t iw = left * v->stride[2] - v->pad[2] + at[2] * v->dil[2];
    int64_t x_blocks = nc_ceil_div(j->s->C, B), dy_blocks = nc_ceil_div(j->s->K, B);
    int64_t x_plane = pixels_in(v) * B, dy_plane = pixels_out(v) * B;
    const float *x = j->x + n * x_blocks * x_plane + (ih * v->in[2] + iw) * B;
    const float *dy = j->dy + n * dy_blocks * dy_plane + (low * v->out[2] + left) * B;
    int64_t x_row = v->stride[1] * v->in[2] * B, dy_row = v->out[2] * B, x_pixel = v->stride[2] * B;
    r.many = j->x_many ? x + pair * 2 * x_plane : dy + pair * 2 * dy_plane;
    r.one = (j->x_many ? dy + one / B * dy_plane : x + one / B * x_plane) + one % B;
    r.many_block = j->x_many ? x_plane : dy_plane;
    r.many_pixel = j->x_many ? x_pixel : B, r.many_row = j->x_many ? x_row : dy_row;
    r.one_pixel = j->x_many ? B : x_pixel, r.one_row = j->x_many ? dy_row : x_row;
    r.many_image = j->x_many ? x_blocks * x_plane : dy_blocks * dy_plane;
    r.one_image = j->x_many ? dy_blocks * dy_plane : x_blocks * x_plane;
    r.rows = high - low, r.cols = right - left;
    int64_t blocks = nc_min64(2, (j->x_many ? x_blocks : dy_blocks) - pair * 2);
    j->table->blocks[blocks - 1](&r);
}

static void sum_item(void *ctx, int64_t item) {
    const dw_job *j = ctx;
    const nck_window *v = &j->s->w;
    int64_t rows = nc_max64(1, NCK_CONV_BACK_CHUNK / v->out[2]), size = j->table->each * 2 * j->table->block;
    int64_t images = nc_max64(1, NCK_CONV_BACK_CHUNK / pixels_out(v));
    for (int64_t n = 0; n < j->images; n += images)
        for (int64_t oh = 0; oh < v->out[1]; oh += rows)
            for (int64_t t = 0; t < taps_of(j->s); t++) {
                nck_outer_run r = {.sum = j->sums + item * sums_of_item(j) + t * size,
                                   .images = nc_min64(images, j->images - n)};
                run_tap(j, r, n, item, t, oh, nc_min64(oh + rows, v->out[1]));
            }
}

/* The sums of an item to where they belong in dw (K, C, taps). */
static void put_item(void *ctx, int64_t item) {
    const dw_job *j = ctx;
    const nck_conv_shape *s = j->s;
    int64_t B2 = 2 * j->table->block, each = j->table->each, taps = taps_of(s);
    int64_t many0 = item / j->groups * B2, one0 = item % j->groups * each;
    int64_t n_many = nc_min64(B2, (j->x_many ? s->C : s->K) - many0);
    int64_t n_one = nc_min64(each, (j->x_many ? s->K : s->C) - one0);
    const float *from = j->sums + item * sums_of_item(j);
    for (int64_t o = 0; o < n_one; o++)
        for (int64_t m = 0; m < n_many; m++) {
            int64_t k = j->x_many ? one0 + o : many0 + m, c = j->x_many ? many0 + m : one0 + o;
            float *to = j->dw + (k * s->C + c) * taps;
            for (int64_t t = 0; t < taps; t++) to[t] = from[(t * each + o) * B2 + m];
        }
}

void nck_conv_back_dw(const nck_conv_back *b, const float *x, const float *dy, float *dw, void *workspace,
                      nc_pool *pool) {
    const nck_conv_shape *s = &b->shape;
    dw_job j = job_of(s);
    int64_t B = j.table->block, px = pixels_in(&s->w), py = pixels_out(&s->w), items = j.pairs * j.groups;
    int64_t at_once = nc_max64(1, nc_min64(s->N, PIXELS / nc_max64(1, nc_max64(px, py))));
    int64_t x_image = (b->blocked ? nc_ceil_div(s->C, B) * B : s->C) * px;
    int64_t y_image = (b->blocked ? nc_ceil_div(s->K, B) * B : s->K) * py;
    float *x_blocks = (float *)(void *)((char *)workspace + sums_bytes(s)), *dy_blocks = NULL;
    if (!b->blocked)
        dy_blocks =
            x_blocks + nc_align64(nck_packed_channels_bytes(B, 1, s->C, most_pixels(s, px))) / sizeof *dy_blocks;
    j.sums = workspace, j.dw = dw, j.x = x_blocks, j.dy = dy_blocks;
    if (s->K == 0 || s->C == 0 || taps_of(s) == 0) return;
    memset(workspace, 0, (size_t)(items * sums_of_item(&j)) * sizeof(float));
    for (int64_t n = 0; n < s->N && px > 0 && py > 0; n += at_once) {
        j.images = nc_min64(at_once, s->N - n);
        if (b->blocked) {
            j.x = x + n * x_image, j.dy = dy + n * y_image;
        } else {
            nck_pack_channels(&(nck_channels){B, j.images, s->C, px, false}, x + n * x_image, x_blocks, pool);
            nck_pack_channels(&(nck_channels){B, j.images, s->K, py, false}, dy + n * y_image, dy_blocks, pool);
        }
        nc_parallel(nc_pool_for(pool, j.images * py * items * sums_of_item(&j) / B), items, sum_item, &j);
    }
    nc_parallel(nc_pool_for(pool, items * sums_of_item(&j)), items, put_item, &j);
}

/* ---- by the bias ---- */

typedef struct db_job {
    const nck_conv_shape *s;
    const float *dy;
    float *db;
    int64_t B;
} db_job;

static void db_item(void *ctx, int64_t block) {
    const db_job *j = ctx;
    const nck_lanes_table *t = nck_isa_get()->lanes;
    int64_t B = j->B, py = pixels_out(&j->s->w), blocks = nc_ceil_div(j->s->K, B);
    double sum[NCK_CONV_MAX_BLOCK] = {0};
    float part[NCK_CONV_MAX_BLOCK];
    for (int64_t n = 0; n < j->s->N; n++)
        for (int64_t i = 0; i < py; i += NCK_LANES_RUN) {
            t->sum(B, j->dy + ((n * blocks + block) * py + i) * B, nc_min64(NCK_LANES_RUN, py - i), part);
            for (int64_t l = 0; l < B; l++) sum[l] += (double)part[l];
        }
    for (int64_t l = 0; l < nc_min64(B, j->s->K - block * B); l++) j->db[block * B + l] = (float)sum[l];
}

void nck_conv_back_db_blocked(const nck_conv_shape *s, const float *dy, float *db, nc_pool *pool) {
    db_job j = {.s = s, .dy = dy, .db = db, .B = nck_channel_block()};
    nc_parallel(nc_pool_for(pool, s->N * s->K * pixels_out(&s->w)), nc_ceil_div(s->K, j.B), db_item, &j);
}
