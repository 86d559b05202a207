/* kernels/cpu/conv/conv_test.c: the plain convolution against a sum over padded input written out here; the blocked one
 * against the plain one over odd channels, pads, strides, dilations, with NaN in the padding lanes; equal bits for
 * threads and every ISA. */
#include "base/mem.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "kernels/cpu/isa.h"
#include "tests/check.h"

static void fill(float *p, int64_t n, uint32_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) - 8388608.0f) / 8388608.0f;
    }
}

static float *random_tensor(int64_t n, uint32_t seed) {
    float *p = nc_alloc((size_t)(n + 1) * sizeof *p);
    if (p) fill(p, n, seed);
    return p;
}

static nck_conv_args plain_args(const conv_2d *s, const float *x, const float *w, const float *bias, float *y) {
    int64_t OH = conv_2d_out_h(s), OW = conv_2d_out_w(s);
    return (nck_conv_args){.shape = conv_2d_shape(NC_FLOAT, s),
                           .x = x,
                           .x_strides = {s->C * s->H * s->W, s->H * s->W, 0, s->W, 1},
                           .w = w,
                           .bias = bias,
                           .y = y,
                           .y_strides = {s->K * OH * OW, OH * OW, 0, OW, 1}};
}

/* The definition: zero outside the input. */
static double by_definition(const conv_2d *s, const float *x, const float *w, int64_t n, int64_t k, int64_t oh,
                            int64_t ow) {
    int64_t C = s->C / s->group, g = k / (s->K / s->group);
    double acc = 0;
    for (int64_t c = 0; c < C; c++)
        for (int64_t i = 0; i < s->kh; i++)
            for (int64_t j = 0; j < s->kw; j++) {
                int64_t h = oh * s->stride_h + i * s->dil_h - s->pad_top;
                int64_t v = ow * s->stride_w + j * s->dil_w - s->pad_left;
                if (h < 0 || h >= s->H || v < 0 || v >= s->W) continue;
                acc += (double)x[((n * s->C + g * C + c) * s->H + h) * s->W + v] *
                       (double)w[((k * C + c) * s->kh + i) * s->kw + j];
            }
    return acc;
}

static const conv_2d shapes[] = {
    /* N  C   H   W   K   kh kw g  sh sw dh dw  t  l  b  r */
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},    {2, 3, 9, 11, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 8, 7, 13, 16, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0},  {1, 13, 10, 30, 27, 3, 5, 1, 2, 2, 1, 1, 1, 2, 0, 1},
    {1, 17, 12, 12, 9, 3, 3, 1, 1, 1, 2, 3, 2, 3, 2, 3}, {3, 16, 6, 5, 24, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 3, 20, 20, 33, 7, 7, 1, 2, 2, 1, 1, 3, 3, 3, 3}, {1, 4, 3, 3, 8, 5, 5, 1, 1, 1, 1, 1, 4, 4, 4, 4},
    {1, 2, 2, 2, 3, 1, 1, 1, 3, 3, 1, 1, 5, 5, 5, 5},    {1, 9, 1, 40, 10, 1, 3, 1, 1, 1, 1, 4, 0, 4, 0, 4},
    {1, 5, 2, 2, 4, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0},    {0, 5, 4, 4, 4, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 0, 4, 4, 4, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

TEST(conv_plain_and_groups) {
    for (int i = 0; i < N_SHAPES + 2; i++) {
        conv_2d s = shapes[i < N_SHAPES ? i : 3];
        if (i == N_SHAPES) s.C = 6, s.K = 8, s.group = 2;
        if (i == N_SHAPES + 1) s.C = 7, s.K = 14, s.group = 7;
        int64_t OH = conv_2d_out_h(&s), OW = conv_2d_out_w(&s);
        float *x = random_tensor(s.N * s.C * s.H * s.W, 1), *w = random_tensor(s.K * s.C / s.group * s.kh * s.kw, 2);
        float *bias = random_tensor(s.K, 3), *y = random_tensor(s.N * s.K * OH * OW, 4);
        REQUIRE(x && w && bias && y);
        nck_conv_args a = plain_args(&s, x, w, bias, y);
        nc_pool *pool = nc_pool_create(2);
        nck_conv_plain(&a, pool);
        nc_pool_destroy(pool);
        for (int64_t o = 0; o < s.N * s.K * OH * OW; o++) {
            int64_t n = o / (s.K * OH * OW), k = o / (OH * OW) % s.K;
            CHECK_CLOSE(y[o], by_definition(&s, x, w, n, k, o / OW % OH, o % OW) + (double)bias[k],
                        nc_tol_of_sum(nc_tol_kernel_f32, (double)(s.C * s.kh * s.kw)));
        }
        nc_free(x), nc_free(w), nc_free(bias), nc_free(y);
    }
}

TEST(conv_plain_f64_strided) {
    double x[2 * 3 * 3], w[2] = {1, -2}, y[9] = {0};
    for (int i = 0; i < 18; i++) x[i] = i;
    conv_2d s = {1, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
    nck_conv_args a = {.shape = conv_2d_shape(NC_DOUBLE, &s),
                       .x = x,
                       .x_strides = {18, 1, 0, 6, 2},
                       .w = w,
                       .y = y,
                       .y_strides = {9, 9, 0, 1, 3}};
    nck_conv_plain(&a, NULL);
    for (int h = 0; h < 3; h++)
        for (int v = 0; v < 3; v++) CHECK(y[h + 3 * v] == x[h * 6 + v * 2] - 2 * x[h * 6 + v * 2 + 1]);
}

static void spoil_lanes(const conv_2d *s, float *xb) {
    int64_t Cb = (s->C + 7) / 8, spatial = s->H * s->W;
    for (int64_t i = 0; i < s->N * Cb * spatial * 8; i++)
        if (i / (spatial * 8) % Cb * 8 + i % 8 >= s->C) xb[i] = NAN;
}

static void check_blocked(const conv_2d *s, bool with_bias) {
    int64_t OH = conv_2d_out_h(s), OW = conv_2d_out_w(s), ny = s->N * s->K * OH * OW;
    size_t yb_bytes = nck_packed_channels_bytes(s->N, s->K, OH * OW);
    float *x = random_tensor(s->N * s->C * s->H * s->W, 1), *w = random_tensor(s->K * s->C * s->kh * s->kw, 2);
    float *bias = random_tensor(s->K, 3), *want = random_tensor(ny, 4);
    float *got = random_tensor(ny, 5), *one = random_tensor(ny, 6);
    float *xb = nc_alloc(nck_packed_channels_bytes(s->N, s->C, s->H * s->W)), *yb = nc_alloc_zero(1, yb_bytes + 1);
    float *wb = nc_alloc(nck_conv_packed_weights_bytes(s->K, s->C, s->kh, s->kw));
    REQUIRE(x && w && bias && want && got && one && xb && yb && wb);
    nck_conv_shape shape = conv_2d_shape(NC_FLOAT, s);
    nck_conv_args a = plain_args(s, x, w, with_bias ? bias : NULL, want);
    nck_conv_plain(&a, NULL);
    nck_conv_pack_weights(s->K, s->C, s->kh, s->kw, w, wb);
    nck_pack_channels(s->N, s->C, s->H * s->W, x, xb, NULL);
    spoil_lanes(s, xb);
    nck_conv_blocked(&shape, xb, wb, with_bias ? bias : NULL, yb, NULL);
    nck_unpack_channels(s->N, s->K, OH * OW, yb, one, NULL);
    nc_tolerance tol = nc_tol_of_sum(nc_tol_kernel_f32, (double)(s->C * s->kh * s->kw));
    for (int64_t i = 0; i < ny; i++) CHECK_CLOSE(one[i], want[i], tol);
    for (int way = 0; way < 2 || nck_isa_at(way - 2); way++) {
        nc_pool *pool = nc_pool_create(way == 0 ? 2 : 5);
        if (way >= 2) CHECK(nck_isa_set_for_test(nck_isa_at(way - 2)->name));
        memset(yb, 0, yb_bytes);
        nck_conv_blocked(&shape, xb, wb, with_bias ? bias : NULL, yb, pool);
        nck_unpack_channels(s->N, s->K, OH * OW, yb, got, pool);
        CHECK(memcmp(got, one, (size_t)ny * sizeof *got) == 0);
        nc_pool_destroy(pool);
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_free(x), nc_free(w), nc_free(bias), nc_free(want);
    nc_free(got), nc_free(one), nc_free(xb), nc_free(yb), nc_free(wb);
}

TEST(conv_blocked) {
    for (int i = 0; i < N_SHAPES; i++) {
        check_blocked(&shapes[i], true);
        check_blocked(&shapes[i], false);
    }
}

/* An infinite weight at a tap in the padding must not turn zeros into NaN. */
TEST(conv_blocked_padding_meets_no_weight) {
    conv_2d s = {1, 1, 4, 4, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float x[16], w[9] = {INFINITY, 0, 0, 0, 1, 0, 0, 0, 0}, xb[16 * 8], wb[9 * 64], yb[16 * 8], y[16];
    nck_conv_shape shape = conv_2d_shape(NC_FLOAT, &s);
    fill(x, 16, 9);
    for (int i = 0; i < 16; i++) x[i] = fabsf(x[i]) + 1;
    nck_conv_pack_weights(1, 1, 3, 3, w, wb);
    nck_pack_channels(1, 1, 16, x, xb, NULL);
    nck_conv_blocked(&shape, xb, wb, NULL, yb, NULL);
    nck_unpack_channels(1, 1, 16, yb, y, NULL);
    for (int i = 0; i < 16; i++) CHECK(i < 4 || i % 4 == 0 ? y[i] == x[i] : isinf(y[i]));
}

TEST(conv_pack_channels_round_trip) {
    float x[2 * 11 * 7], packed[2 * 2 * 7 * 8], back[2 * 11 * 7];
    fill(x, 2 * 11 * 7, 3);
    nc_pool *pool = nc_pool_create(5);
    nck_pack_channels(2, 11, 7, x, packed, pool);
    CHECK(packed[0] == x[0] && packed[1] == x[7] && packed[8] == x[1] && packed[7 * 8] == x[8 * 7]);
    CHECK(packed[7 * 8 + 3] == 0 && packed[2 * 7 * 8] == x[11 * 7]);
    nck_unpack_channels(2, 11, 7, packed, back, pool);
    CHECK(memcmp(x, back, sizeof x) == 0);
    nc_pool_destroy(pool);
}

TEST(conv_pack_weights_unaligned) {
    float w[3 * 2 * 4], a[64 * 4], b[64 * 4];
    char bytes[sizeof w + 1];
    fill(w, 24, 3);
    memcpy(bytes + 1, w, sizeof w);
    nck_conv_pack_weights(3, 2, 2, 2, w, a);
    nck_conv_pack_weights(3, 2, 2, 2, bytes + 1, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(a[(1 * 8 + 1) * 8 + 2] == w[(2 * 2 + 1) * 4 + 1]);
}
