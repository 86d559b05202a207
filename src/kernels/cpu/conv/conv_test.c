/* kernels/cpu/conv/conv_test.c: the plain convolution against a sum over padded input written out here; the blocked one
 * against the plain one over odd channels, depths, groups, pads, strides, dilations, NaN in the padding lanes, with
 * what is done to its results, on every ISA; equal bits for any threads. */
#include "base/mem.h"
#include "kernels/cpu/conv/conv_wino.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "kernels/cpu/isa_testing.h"
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

static nck_conv_args plain_args(const nck_conv_shape *s, const float *x, const float *w, const float *bias, float *y) {
    const nck_window *v = &s->w;
    int64_t in = nck_window_n_in(v), out = nck_window_n_out(v);
    return (nck_conv_args){.shape = *s,
                           .x = x,
                           .x_strides = {s->C * in, in, v->in[1] * v->in[2], v->in[2], 1},
                           .w = w,
                           .bias = bias,
                           .y = y,
                           .y_strides = {s->K * out, out, v->out[1] * v->out[2], v->out[2], 1}};
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
        nck_conv_shape shape = conv_2d_shape(NC_FLOAT, &s);
        nck_conv_args a = plain_args(&shape, x, w, bias, y);
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

/* ---- blocked ---- */

/* More than shapes[] has: groups of whole blocks, one channel per group, narrow and wide images, whole tiles of every
 * ISA, rows longer than a strip, channels that are summed in several goes. */
static const conv_2d more_shapes[] = {
    {2, 32, 6, 7, 32, 3, 3, 8, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 16, 9, 5, 16, 3, 1, 8, 2, 2, 1, 1, 1, 0, 1, 0},
    {1, 48, 5, 9, 48, 1, 3, 6, 1, 2, 1, 2, 0, 2, 0, 1},
    /* N  C   H   W   K   kh kw g  sh sw dh dw  t  l  b  r */
    {2, 32, 7, 7, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 48, 14, 14, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 20, 9, 15, 50, 3, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1},
    {1, 24, 10, 9, 30, 1, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0},
    {1, 33, 5, 61, 17, 5, 5, 1, 1, 3, 2, 1, 4, 2, 4, 2},
    {1, 40, 3, 29, 16, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 64, 5, 5, 96, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 96, 6, 4, 48, 1, 3, 3, 1, 2, 1, 1, 0, 1, 0, 1},
    {1, 19, 9, 30, 19, 3, 3, 19, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 33, 12, 13, 33, 5, 5, 33, 2, 2, 1, 1, 2, 2, 2, 2},
    {1, 8, 8, 9, 8, 3, 7, 8, 1, 3, 2, 1, 2, 3, 2, 3},
    {1, 16, 2, 2, 16, 3, 3, 16, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 5, 1, 2100, 7, 1, 4, 1, 1, 1, 1, 2, 0, 3, 0, 3},
    {1, 300, 2, 400, 5, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 1},
    {2, 17, 30, 27, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {3, 17, 9, 40, 35, 3, 3, 1, 1, 1, 1, 1, 0, 2, 1, 0},
    {1, 18, 6, 7, 16, 3, 3, 1, 1, 1, 1, 1, 5, 9, 6, 5},
    {1, 1, 3, 3, 1, 3, 3, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 16, 3, 3, 16, 1, 1, 16, 1, 1, 1, 1, 1, 2, 0, 0},
    {1, 17, 4, 5, 3, 3, 3, 1, 1, 1, 1, 1, -1, -1, 2, 2},
    {1, 17, 15, 14, 17, 7, 7, 17, 1, 1, 1, 1, 3, 3, 3, 3},
    {1, 9, 40, 21, 9, 3, 3, 9, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 16, 37, 40, 16, 5, 5, 16, 2, 2, 1, 1, 2, 2, 2, 2},
    {1, 16, 33, 30, 16, 7, 7, 16, 1, 1, 1, 1, 3, 3, 3, 3},
    {1, 16, 3, 60, 16, 7, 5, 16, 1, 1, 1, 1, 3, 2, 3, 2},
    {1, 8, 26, 19, 8, 5, 5, 8, 2, 1, 1, 2, 1, 4, 2, 4},
    {1, 260, 4, 5, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 24, 1, 667, 16, 1, 3, 1, 1, 2, 1, 1, 0, 1, 0, 1},
    {2, 32, 9, 11, 33, 3, 3, 1, 1, 1, 2, 2, 2, 2, 2, 2},
    {1, 17, 13, 7, 16, 3, 3, 1, 1, 1, 3, 2, 0, 4, 1, 0},
    {1, 16, 19, 23, 48, 3, 3, 1, 1, 1, 12, 6, 12, 6, 12, 6},
    {1, 40, 12, 10, 16, 3, 3, 1, 1, 1, 18, 18, 18, 18, 18, 18},
    {1, 20, 15, 20, 9, 3, 5, 1, 2, 1, 9, 3, 9, 6, 9, 6},
    {1, 20, 8, 40, 9, 3, 3, 1, 1, 2, 10, 4, 10, 4, 10, 4},
    {1, 40, 1, 500, 33, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 64, 1, 400, 64, 1, 3, 2, 1, 1, 1, 5, 0, 5, 0, 5},
};
enum { N_MORE = sizeof more_shapes / sizeof *more_shapes };

/* N, C, K, group; then of each dim: in, k, stride, dilation, both pads. */
typedef struct conv_3d {
    int64_t N, C, K, group, dims[NCK_WINDOW_DIMS][6];
} conv_3d;

/* Padded depths and whole ones, those that no window sees, windows of one depth, of depths alone and of nothing else
 * but one element, Winograd's form where channels fill blocks, few channels, groups. */
static const conv_3d deep_shapes[] = {
    {1, 3, 5, 1, {{4, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}},
    {2, 16, 33, 1, {{3, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}},
    {1, 32, 16, 1, {{5, 2, 2, 2, 1, 0}, {9, 3, 1, 1, 0, 1}, {10, 3, 1, 1, 1, 0}}},
    {2, 17, 9, 1, {{4, 2, 1, 1, 0, 0}, {5, 2, 1, 1, 0, 0}, {15, 1, 1, 1, 0, 0}}},
    {1, 20, 18, 1, {{7, 3, 2, 1, 1, 1}, {9, 5, 2, 1, 2, 2}, {8, 3, 2, 2, 2, 2}}},
    {2, 19, 40, 1, {{5, 3, 1, 1, 1, 1}, {3, 1, 1, 1, 0, 0}, {6, 1, 1, 1, 0, 0}}},
    {2, 24, 10, 1, {{3, 1, 1, 1, 0, 0}, {4, 1, 1, 1, 0, 0}, {5, 1, 1, 1, 0, 0}}},
    {1, 10, 24, 1, {{5, 1, 2, 1, 0, 0}, {4, 3, 1, 1, 1, 1}, {30, 3, 1, 1, 1, 1}}},
    {1, 16, 16, 1, {{1, 3, 1, 1, 3, 3}, {3, 3, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1}}},
    {1, 64, 32, 2, {{3, 3, 1, 1, 1, 1}, {4, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 1, 1}}},
    {2, 32, 32, 8, {{3, 2, 1, 1, 1, 0}, {4, 3, 1, 1, 1, 1}, {5, 3, 2, 1, 1, 1}}},
    {1, 8, 8, 1, {{4, 3, 1, 1, -1, 2}, {4, 2, 1, 1, 0, 0}, {4, 2, 1, 1, 0, 0}}},
    {1, 4, 6, 1, {{2, 3, 1, 1, 0, 0}, {4, 2, 1, 1, 0, 0}, {4, 2, 1, 1, 0, 0}}},
    {1, 16, 16, 1, {{4, 3, 1, 2, 2, 2}, {9, 3, 1, 2, 2, 2}, {8, 3, 1, 3, 3, 3}}},
    {1, 30, 8, 1, {{1, 1, 1, 1, 0, 0}, {7, 3, 1, 8, 8, 8}, {9, 3, 1, 8, 8, 8}}},
};

static nck_conv_shape conv_3d_shape(const conv_3d *s) {
    nck_conv_shape r = {.type = NC_FLOAT, .N = s->N, .C = s->C, .K = s->K, .group = s->group};
    for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
        const int64_t *v = s->dims[d];
        r.w.in[d] = v[0], r.w.k[d] = v[1], r.w.stride[d] = v[2], r.w.dil[d] = v[3];
        r.w.pad[d] = v[4], r.w.pad_end[d] = v[5];
        r.w.out[d] = nck_window_out(v[0], v[1], v[2], v[3], v[4] + v[5]);
    }
    return r;
}

typedef struct blocked_case {
    nck_conv_shape shape;
    nck_conv_form form;
    bool with_bias;
    int after; /* 0: nothing; 1: sum and bounds in registers; 2: a program */
    float *x, *w, *bias, *add, *scale, *want;
} blocked_case;

/* (y * scale[k] + add): the scale per channel, add per element. */
static const nck_tile_op after_ops[] = {{.lane = NCK_LANE_mul, .dst = 3, .src = {0, 1}},
                                        {.lane = NCK_LANE_add, .dst = 3, .src = {3, 2}}};
static const uint16_t after_out = 3;
static const nck_tile_prog after_prog = {
    .compute = NC_FLOAT, .n_in = 3, .n_out = 1, .n_reg = 4, .n_op = 2, .op = after_ops, .out_reg = &after_out};

static float after_one(const blocked_case *c, float y, int64_t k, int64_t at) {
    if (c->after == 1) return fminf(fmaxf(y + c->add[at], -0.5f), 0.75f);
    return c->after == 2 ? y * c->scale[k] + c->add[at] : y;
}

static void spoil_lanes(const blocked_case *c, int64_t B, float *xb) {
    const nck_conv_shape *s = &c->shape;
    int64_t Cb = (s->C + B - 1) / B, spatial = nck_window_n_in(&s->w);
    for (int64_t i = 0; i < s->N * Cb * spatial * B; i++)
        if (i / (spatial * B) % Cb * B + i % B >= s->C) xb[i] = NAN;
}

static nck_conv_after make_after(const blocked_case *c, int64_t B, const float *add, const float *scale) {
    int64_t Kb = (c->shape.K + B - 1) / B, pixels = nck_window_n_out(&c->shape.w);
    nck_conv_after after = {.clamps = c->after == 1, .low = -0.5f, .high = 0.75f};
    if (c->after == 1) after.add = add;
    if (c->after == 2) after.prog = &after_prog;
    after.in[1] = (nck_conv_operand){.data = scale, .period = B, .block_step = B};
    after.in[2] = (nck_conv_operand){.data = add, .image = Kb * pixels * B, .block_step = pixels * B};
    return after;
}

/* The case as the ISA in use does it, in plain layout. over: what is added lies where the result goes. */
static void run_blocked(const blocked_case *c, bool over, nc_pool *pool, float *got) {
    const nck_conv_shape *s = &c->shape;
    int64_t B = nck_channel_block(), pixels = nck_window_n_out(&s->w), n_in = nck_window_n_in(&s->w);
    float *xb = nc_alloc_zero(1, nck_packed_channels_bytes(B, s->N, s->C, n_in) + 1);
    float *yb = nc_alloc_zero(1, nck_packed_channels_bytes(B, s->N, s->K, pixels) + 1);
    float *ab = nc_alloc_zero(1, nck_packed_channels_bytes(B, s->N, s->K, pixels) + 1);
    float *sb = nc_alloc_zero(1, nck_packed_channels_bytes(B, 1, s->K, 1) + 1);
    float *wb = nc_alloc(nck_conv_packed_weights_bytes(&c->shape, c->form) + 1);
    void *workspace = nc_alloc(nck_conv_blocked_workspace(&c->shape, c->form) + 1);
    REQUIRE(xb && yb && ab && sb && wb && workspace);
    nck_conv_pack_weights(&c->shape, c->form, c->w, wb);
    nck_pack_channels(&(nck_channels){B, s->N, s->C, n_in, false}, c->x, xb, pool);
    nck_pack_channels(&(nck_channels){B, s->N, s->K, pixels, false}, c->add, ab, pool);
    nck_pack_channels(&(nck_channels){B, 1, s->K, 1, false}, c->scale, sb, pool);
    spoil_lanes(c, B, xb);
    if (over) memcpy(yb, ab, nck_packed_channels_bytes(B, s->N, s->K, pixels));
    nck_conv_after after = make_after(c, B, over ? yb : ab, sb);
    nck_conv_blocked_args a = {.shape = c->shape,
                               .form = c->form,
                               .x = c->form == NCK_CONV_PLANES ? c->x : xb,
                               .w = wb,
                               .bias = c->with_bias ? c->bias : NULL,
                               .y = yb,
                               .after = c->after ? &after : NULL};
    nck_conv_blocked(&a, workspace, pool);
    nck_unpack_channels(&(nck_channels){B, s->N, s->K, pixels, false}, yb, got, pool);
    nc_free(xb), nc_free(yb), nc_free(ab), nc_free(sb), nc_free(wb), nc_free(workspace);
}

static void check_case(const blocked_case *c) {
    const nck_conv_shape *s = &c->shape;
    int64_t pixels = nck_window_n_out(&s->w), ny = s->N * s->K * pixels;
    float *one = random_tensor(ny, 5), *got = random_tensor(ny, 6);
    REQUIRE(one && got);
    nc_tolerance tol = nc_tol_of_sum(nc_tol_kernel_f32, (double)(s->C / s->group * nck_window_n_k(&s->w)));
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, conv)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        run_blocked(c, false, NULL, one);
        for (int64_t i = 0; i < ny; i++) CHECK_CLOSE(one[i], after_one(c, c->want[i], i / pixels % s->K, i), tol);
        nc_pool *pool = nc_pool_create(c->with_bias ? 3 : 16);
        run_blocked(c, false, pool, got);
        CHECK(memcmp(got, one, (size_t)ny * sizeof *got) == 0);
        if (c->after == 1) {
            run_blocked(c, true, pool, got);
            CHECK(memcmp(got, one, (size_t)ny * sizeof *got) == 0);
        }
        nc_pool_destroy(pool);
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_free(one), nc_free(got);
}

/* Groups that are no whole blocks where blocks are larger, nor parts of one, are no case of the kernel there. */
static bool is_case(const nck_conv_shape *s) {
    bool whole = true;
    for (int64_t b = 8; b <= 16; b *= 2)
        whole = whole &&
                ((s->C / s->group % b == 0 && s->K / s->group % b == 0) || nck_conv_merges(s->C, s->K, s->group, b));
    return s->group == 1 || (s->group == s->C && s->group == s->K) || whole;
}

/* nth: under emulation shapes have a bias or none in turn. */
static void check_blocked(const nck_conv_shape *s, int nth) {
    blocked_case c = {.shape = *s};
    int64_t ny = s->N * s->K * nck_window_n_out(&s->w);
    if (!is_case(s)) return;
    c.x = random_tensor(s->N * s->C * nck_window_n_in(&s->w), 1);
    c.w = random_tensor(s->K * s->C / s->group * nck_window_n_k(&s->w), 2);
    c.bias = random_tensor(s->K, 3), c.want = random_tensor(ny, 4), c.add = random_tensor(ny, 7);
    c.scale = random_tensor(s->K, 8);
    REQUIRE(c.x && c.w && c.bias && c.want && c.add && c.scale);
    for (int k = 0; k < (nc_test_emulated() ? 7 : 14); k++) {
        int way = k % 7;
        c.with_bias = nc_test_emulated() ? nth % 2 : k >= 7;
        c.form = way < 3 ? NCK_CONV_BLOCKS : way < 4 ? NCK_CONV_PLANES : NCK_CONV_WINO;
        c.after = way < 4 ? way % 3 : way - 4;
        if (way == 0) { /* for all ways with this bias */
            nck_conv_args a = plain_args(s, c.x, c.w, c.with_bias ? c.bias : NULL, c.want);
            nck_conv_plain(&a, NULL);
        }
        if (c.form == NCK_CONV_PLANES && s->group > 1) continue;
        if (c.form == NCK_CONV_WINO && !nck_conv_wino_fits(&c.shape)) continue;
        check_case(&c);
    }
    nc_free(c.x), nc_free(c.w), nc_free(c.bias), nc_free(c.want), nc_free(c.add), nc_free(c.scale);
}

TEST(conv_blocked) {
    for (int i = 0; i < N_SHAPES + N_MORE; i++) {
        nck_conv_shape s = conv_2d_shape(NC_FLOAT, i < N_SHAPES ? &shapes[i] : &more_shapes[i - N_SHAPES]);
        check_blocked(&s, i);
    }
}

/* Room that was booked for larger images serves smaller ones, whichever way either goes. */
TEST(conv_blocked_workspace_grows) {
    for (size_t i = 0; i < sizeof deep_shapes / sizeof *deep_shapes; i++)
        for (int64_t more = 0; more < 60 * 60 * 60; more += 37) {
            conv_3d small = deep_shapes[i], large = small;
            int64_t by[NCK_WINDOW_DIMS] = {more / 3600, more / 60 % 60, more % 60};
            for (int d = 0; d < NCK_WINDOW_DIMS; d++) small.dims[d][0] += by[d] / 2, large.dims[d][0] += by[d];
            if (more % 2 && small.dims[0][1] == 1) small.dims[0][0] = 1;
            nck_conv_shape s = conv_3d_shape(&small), l = conv_3d_shape(&large);
            CHECK(nck_conv_blocked_workspace(&s, NCK_CONV_BLOCKS) <= nck_conv_blocked_workspace(&l, NCK_CONV_BLOCKS));
            if (!nck_conv_wino_fits(&s)) continue;
            CHECK(nck_conv_blocked_workspace(&s, NCK_CONV_WINO) <= nck_conv_blocked_workspace(&l, NCK_CONV_WINO));
        }
}

TEST(conv_blocked_of_three_dims) {
    for (int i = 0; i < (int)(sizeof deep_shapes / sizeof *deep_shapes); i++) {
        nck_conv_shape s = conv_3d_shape(&deep_shapes[i]);
        check_blocked(&s, i);
    }
}

/* NaN and infinities reach the pixels that see them, and no others. */
TEST(conv_blocked_passes_nan_on) {
    conv_2d s = {1, 16, 6, 6, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (int depthwise = 0; depthwise < 2; depthwise++) {
        s.group = depthwise ? 16 : 1;
        blocked_case c = {.shape = conv_2d_shape(NC_FLOAT, &s)};
        float x[16 * 36], w[16 * 16 * 9], zero[16 * 36] = {0}, y[16 * 36];
        fill(x, 16 * 36, 1);
        fill(w, 16 * 16 * 9, 2);
        x[5 * 36 + 2 * 6 + 2] = NAN, x[7 * 36 + 5 * 6 + 5] = INFINITY;
        c.x = x, c.w = w, c.add = zero, c.scale = zero, c.after = 1;
        for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, conv)) {
            CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
            run_blocked(&c, false, NULL, y);
            for (int i = 0; i < 16 * 36; i++) {
                int k = i / 36, r = i % 36 / 6, q = i % 6;
                bool sees = r >= 1 && r <= 3 && q >= 1 && q <= 3 && (!depthwise || k == 5);
                CHECK(isnan(y[i]) == sees);
                CHECK(sees || (y[i] >= -0.5f && y[i] <= 0.75f));
            }
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* The busiest thread does at most a quarter more than its share. */
static void check_shares(const conv_2d *s, int threads) {
    nck_conv_shape shape = conv_2d_shape(NC_FLOAT, s);
    int64_t items = nck_conv_blocked_items(&shape, s->C < 4 ? NCK_CONV_PLANES : NCK_CONV_BLOCKS, threads);
    int64_t turns = (items + threads - 1) / threads;
    if (items < threads || turns * threads * 4 > items * 5)
        nc_test_failed(__FILE__, __LINE__, "%lld channels at %lld: %lld items for %d threads", (long long)s->C,
                       (long long)s->H, (long long)items, threads);
}

/* Enough items for the threads of a larger machine in each kind of layer of a ResNet, and of networks of sound with few
 * channels, evenly dealt out. */
TEST(conv_blocked_work_is_shared_evenly) {
    static const conv_2d layers[] = {
        /* N  C   H   W   K   kh kw g  sh sw dh dw  t  l  b  r */
        {1, 3, 224, 224, 64, 7, 7, 1, 2, 2, 1, 1, 3, 3, 3, 3},
        {1, 64, 56, 56, 64, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {1, 256, 56, 56, 64, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {1, 128, 56, 56, 128, 3, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1},
        {1, 512, 28, 28, 128, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {1, 256, 28, 28, 256, 3, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1},
        {1, 1024, 14, 14, 256, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {1, 512, 14, 14, 512, 3, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1},
        {1, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 2048, 7, 7, 512, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {1, 32, 1, 2048, 32, 1, 11, 1, 1, 1, 1, 5, 0, 25, 0, 25},
        {1, 16, 1, 8192, 16, 1, 3, 1, 1, 1, 1, 1, 0, 1, 0, 1},
        {1, 64, 1, 2000, 96, 1, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    };
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, conv)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            for (int threads = 2; threads <= 16; threads *= 2) check_shares(&layers[i], threads);
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(conv_pack_channels_round_trip) {
    float x[2 * 11 * 7], packed[2 * 2 * 7 * 8], back[2 * 11 * 7];
    fill(x, 2 * 11 * 7, 3);
    nc_pool *pool = nc_pool_create(5);
    nck_pack_channels(&(nck_channels){8, 2, 11, 7, false}, x, packed, pool);
    CHECK(packed[0] == x[0] && packed[1] == x[7] && packed[8] == x[1] && packed[7 * 8] == x[8 * 7]);
    CHECK(packed[7 * 8 + 3] == 0 && packed[2 * 7 * 8] == x[11 * 7]);
    nck_unpack_channels(&(nck_channels){8, 2, 11, 7, false}, packed, back, pool);
    CHECK(memcmp(x, back, sizeof x) == 0);
    nck_pack_channels(&(nck_channels){16, 2, 11, 7, false}, x, packed, pool);
    CHECK(packed[10] == x[10 * 7] && packed[11] == 0 && packed[16] == x[1] && packed[7 * 16] == x[11 * 7]);
    nck_unpack_channels(&(nck_channels){16, 2, 11, 7, false}, packed, back, pool);
    CHECK(memcmp(x, back, sizeof x) == 0);
    nc_pool_destroy(pool);
}

/* Channels last: what is packed must be what channels first give. */
static void check_channels_last(int64_t block, int64_t N, int64_t C, int64_t spatial, nc_pool *pool) {
    size_t n = (size_t)(N * C * spatial), bytes = nck_packed_channels_bytes(block, N, C, spatial);
    float *first = nc_alloc((n + 1) * sizeof *first), *last = nc_alloc((n + 1) * sizeof *last);
    float *back = nc_alloc((n + 1) * sizeof *back), *a = nc_alloc(bytes + 1), *b = nc_alloc(bytes + 1);
    nck_channels k = {block, N, C, spatial, false}, turned = {block, N, C, spatial, true};
    fill(first, (int64_t)n, 5);
    for (int64_t i = 0; i < (int64_t)n; i++)
        last[(i / C / spatial * spatial + i % spatial) * C + i / spatial % C] = first[i];
    memset(a, 1, bytes + 1);
    memset(b, 2, bytes + 1);
    nck_pack_channels(&k, first, a, pool);
    nck_pack_channels(&turned, last, b, pool);
    CHECK(memcmp(a, b, bytes) == 0);
    nck_unpack_channels(&turned, b, back, pool);
    CHECK(memcmp(last, back, n * sizeof *last) == 0);
    float *all[] = {first, last, back, a, b};
    for (int i = 0; i < 5; i++) nc_free(all[i]);
}

TEST(conv_pack_channels_last) {
    static const int64_t sizes[][3] = {{1, 1, 1},   {2, 11, 7}, {1, 16, 16}, {3, 33, 17},  {1, 48, 4097},
                                       {0, 16, 16}, {2, 16, 0}, {1, 5, 33},  {2, 300, 300}};
    nc_pool *pool = nc_pool_create(3);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t block = 8; block <= 16; block *= 2)
            check_channels_last(block, sizes[i][0], sizes[i][1], sizes[i][2], i % 2 ? pool : NULL);
    nc_pool_destroy(pool);
}

TEST(conv_pack_weights_unaligned) {
    conv_2d s = {1, 2, 2, 2, 3, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0};
    nck_conv_shape shape = conv_2d_shape(NC_FLOAT, &s);
    float w[3 * 2 * 4], a[2 * 4 * 16], b[2 * 4 * 16];
    char bytes[sizeof w + 1];
    int64_t B = nck_channel_block();
    fill(w, 24, 3);
    memcpy(bytes + 1, w, sizeof w);
    nck_conv_pack_weights(&shape, NCK_CONV_BLOCKS, w, a);
    nck_conv_pack_weights(&shape, NCK_CONV_BLOCKS, bytes + 1, b);
    CHECK(memcmp(a, b, nck_conv_packed_weights_bytes(&shape, NCK_CONV_BLOCKS)) == 0);
    CHECK(a[(1 * 2 + 1) * B + 2] == w[(2 * 2 + 1) * 4 + 1]); /* (tap, channel, k) */
    nck_conv_pack_weights(&shape, NCK_CONV_PLANES, w, a);
    CHECK(a[(1 * 4 + 1) * B + 2] == w[(2 * 2 + 1) * 4 + 1]); /* (channel, tap, k) */
}
