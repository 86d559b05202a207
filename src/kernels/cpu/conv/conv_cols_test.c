/* kernels/cpu/conv/conv_cols_test.c: convolutions over columns and directly, and both gradients, against a walk over
 * every product, in three dims, over groups, pads, strides and dilations; the same bits for any threads. */
#include "kernels/cpu/conv/conv_cols.h"

#include "base/mem.h"
#include "kernels/cpu/conv/conv_grad.h"
#include "tests/check.h"

#include <string.h>

static double *numbers(int64_t n, uint32_t seed) {
    double *p = nc_alloc_zero((size_t)n + 1, sizeof *p);
    for (int64_t i = 0; p && seed && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((double)(seed >> 8) - 8388608.0) / 8388608.0;
    }
    return p;
}

typedef struct sides {
    double *x, *w, *y, *dx, *dw; /* y is the result forwards, dy backwards */
} sides;

/* Calls every product of the convolution by its place in x, w and y. */
static void walk(const nck_conv_shape *s, sides *d, bool forward) {
    const nck_window *v = &s->w;
    int64_t Cg = s->C / s->group, taps = nck_window_n_k(v), places = nck_window_n_out(v);
    for (int64_t at = 0; at < s->N * s->K * places; at++) {
        int64_t p = at % places, k = at / places % s->K, n = at / places / s->K;
        int64_t o[3] = {p / v->out[2] / v->out[1], p / v->out[2] % v->out[1], p % v->out[2]};
        for (int64_t t = 0; t < Cg * taps; t++) {
            int64_t tap[3] = {t % taps / v->k[2] / v->k[1], t % taps / v->k[2] % v->k[1], t % v->k[2]}, in = 0;
            int64_t c = k / (s->K / s->group) * Cg + t / taps;
            bool inside = true;
            for (int i = 0; i < 3; i++) {
                int64_t q = o[i] * v->stride[i] - v->pad[i] + tap[i] * v->dil[i];
                inside = inside && q >= 0 && q < v->in[i];
                in = in * v->in[i] + q;
            }
            if (!inside) continue;
            int64_t i_x = (n * s->C + c) * nck_window_n_in(v) + in, i_w = k * Cg * taps + t;
            if (forward) d->y[at] += d->x[i_x] * d->w[i_w];
            if (!forward) d->dx[i_x] += d->y[at] * d->w[i_w];
            if (!forward) d->dw[i_w] += d->y[at] * d->x[i_x];
        }
    }
}

static void check_near(const double *got, const double *want, int64_t n) {
    for (int64_t i = 0; i < n; i++) CHECK_CLOSE(got[i], want[i], nc_tol_kernel_f64);
}

static void dense(const nck_conv_shape *s, int64_t strides[5]) {
    strides[4] = 1;
    strides[3] = s->w.in[2];
    strides[2] = s->w.in[1] * s->w.in[2];
    strides[1] = nck_window_n_in(&s->w);
    strides[0] = s->C * strides[1];
}

/* The slow references see three dims as well. */
static void check_plain(const nck_conv_shape *s, const sides *d, const int64_t strides[5], double *y) {
    const nck_window *v = &s->w;
    int64_t places = nck_window_n_out(v);
    nck_conv_args a = {.shape = *s, .x = d->x, .w = d->w, .y = y};
    memcpy(a.x_strides, strides, sizeof a.x_strides);
    int64_t y_strides[] = {s->K * places, places, v->out[1] * v->out[2], v->out[2], 1};
    memcpy(a.y_strides, y_strides, sizeof a.y_strides);
    nck_conv_plain(&a, NULL);
    check_near(y, d->y, s->N * s->K * places);
}

static void check_shape(const nck_conv_shape *s, nc_pool *pool) {
    int64_t n_x = s->N * s->C * nck_window_n_in(&s->w), n_w = s->K * (s->C / s->group) * nck_window_n_k(&s->w);
    int64_t n_y = s->N * s->K * nck_window_n_out(&s->w), strides[5];
    sides d = {numbers(n_x, 1), numbers(n_w, 2), numbers(n_y, 0), numbers(n_x, 0), numbers(n_w, 0)};
    double *y = numbers(n_y, 9), *dx = numbers(n_x, 9), *dw = numbers(n_w, 9), *dy = numbers(n_y, 3);
    void *space = nc_alloc_aligned(nck_conv_cols_workspace(s) + 64, 64);
    dense(s, strides);
    walk(s, &d, true);
    nck_conv_cols(s, d.x, strides, d.w, NULL, y, space, pool);
    check_near(y, d.y, n_y);
    check_plain(s, &d, strides, y);
    if (s->C == s->group) {
        nck_conv_depthwise(s, d.x, strides, d.w, NULL, y, pool);
        check_near(y, d.y, n_y);
    }
    memcpy(d.y, dy, (size_t)n_y * sizeof *dy);
    walk(s, &d, false);
    nck_conv_cols_dx(s, dy, d.w, NULL, dx, space, pool);
    nck_conv_cols_dw(s, d.x, dy, dw, space, pool);
    check_near(dx, d.dx, n_x);
    check_near(dw, d.dw, n_w);
    nck_conv_grad_args plain = {.shape = *s, .dy = dy, .x = d.x, .w = d.w, .dx = dx, .dw = dw};
    nck_conv_grad(&plain, pool);
    check_near(dx, d.dx, n_x);
    check_near(dw, d.dw, n_w);
    double *all[] = {d.x, d.w, d.y, d.dx, d.dw, y, dx, dw, dy};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) nc_free(all[i]);
    nc_free(space);
}

static const nck_conv_shape shapes[] = {
    {NC_DOUBLE, 2, 3, 4, 1, {{1, 5, 7}, {1, 3, 2}, {1, 5, 6}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}}},
    {NC_DOUBLE, 1, 4, 6, 2, {{3, 4, 5}, {2, 2, 3}, {3, 2, 1}, {1, 2, 2}, {1, 1, 2}, {1, 0, 0}, {0, 0, 0}}},
    {NC_DOUBLE, 2, 3, 6, 3, {{1, 6, 41}, {1, 3, 3}, {1, 3, 20}, {1, 2, 2}, {1, 1, 1}, {0, 1, 0}, {0, 0, 0}}},
    {NC_DOUBLE, 1, 2, 2, 2, {{1, 1, 300}, {1, 1, 4}, {1, 1, 303}, {1, 1, 1}, {1, 1, 1}, {0, 0, 3}, {0, 0, 3}}},
    {NC_DOUBLE, 2, 2, 3, 1, {{1, 29, 31}, {1, 1, 1}, {1, 29, 31}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}},
    {NC_DOUBLE, 1, 2, 2, 1, {{1, 29, 31}, {1, 3, 3}, {1, 29, 31}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}}},
    /* images that share products: two, a part of them, and a whole number */
    {NC_DOUBLE, 41, 2, 6, 2, {{1, 5, 6}, {1, 3, 3}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 0}}},
    {NC_DOUBLE, 40, 3, 2, 1, {{1, 4, 4}, {1, 1, 1}, {1, 4, 4}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}},
    {NC_DOUBLE, 3, 2, 2, 1, {{2, 9, 13}, {1, 2, 2}, {2, 8, 12}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}},
    {NC_DOUBLE, 0, 2, 2, 1, {{1, 3, 3}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}},
};

TEST(conv_cols_against_every_product) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check_shape(&shapes[i], NULL);
}

TEST(conv_cols_same_bits_for_any_threads) {
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const nck_conv_shape *s = &shapes[i];
        int64_t n_x = s->N * s->C * nck_window_n_in(&s->w), n_w = s->K * (s->C / s->group) * nck_window_n_k(&s->w);
        int64_t n_y = s->N * s->K * nck_window_n_out(&s->w);
        double *x = numbers(n_x, 1), *w = numbers(n_w, 2), *dy = numbers(n_y, 3), *a = numbers(n_x, 0),
               *b = numbers(n_x, 0), *c = numbers(n_w, 0), *d = numbers(n_w, 0);
        void *space = nc_alloc_aligned(nck_conv_cols_workspace(s) + 64, 64);
        nck_conv_cols_dx(s, dy, w, NULL, a, space, NULL);
        nck_conv_cols_dx(s, dy, w, NULL, b, space, pool);
        nck_conv_cols_dw(s, x, dy, c, space, NULL);
        nck_conv_cols_dw(s, x, dy, d, space, pool);
        CHECK(memcmp(a, b, (size_t)n_x * sizeof *a) == 0 && memcmp(c, d, (size_t)n_w * sizeof *c) == 0);
        double *all[] = {x, w, dy, a, b, c, d};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) nc_free(all[k]);
        nc_free(space);
    }
    nc_pool_destroy(pool);
}
