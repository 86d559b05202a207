/* kernels/cpu/quant/qconv_test.c: the integer convolution against the obvious loops, on every ISA: groups, strides,
 * dilations, padding, one to three dims, packed weights, sums quantized again, threads. */
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/quant/qconv.h"

#include "base/mem.h"
#include "tests/check.h"

#include <math.h>

static uint8_t *bytes_of(int64_t n, uint32_t seed) {
    uint8_t *p = nc_alloc((size_t)n + 1);
    for (int64_t i = 0; i < n && p; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (uint8_t)(seed >> 21);
    }
    return p;
}

static const nck_qconv_args convs[] = {
    {.n_spatial = 2,
     .N = 2,
     .C = 3,
     .K = 5,
     .group = 1,
     .in = {7, 9},
     .out = {7, 5},
     .window = {3, 3},
     .stride = {1, 2},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 1},
    {.n_spatial = 1,
     .N = 1,
     .C = 4,
     .K = 6,
     .group = 2,
     .in = {37},
     .out = {33},
     .window = {3},
     .stride = {1},
     .dilation = {2},
     .pad = {0},
     .w_zeros = 6},
    {.n_spatial = 3,
     .N = 1,
     .C = 2,
     .K = 2,
     .group = 2,
     .in = {3, 4, 5},
     .out = {3, 4, 6},
     .window = {2, 1, 2},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1},
     .pad = {1, 0, 1},
     .w_zeros = 2},
    {.n_spatial = 2,
     .N = 1,
     .C = 40,
     .K = 18,
     .group = 1,
     .in = {20, 21},
     .out = {20, 21},
     .window = {5, 5},
     .stride = {1, 1},
     .dilation = {1, 1},
     .pad = {2, 2},
     .w_zeros = 18},
    {.n_spatial = 2, /* one element that moves by one */
     .N = 2,
     .C = 70,
     .K = 34,
     .group = 1,
     .in = {13, 11},
     .out = {13, 11},
     .window = {1, 1},
     .stride = {1, 1},
     .dilation = {1, 1},
     .w_zeros = 34},
    {.n_spatial = 2, /* few places and many channels: columns are cut */
     .N = 1,
     .C = 24,
     .K = 134,
     .group = 1,
     .in = {5, 6},
     .out = {3, 3},
     .window = {3, 3},
     .stride = {2, 2},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 134},
    {.n_spatial = 2, /* few channels: rows of the window are short runs; padding is wider than a step */
     .N = 1,
     .C = 3,
     .K = 20,
     .group = 1,
     .in = {23, 29},
     .out = {12, 15},
     .window = {7, 7},
     .stride = {2, 2},
     .dilation = {1, 1},
     .pad = {3, 3},
     .w_zeros = 1},
    {.n_spatial = 2, /* a window wider than the image */
     .N = 1,
     .C = 5,
     .K = 4,
     .group = 1,
     .in = {4, 2},
     .out = {4, 3},
     .window = {3, 4},
     .stride = {1, 1},
     .dilation = {1, 1},
     .pad = {1, 2},
     .w_zeros = 1},
    {.n_spatial = 2, /* depthwise, by two, hanging over every edge */
     .N = 1,
     .C = 6,
     .K = 6,
     .group = 6,
     .in = {5, 6},
     .out = {5, 5},
     .window = {5, 5},
     .stride = {2, 2},
     .dilation = {1, 1},
     .pad = {4, 4},
     .w_zeros = 6},
    {.n_spatial = 2, /* depthwise, more channels than a tile has, and places than are done together */
     .N = 2,
     .C = 75,
     .K = 75,
     .group = 75,
     .in = {6, 11},
     .out = {6, 11},
     .window = {3, 3},
     .stride = {1, 1},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 75},
    {.n_spatial = 2, /* the same by two, from one line to the next by one, no padding before the first column */
     .N = 1,
     .C = 50,
     .K = 50,
     .group = 50,
     .in = {7, 26},
     .out = {5, 13},
     .window = {3, 3},
     .stride = {1, 2},
     .dilation = {1, 1},
     .pad = {0, 0},
     .w_zeros = 50},
    {.n_spatial = 2, /* groups of a few, dilated */
     .N = 1,
     .C = 12,
     .K = 9,
     .group = 3,
     .in = {8, 9},
     .out = {8, 9},
     .window = {3, 3},
     .stride = {1, 1},
     .dilation = {2, 2},
     .pad = {2, 2},
     .w_zeros = 1},
    {.n_spatial = 1, /* no image */
     .N = 0,
     .C = 3,
     .K = 2,
     .group = 1,
     .in = {5},
     .out = {5},
     .window = {1},
     .stride = {1},
     .dilation = {1},
     .w_zeros = 1},
    {.n_spatial = 2,
     .N = 1,
     .C = 30,
     .K = 30,
     .group = 30,
     .in = {3, 17},
     .out = {3, 9},
     .window = {3, 3},
     .stride = {1, 2},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 1},
    {.n_spatial = 2,
     .N = 1,
     .C = 140,
     .K = 140,
     .group = 140,
     .in = {4, 13},
     .out = {4, 13},
     .window = {3, 3},
     .stride = {1, 1},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 1},
    {.n_spatial = 2,
     .N = 1,
     .C = 96,
     .K = 96,
     .group = 96,
     .in = {3, 9},
     .out = {3, 9},
     .window = {3, 3},
     .stride = {1, 1},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 1},
    {.n_spatial = 2,
     .N = 1,
     .C = 130,
     .K = 130,
     .group = 130,
     .in = {5, 12},
     .out = {3, 6},
     .window = {3, 3},
     .stride = {2, 2},
     .dilation = {1, 1},
     .pad = {1, 1},
     .w_zeros = 1},
};

/* The same with a bias and quantized again, of the true sums. */
static void check_codes(nck_qconv_args *c, nc_dtype type, const int32_t *sums, int64_t ny, void *ws, nc_pool *pool) {
    float scales[140], x_scale = 0.02f;
    int32_t bias[140];
    int zero = type == NC_INT8 ? -8 : 120, low = type == NC_INT8 ? -128 : 0;
    for (int k = 0; k < 140; k++) scales[k] = 0.01f * (float)(k % 7 + 1), bias[k] = k * 37 - 900;
    if (type == NC_INT8) bias[5] = 5000000; /* past the numbers that small sums are */
    uint8_t *y = nc_alloc((size_t)ny + 1);
    REQUIRE(y);
    c->y = (nck_igemm_out){.type = type,
                           .c = y,
                           .sum_bias = bias,
                           .a_scale = &x_scale,
                           .a_scales = 1,
                           .b_scale = scales,
                           .b_scales = c->K,
                           .y_scale = 0.9f,
                           .y_zero = zero};
    nck_qconv(c, ws, pool);
    int64_t places = ny > 0 ? ny / (c->N * c->K) : 1, wrong = 0;
    for (int64_t i = 0; i < ny; i++) {
        int64_t k = i / places % c->K;
        float q = (float)(sums[i] + bias[k]) * (x_scale * scales[k] / 0.9f);
        double v = fmin(low + 255, fmax(low, rint((double)q) + zero));
        wrong += y[i] != (uint8_t)(int)v;
    }
    CHECK_INT(wrong, 0);
    nc_free(y);
}

/* (n, c, plane) as (n, plane, c). */
static void turn(int64_t n, int64_t c, int64_t plane, size_t es, const void *from, void *to) {
    for (int64_t i = 0; i < n * c * plane; i++) {
        int64_t k = i % c, p = i / c % plane, image = i / c / plane;
        memcpy((char *)to + (size_t)i * es, (const char *)from + (size_t)((image * c + k) * plane + p) * es, es);
    }
}

/* The same with channels last. */
static void check_last(nck_qconv_args c, const int32_t *want, int64_t nx, int64_t ny, nc_pool *pool) {
    uint8_t *x = nc_alloc((size_t)nx + 1);
    int32_t *turned = nc_alloc((size_t)ny * 4 + 4), *got = nc_alloc((size_t)ny * 4 + 4);
    c.last = true, c.w_packed = NULL, c.y = (nck_igemm_out){.type = NC_INT32, .c = got};
    void *ws = nc_alloc_aligned(nck_qconv_workspace(&c, false) + 64, 64);
    REQUIRE(x && turned && got && ws);
    turn(c.N, c.C, c.N > 0 ? nx / c.N / c.C : 0, 1, c.x, x);
    turn(c.N, c.K, c.N > 0 ? ny / c.N / c.K : 0, 4, want, turned);
    c.x = x;
    nck_qconv(&c, ws, pool);
    CHECK(memcmp(got, turned, (size_t)ny * 4) == 0);
    nc_free(x), nc_free(turned), nc_free(got), nc_free(ws);
}

/* The codes of it with others added to them: block by block, where columns are cut too, as of all of them. */
static void check_sum(nck_qconv_args c, int64_t nx, int64_t ny, nc_pool *pool) {
    static const float one = 1, small = 0.001f;
    uint8_t *x = nc_alloc((size_t)nx + 1), *other = bytes_of(ny, 11), *got = nc_alloc((size_t)ny + 1),
            *want = bytes_of(ny, 12);
    nck_qconv_sum sum = {.other = other, .of_y = {0.02f, 100}, .of_other = {0.03f, 7}, .of_sum = {0.04f, 50}};
    c.last = true, c.w_packed = NULL;
    c.y = (nck_igemm_out){.type = NC_UINT8,
                          .c = want,
                          .a_scale = &one,
                          .a_scales = 1,
                          .b_scale = &small,
                          .b_scales = 1,
                          .y_scale = 1,
                          .y_zero = 100};
    void *ws = nc_alloc_aligned(nck_qconv_workspace(&c, false) + 64, 64);
    REQUIRE(x && other && got && want && ws);
    turn(c.N, c.C, c.N > 0 ? nx / c.N / c.C : 0, 1, c.x, x);
    c.x = x;
    nck_qconv(&c, ws, NULL);
    nck_add_codes_ref(NC_UINT8, ny, want, sum.of_y, other, sum.of_other, want, sum.of_sum);
    for (int threads = 0; threads < 2; threads++) {
        c.sum = &sum, c.y.c = got;
        nck_qconv(&c, ws, threads ? pool : NULL);
        CHECK(memcmp(got, want, (size_t)ny) == 0);
    }
    nc_free(x), nc_free(other), nc_free(got), nc_free(want), nc_free(ws);
}

/* small: neighbouring weights are exact in 16 bits, and have no zero point. */
static void check_conv(int i, bool small) {
    nck_qconv_args c = convs[i];
    int64_t nx = c.N * c.C, nw = c.K * c.C / c.group, ny = c.N * c.K;
    for (int d = 0; d < c.n_spatial; d++) nx *= c.in[d], nw *= c.window[d], ny *= c.out[d];
    uint8_t *x = bytes_of(nx, 7), *w = bytes_of(nw, 8), *zero = bytes_of(c.K, 9);
    int32_t *got = nc_alloc((size_t)ny * 4 + 4), *want = nc_alloc((size_t)ny * 4 + 4);
    c.y.type = NC_INT32;
    void *ws = nc_alloc_aligned(nck_qconv_workspace(&c, false) + 64, 64);
    void *packed = nc_alloc_aligned(nck_qconv_packed_bytes(&c) + 64, 64);
    void *order = nc_alloc_aligned(nck_qconv_pack_room(&c) + 64, 64);
    nc_pool *pool = nc_pool_create(i % 2 ? 9 : 3);
    REQUIRE(x && w && zero && got && want && ws && packed && order && pool);
    c.x = x, c.w = w, c.w_zero = zero, c.x_zero = zero + 1;
    c.x_type = (i + small) % 2 ? NC_INT8 : NC_UINT8, c.w_type = i < 2 || small ? NC_INT8 : NC_UINT8;
    if (small) c.w_zero = NULL, c.w_zeros = 1;
    for (int64_t k = 0; k < nw && small; k++) w[k] = (uint8_t)((int8_t)w[k] / 2);
    c.y = (nck_igemm_out){.type = NC_INT32, .c = want};
    nck_qconv_ref(&c);
    c.y.c = got;
    nck_qconv(&c, ws, pool);
    CHECK(memcmp(got, want, (size_t)ny * 4) == 0);
    nck_qconv_pack(&c, packed, order);
    c.w_packed = packed;
    if (small) c.w = NULL; /* what is packed serves whole where there are no zero points */
    memset(got, 0x55, (size_t)ny * 4);
    nck_qconv(&c, ws, NULL);
    CHECK(memcmp(got, want, (size_t)ny * 4) == 0);
    check_codes(&c, NC_UINT8, want, ny, ws, pool);
    check_codes(&c, NC_INT8, want, ny, ws, NULL);
    c.w = w;
    check_last(c, want, nx, ny, pool);
    if (c.group == 1) check_sum(c, nx, ny, pool);
    nc_pool_destroy(pool);
    nc_free(x), nc_free(w), nc_free(zero), nc_free(got), nc_free(want), nc_free(ws), nc_free(packed), nc_free(order);
}

TEST(qconv_against_loops) {
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, igemm)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int i = 0; i < (int)(sizeof convs / sizeof *convs); i++) check_conv(i, false), check_conv(i, true);
    }
    CHECK(nck_isa_set_for_test(NULL));
}
