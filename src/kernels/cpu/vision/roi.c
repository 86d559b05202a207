/* kernels/cpu/vision/roi.c: RoiAlign, its gradient, and its change in a direction, see sample.h. A bin is the mean of
 * samples that are read between four pixels each; with max it is the largest of all weighted pixels, as ONNX defines
 * it, and the first of equal ones counts. Sums are in double. */
#include "kernels/cpu/vision/sample.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/simd/unroll.h"

#include <math.h>
#include <string.h>

/* The pixels of a sample, their weights, and how these change along y and x. */
typedef struct pixels {
    int64_t at[4];
    double weight[4], slope[2][4];
} pixels;

/* A region: where its bins lie, and how often each is sampled. */
typedef struct region {
    double at[4], bin[2]; /* at: x1 y1 x2 y2 in pixels; bin: height, width */
    double ends[2];       /* along y, x: how far the size follows the far end: 1, or 0 where it is held at 1 */
    int64_t n[2];
} region;

/* One bin: the sum over its samples, or its largest weighted pixel. */
typedef struct bin {
    const nck_roi_align *r;
    const region *region;
    int64_t plane, i, j;
} bin;

/* The four pixels around (y, x) of an (h, w) plane; false: too far outside, worth 0. */
static bool around(double y, double x, int64_t h, int64_t w, pixels *p) {
    if (!(y >= -1 && y <= (double)h && x >= -1 && x <= (double)w)) return false;
    double moves[2] = {y > 0, x > 0};
    y = fmax(y, 0), x = fmax(x, 0);
    int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    if (y0 >= h - 1) y = (double)(y0 = h - 1), moves[0] = 0;
    if (x0 >= w - 1) x = (double)(x0 = w - 1), moves[1] = 0;
    int64_t y1 = y0 + (y0 < h - 1), x1 = x0 + (x0 < w - 1);
    double ly = y - (double)y0, lx = x - (double)x0;
    *p = (pixels){.at = {y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1},
                  .weight = {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx}};
    for (int k = 0; k < 4; k++) {
        p->slope[0][k] = (k / 2 ? 1 : -1) * (k % 2 ? lx : 1 - lx) * moves[0];
        p->slope[1][k] = (k % 2 ? 1 : -1) * (k / 2 ? ly : 1 - ly) * moves[1];
    }
    return true;
}

static region region_of(const nck_roi_align *r, int64_t roi) {
    region g = {.ends = {1, 1}};
    double shift = r->half_pixel ? 0.5 : 0;
    for (int k = 0; k < 4; k++) g.at[k] = nc_tensor_get(r->rois, roi * 4 + k) * r->scale - shift;
    for (int k = 0; k < 2; k++) {
        double size = g.at[3 - k] - g.at[1 - k];
        if (!r->half_pixel && size <= 1) size = 1, g.ends[k] = 0;
        g.bin[k] = size / (double)r->y->dims[2 + k];
        g.n[k] = r->sampling_ratio > 0 ? r->sampling_ratio : (int64_t)ceil(g.bin[k]);
    }
    return g;
}

/* Sample s of a bin; along: how far through the region it lies, in regions, along y and x. */
static bool sample_of(const bin *b, int64_t s, pixels *p, double *along) {
    const region *g = b->region;
    int64_t i = s / g->n[1], j = s % g->n[1];
    double in_y = (double)b->i + ((double)i + 0.5) / (double)g->n[0],
           in_x = (double)b->j + ((double)j + 0.5) / (double)g->n[1];
    along[0] = in_y / (double)b->r->y->dims[2];
    along[1] = in_x / (double)b->r->y->dims[3];
    return around(g->at[1] + in_y * g->bin[0], g->at[0] + in_x * g->bin[1], b->r->x->dims[2], b->r->x->dims[3], p);
}

static int64_t samples(const bin *b) {
    return b->region->n[0] > 0 && b->region->n[1] > 0 ? b->region->n[0] * b->region->n[1] : 0;
}

static double pixel(const bin *b, const nc_tensor *t, int64_t at) {
    return nc_tensor_get(t, b->plane * t->dims[2] * t->dims[3] + at);
}

/* The largest weighted pixel: its sample and tap; sample -1: one that is outside, worth 0. */
static double largest(const bin *b, int64_t *sample, int *tap) {
    double most = 0, along[2];
    *sample = -1, *tap = 0;
    for (int64_t s = 0; s < samples(b); s++) {
        pixels p;
        double best = 0;
        int best_tap = 0;
        bool inside = sample_of(b, s, &p, along);
        for (int k = 0; inside && k < 4; k++) {
            double v = p.weight[k] * pixel(b, b->r->x, p.at[k]);
            if (k == 0 || v > best) best = v, best_tap = k;
        }
        if (s > 0 && !(best > most)) continue;
        most = best, *sample = inside ? s : -1, *tap = best_tap;
    }
    return most;
}

/* The bin of `t`, with max at the pixel that is the largest of x. */
static double value(const bin *b, const nc_tensor *t) {
    double sum = 0, along[2];
    int64_t n = samples(b), at;
    int tap;
    pixels p;
    if (b->r->max) {
        double most = largest(b, &at, &tap);
        if (t == b->r->x) return most;
        return at >= 0 && sample_of(b, at, &p, along) ? p.weight[tap] * pixel(b, t, p.at[tap]) : 0;
    }
    for (int64_t s = 0; s < n; s++)
        if (sample_of(b, s, &p, along))
            for (int k = 0; k < 4; k++) sum += p.weight[k] * pixel(b, t, p.at[k]);
    return sum / (double)(n > 0 ? n : 1);
}

static void roi_item(void *ctx, int64_t i) {
    const nck_roi_align *r = ctx;
    int64_t c = r->x->dims[1], h = r->y->dims[2], w = r->y->dims[3], roi = i / c;
    region g = region_of(r, roi);
    for (int64_t k = 0; k < h * w; k++) {
        bin b = {r, &g, r->batch[roi] * c + i % c, k / w, k % w};
        nc_tensor_put(r->y, i * h * w + k, value(&b, r->along != NULL ? r->along : r->x));
    }
}

enum {
    POINTS = 16,   /* elements of work that a result costs */
    MOST = 128,    /* samples, and bins, that are found at once */
    CHANNELS = 64, /* that go through them, */
    BESIDE = 4     /* so many side by side */
};

/* Samples of some bins. */
typedef struct spots {
    int n[MOST]; /* of each bin */
    int64_t at[MOST][4];
    double weight[MOST][4];
} spots;

/* Those of bins [k, end). */
static void find_spots(const nck_roi_align *r, const region *g, int64_t k, int64_t end, spots *s) {
    double along[2];
    for (int64_t first = k, n = 0; k < end; k++) {
        bin b = {r, g, 0, k / r->y->dims[3], k % r->y->dims[3]};
        int64_t before = n;
        for (int64_t i = 0; i < samples(&b); i++) {
            pixels p;
            if (!sample_of(&b, i, &p, along)) continue;
            memcpy(s->at[n], p.at, sizeof p.at), memcpy(s->weight[n], p.weight, sizeof p.weight);
            n++;
        }
        s->n[k - first] = (int)(n - before);
    }
}

/* The means of n bins of `channels` channels, which go side by side because each is one chain of sums; f32 and channels
 * are constants where inlined. */
__attribute__((always_inline)) static inline void spot_means(bool f32, int channels, const spots *s, int64_t n,
                                                             double count, const void *x, int64_t plane, void *y,
                                                             int64_t bins) {
    for (int64_t k = 0, i = 0; k < n; k++) {
        double sum[BESIDE] = {0};
        for (int64_t end = i + s->n[k]; i < end; i++)
            for (int t = 0; t < 4; t++) {
                double w = s->weight[i][t];
                int64_t at = s->at[i][t];
                UNROLL
                for (int c = 0; c < channels; c++, at += plane)
                    sum[c] += w * (f32 ? (double)((const float *)x)[at] : ((const double *)x)[at]);
            }
        UNROLL
        for (int c = 0; c < channels; c++) {
            if (f32)
                ((float *)y)[c * bins + k] = (float)(sum[c] / count);
            else
                ((double *)y)[c * bins + k] = sum[c] / count;
        }
    }
}

/* Some channels of a region, whose samples are the same in all of them. */
static void roi_means_item(void *ctx, int64_t i) {
    const nck_roi_align *r = ctx;
    const nc_tensor *x = r->along != NULL ? r->along : r->x;
    int64_t C = x->dims[1], pieces = nc_ceil_div(C, CHANNELS), roi = i / pieces, c0 = i % pieces * CHANNELS;
    int64_t bins = r->y->dims[2] * r->y->dims[3], plane = x->dims[2] * x->dims[3], end = nc_min64(C, c0 + CHANNELS);
    int64_t es = (int64_t)nc_dtype_bytes(x->dtype);
    region g = region_of(r, roi);
    int64_t each = samples(&(bin){.r = r, .region = &g}), step = nc_min64(MOST, MOST / nc_max64(1, each));
    if (step == 0)
        for (int64_t c = c0; c < end; c++) roi_item(ctx, roi * C + c);
    for (int64_t k = 0; step > 0 && k < bins; k += step) {
        spots s;
        int64_t n = nc_min64(step, bins - k);
        find_spots(r, &g, k, k + n, &s);
        for (int64_t c = c0, many; c < end; c += many) {
            const void *from = (const char *)x->data + (r->batch[roi] * C + c) * plane * es;
            void *to = (char *)r->y->data + ((roi * C + c) * bins + k) * es;
            double count = (double)nc_max64(1, each);
            many = x->dtype == NC_FLOAT && end - c >= BESIDE ? BESIDE : 1;
            if (many > 1)
                spot_means(true, BESIDE, &s, n, count, from, plane, to, bins);
            else if (x->dtype == NC_FLOAT)
                spot_means(true, 1, &s, n, count, from, plane, to, bins);
            else
                spot_means(false, 1, &s, n, count, from, plane, to, bins);
        }
    }
}

void nck_roi_align_run(const nck_roi_align *r, nc_pool *pool) {
    int64_t C = r->x->dims[1], R = r->y->dims[0];
    void *job = (void *)(uintptr_t)r;
    pool = nc_pool_for(pool, nc_tensor_numel(r->y) * POINTS);
    if (r->max)
        nc_parallel(pool, R * C, roi_item, job);
    else
        nc_parallel(pool, R * nc_ceil_div(C, CHANNELS), roi_means_item, job);
}

/* ---- gradient ---- */

/* What d at a bin gives the pixels (in dx, if there is one) and the region's ends (in dat). */
static void add_sample(const bin *b, const pixels *p, const double *along, int k, double d, double *dat) {
    const nck_roi_align *r = b->r;
    if (dat == NULL) {
        int64_t at = b->plane * r->x->dims[2] * r->x->dims[3] + p->at[k];
        nc_tensor_put(r->dx, at, nc_tensor_get(r->dx, at) + p->weight[k] * d);
        return;
    }
    for (int e = 0; e < 2; e++) { /* place = near end + along * size */
        double moved = d * pixel(b, r->x, p->at[k]) * p->slope[e][k], far = along[e] * b->region->ends[e];
        dat[1 - e] += moved * (1 - far);
        dat[3 - e] += moved * far;
    }
}

static void add_bin(const bin *b, double d, double *dat) {
    pixels p;
    double along[2];
    int64_t n = samples(b), at;
    int tap;
    if (b->r->max) {
        largest(b, &at, &tap);
        if (at >= 0 && sample_of(b, at, &p, along)) add_sample(b, &p, along, tap, d, dat);
        return;
    }
    for (int64_t s = 0; s < n; s++)
        if (sample_of(b, s, &p, along))
            for (int k = 0; k < 4; k++) add_sample(b, &p, along, k, d / (double)n, dat);
}

static void add_region(const nck_roi_align *r, int64_t roi, int64_t c, double *dat) {
    int64_t C = r->x->dims[1], h = r->y->dims[2], w = r->y->dims[3];
    region g = region_of(r, roi);
    for (int64_t k = 0; k < h * w; k++) {
        bin b = {r, &g, r->batch[roi] * C + c, k / w, k % w};
        add_bin(&b, nc_tensor_get(r->y, (roi * C + c) * h * w + k), dat);
    }
}

/* dx of one channel of one image, region after region. */
static void roi_dx_item(void *ctx, int64_t i) {
    const nck_roi_align *r = ctx;
    int64_t C = r->x->dims[1], size = r->x->dims[2] * r->x->dims[3];
    for (int64_t k = 0; k < size; k++) nc_tensor_put(r->dx, i * size + k, 0);
    for (int64_t roi = 0; roi < r->y->dims[0]; roi++)
        if (r->batch[roi] == i / C) add_region(r, roi, i % C, NULL);
}

static void roi_drois_item(void *ctx, int64_t roi) {
    const nck_roi_align *r = ctx;
    double dat[4] = {0};
    for (int64_t c = 0; c < r->x->dims[1]; c++) add_region(r, roi, c, dat);
    for (int k = 0; k < 4; k++) nc_tensor_put(r->drois, roi * 4 + k, dat[k] * r->scale);
}

void nck_roi_align_grad(const nck_roi_align *r, nc_pool *pool) {
    pool = nc_pool_for(pool, nc_tensor_numel(r->y) * POINTS);
    if (r->dx != NULL) nc_parallel(pool, r->x->dims[0] * r->x->dims[1], roi_dx_item, (void *)(uintptr_t)r);
    if (r->drois != NULL) nc_parallel(pool, r->y->dims[0], roi_drois_item, (void *)(uintptr_t)r);
}
