/* kernels/cpu/vision/grid_taps.c: places of a grid as pixels and weights, see grid_taps.h. Per axis a place has up to
 * four lines; the pixels are their products. Places are computed in double. */
#include "kernels/cpu/vision/grid_taps.h"

#include "base/real.h"

#include <math.h>
#include <string.h>

/* The lines of one axis. */
typedef struct lines {
    int n;
    int64_t line[4];
    double w[4], slope[4]; /* slope: of w, by the coordinate */
} lines;

/* *turns: whether the way back was taken, so that x grows where the result falls. */
static double reflected(double x, double lo, double hi, bool *turns_back) {
    double span = hi - lo;
    *turns_back = false;
    if (span <= 0) return lo;
    if (x >= lo && x <= hi) return x;
    double far = x < lo ? lo - x : x - hi, turns = floor(far / span), rest = far - turns * span;
    *turns_back = fmod(turns, 2) == 0;
    return (x < lo) == *turns_back ? lo + rest : hi - rest;
}

/* The pixel that line i stands for; -1: none, it counts as 0. */
static int64_t line_of(const nck_grid_sample *s, int64_t i, int64_t d) {
    bool back;
    if (i >= 0 && i < d) return i;
    if (s->padding == NCK_SAMPLE_ZEROS) return -1;
    if (s->padding == NCK_SAMPLE_BORDER) return i < 0 ? 0 : d - 1;
    double edge = s->align_corners ? 0 : -0.5;
    int64_t r = (int64_t)reflected((double)i, edge, (double)(d - 1) - edge, &back);
    return r < 0 ? 0 : r >= d ? d - 1 : r;
}

static const double cubic_a = -0.75;

static double cubic(double x) {
    const double a = cubic_a;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static double cubic_slope(double x) {
    const double a = cubic_a;
    return x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
}

static inline double in_pixels(const nck_grid_sample *s, double g, int64_t d) {
    return s->in_pixels ? g : s->align_corners ? (g + 1) / 2 * (double)(d - 1) : ((g + 1) * (double)d - 1) / 2;
}

/* The coordinate in pixels; *step: how it moves with g. */
static double pixel_of(const nck_grid_sample *s, double g, int64_t d, double *step) {
    double x = in_pixels(s, g, d);
    double edge = s->align_corners ? 0 : -0.5, lo = edge, hi = (double)(d - 1) - edge;
    *step = s->in_pixels ? 1 : (double)(s->align_corners ? d - 1 : d) / 2;
    if (s->mode == NCK_SAMPLE_NEAREST) x = rint(x);
    if (!(x >= lo && x <= hi)) {
        /* Cubic weights change outside, where the lines of their four pixels still differ. */
        double beyond = s->mode == NCK_SAMPLE_CUBIC ? 3 : 0, was = x;
        bool back = false;
        if (s->padding == NCK_SAMPLE_BORDER) x = fmin(fmax(x, -beyond), (double)(d - 1) + beyond);
        if (s->padding == NCK_SAMPLE_BORDER && x != was) *step = 0;
        if (s->padding == NCK_SAMPLE_REFLECTION) x = reflected(x, lo, hi, &back);
        if (back) *step = -*step;
    }
    if (fabs(x) < 0x1p52) return x;
    *step = 0;
    return -4; /* NaN and the far away */
}

static lines axis_lines(const nck_grid_sample *s, double g, int64_t d) {
    double step, x = pixel_of(s, g, d, &step), down = floor(x);
    lines l = {.n = s->mode == NCK_SAMPLE_NEAREST ? 1 : s->mode == NCK_SAMPLE_LINEAR ? 2 : 4};
    int64_t first = (int64_t)down - (l.n == 4);
    for (int k = 0; k < l.n; k++) {
        double far = fabs((double)(first + k) - x), sign = k < l.n / 2 ? 1 : -1;
        l.line[k] = line_of(s, l.n == 1 ? (int64_t)rint(x) : first + k, d);
        l.w[k] = l.n == 1 ? 1 : l.n == 2 ? 1 - far : cubic(far);
        l.slope[k] = l.n == 1 ? 0 : l.n == 2 ? -sign * step : cubic_slope(far) * sign * step;
    }
    return l;
}

/* t with one axis more: `of` is its number within the grid's coordinates. */
static void add_axis(nck_grid_taps *t, const lines *l, int64_t d, int of, bool slopes) {
    nck_grid_taps was;
    was.n = t->n;
    for (int i = 0; i < was.n; i++) was.at[i] = t->at[i], was.weight[i] = t->weight[i];
    for (int k = 0; slopes && k < NCK_SAMPLE_MAX_DIMS; k++)
        memcpy(was.slope[k], t->slope[k], (size_t)was.n * sizeof was.slope[k][0]);
    t->n = 0;
    for (int i = 0; i < was.n; i++)
        for (int j = 0; j < l->n; j++) {
            if (l->line[j] < 0) continue;
            t->at[t->n] = was.at[i] * d + l->line[j];
            t->weight[t->n] = was.weight[i] * l->w[j];
            for (int k = 0; slopes && k < NCK_SAMPLE_MAX_DIMS; k++)
                t->slope[k][t->n] = k == of ? was.weight[i] * l->slope[j] : was.slope[k][i] * l->w[j];
            t->n++;
        }
}

void nck_grid_place_taps(const nck_grid_sample *s, int64_t place, bool slopes, nck_grid_taps *t) {
    int dims = s->x->rank - 2;
    t->n = 1;
    t->at[0] = 0;
    t->weight[0] = 1;
    for (int k = 0; k < NCK_SAMPLE_MAX_DIMS; k++) t->slope[k][0] = 0;
    for (int k = 0; k < dims; k++) {
        int64_t d = s->x->dims[2 + k];
        lines l = axis_lines(s, nc_tensor_get(s->grid, place * dims + dims - 1 - k), d);
        add_axis(t, &l, d, dims - 1 - k, slopes);
    }
}

/* The two lines of an axis that x lies between, with the weights that axis_lines has: most places. */
static inline bool is_between(double x, int64_t d, int32_t *first, double w[2]) {
    if (!(x >= 0 && x < (double)(d - 1))) return false;
    *first = (int32_t)x;
    w[0] = 1 - (x - (double)*first);
    w[1] = 1 - ((double)(*first + 1) - x);
    return true;
}

static bool four_inside(const nck_grid_sample *s, int64_t place, nck_grid_few *few) {
    int64_t height = s->x->dims[2], width = s->x->dims[3];
    int32_t row, column;
    double down[2], right[2], gx = nc_tensor_get(s->grid, place * 2), gy = nc_tensor_get(s->grid, place * 2 + 1);
    if (!is_between(in_pixels(s, gy, height), height, &row, down)) return false;
    if (!is_between(in_pixels(s, gx, width), width, &column, right)) return false;
    few->n = 4;
    for (int k = 0; k < 4; k++) {
        few->at[k] = (row + k / 2) * (int32_t)width + column + k % 2;
        few->weight[k] = down[k / 2] * right[k % 2];
    }
    return true;
}

bool nck_grid_place_few(const nck_grid_sample *s, int64_t place, nck_grid_few *few) {
    nck_grid_taps t;
    int dims = s->x->rank - 2;
    if (s->mode == NCK_SAMPLE_CUBIC || (s->mode == NCK_SAMPLE_LINEAR && dims > 2)) return false;
    if (s->mode == NCK_SAMPLE_LINEAR && dims == 2 && four_inside(s, place, few)) return true;
    nck_grid_place_taps(s, place, false, &t);
    few->n = t.n;
    for (int k = 0; k < t.n; k++) few->at[k] = (int32_t)t.at[k], few->weight[k] = t.weight[k];
    return true;
}
