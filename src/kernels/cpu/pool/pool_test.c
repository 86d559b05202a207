/* kernels/cpu/pool/pool_test.c: pools with lanes against the taps of each place one by one, on every instruction set:
 * ends of lines, windows that see nothing, NaN and infinities, any number of threads. */
#include "kernels/cpu/pool/pool.h"

#include "base/mem.h"
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/pool/pool_lanes.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

static const nck_window windows[] = {
    {.in = {7, 9, 16},
     .out = {4, 5, 16},
     .k = {3, 3, 1},
     .stride = {2, 2, 1},
     .dil = {1, 1, 1},
     .pad = {1, 1, 0},
     .pad_end = {1, 1, 0}},
    {.in = {5, 4, 8}, .out = {4, 3, 8}, .k = {2, 2, 1}, .stride = {1, 1, 1}, .dil = {1, 1, 1}},
    {.in = {6, 7, 5},
     .out = {6, 3, 5},
     .k = {1, 3, 1},
     .stride = {1, 2, 1},
     .dil = {1, 2, 1},
     .pad = {0, 1, 0},
     .pad_end = {0, 1, 0}},
    {.in = {1, 1, 16},
     .out = {3, 3, 16},
     .k = {2, 2, 1},
     .stride = {1, 1, 1},
     .dil = {1, 1, 1},
     .pad = {1, 1, 0},
     .pad_end = {2, 2, 0}},
    {.in = {1, 40, 3}, .out = {1, 8, 3}, .k = {1, 5, 1}, .stride = {1, 5, 1}, .dil = {1, 1, 1}},
    {.in = {4, 3, 16}, .out = {2, 2, 16}, .k = {3, 2, 1}, .stride = {3, 2, 1}, .dil = {1, 1, 1}, .pad_end = {2, 1, 0}},
};

/* Windows that reach along the lines: strides, dilation, padding wider than the line's ends, lines of many pieces. */
static const nck_window lines[] = {
#define ALONG(n, m, K, S, D, P)                                                                                     \
    {                                                                                                               \
        .in = {2, 5, n}, .out = {2, 3, m}, .k = {1, 3, K}, .stride = {1, 2, S}, .dil = {1, 1, D}, .pad = {0, 1, P}, \
        .pad_end = {                                                                                                \
            0,                                                                                                      \
            1,                                                                                                      \
            P                                                                                                       \
        }                                                                                                           \
    }
    ALONG(11, 6, 3, 2, 1, 1),  ALONG(112, 56, 2, 2, 1, 0),  ALONG(301, 151, 3, 2, 1, 1), ALONG(40, 14, 4, 3, 1, 2),
    ALONG(9, 9, 3, 1, 2, 2),   ALONG(5, 3, 4, 4, 1, 4),     ALONG(700, 100, 2, 7, 3, 0), ALONG(3, 7, 1, 1, 1, 2),
    ALONG(64, 32, 2, 2, 1, 0), ALONG(1000, 111, 3, 9, 1, 0)};

static const nck_window deep[] = {
    {.in = {4, 5, 7},
     .out = {4, 3, 4},
     .k = {3, 3, 2},
     .stride = {1, 2, 2},
     .dil = {1, 1, 1},
     .pad = {1, 1, 0},
     .pad_end = {1, 1, 1}},
    {.in = {5, 3, 4}, .out = {2, 3, 2}, .k = {2, 1, 3}, .stride = {2, 1, 1}, .dil = {2, 1, 1}},
    {.in = {1, 2, 1}, .out = {3, 2, 1}, .k = {1, 1, 1}, .stride = {1, 1, 1}, .dil = {1, 1, 1}, .pad = {1, 0, 0}},
};

/* Where tap t of the window of place o lies; false: in the padding. */
static bool tap_at(const nck_window *w, const int64_t *o, int64_t t, int64_t *at) {
    int64_t tap[NCK_WINDOW_DIMS];
    bool inside = true;
    nck_window_tap(w, t, tap);
    *at = 0;
    for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
        int64_t i = o[d] * w->stride[d] - w->pad[d] + tap[d] * w->dil[d];
        inside = inside && i >= 0 && i < w->in[d];
        *at = *at * w->in[d] + i;
    }
    return inside;
}

static float plain_average(const nck_window *w, const float *x, const int64_t *o) {
    double sum = 0, n = 0;
    for (int64_t t = 0; t < nck_window_n_k(w); t++) {
        int64_t at;
        bool inside = tap_at(w, o, t, &at);
        if (inside) sum += (double)x[at], n++;
    }
    return (float)(sum / n);
}

static float plain_max(const nck_window *w, const float *x, const int64_t *o) {
    float top = -INFINITY;
    for (int64_t t = 0; t < nck_window_n_k(w); t++) {
        int64_t at;
        bool inside = tap_at(w, o, t, &at);
        if (inside && (isnan(x[at]) || x[at] > top)) top = x[at];
        if (inside && isnan(x[at])) return x[at];
    }
    return top;
}

static bool same(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

static void fill(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 257) - 128;
    if (n > 40) x[3] = NAN, x[17] = INFINITY, x[31] = -INFINITY;
}

static void check_max(const nck_window *w, int64_t planes, nc_pool *pool) {
    int64_t n_in = nck_window_n_in(w), n_out = nck_window_n_out(w);
    float *x = nc_alloc((size_t)(planes * n_in) * sizeof *x), *y = nc_alloc((size_t)(planes * n_out) * sizeof *y);
    nck_pool_args a = {.type = NC_FLOAT, .w = *w, .planes = planes, .x = x, .y = y};
    fill(x, planes * n_in);
    nck_pool_max(&a, NULL, false, pool);
    for (int64_t i = 0; i < planes * n_out; i++) {
        int64_t o[NCK_WINDOW_DIMS];
        nck_window_place(w, i % n_out, o);
        CHECK(same(y[i], plain_max(w, x + i / n_out * n_in, o)));
    }
    nc_free(x);
    nc_free(y);
}

/* With an average of doubles as the reference, which has no lanes: all sums are exact here. */
static void check_average(const nck_window *w, int64_t planes, nck_pool_divide by, nc_pool *pool) {
    int64_t n_in = planes * nck_window_n_in(w), n_out = planes * nck_window_n_out(w);
    float *x = nc_alloc((size_t)n_in * sizeof *x), *y = nc_alloc((size_t)n_out * sizeof *y);
    double *xd = nc_alloc((size_t)n_in * sizeof *xd), *yd = nc_alloc((size_t)n_out * sizeof *yd);
    nck_pool_args a = {.type = NC_FLOAT, .w = *w, .planes = planes, .x = x, .y = y}, d = a;
    fill(x, n_in);
    for (int64_t i = 0; i < n_in; i++) xd[i] = (double)x[i];
    d.type = NC_DOUBLE, d.x = xd, d.y = yd;
    nck_pool_average(&a, by, pool);
    nck_pool_average(&d, by, NULL);
    for (int64_t i = 0; i < n_out; i++) CHECK(same(y[i], (float)yd[i]));
    nc_free(x);
    nc_free(y);
    nc_free(xd);
    nc_free(yd);
}

static void check_plain_average(const nck_window *w) {
    int64_t n_in = nck_window_n_in(w), n_out = nck_window_n_out(w);
    float *x = nc_alloc((size_t)n_in * sizeof *x), *y = nc_alloc((size_t)n_out * sizeof *y);
    nck_pool_args a = {.type = NC_FLOAT, .w = *w, .planes = 1, .x = x, .y = y};
    fill(x, n_in);
    nck_pool_average(&a, NCK_POOL_BY_TAPS, NULL);
    for (int64_t i = 0; i < n_out; i++) {
        int64_t o[NCK_WINDOW_DIMS];
        nck_window_place(w, i, o);
        CHECK(same(y[i], plain_average(w, x, o)));
    }
    nc_free(x);
    nc_free(y);
}

TEST(pool_lines_as_one_by_one) {
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, window)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            check_max(&lines[i], 2, NULL);
            check_average(&lines[i], 2, NCK_POOL_BY_PADDED, NULL);
            check_plain_average(&lines[i]);
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* x (planes, in..., lanes) beside a plane of each lane. */
static void check_with_lanes(const nck_window *w, int64_t lanes, nc_pool *pool) {
    int64_t n_in = nck_window_n_in(w), n_out = nck_window_n_out(w), planes = 2;
    float *x = nc_alloc((size_t)(planes * n_in * lanes) * sizeof *x), *plane = nc_alloc((size_t)n_in * sizeof *plane);
    float *max = nc_alloc((size_t)(planes * n_out * lanes) * sizeof *max);
    float *mean = nc_alloc((size_t)(planes * n_out * lanes) * sizeof *mean);
    nck_pool_args a = {.type = NC_FLOAT, .w = *w, .planes = planes, .lanes = lanes, .x = x, .y = max};
    fill(x, planes * n_in * lanes);
    nck_pool_max(&a, NULL, false, pool);
    a.y = mean;
    nck_pool_average(&a, NCK_POOL_BY_TAPS, pool);
    for (int64_t i = 0; i < planes * lanes; i++) {
        for (int64_t k = 0; k < n_in; k++) plane[k] = x[(i / lanes * n_in + k) * lanes + i % lanes];
        for (int64_t k = 0; k < n_out; k++) {
            int64_t o[NCK_WINDOW_DIMS], at = (i / lanes * n_out + k) * lanes + i % lanes;
            nck_window_place(w, k, o);
            CHECK(same(max[at], plain_max(w, plane, o)));
            CHECK(same(mean[at], plain_average(w, plane, o)));
        }
    }
    nc_free(x), nc_free(plane), nc_free(max), nc_free(mean);
}

TEST(pool_lanes_of_three_dims) {
    nc_pool *pool = nc_pool_create(3);
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, window)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof deep / sizeof *deep; i++)
            for (int64_t lanes = 1; lanes <= NCK_POOL_LANES; lanes += 5) check_with_lanes(&deep[i], lanes, pool);
        for (int64_t lanes = 8; lanes <= NCK_POOL_LANES; lanes += 8) check_with_lanes(&lines[0], lanes, NULL);
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_pool_destroy(pool);
}

TEST(pool_lanes_as_one_by_one) {
    nc_pool *pool = nc_pool_create(3);
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, window)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
            for (int64_t planes = 1; planes <= 3; planes++) {
                CHECK(nck_pool_has_lanes(&(nck_pool_args){.type = NC_FLOAT, .w = windows[i], .planes = planes}));
                check_max(&windows[i], planes, planes == 2 ? pool : NULL);
                check_average(&windows[i], planes, NCK_POOL_BY_TAPS, planes == 2 ? pool : NULL);
                check_average(&windows[i], planes, NCK_POOL_BY_PADDED, planes == 2 ? pool : NULL);
                check_average(&windows[i], planes, NCK_POOL_SUM, planes == 2 ? pool : NULL);
            }
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_pool_destroy(pool);
}
