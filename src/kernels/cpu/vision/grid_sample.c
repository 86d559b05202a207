/* kernels/cpu/vision/grid_sample.c: GridSample and AffineGrid, see sample.h. Each place gives, per axis, up to four
 * lines and their weights; all channels read the same pixels with the products of them. Places are computed in
 * double. */
#include "kernels/cpu/vision/sample.h"

#include "base/intmath.h"
#include "base/real.h"

#include <math.h>

enum { PLACES = 256, MAX_TAPS = 64, POINT = 8 /* elements of work that a result costs */ };

typedef struct taps {
    int n;
    int64_t at[MAX_TAPS];
    double weight[MAX_TAPS];
} taps;

static double reflected(double x, double lo, double hi) {
    double span = hi - lo;
    if (span <= 0) return lo;
    if (x >= lo && x <= hi) return x;
    double far = x < lo ? lo - x : x - hi, turns = floor(far / span), rest = far - turns * span;
    bool even = fmod(turns, 2) == 0;
    return (x < lo) == even ? lo + rest : hi - rest;
}

/* The pixel that line i stands for; -1: none, it counts as 0. */
static int64_t line_of(const nck_grid_sample *s, int64_t i, int64_t d) {
    if (i >= 0 && i < d) return i;
    if (s->padding == NCK_SAMPLE_ZEROS) return -1;
    if (s->padding == NCK_SAMPLE_BORDER) return i < 0 ? 0 : d - 1;
    double edge = s->align_corners ? 0 : -0.5;
    int64_t r = (int64_t)reflected((double)i, edge, (double)(d - 1) - edge);
    return r < 0 ? 0 : r >= d ? d - 1 : r;
}

static double cubic(double x) {
    const double a = -0.75;
    x = fabs(x);
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static int axis_taps(const nck_grid_sample *s, double g, int64_t d, int64_t *line, double *w) {
    double x = s->align_corners ? (g + 1) / 2 * (double)(d - 1) : ((g + 1) * (double)d - 1) / 2;
    double edge = s->align_corners ? 0 : -0.5, lo = edge, hi = (double)(d - 1) - edge;
    if (s->mode == NCK_SAMPLE_NEAREST) x = rint(x);
    if (!(x >= lo && x <= hi)) {
        /* Cubic weights change outside, where the lines of their four pixels still differ. */
        double beyond = s->mode == NCK_SAMPLE_CUBIC ? 3 : 0;
        if (s->padding == NCK_SAMPLE_BORDER) x = fmin(fmax(x, -beyond), (double)(d - 1) + beyond);
        if (s->padding == NCK_SAMPLE_REFLECTION) x = reflected(x, lo, hi);
    }
    if (!(fabs(x) < 0x1p52)) x = -4; /* NaN and the far away */
    double down = floor(x);
    int n = s->mode == NCK_SAMPLE_NEAREST ? 1 : s->mode == NCK_SAMPLE_LINEAR ? 2 : 4;
    int64_t first = (int64_t)down - (n == 4);
    for (int k = 0; k < n; k++) {
        double far = fabs((double)(first + k) - x);
        line[k] = line_of(s, n == 1 ? (int64_t)rint(x) : first + k, d);
        w[k] = n == 1 ? 1 : n == 2 ? 1 - far : cubic(far);
    }
    return n;
}

static void place_taps(const nck_grid_sample *s, int64_t place, taps *t) {
    int dims = s->x->rank - 2;
    *t = (taps){.n = 1, .weight = {1}};
    for (int k = 0; k < dims; k++) {
        int64_t d = s->x->dims[2 + k], line[4], at[MAX_TAPS];
        double w[4], weight[MAX_TAPS];
        int n = axis_taps(s, nc_tensor_get(s->grid, place * dims + dims - 1 - k), d, line, w), count = 0;
        for (int i = 0; i < t->n; i++)
            for (int j = 0; j < n; j++) {
                if (line[j] < 0) continue;
                at[count] = t->at[i] * d + line[j];
                weight[count++] = t->weight[i] * w[j];
            }
        t->n = count;
        for (int i = 0; i < count; i++) t->at[i] = at[i], t->weight[i] = weight[i];
    }
}

typedef struct grid_job {
    const nck_grid_sample *s;
    int64_t places, pixels, channels, cuts;
} grid_job;

static void grid_item(void *ctx, int64_t i) {
    const grid_job *j = ctx;
    int64_t n = i / j->cuts, lo = i % j->cuts * PLACES, hi = lo + PLACES < j->places ? lo + PLACES : j->places;
    for (int64_t p = lo; p < hi; p++) {
        taps t;
        place_taps(j->s, n * j->places + p, &t);
        for (int64_t c = 0; c < j->channels; c++) {
            int64_t from = (n * j->channels + c) * j->pixels, to = (n * j->channels + c) * j->places + p;
            double sum = 0;
            for (int k = 0; k < t.n; k++) sum += t.weight[k] * nc_tensor_get(j->s->x, from + t.at[k]);
            if (j->s->y->dtype == NC_FLOAT)
                ((float *)j->s->y->data)[to] = (float)sum;
            else
                ((double *)j->s->y->data)[to] = sum;
        }
    }
}

void nck_grid_sample_run(const nck_grid_sample *s, nc_pool *pool) {
    grid_job j = {.s = s, .places = 1, .pixels = 1, .channels = s->x->dims[1]};
    for (int k = 2; k < s->x->rank; k++) {
        j.pixels *= s->x->dims[k];
        j.places *= s->y->dims[k];
    }
    j.cuts = nc_ceil_div(j.places, PLACES);
    nc_parallel(nc_pool_for(pool, nc_tensor_numel(s->y) * POINT), s->x->dims[0] * j.cuts, grid_item, &j);
}

static double grid_place(int64_t i, int64_t d, bool align_corners) {
    if (align_corners) return d > 1 ? -1 + 2 * (double)i / (double)(d - 1) : -1;
    return (2 * (double)i + 1) / (double)d - 1;
}

void nck_affine_grid(const nc_tensor *theta, bool align_corners, const nc_tensor *y) {
    int dims = y->rank - 2;
    int64_t places = 1;
    for (int k = 1; k <= dims; k++) places *= y->dims[k];
    for (int64_t i = 0; i < y->dims[0] * places; i++) {
        double base[NCK_SAMPLE_MAX_DIMS + 1];
        int64_t rest = i % places, n = i / places;
        for (int k = 0; k < dims; k++) { /* the innermost axis is x */
            int64_t d = y->dims[dims - k];
            base[k] = grid_place(rest % d, d, align_corners);
            rest /= d;
        }
        base[dims] = 1;
        for (int r = 0; r < dims; r++) {
            double sum = 0;
            for (int k = 0; k <= dims; k++) sum += base[k] * nc_tensor_get(theta, (n * dims + r) * (dims + 1) + k);
            if (y->dtype == NC_FLOAT)
                ((float *)y->data)[i * dims + r] = (float)sum;
            else
                ((double *)y->data)[i * dims + r] = sum;
        }
    }
}
