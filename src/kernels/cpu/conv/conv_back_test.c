/* kernels/cpu/conv/conv_back_test.c: gradients over channels in blocks against the plain ones, over pads (negative ones
 * too), strides, dilations and odd numbers of channels, on every instruction set; the same bits for any threads. */
#include "kernels/cpu/conv/conv_back.h"

#include "base/mem.h"
#include "kernels/cpu/conv/conv_grad.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "kernels/cpu/isa.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

static float *numbers(int64_t n, uint32_t seed) {
    float *p = nc_alloc_zero((size_t)n + 1, sizeof *p);
    for (int64_t i = 0; p && seed && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) - 8388608.0f) / 8388608.0f;
    }
    return p;
}

typedef struct sides {
    nck_conv_shape s;
    int64_t n_x, n_w, n_y;
    float *x, *w, *dy, *dx[3], *dw[3];
} sides;

static sides sides_of(const conv_2d *c) {
    sides d = {.s = conv_2d_shape(NC_FLOAT, c)};
    d.n_x = c->N * c->C * c->H * c->W;
    d.n_w = c->K * c->C * c->kh * c->kw;
    d.n_y = c->N * c->K * conv_2d_out_h(c) * conv_2d_out_w(c);
    d.x = numbers(d.n_x, 1), d.w = numbers(d.n_w, 2), d.dy = numbers(d.n_y, 3);
    for (int i = 0; i < 3; i++) d.dx[i] = numbers(d.n_x, 9), d.dw[i] = numbers(d.n_w, 9);
    return d;
}

static void release(sides *d) {
    float *all[] = {d->x, d->w, d->dy, d->dx[0], d->dx[1], d->dx[2], d->dw[0], d->dw[1], d->dw[2]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) nc_free(all[i]);
}

/* Both gradients into number i; the workspace holds anything before. */
static void run(sides *d, int i, nc_pool *pool) {
    size_t a = nck_conv_back_dx_workspace(&d->s), b = nck_conv_back_dw_workspace(&d->s), most = a > b ? a : b;
    void *space = nc_alloc_aligned(most + 64, 64);
    memset(space, 0xff, most);
    nck_conv_back_dx(&d->s, d->dy, d->w, d->dx[i], space, pool);
    memset(space, 0xff, most);
    nck_conv_back_dw(&d->s, d->x, d->dy, d->dw[i], space, pool);
    nc_free(space);
}

static void check_shape(const conv_2d *c, nc_pool *pool) {
    sides d = sides_of(c);
    nck_conv_grad_args plain = {.shape = d.s, .dy = d.dy, .x = d.x, .w = d.w, .dx = d.dx[0], .dw = d.dw[0]};
    nc_tolerance by_x = nc_tol_of_sum(nc_tol_kernel_f32, (double)(c->K * c->kh * c->kw));
    nc_tolerance by_w = nc_tol_of_sum(nc_tol_kernel_f32, (double)(c->N * nck_window_n_out(&d.s.w)));
    CHECK(nck_conv_back_takes(&d.s));
    nck_conv_grad(&plain, NULL);
    run(&d, 1, NULL);
    run(&d, 2, pool);
    for (int64_t i = 0; i < d.n_x; i++) CHECK_CLOSE(d.dx[1][i], d.dx[0][i], by_x);
    for (int64_t i = 0; i < d.n_w; i++) CHECK_CLOSE(d.dw[1][i], d.dw[0][i], by_w);
    CHECK(memcmp(d.dx[1], d.dx[2], (size_t)d.n_x * sizeof(float)) == 0);
    CHECK(memcmp(d.dw[1], d.dw[2], (size_t)d.n_w * sizeof(float)) == 0);
    release(&d);
}

/* N C H W K kh kw group, strides, dilations, pads in front, pads behind */
static const conv_2d shapes[] = {
    {2, 3, 9, 7, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},    {3, 17, 5, 6, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 16, 8, 8, 32, 3, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1},  {2, 40, 7, 5, 9, 3, 2, 1, 2, 3, 1, 1, 0, 1, 1, 0},
    {1, 4, 12, 11, 6, 3, 3, 1, 2, 2, 2, 2, 2, 1, 0, 3},  {1, 5, 13, 9, 4, 2, 3, 1, 3, 2, 2, 4, 1, 4, 1, 4},
    {1, 6, 10, 10, 8, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},  {2, 6, 9, 10, 8, 1, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0},
    {1, 2, 1, 40, 3, 1, 5, 1, 1, 2, 1, 1, 0, 2, 0, 2},   {1, 3, 6, 6, 2, 3, 3, 1, 1, 1, 1, 1, 4, 3, 3, 4},
    {1, 3, 9, 9, 2, 3, 3, 1, 1, 1, 1, 1, -1, -2, 0, -1}, {40, 2, 4, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 3, 40, 41, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 9, 9, 2, 2, 2, 1, 4, 4, 1, 1, 0, 0, 0, 0},
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},    {0, 3, 5, 5, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 3, 2, 2, 2, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0},    {2, 0, 5, 5, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 3, 5, 5, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
};

TEST(conv_back_against_the_plain_gradients) {
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (int isa = 0; nck_isa_at(isa) != NULL; isa++) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check_shape(&shapes[i], pool);
    }
    nck_isa_set_for_test(NULL);
    nc_pool_destroy(pool);
}

/* An instance books for the largest dims it serves. */
TEST(conv_back_workspace_grows_with_every_size) {
    const conv_2d small = {7, 5, 9, 10, 6, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < 60; i++) {
        conv_2d a = small, b;
        a.N += i % 5, a.C += i * 3 % 31, a.H += i * 7 % 43, a.W += i * 5 % 37, a.K += i * 11 % 23;
        b = a;
        b.N += i % 3, b.C += i % 7, b.H += i * i % 29, b.W += i % 11, b.K += i % 13;
        nck_conv_shape s = conv_2d_shape(NC_FLOAT, &a), large = conv_2d_shape(NC_FLOAT, &b);
        CHECK(nck_conv_back_dx_workspace(&s) <= nck_conv_back_dx_workspace(&large));
        CHECK(nck_conv_back_dw_workspace(&s) <= nck_conv_back_dw_workspace(&large));
    }
}

TEST(conv_back_dw_leaves_padding_out) {
    const conv_2d c = {1, 1, 2, 2, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    sides d = sides_of(&c);
    for (int i = 0; i < 4; i++) d.dy[i] = i == 0 ? INFINITY : 1;
    run(&d, 0, NULL);
    CHECK(isfinite(d.dw[0][0])); /* the infinite place has padding under its first tap */
    CHECK(!isfinite(d.dw[0][4]));
    release(&d);
}
