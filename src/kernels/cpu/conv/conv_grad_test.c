/* kernels/cpu/conv/conv_grad_test.c: the gradients against a scatter of every product of the convolution, over
 * groups, pads, strides and dilations; the same bits for any threads. */
#include "base/mem.h"
#include "kernels/cpu/conv/conv_grad.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "tests/check.h"

static double *numbers(int64_t n, uint32_t seed) {
    double *p = nc_alloc_zero((size_t)n + 1, sizeof *p);
    for (int64_t i = 0; p && seed && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((double)(seed >> 8) - 8388608.0) / 8388608.0;
    }
    return p;
}

/* Adds the gradients of every single product x * w to where its factors came from. */
static void scatter(const conv_2d *s, const nck_conv_grad_args *a, double *dx, double *dw, double *db) {
    const double *dy = a->dy, *x = a->x, *w = a->w;
    int64_t OH = conv_2d_out_h(s), OW = conv_2d_out_w(s), Cg = s->C / s->group, taps = s->kh * s->kw;
    for (int64_t at = 0; at < s->N * s->K * OH * OW; at++) {
        int64_t ow = at % OW, oh = at / OW % OH, k = at / (OW * OH) % s->K, n = at / (OW * OH * s->K);
        db[k] += dy[at];
        for (int64_t t = 0; t < Cg * taps; t++) {
            int64_t c = k / (s->K / s->group) * Cg + t / taps;
            int64_t ih = oh * s->stride_h - s->pad_top + t % taps / s->kw * s->dil_h;
            int64_t iw = ow * s->stride_w - s->pad_left + t % s->kw * s->dil_w;
            if (ih < 0 || ih >= s->H || iw < 0 || iw >= s->W) continue;
            int64_t i_x = ((n * s->C + c) * s->H + ih) * s->W + iw;
            dx[i_x] += dy[at] * w[k * Cg * taps + t];
            dw[k * Cg * taps + t] += dy[at] * x[i_x];
        }
    }
}

static void check_near(const double *got, const double *want, int64_t n) {
    for (int64_t i = 0; i < n; i++) CHECK_CLOSE(got[i], want[i], nc_tol_kernel_f64);
}

static void check_shape(const conv_2d *s, nc_pool *pool) {
    int64_t n_x = s->N * s->C * s->H * s->W, n_w = s->K * (s->C / s->group) * s->kh * s->kw;
    int64_t n_y = s->N * s->K * conv_2d_out_h(s) * conv_2d_out_w(s);
    double *x = numbers(n_x, 1), *w = numbers(n_w, 2), *dy = numbers(n_y, 3), *got[3], *want[3];
    int64_t sizes[3] = {n_x, n_w, s->K};
    for (int i = 0; i < 3; i++) {
        got[i] = numbers(sizes[i], 9);
        want[i] = numbers(sizes[i], 0);
    }
    nck_conv_grad_args a = {
        .shape = conv_2d_shape(NC_DOUBLE, s), .dy = dy, .x = x, .w = w, .dx = got[0], .dw = got[1], .db = got[2]};
    nck_conv_grad(&a, pool);
    scatter(s, &a, want[0], want[1], want[2]);
    for (int i = 0; i < 3; i++) {
        check_near(got[i], want[i], sizes[i]);
        nc_free(got[i]);
        nc_free(want[i]);
    }
    nc_free(x);
    nc_free(w);
    nc_free(dy);
}

TEST(conv_grad_matches_a_scatter) {
    static const conv_2d shapes[] = {
        {2, 3, 5, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 4, 6, 5, 6, 3, 2, 2, 2, 1, 1, 2, 1, 0, 2, 1},
        {2, 3, 4, 4, 3, 2, 2, 3, 3, 2, 2, 1, 0, 1, 1, 0}, {1, 1, 1, 9, 2, 1, 4, 1, 1, 2, 1, 2, 0, 3, 0, 3},
        {1, 2, 2, 2, 2, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0}, {0, 2, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}};
    nc_pool *pool = nc_pool_create(2);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_shape(&shapes[i], NULL);
        check_shape(&shapes[i], pool);
    }
    nc_pool_destroy(pool);
}

TEST(conv_grad_leaves_out_what_is_not_wanted) {
    float x[4] = {1, 2, 3, 4}, w[1] = {2}, dy[4] = {1, 1, 1, 1}, dw[1] = {0};
    conv_2d s = {1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
    nck_conv_grad_args a = {.shape = conv_2d_shape(NC_FLOAT, &s), .dy = dy, .x = x, .w = w, .dw = dw};
    nck_conv_grad(&a, NULL);
    CHECK_NEAR(dw[0], 10, 0);
}
