/* kernels/cpu/conv/conv_back_test.c: gradients over channels in blocks against the plain ones, over pads (negative ones
 * too), strides, dilations and odd numbers of channels, dense and in blocks, by Winograd and not, on every instruction
 * set; the same bits for any threads. */
#include "kernels/cpu/conv/conv_back.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_grad.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "kernels/cpu/conv/conv_wino.h"
#include "kernels/cpu/isa_testing.h"
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

/* Both gradients of tensors as b has them; the workspace holds anything before. */
static void run_on(const nck_conv_back *b, const float *x, const float *w, const float *dy, float *dx, float *dw,
                   nc_pool *pool) {
    size_t most = nc_max_size(nck_conv_back_dx_workspace(b), nck_conv_back_dw_workspace(b));
    void *space = nc_alloc_aligned(most + 64, 64);
    memset(space, 0xff, most);
    nck_conv_back_dx(b, dy, w, dx, space, pool);
    memset(space, 0xff, most);
    nck_conv_back_dw(b, x, dy, dw, space, pool);
    nc_free(space);
}

static float *in_blocks(const nck_channels *k, const float *x) {
    float *to = nc_alloc_aligned(nck_packed_channels_bytes(k->block, k->N, k->C, k->spatial) + 64, 64);
    nck_pack_channels(k, x, to, NULL);
    return to;
}

/* Both gradients into number i, of tensors laid into blocks, and out of them. */
static void run_blocked(sides *d, int i, const nck_conv_back *b, nc_pool *pool) {
    const nck_window *v = &d->s.w;
    nck_channels of_x = {nck_channel_block(), d->s.N, d->s.C, v->in[1] * v->in[2], false}, of_y = of_x;
    of_y.C = d->s.K, of_y.spatial = v->out[1] * v->out[2];
    float *x = in_blocks(&of_x, d->x), *dy = in_blocks(&of_y, d->dy), *dx = in_blocks(&of_x, d->x);
    run_on(b, x, d->w, dy, dx, d->dw[i], pool);
    nck_unpack_channels(&of_x, dx, d->dx[i], NULL);
    nc_free(x);
    nc_free(dy);
    nc_free(dx);
}

static void run(sides *d, int i, bool blocked, bool winograd, nc_pool *pool) {
    nck_conv_back b = {.shape = d->s, .blocked = blocked, .winograd = winograd};
    if (blocked)
        run_blocked(d, i, &b, pool);
    else
        run_on(&b, d->x, d->w, d->dy, d->dx[i], d->dw[i], pool);
}

static void check_shape(const conv_2d *c, nc_pool *pool) {
    sides d = sides_of(c);
    nck_conv_grad_args plain = {.shape = d.s, .dy = d.dy, .x = d.x, .w = d.w, .dx = d.dx[0], .dw = d.dw[0]};
    nc_tolerance by_x = nc_tol_of_sum(nc_tol_kernel_f32, (double)(c->K * c->kh * c->kw));
    nc_tolerance by_w = nc_tol_of_sum(nc_tol_kernel_f32, (double)(c->N * nck_window_n_out(&d.s.w)));
    CHECK(nck_conv_back_takes(&d.s));
    nck_conv_grad(&plain, NULL);
    for (int how = 0; how < 4; how++) {
        run(&d, 1, how & 1, how & 2, NULL);
        run(&d, 2, how & 1, how & 2, pool);
        for (int64_t i = 0; i < d.n_x; i++) CHECK_CLOSE(d.dx[1][i], d.dx[0][i], by_x);
        for (int64_t i = 0; i < d.n_w; i++) CHECK_CLOSE(d.dw[1][i], d.dw[0][i], by_w);
        CHECK(memcmp(d.dx[1], d.dx[2], (size_t)d.n_x * sizeof(float)) == 0);
        CHECK(memcmp(d.dw[1], d.dw[2], (size_t)d.n_w * sizeof(float)) == 0);
    }
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
    {2, 3, 5, 5, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},    {4, 35, 17, 18, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
};

TEST(conv_back_takes_winograd_where_it_wins) {
    const conv_2d *c = &shapes[sizeof shapes / sizeof shapes[0] - 1]; /* the others are too small, or have strides */
    const conv_2d turned = {c->N, c->K, c->H, c->W, c->C, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    nck_conv_shape s = conv_2d_shape(NC_FLOAT, &turned);
    CHECK(nck_conv_wino_wins(&s));
}

/* Weights that are packed before, out of any bytes, for an image of another size: the same bits; and a bias. */
static void check_packed(const conv_2d *c, nc_pool *pool) {
    sides d = sides_of(c);
    const nck_window *v = &d.s.w;
    nck_channels of_x = {nck_channel_block(), d.s.N, d.s.C, v->in[1] * v->in[2], false}, of_y = of_x;
    of_y.C = d.s.K, of_y.spatial = v->out[1] * v->out[2];
    float *dy = in_blocks(&of_y, d.dy), *dx = in_blocks(&of_x, d.x), *bias = numbers(c->C, 5);
    nck_conv_back b = {.shape = d.s, .blocked = true}, any = b;
    for (int i = 1; i < NCK_WINDOW_DIMS; i++) any.shape.w.in[i] = any.shape.w.out[i] = 1;
    size_t bytes = nck_conv_back_dx_packed_bytes(&any);
    float *packed = nc_alloc_aligned(bytes + 64, 64);
    char *odd = nc_alloc((size_t)d.n_w * sizeof(float) + 1);
    memcpy(odd + 1, d.w, (size_t)d.n_w * sizeof(float));
    nck_conv_back_dx_pack(&any, odd + 1, packed);
    for (int way = 0; way < 3; way++) {
        b.packed = way > 0, b.bias = way > 1 ? bias : NULL;
        void *space = nc_alloc_aligned(nck_conv_back_dx_workspace(&b) + 64, 64);
        nck_conv_back_dx(&b, dy, b.packed ? packed : d.w, dx, space, pool);
        nck_unpack_channels(&of_x, dx, d.dx[way], NULL);
        nc_free(space);
    }
    CHECK(memcmp(d.dx[0], d.dx[1], (size_t)d.n_x * sizeof(float)) == 0);
    nc_tolerance tol = nc_tol_of_sum(nc_tol_kernel_f32, (double)(c->K * c->kh * c->kw + 1));
    for (int64_t i = 0; i < d.n_x; i++)
        CHECK_CLOSE(d.dx[2][i], (double)d.dx[0][i] + (double)bias[i / of_x.spatial % c->C], tol);
    nc_free(dy), nc_free(dx), nc_free(bias), nc_free(packed), nc_free(odd);
    release(&d);
}

static void check_bias(const conv_2d *c) {
    sides d = sides_of(c);
    const nck_window *v = &d.s.w;
    int64_t places = v->out[1] * v->out[2];
    float *db = numbers(c->K, 9),
          *blocks = in_blocks(&(nck_channels){nck_channel_block(), c->N, c->K, places, false}, d.dy);
    nck_conv_back_db_blocked(&d.s, blocks, db, NULL);
    for (int64_t k = 0; k < c->K; k++) {
        double sum = 0;
        for (int64_t i = 0; i < c->N * places; i++) sum += (double)d.dy[(i / places * c->K + k) * places + i % places];
        CHECK_CLOSE(db[k], sum, nc_tol_of_sum(nc_tol_kernel_f32, (double)(c->N * places)));
    }
    nc_free(db);
    nc_free(blocks);
    release(&d);
}

TEST(conv_back_against_the_plain_gradients) {
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, conv)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            check_shape(&shapes[i], pool), check_bias(&shapes[i]), check_packed(&shapes[i], pool);
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
        for (int how = 0; how < 4; how++) {
            nck_conv_back p = {.shape = s, .blocked = how & 1, .winograd = how & 2}, q = p;
            q.shape = large;
            CHECK(nck_conv_back_dx_workspace(&p) <= nck_conv_back_dx_workspace(&q));
            CHECK(nck_conv_back_dw_workspace(&p) <= nck_conv_back_dw_workspace(&q));
        }
    }
}

TEST(conv_back_dw_leaves_padding_out) {
    const conv_2d c = {1, 1, 2, 2, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    sides d = sides_of(&c);
    for (int i = 0; i < 4; i++) d.dy[i] = i == 0 ? INFINITY : 1;
    run(&d, 0, false, false, NULL);
    CHECK(isfinite(d.dw[0][0])); /* the infinite place has padding under its first tap */
    CHECK(!isfinite(d.dw[0][4]));
    release(&d);
}
