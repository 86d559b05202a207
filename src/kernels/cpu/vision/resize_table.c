/* kernels/cpu/vision/resize_table.c: which input lines make an output line, and with what weights, after the rules of
 * ONNX's Resize. Places are computed in double; for nearest, where a line more or less shows, quotients are rounded to
 * float as in onnxruntime: 17 / 1.7 is 10.
 *
 * An example: 4 lines to 2 with half pixels. Output line i lies at (i + 0.5) / 0.5 - 0.5, which is 0.5 and 2.5, so
 * linearly line 0 is half of lines 0 and 1 each, and line 1 half of 2 and 3. With antialiasing the hat that weighs the
 * lines is twice as wide: four lines count, and around 0.5 the weights of lines -1 0 1 2 are 1/8 3/8 3/8 1/8. Line -1
 * is outside and counts as line 0, or with exclude_outside not at all, the others then being scaled up to 1. */
#include "kernels/cpu/vision/resize.h"

#include "base/intmath.h"

#include <math.h>
#include <string.h>

/* Antialiasing takes 2 * ceil(k / scale) lines, k = 2 at most, and out is at least scale * in - 1. */
static size_t entries(int64_t in, int64_t out) { return (size_t)in * 8 + (size_t)out * 8 + 32; }

size_t nck_resize_table_bytes(int64_t in, int64_t out) {
    return entries(in, out) * (sizeof(int64_t) + sizeof(double)) + nc_align64((size_t)out);
}

static double ratio(const nck_resize_rule *r, double y, double by) {
    return r->mode == NCK_RESIZE_NEAREST ? (double)(float)(y / (double)(float)by) : y / by;
}

static double resize_place(const nck_resize_rule *r, const nck_resize_axis *a, int64_t i) {
    double width = a->scale * (double)a->in, y = (double)i, last = (double)(a->in - 1);
    switch (r->coords) {
    case NCK_COORDS_ALIGN_CORNERS:
        if (r->whole) width = (double)a->out;
        return width == 1 ? 0 : ratio(r, y * last, width - 1);
    case NCK_COORDS_ASYMMETRIC: return ratio(r, y, a->scale);
    case NCK_COORDS_TF_HALF_PIXEL_NEAREST: return ratio(r, y + 0.5, a->scale);
    case NCK_COORDS_TF_CROP: {
        double span = a->roi[1] - a->roi[0];
        return (width == 1 ? span * last / 2 : y * span * last / (width - 1)) + a->roi[0] * last;
    }
    case NCK_COORDS_PYTORCH_HALF_PIXEL: return width == 1 ? -0.5 : ratio(r, y + 0.5, a->scale) - 0.5;
    case NCK_COORDS_HALF_PIXEL_SYMMETRIC: /* from the middle, which is then met exactly */
        return (double)a->in / 2 + ratio(r, y + 0.5 - (double)a->out / 2, a->scale) - 0.5;
    default: return ratio(r, y + 0.5, a->scale) - 0.5;
    }
}

static double cubic(double x, double a) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int64_t nearest(nck_resize_round how, double x) {
    double down = floor(x), part = x - down;
    bool up = part > 0 && (how == NCK_ROUND_CEIL || (how == NCK_ROUND_PREFER_FLOOR && part > 0.5) ||
                           (how == NCK_ROUND_PREFER_CEIL && part >= 0.5));
    return (int64_t)down + up;
}

static int64_t resize_clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static void normalise(double *w, int n) {
    double sum = 0;
    for (int k = 0; k < n; k++) sum += w[k];
    for (int k = 0; k < n && sum != 0; k++) w[k] /= sum;
}

/* Weights of the lines around x; lines outside of the input count as its edge, or not at all. */
static void resize_weigh(const nck_resize_rule *r, const nck_resize_axis *a, double x, int64_t *index, double *w) {
    double down = floor(x), squeeze = r->antialias && a->scale < 1 ? a->scale : 1;
    int64_t first = (int64_t)down + 1 - a->taps / 2;
    for (int k = 0; k < a->taps; k++) {
        double far = ((double)(first + k) - x) * squeeze;
        w[k] = r->mode == NCK_RESIZE_CUBIC ? cubic(far, r->cubic_a) : fmax(1 - fabs(far), 0);
        index[k] = first + k;
    }
    if (r->antialias) normalise(w, a->taps);
    bool cut = false;
    for (int k = 0; k < a->taps; k++) {
        if (r->exclude_outside && (index[k] < 0 || index[k] >= a->in)) w[k] = 0, cut = true;
        index[k] = resize_clamp(index[k], a->in);
    }
    if (cut) normalise(w, a->taps);
}

static int count_taps(const nck_resize_rule *r, double scale) {
    if (r->mode == NCK_RESIZE_NEAREST) return 1;
    int reach = r->mode == NCK_RESIZE_CUBIC ? 2 : 1;
    return 2 * (r->antialias && scale < 1 ? (int)ceil(reach / scale) : reach);
}

int nck_resize_taps(const nck_resize_rule *rule, const nck_resize_axis *a) {
    int taps = count_taps(rule, a->scale);
    while ((size_t)taps * (size_t)a->out > entries(a->in, a->out)) taps -= 2; /* a scale of other sizes */
    return taps;
}

void nck_resize_table(const nck_resize_rule *rule, nck_resize_axis *a, void *memory) {
    size_t n = entries(a->in, a->out);
    a->index = memory;
    a->weight = (double *)(a->index + n);
    a->outside = (bool *)(a->weight + n);
    a->taps = nck_resize_taps(rule, a);
    for (int64_t i = 0; i < a->out; i++) {
        double x = resize_place(rule, a, i), *w = a->weight + i * a->taps;
        int64_t *index = a->index + i * a->taps;
        a->outside[i] = rule->coords == NCK_COORDS_TF_CROP && !(x >= 0 && x <= (double)(a->in - 1));
        x = fmax(fmin(x, (double)a->in + 4), -4.0 - (double)a->in);
        if (rule->mode == NCK_RESIZE_NEAREST)
            *index = resize_clamp(nearest(rule->round, x), a->in), *w = 1;
        else
            resize_weigh(rule, a, x, index, w);
        for (int k = 0; k < a->taps && a->outside[i]; k++) w[k] = 0;
    }
}
