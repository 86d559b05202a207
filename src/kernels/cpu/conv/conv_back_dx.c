/* kernels/cpu/conv/conv_back_dx.c: the gradient of a convolution by its input as convolutions of dy, one for each phase
 * of the strides; see conv_back.h. Letters: q places of a phase, r the phase, along one dim. */
#include "kernels/cpu/conv/conv_back.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/conv_blocked.h"

#include <string.h>

enum { PIXELS = 1024 }; /* of the images that are laid into blocks together, where one has fewer */

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

/* Workspace: dy and a phase of dx in blocks, the turned weights of all phases, packed weights, the kernel's own. */
typedef struct dx_room {
    size_t dy, dx, turned, packed, own;
} dx_room;

static dx_room room_of(const nck_conv_shape *s) {
    const nck_window *v = &s->w;
    int64_t B = nck_channel_block(), widest = 0;
    size_t weights = (size_t)(s->C * s->K * v->k[1] * v->k[2]) * sizeof(float);
    dx_room m = {.dy = nc_align64(nck_packed_channels_bytes(B, 1, s->K, most_pixels(s, pixels_out(v)))),
                 .turned = nc_align64(weights)};
    for (int64_t a = 0; a < v->stride[1]; a++)
        for (int64_t b = 0; b < v->stride[2]; b++) {
            dx_phase h = phase_of(v, 1, a), w = phase_of(v, 2, b);
            nck_conv_shape c = phase_shape(s, s->N, &h, &w);
            widest = nc_max64(widest, most_pixels(s, h.out * w.out));
            if (h.taps == 0 || w.taps == 0) continue;
            m.packed = nc_max_size(m.packed, nc_align64(nck_conv_packed_weights_bytes(&c, NCK_CONV_BLOCKS)));
            m.own = nc_max_size(m.own, nc_align64(nck_conv_blocked_workspace(&c, NCK_CONV_BLOCKS)));
        }
    m.dx = nc_align64(nck_packed_channels_bytes(B, 1, s->C, widest));
    return m;
}

size_t nck_conv_back_dx_workspace(const nck_conv_shape *s) {
    dx_room m = room_of(s);
    return m.dy + m.dx + m.turned + m.packed + m.own;
}

typedef struct dx_job {
    const nck_conv_shape *s;
    dx_phase h, w;
    int64_t rh, rw; /* the phase */
    const float *weights;
    float *turned, *blocks, *dx; /* dx: first image */
    int64_t B;
} dx_job;

/* (C, K, taps of the phase, last first) from (K, C, k...), channel c. */
static void turn_item(void *ctx, int64_t c) {
    const dx_job *j = ctx;
    const nck_conv_shape *s = j->s;
    int64_t kw = s->w.k[2], taps = s->w.k[1] * kw;
    float *to = j->turned + c * s->K * j->h.taps * j->w.taps;
    for (int64_t k = 0; k < s->K; k++) {
        const float *from = j->weights + (k * s->C + c) * taps;
        for (int64_t a = j->h.taps - 1; a >= 0; a--)
            for (int64_t b = j->w.taps - 1; b >= 0; b--)
                *to++ = from[(j->h.first + a * j->h.step) * kw + j->w.first + b * j->w.step];
    }
}

/* Image and block of channels `item` of a phase into dx; without taps, zeros. */
static void spread_item(void *ctx, int64_t item) {
    const dx_job *j = ctx;
    const nck_conv_shape *s = j->s;
    const nck_window *v = &s->w;
    int64_t B = j->B, n_blocks = nc_ceil_div(s->C, B), n = item / n_blocks, c0 = item % n_blocks * B;
    int64_t live = nc_min64(B, s->C - c0), sw = v->stride[2], pixels = j->h.out * j->w.out;
    const float *from = j->h.taps > 0 && j->w.taps > 0 ? j->blocks + item * pixels * B : NULL;
    for (int64_t c = 0; c < live; c++) {
        float *plane = j->dx + (n * s->C + c0 + c) * pixels_in(v) + j->rh * v->in[2] + j->rw;
        for (int64_t a = 0; a < j->h.out; a++) {
            float *row = plane + a * v->stride[1] * v->in[2];
            for (int64_t b = 0; b < j->w.out; b++) row[b * sw] = from ? from[(a * j->w.out + b) * B + c] : 0;
        }
    }
}

/* One phase of all images: weights once, then some images at a time. */
static void run_phase(dx_job *j, const float *dy, float *dx, char *workspace, nc_pool *pool) {
    const nck_conv_shape *s = j->s;
    dx_room m = room_of(s);
    float *blocks = (float *)(void *)workspace, *packed;
    int64_t at_once = images_of(s), pixels = pixels_out(&s->w);
    bool any = j->h.taps > 0 && j->w.taps > 0;
    j->blocks = (float *)(void *)(workspace + m.dy);
    j->turned = (float *)(void *)(workspace + m.dy + m.dx);
    packed = (float *)(void *)(workspace + m.dy + m.dx + m.turned);
    nck_conv_shape c = phase_shape(s, at_once, &j->h, &j->w);
    if (any) {
        nc_parallel(nc_pool_for(pool, s->C * s->K * j->h.taps * j->w.taps), s->C, turn_item, j);
        nck_conv_pack_weights(&c, NCK_CONV_BLOCKS, j->turned, packed);
    }
    for (int64_t n = 0; n < s->N; n += at_once) {
        c.N = nc_min64(at_once, s->N - n);
        j->dx = dx + n * s->C * pixels_in(&s->w);
        if (any) {
            nck_conv_blocked_args a = {.shape = c, .form = NCK_CONV_BLOCKS, .x = blocks, .w = packed, .y = j->blocks};
            nck_pack_channels(&(nck_channels){j->B, c.N, s->K, pixels, false}, dy + n * s->K * pixels, blocks, pool);
            nck_conv_blocked(&a, workspace + m.dy + m.dx + m.turned + m.packed, pool);
        }
        int64_t items = c.N * nc_ceil_div(s->C, j->B);
        nc_parallel(nc_pool_for(pool, items * j->h.out * j->w.out * j->B), items, spread_item, j);
    }
}

void nck_conv_back_dx(const nck_conv_shape *s, const float *dy, const float *w, float *dx, void *workspace,
                      nc_pool *pool) {
    const nck_window *v = &s->w;
    dx_job j = {.s = s, .weights = w, .B = nck_channel_block()};
    if (s->N == 0 || s->C == 0 || pixels_in(v) == 0) return;
    for (j.rh = 0; j.rh < v->stride[1]; j.rh++)
        for (j.rw = 0; j.rw < v->stride[2]; j.rw++) {
            j.h = phase_of(v, 1, j.rh);
            j.w = phase_of(v, 2, j.rw);
            if (s->K == 0 || pixels_out(v) == 0) j.h.taps = 0;
            if (j.h.out > 0 && j.w.out > 0) run_phase(&j, dy, dx, workspace, pool);
        }
}
