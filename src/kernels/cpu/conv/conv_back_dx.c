/* kernels/cpu/conv/conv_back_dx.c: the gradient of a convolution by its input as convolutions of dy, one for each phase
 * of the strides; see conv_back.h. Letters: q places of a phase, r the phase, along one dim. */
#include "kernels/cpu/conv/conv_back.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_kernel.h"
#include "kernels/cpu/conv/conv_wino.h"

#include <string.h>

enum {
    PIXELS = 1024, /* of the images that are laid into blocks together, where one has fewer */
    TURNED = 8     /* channels of an item that turns weights */
};

bool nck_conv_back_takes(const nck_conv_shape *s) { return s->type == NC_FLOAT && s->group == 1; }

static int64_t pixels_in(const nck_window *v) { return v->in[1] * v->in[2]; }
static int64_t pixels_out(const nck_window *v) { return v->out[1] * v->out[2]; }

static int64_t images_of(const nck_conv_shape *s) {
    int64_t most = nc_max64(1, nc_max64(pixels_in(&s->w), pixels_out(&s->w)));
    return nc_max64(1, nc_min64(s->N, PIXELS / most));
}

/* Pixels of so many images, at most. */
static int64_t most_pixels(const nck_conv_shape *s, int64_t pixels) {
    return nc_min64(s->N * pixels, nc_max64(PIXELS, pixels));
}

/* The taps that meet phase r along dim d: first, first + step, ..., `taps` of them; as a window of stride 1 over dy
 * they come in the opposite order. */
typedef struct dx_phase {
    int64_t first, step, taps, out, dil, pad;
} dx_phase;

static int64_t gcd(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t t = a % b;
        a = b, b = t;
    }
    return a;
}

static dx_phase phase_of(const nck_window *v, int d, int64_t r) {
    int64_t s = v->stride[d], common = gcd(s, v->dil[d]), first = 0;
    dx_phase p = {
        .step = s / common, .dil = v->dil[d] / common, .out = r < v->in[d] ? nc_ceil_div(v->in[d] - r, s) : 0};
    while (first < p.step && first < v->k[d] && (r + v->pad[d] - first * v->dil[d]) % s != 0) first++;
    if (first >= p.step || first >= v->k[d]) return p;
    p.first = first;
    p.taps = (v->k[d] - 1 - first) / p.step + 1;
    p.pad = (p.taps - 1) * p.dil - (r + v->pad[d] - first * v->dil[d]) / s;
    return p;
}

static nck_conv_shape phase_shape(const nck_conv_shape *s, int64_t images, const dx_phase *h, const dx_phase *w) {
    return (nck_conv_shape){.type = NC_FLOAT,
                            .N = images,
                            .C = s->K,
                            .K = s->C,
                            .group = 1,
                            .w = {.in = {1, s->w.out[1], s->w.out[2]},
                                  .k = {1, h->taps, w->taps},
                                  .out = {1, h->out, w->out},
                                  .stride = {1, 1, 1},
                                  .dil = {1, h->dil, w->dil},
                                  .pad = {0, h->pad, w->pad}}};
}

/* Workspace: dy and a phase of dx in blocks, turned weights for Winograd, packed weights, the kernel's own. */
typedef struct dx_room {
    size_t dy, dx, turned, packed, own;
} dx_room;

static bool strided(const nck_window *v) { return v->stride[1] > 1 || v->stride[2] > 1; }

/* For either form, where both are possible: which one it is depends on sizes. */
static void room_of_phase(const nck_conv_back *b, const nck_conv_shape *c, dx_room *m) {
    const nck_conv_form forms[] = {NCK_CONV_BLOCKS, NCK_CONV_WINO};
    for (int i = 0; i < (b->winograd && nck_conv_wino_fits(c) ? 2 : 1); i++) {
        size_t weights = b->packed ? 0 : nc_align64(nck_conv_packed_weights_bytes(c, forms[i]));
        m->packed = nc_max_size(m->packed, weights);
        m->own = nc_max_size(m->own, nc_align64(nck_conv_blocked_workspace(c, forms[i])));
        if (forms[i] == NCK_CONV_WINO) m->turned = nc_align64((size_t)(c->C * c->K * 9) * sizeof(float));
    }
}

static dx_room room_of(const nck_conv_back *b) {
    const nck_conv_shape *s = &b->shape;
    const nck_window *v = &s->w;
    int64_t B = nck_channel_block(), widest = 0;
    dx_room m = {.dy = 0};
    if (!b->blocked) m.dy = nc_align64(nck_packed_channels_bytes(B, 1, s->K, most_pixels(s, pixels_out(v))));
    for (int64_t i = 0; i < v->stride[1]; i++)
        for (int64_t k = 0; k < v->stride[2]; k++) {
            dx_phase h = phase_of(v, 1, i), w = phase_of(v, 2, k);
            nck_conv_shape c = phase_shape(s, s->N, &h, &w);
            widest = nc_max64(widest, most_pixels(s, h.out * w.out));
            if (h.taps > 0 && w.taps > 0) room_of_phase(b, &c, &m);
        }
    if (!b->blocked || strided(v)) m.dx = nc_align64(nck_packed_channels_bytes(B, 1, s->C, widest));
    return m;
}

size_t nck_conv_back_dx_workspace(const nck_conv_back *b) {
    dx_room m = room_of(b);
    return m.dy + m.dx + m.turned + m.packed + m.own;
}

typedef struct dx_job {
    const nck_conv_back *back;
    const nck_conv_shape *s;
    dx_phase h, w;
    int64_t rh, rw;                       /* the phase */
    const char *weights;                  /* dense */
    const float *ready;                   /* those of the phase, packed before; NULL: there are none */
    float *turned, *packed, *blocks, *dx; /* dx: first image */
    int64_t B;
} dx_job;

/* (C, K, taps, last first) from (K, C, taps): TURNED channels of each k at a time. Of 3 x 3 taps, for Winograd. */
static void turn_item(void *ctx, int64_t item) {
    enum { TAPS = 9 };
    const dx_job *j = ctx;
    const nck_conv_shape *s = j->s;
    int64_t first = item * TURNED, end = nc_min64(s->C, first + TURNED);
    for (int64_t k = 0; k < s->K; k++)
        for (int64_t c = first; c < end; c++) {
            const float *from = (const float *)(const void *)j->weights + (k * s->C + c) * TAPS;
            float *to = j->turned + (c * s->K + k) * TAPS;
            for (int t = 0; t < TAPS; t++) to[t] = from[TAPS - 1 - t];
        }
}

/* The weights of the phase for a pair of blocks of dx's channels, packed as nck_conv_pack_weights does: in blocks of K,
 * the last with its own alone, (tap, last first, k, channel). */
static void pack_item(void *ctx, int64_t pair) {
    const dx_job *j = ctx;
    const nck_conv_shape *s = j->s;
    int64_t B = j->B, C = s->C, c0 = pair * 2 * B, live = nc_min64(2 * B, C - c0), wide = nc_round_up(live, B);
    int64_t kw = s->w.k[2], all = s->w.k[1] * kw, taps = j->h.taps * j->w.taps;
    float *dst = j->packed + c0 * s->K * taps;
    for (int64_t k = 0; k < s->K; k++) {
        int64_t k0 = k / B * B, step = nc_min64(B, s->K - k0) * wide;
        float *to = dst + (k0 * taps) * wide + (k - k0) * wide;
        for (int64_t a = j->h.taps - 1; a >= 0; a--)
            for (int64_t b = j->w.taps - 1; b >= 0; b--, to += step) {
                int64_t tap = (j->h.first + a * j->h.step) * kw + j->w.first + b * j->w.step;
                const char *from = j->weights + ((k * C + c0) * all + tap) * (int64_t)sizeof *to;
                for (int64_t c = 0; c < live; c++) memcpy(&to[c], from + c * all * (int64_t)sizeof *to, sizeof *to);
                for (int64_t c = live; c < wide; c++) to[c] = 0;
            }
    }
}

static bool has_taps(const dx_job *j) { return j->h.taps > 0 && j->w.taps > 0; }

/* Image and block of channels `item` of a phase into dx; without taps, zeros. */
static void spread_item(void *ctx, int64_t item) {
    const dx_job *j = ctx;
    const nck_conv_shape *s = j->s;
    const nck_window *v = &s->w;
    int64_t B = j->B, n_blocks = nc_ceil_div(s->C, B), n = item / n_blocks, c0 = item % n_blocks * B;
    int64_t live = nc_min64(B, s->C - c0), sw = v->stride[2], pixels = j->h.out * j->w.out;
    const float *from = has_taps(j) ? j->blocks + item * pixels * B : NULL;
    for (int64_t c = 0; c < live; c++) {
        float *plane = j->dx + (n * s->C + c0 + c) * pixels_in(v) + j->rh * v->in[2] + j->rw;
        for (int64_t a = 0; a < j->h.out; a++) {
            float *row = plane + a * v->stride[1] * v->in[2];
            for (int64_t b = 0; b < j->w.out; b++) row[b * sw] = from ? from[(a * j->w.out + b) * B + c] : 0;
        }
    }
}

/* The same where dx lies in blocks; without taps, the bias. bytes: of a pixel, a constant where inlined. */
static inline void spread_blocks(const dx_job *j, int64_t item, size_t bytes) {
    const nck_window *v = &j->s->w;
    const float *from = has_taps(j) ? j->blocks + item * j->h.out * j->w.out * j->B : NULL, *bias = j->back->bias;
    float begin[NCK_CONV_MAX_BLOCK] = {0};
    int64_t c0 = item % nc_ceil_div(j->s->C, j->B) * j->B;
    for (int64_t c = 0; bias && c < nc_min64(j->B, j->s->C - c0); c++) begin[c] = bias[c0 + c];
    float *plane = j->dx + (item * pixels_in(v) + j->rh * v->in[2] + j->rw) * j->B;
    for (int64_t a = 0; a < j->h.out; a++) {
        float *to = plane + a * v->stride[1] * v->in[2] * j->B;
        for (int64_t b = 0; b < j->w.out; b++, to += v->stride[2] * j->B) {
            if (from)
                memcpy(to, from + (a * j->w.out + b) * j->B, bytes);
            else
                memcpy(to, begin, bytes);
        }
    }
}

static void spread_block_item(void *ctx, int64_t item) {
    const dx_job *j = ctx;
    if (j->B == NCK_CONV_MAX_BLOCK)
        spread_blocks(j, item, NCK_CONV_MAX_BLOCK * sizeof(float));
    else
        spread_blocks(j, item, (size_t)j->B * sizeof(float));
}

/* Some images of a phase, dy in blocks. */
static void run_images(dx_job *j, const nck_conv_blocked_args *a, void *workspace, nc_pool *pool) {
    const nck_conv_shape *s = j->s;
    bool blocked = j->back->blocked, direct = a->y != j->blocks;
    int64_t items = a->shape.N * nc_ceil_div(s->C, j->B);
    if (has_taps(j)) nck_conv_blocked(a, workspace, pool);
    if (direct && has_taps(j)) return;
    nc_parallel(nc_pool_for(pool, items * j->h.out * j->w.out * j->B), items, blocked ? spread_block_item : spread_item,
                j);
}

/* Weights of a phase, packed for the form that it takes. */
static nck_conv_form pack_weights(dx_job *j, const nck_conv_shape *c, nc_pool *pool) {
    const nck_conv_shape *s = j->s;
    nck_conv_form form = j->back->winograd && nck_conv_wino_wins(c) ? NCK_CONV_WINO : NCK_CONV_BLOCKS;
    pool = nc_pool_for(pool, s->C * s->K * j->h.taps * j->w.taps);
    if (form == NCK_CONV_BLOCKS) {
        nc_parallel(pool, nc_ceil_div(s->C, 2 * j->B), pack_item, j);
        return form;
    }
    nc_parallel(pool, nc_ceil_div(s->C, TURNED), turn_item, j);
    nck_conv_pack_weights(c, form, j->turned, j->packed);
    return form;
}

/* One phase of all images: weights once, then some images at a time; all of them where nothing is to be laid out. */
static void run_phase(dx_job *j, const float *dy, float *dx, char *workspace, nc_pool *pool) {
    const nck_conv_shape *s = j->s;
    bool blocked = j->back->blocked, direct = blocked && !strided(&s->w);
    dx_room m = room_of(j->back);
    int64_t at_once = direct ? s->N : images_of(s), pixels = pixels_out(&s->w), B = j->B;
    int64_t y_image = (blocked ? nc_ceil_div(s->K, B) * B : s->K) * pixels;
    int64_t x_image = (blocked ? nc_ceil_div(s->C, B) * B : s->C) * pixels_in(&s->w);
    float *dy_blocks = (float *)(void *)workspace;
    j->blocks = (float *)(void *)(workspace + m.dy);
    j->turned = (float *)(void *)(workspace + m.dy + m.dx);
    j->packed = (float *)(void *)(workspace + m.dy + m.dx + m.turned);
    nck_conv_blocked_args a = {.shape = phase_shape(s, s->N, &j->h, &j->w), .w = j->packed, .bias = j->back->bias};
    if (j->ready)
        a.w = j->ready;
    else if (has_taps(j))
        a.form = pack_weights(j, &a.shape, pool);
    for (int64_t n = 0; n < s->N; n += at_once) {
        a.shape.N = nc_min64(at_once, s->N - n);
        j->dx = dx + n * x_image;
        a.x = blocked ? dy + n * y_image : dy_blocks;
        a.y = direct ? j->dx : j->blocks;
        if (has_taps(j) && !blocked)
            nck_pack_channels(&(nck_channels){B, a.shape.N, s->K, pixels, false}, dy + n * y_image, dy_blocks, pool);
        run_images(j, &a, workspace + m.dy + m.dx + m.turned + m.packed, pool);
    }
}

static int64_t weights_of_phase(const nck_conv_shape *s, const dx_phase *h, const dx_phase *w) {
    nck_conv_shape c = phase_shape(s, 1, h, w);
    return (int64_t)(nc_align64(nck_conv_packed_weights_bytes(&c, NCK_CONV_BLOCKS)) / sizeof(float));
}

/* Calls fn for every phase; what is packed of each lies behind the others. */
static void each_phase(dx_job *j, void (*fn)(dx_job *j, int64_t at, void *ctx), void *ctx) {
    const nck_window *v = &j->s->w;
    int64_t at = 0;
    for (j->rh = 0; j->rh < v->stride[1]; j->rh++)
        for (j->rw = 0; j->rw < v->stride[2]; j->rw++) {
            j->h = phase_of(v, 1, j->rh);
            j->w = phase_of(v, 2, j->rw);
            int64_t weights = has_taps(j) ? weights_of_phase(j->s, &j->h, &j->w) : 0;
            fn(j, at, ctx);
            at += weights;
        }
}

static void count_phase(dx_job *j, int64_t at, void *ctx) {
    *(int64_t *)ctx = at + (has_taps(j) ? weights_of_phase(j->s, &j->h, &j->w) : 0);
}

size_t nck_conv_back_dx_packed_bytes(const nck_conv_back *b) {
    dx_job j = {.back = b, .s = &b->shape, .B = nck_channel_block()};
    int64_t n = 0;
    each_phase(&j, count_phase, &n);
    return (size_t)n * sizeof(float);
}

static void pack_phase(dx_job *j, int64_t at, void *ctx) {
    j->packed = (float *)ctx + at;
    for (int64_t pair = 0; has_taps(j) && pair < nc_ceil_div(j->s->C, 2 * j->B); pair++) pack_item(j, pair);
}

void nck_conv_back_dx_pack(const nck_conv_back *b, const void *w, float *dst) {
    dx_job j = {.back = b, .s = &b->shape, .weights = w, .B = nck_channel_block()};
    each_phase(&j, pack_phase, dst);
}

typedef struct dx_run {
    const float *dy, *w;
    float *dx;
    void *workspace;
    nc_pool *pool;
} dx_run;

static void run_of_phase(dx_job *j, int64_t at, void *ctx) {
    const dx_run *r = ctx;
    if (j->s->K == 0 || pixels_out(&j->s->w) == 0) j->h.taps = 0;
    j->ready = j->back->packed && has_taps(j) ? r->w + at : NULL;
    if (j->h.out > 0 && j->w.out > 0) run_phase(j, r->dy, r->dx, r->workspace, r->pool);
}

void nck_conv_back_dx(const nck_conv_back *b, const float *dy, const float *w, float *dx, void *workspace,
                      nc_pool *pool) {
    const nck_conv_shape *s = &b->shape;
    dx_job j = {.back = b, .s = s, .weights = (const char *)w, .B = nck_channel_block()};
    dx_run r = {.dy = dy, .w = w, .dx = dx, .workspace = workspace, .pool = pool};
    if (s->N == 0 || s->C == 0 || pixels_in(&s->w) == 0) return;
    each_phase(&j, run_of_phase, &r);
}
