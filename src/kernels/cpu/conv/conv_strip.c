/* kernels/cpu/conv/conv_strip.c: how large strips are, where their taps lie, and the copying; see conv_strip.h. */
#include "kernels/cpu/conv/conv_strip.h"

#include "base/intmath.h"

#include <string.h>

/* Every strip meets all weights anew, so it has some pixels at least. */
enum { MIN_PIXELS = 56 };

static int64_t last_tap(const nck_window *w, int d) { return (w->k[d] - 1) * w->dil[d]; }

/* Groups of rows (or columns) one stride apart that the taps reach. */
static int64_t phases(const nck_window *w, int d) {
    int64_t most = 0;
    for (int64_t i = 0; i < w->k[d] && most < w->stride[d] - 1; i++)
        most = nc_max64(most, i * w->dil[d] % w->stride[d]);
    return most + 1;
}

/* Is every tap of every place inside? */
static bool is_inside(const nck_window *w, int d) {
    return w->pad[d] == 0 && w->stride[d] == 1 && w->out[d] - 1 + last_tap(w, d) < w->in[d];
}
static bool is_deep_inside(const nck_window *w) {
    return w->pad[0] == 0 && (w->out[0] - 1) * w->stride[0] + last_tap(w, 0) < w->in[0];
}

static int64_t height_of(const nck_strips *t, int64_t rows) {
    return t->by_row ? rows : rows + last_tap(&t->w, 1) / t->w.stride[1];
}
static int64_t width_of(const nck_strips *t, int64_t cols) {
    return t->flat ? cols : cols + last_tap(&t->w, 2) / t->w.stride[2];
}
static int64_t strip_elements(const nck_strips *t, int64_t rows, int64_t cols) {
    int64_t groups = t->w.k[0] * t->phases_h * t->phases_w;
    return t->blocks * t->in * groups * height_of(t, rows) * width_of(t, cols);
}

/* The most of n rows or columns that a budget holds, evenly spread over the strips. */
static int64_t spread(int64_t n, int64_t most) { return nc_ceil_div(n, nc_ceil_div(n, nc_max64(1, most))); }

/* Rows and columns of a strip: as many whole rows as there is room for, or a part of one. */
static void cut(nck_strips *t, int64_t budget, int64_t most) {
    int64_t OH = t->w.out[1], OW = t->w.out[2], one = strip_elements(t, 1, OW), least = nc_ceil_div(MIN_PIXELS, OW);
    if (least > 1 || (one <= budget && (OH > 1 || most >= OW))) {
        int64_t more = OH > 1 ? (strip_elements(t, OH, OW) - one) / (OH - 1) : 1;
        int64_t rows = nc_min64(most / OW, 1 + (budget - one) / nc_max64(1, more));
        t->rows = spread(OH, nc_max64(least, rows));
        t->cols = OW;
    } else {
        int64_t first = strip_elements(t, 1, 1), each = (one - first) / (OW - 1);
        int64_t cols = 1 + (budget - first) / nc_max64(1, each);
        t->rows = 1;
        t->cols = spread(OW, nc_max64(MIN_PIXELS, OH > 1 ? cols : nc_min64(most, cols)));
    }
    t->n_rows = nc_ceil_div(OH, t->rows);
    t->n_cols = nc_ceil_div(OW, t->cols);
}

/* A copy per row of the window, where that is less of each strip; more rows may fit then. */
static void cut_by_row(nck_strips *t, int64_t budget, int64_t most) {
    nck_strips by = *t;
    by.by_row = true;
    by.phases_h = t->w.k[1];
    if (strip_elements(&by, t->rows, t->cols) >= strip_elements(t, t->rows, t->cols)) return;
    cut(&by, budget, most);
    if (strip_elements(&by, by.rows, by.cols) < strip_elements(t, by.rows, by.cols)) *t = by;
}

nck_strips nck_strips_of(const nck_conv_shape *s, bool planes, int64_t block, int64_t pixels, int64_t budget,
                         int64_t most) {
    const nck_window *w = &s->w;
    nck_strips t = {.w = *w, .in = planes ? 1 : block, .blocks = planes ? s->C : nc_ceil_div(s->C, block)};
    t.copies = !is_deep_inside(w) || !is_inside(w, 1) || !is_inside(w, 2);
    int64_t OW = w->out[2];
    bool narrow = OW < 4 * pixels && OW % pixels != 0;
    t.flat = t.copies ? narrow || w->k[2] == 1 : w->k[2] == 1 && w->in[2] == OW;
    t.phases_h = phases(w, 1);
    t.phases_w = t.flat ? w->k[2] : phases(w, 2);
    cut(&t, budget, most);
    if (t.copies) cut_by_row(&t, budget, most);
    t.height = height_of(&t, t.rows);
    t.width = width_of(&t, t.cols);
    return t;
}

/* Either a strip is within the budget, or it is the least one: of at most MIN_PIXELS columns, and rows up to that many
 * pixels and one row more. Both kinds of copy count, and no strip is larger than the whole. */
int64_t nck_strip_room(const nck_conv_shape *s, bool planes, int64_t block) {
    const nck_window *w = &s->w;
    int64_t channels = (planes ? s->C : nc_ceil_div(s->C, block) * block) * w->k[0] * phases(w, 1);
    int64_t high = last_tap(w, 1) / w->stride[1], wide = last_tap(w, 2) / w->stride[2];
    int64_t columns = nc_min64(w->out[2], MIN_PIXELS), rows = nc_min64(w->out[1], MIN_PIXELS);
    int64_t least = nc_max64(phases(w, 2) * (columns + wide), w->k[2] * columns) * (rows + high);
    int64_t few = nc_max64(phases(w, 2), w->k[2]) * (2 * MIN_PIXELS + MIN_PIXELS * (high + wide) + (1 + high) * wide);
    int64_t whole = nc_max64(phases(w, 2) * (w->out[2] + wide), w->k[2] * w->out[2]) * (w->out[1] + high);
    int64_t own = nc_min64(NCK_STRIP_LANES * NCK_STRIP_OWN, 2 * s->N * w->out[0] * channels * whole);
    if (nck_conv_vectors(s, 16) < 4 * NC_ALONE) own = 0; /* one thread does it, whatever a block is */
    int64_t shared = nc_max64(nc_min64(NCK_STRIP_SHARED, channels * whole), channels * nc_min64(least, few));
    return nc_max64(own, shared);
}

void nck_strip_taps(const nck_strips *t, int64_t *taps) {
    const nck_window *w = &t->w;
    for (int64_t tap = 0; tap < nck_window_n_k(w); tap++) {
        int64_t i = tap / w->k[2] % w->k[1], j = tap % w->k[2], deep = tap / w->k[2] / w->k[1];
        int64_t down = i * w->dil[1], right = j * w->dil[2];
        int64_t at = (deep * w->dil[0] * w->in[1] + down) * w->in[2] + right;
        if (t->copies) {
            int64_t group = (deep * t->phases_h + (t->by_row ? i : down % w->stride[1])) * t->phases_w;
            group += t->flat ? j : right % w->stride[2];
            at = (group * t->height + (t->by_row ? 0 : down / w->stride[1])) * t->width +
                 (t->flat ? 0 : right / w->stride[2]);
        }
        taps[tap] = at * t->in;
    }
}

int64_t nck_strip_elements(const nck_strips *t) { return t->blocks * nck_strip_block(t); }

int64_t nck_strip_block(const nck_strips *t) {
    return t->w.k[0] * t->phases_h * t->phases_w * t->height * t->width * t->in;
}

typedef float four_v __attribute__((vector_size(16)));

/* n floats of every second place of src; nothing behind the last of them is read. */
static void copy_every_second(float *dst, const float *src, int64_t n) {
    int64_t i = 0;
    for (; i + 4 < n; i += 4) {
        four_v a, b;
        memcpy(&a, src + 2 * i, sizeof a);
        memcpy(&b, src + 2 * i + 4, sizeof b);
        a = __builtin_shufflevector(a, b, 0, 2, 4, 6);
        memcpy(dst + i, &a, sizeof a);
    }
    for (; i < n; i++) dst[i] = src[2 * i];
}

/* n pixels of `in` channels, `step` pixels apart in src. */
static void copy_pixels(float *dst, const float *src, int64_t n, int64_t step, int64_t in) {
    if (step == 1) {
        memcpy(dst, src, (size_t)(n * in) * sizeof *dst);
    } else if (in == 1 && step == 2) {
        copy_every_second(dst, src, n);
    } else if (in == 1) {
        for (int64_t i = 0; i < n; i++) dst[i] = src[i * step];
    } else if (in == 16) {
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * 16, src + i * step * 16, 16 * sizeof *dst);
    } else if (in == 8) {
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * 8, src + i * step * 8, 8 * sizeof *dst);
    } else {
        for (int64_t i = 0; i < n * in; i++) dst[i] = src[i / in * step * in + i % in];
    }
}

/* One row of a group of columns: pixel c is column from + c * stride of `row`, zero outside. NULL: all zero. */
static void copy_row(const nck_strips *t, const float *row, int64_t from, float *dst) {
    int64_t stride = t->w.stride[2], in = t->in;
    int64_t low = from >= 0 ? 0 : nc_min64(t->width, nck_window_steps(-from, stride));
    int64_t high = from >= t->w.in[2] ? 0 : nc_min64(t->width, nck_window_steps(t->w.in[2] - from, stride));
    if (row == NULL || high <= low) low = high = 0;
    memset(dst, 0, (size_t)(low * in) * sizeof *dst);
    if (high > low) copy_pixels(dst + low * in, row + (from + low * stride) * in, high - low, stride, in);
    memset(dst + high * in, 0, (size_t)((t->width - high) * in) * sizeof *dst);
}

/* A row of a block's copy: of which depth, group of rows and group of columns, and the row in there. */
typedef struct strip_row {
    int64_t depth, down, right, r;
} strip_row;

static strip_row strip_row_at(const nck_strips *t, int64_t row) {
    int64_t group = row / t->height;
    return (strip_row){.depth = group / t->phases_w / t->phases_h,
                       .down = group / t->phases_w % t->phases_h,
                       .right = group % t->phases_w,
                       .r = row % t->height};
}

static void strip_row_next(const nck_strips *t, strip_row *at) {
    if (++at->r < t->height) return;
    at->r = 0;
    if (++at->right < t->phases_w) return;
    at->right = 0;
    if (++at->down < t->phases_h) return;
    at->down = 0;
    at->depth++;
}

int64_t nck_strip_rows(const nck_strips *t) { return t->w.k[0] * t->phases_h * t->phases_w * t->height; }

void nck_strip_copy(const nck_strips *t, const float *x, const nck_strip_place *p, int64_t row, int64_t end,
                    float *strip) {
    const nck_window *w = &t->w;
    int64_t row_elements = t->width * t->in, x_row = w->in[2] * t->in;
    float *dst = strip + p->block * nck_strip_block(t) + row * row_elements;
    strip_row at = strip_row_at(t, row);
    for (; row < end; row++, strip_row_next(t, &at), dst += row_elements) {
        int64_t id = p->od * w->stride[0] - w->pad[0] + at.depth * w->dil[0];
        int64_t ih = (p->oh + at.r) * w->stride[1] + (t->by_row ? at.down * w->dil[1] : at.down) - w->pad[1];
        int64_t iw = p->ow * w->stride[2] + (t->flat ? at.right * w->dil[2] : at.right) - w->pad[2];
        bool inside = id >= 0 && id < w->in[0] && ih >= 0 && ih < w->in[1];
        copy_row(t, inside ? x + ((p->block * w->in[0] + id) * w->in[1] + ih) * x_row : NULL, iw, dst);
    }
}
