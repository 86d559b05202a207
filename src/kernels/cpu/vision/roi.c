/* kernels/cpu/vision/roi.c: RoiAlign and non-maximum suppression, see sample.h. */
#include "kernels/cpu/vision/sample.h"

#include "base/real.h"
#include "kernels/cpu/index/index.h"

#include <math.h>

typedef struct pixels {
    int64_t at[4];
    double weight[4];
} pixels;

/* The four pixels around (y, x) of an (h, w) plane; false: too far outside, worth 0. */
static bool around(double y, double x, int64_t h, int64_t w, pixels *p) {
    if (!(y >= -1 && y <= (double)h && x >= -1 && x <= (double)w)) return false;
    y = fmax(y, 0), x = fmax(x, 0);
    int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    if (y0 >= h - 1) y = (double)(y0 = h - 1);
    if (x0 >= w - 1) x = (double)(x0 = w - 1);
    int64_t y1 = y0 + (y0 < h - 1), x1 = x0 + (x0 < w - 1);
    double ly = y - (double)y0, lx = x - (double)x0;
    *p = (pixels){{y0 * w + x0, y0 * w + x1, y1 * w + x0, y1 * w + x1},
                  {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx}};
    return true;
}

/* max: the largest of the weighted pixels, as ONNX defines it. */
static double bin(const nck_roi_align *r, int64_t plane, double y0, double x0, double dy, double dx, int64_t ny,
                  int64_t nx) {
    int64_t h = r->x->dims[2], w = r->x->dims[3];
    double sum = 0, most = 0;
    bool some = false;
    for (int64_t i = 0; i < ny; i++)
        for (int64_t j = 0; j < nx; j++) {
            pixels p;
            double y = y0 + ((double)i + 0.5) * dy / (double)ny, x = x0 + ((double)j + 0.5) * dx / (double)nx, best = 0;
            if (around(y, x, h, w, &p))
                for (int k = 0; k < 4; k++) {
                    double v = p.weight[k] * nc_tensor_get(r->x, plane * h * w + p.at[k]);
                    sum += v;
                    best = k == 0 || v > best ? v : best;
                }
            most = !some || best > most ? best : most;
            some = true;
        }
    return r->max ? most : sum / (double)(ny * nx > 0 ? ny * nx : 1);
}

static void roi_item(void *ctx, int64_t i) {
    const nck_roi_align *r = ctx;
    int64_t c = r->x->dims[1], h = r->y->dims[2], w = r->y->dims[3], roi = i / c;
    double shift = r->half_pixel ? 0.5 : 0, at[4];
    for (int k = 0; k < 4; k++) at[k] = nc_tensor_get(r->rois, roi * 4 + k) * r->scale - shift;
    double rw = at[2] - at[0], rh = at[3] - at[1];
    if (!r->half_pixel) rw = fmax(rw, 1), rh = fmax(rh, 1);
    double dy = rh / (double)h, dx = rw / (double)w;
    int64_t ny = r->sampling_ratio > 0 ? r->sampling_ratio : (int64_t)ceil(dy);
    int64_t nx = r->sampling_ratio > 0 ? r->sampling_ratio : (int64_t)ceil(dx);
    int64_t plane = r->batch[roi] * c + i % c;
    for (int64_t k = 0; k < h * w; k++) {
        double v = bin(r, plane, at[1] + (double)(k / w) * dy, at[0] + (double)(k % w) * dx, dy, dx, ny, nx);
        if (r->y->dtype == NC_FLOAT)
            ((float *)r->y->data)[i * h * w + k] = (float)v;
        else
            ((double *)r->y->data)[i * h * w + k] = v;
    }
}

enum { POINTS = 16 }; /* elements of work that a result costs */

void nck_roi_align_run(const nck_roi_align *r, nc_pool *pool) {
    nc_parallel(nc_pool_for(pool, nc_tensor_numel(r->y) * POINTS), r->y->dims[0] * r->x->dims[1], roi_item,
                (void *)(uintptr_t)r);
}

/* ---- boxes ---- */

typedef struct box {
    float lo[2], hi[2];
} box;

static box box_at(const nck_nms *s, int64_t i) {
    const float *b = s->boxes + i * 4;
    if (s->center) return (box){{b[1] - b[3] / 2, b[0] - b[2] / 2}, {b[1] + b[3] / 2, b[0] + b[2] / 2}};
    return (box){{fminf(b[0], b[2]), fminf(b[1], b[3])}, {fmaxf(b[0], b[2]), fmaxf(b[1], b[3])}};
}

static float area(const box *b) { return (b->hi[0] - b->lo[0]) * (b->hi[1] - b->lo[1]); }

static bool overlaps(const nck_nms *s, int64_t i, int64_t j) {
    box a = box_at(s, i), b = box_at(s, j);
    float h = fminf(a.hi[0], b.hi[0]) - fmaxf(a.lo[0], b.lo[0]);
    float w = fminf(a.hi[1], b.hi[1]) - fmaxf(a.lo[1], b.lo[1]);
    if (h <= 0 || w <= 0) return false;
    float both = h * w, all = area(&a) + area(&b) - both;
    return all > 0 && both / all > s->iou;
}

int64_t nck_nms_run(const nck_nms *s, int64_t *kept, int64_t *workspace) {
    int64_t *order = workspace, n = 0;
    nck_topk sort = {.type = NC_FLOAT,
                     .outer = 1,
                     .axis = s->n,
                     .inner = 1,
                     .k = s->n,
                     .largest = true,
                     .x = s->scores,
                     .indices = order};
    nck_topk_run(&sort, workspace + s->n, NULL);
    for (int64_t i = 0; i < s->n && n < s->max; i++) {
        bool stays = !s->has_threshold || s->scores[order[i]] > s->threshold;
        for (int64_t k = 0; stays && k < n; k++) stays = !overlaps(s, order[i], kept[k]);
        if (stays) kept[n++] = order[i];
    }
    return n;
}
