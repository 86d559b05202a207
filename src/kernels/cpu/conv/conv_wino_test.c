/* kernels/cpu/conv/conv_wino_test.c: Winograd's convolution against sums in double on the layers of a ResNet: how far
 * it is off; what a NaN does; when it is chosen; how evenly many threads share it. That it is right on odd sizes, with
 * what is done to its results and on every ISA is conv_test.c's. */
#include "kernels/cpu/conv/conv_wino.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/conv/conv_testing.h"
#include "kernels/cpu/conv/wino_kernel.h"
#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"

static conv_2d layer(int64_t N, int64_t channels, int64_t size) {
    return (conv_2d){N, channels, size, size, channels, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
}

typedef struct wino_case {
    conv_2d s;
    nck_conv_shape shape;
    int64_t nx, nw, ny;
    float *x, *w, *y;
} wino_case;

/* The sum of twelve: nearly normal, mean 0, variance 1. */
static float draw(uint32_t *seed) {
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (float)(*seed >> 8) / 16777216.0f;
    }
    return sum;
}

static bool make_case(wino_case *c, conv_2d s, bool positive) {
    *c = (wino_case){.s = s, .shape = conv_2d_shape(NC_FLOAT, &s)};
    c->nx = s.N * s.C * s.H * s.W, c->nw = s.K * s.C * 9, c->ny = s.N * s.K * conv_2d_out_h(&s) * conv_2d_out_w(&s);
    c->x = nc_alloc((size_t)c->nx * sizeof(float)), c->w = nc_alloc((size_t)c->nw * sizeof(float));
    c->y = nc_alloc((size_t)c->ny * sizeof(float));
    if (!c->x || !c->w || !c->y) return false;
    uint32_t seed = 7;
    for (int64_t i = 0; i < c->nx; i++) c->x[i] = positive ? fmaxf(draw(&seed), 0) : draw(&seed);
    for (int64_t i = 0; i < c->nw; i++) c->w[i] = draw(&seed);
    return true;
}

static void free_case(wino_case *c) { nc_free(c->x), nc_free(c->w), nc_free(c->y); }

/* In plain layout. */
static bool run_case(const wino_case *c, nck_conv_form form, nc_pool *pool) {
    const conv_2d *s = &c->s;
    int64_t B = nck_channel_block(), pixels = c->shape.w.out[1] * c->shape.w.out[2];
    float *xb = nc_alloc(nck_packed_channels_bytes(B, s->N, s->C, s->H * s->W));
    float *yb = nc_alloc(nck_packed_channels_bytes(B, s->N, s->K, pixels));
    float *wb = nc_alloc(nck_conv_packed_weights_bytes(&c->shape, form));
    void *workspace = nc_alloc(nck_conv_blocked_workspace(&c->shape, form));
    bool ok = xb && yb && wb && workspace;
    if (ok) {
        nck_conv_pack_weights(&c->shape, form, c->w, wb);
        nck_pack_channels(&(nck_channels){B, s->N, s->C, s->H * s->W, false}, c->x, xb, pool);
        nck_conv_blocked_args a = {.shape = c->shape, .form = form, .x = xb, .w = wb, .y = yb};
        nck_conv_blocked(&a, workspace, pool);
        nck_unpack_channels(&(nck_channels){B, s->N, s->K, pixels, false}, yb, c->y, pool);
    }
    nc_free(xb), nc_free(yb), nc_free(wb), nc_free(workspace);
    return ok;
}

/* The sum of the products at output o in double, and of their sizes. */
static double exact(const wino_case *c, int64_t o, double *size) {
    const conv_2d *s = &c->s;
    int64_t OW = conv_2d_out_w(s), OH = conv_2d_out_h(s), n = o / (s->K * OH * OW), k = o / (OH * OW) % s->K;
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < s->C * 9; i++) {
        int64_t h = o / OW % OH + i / 3 % 3 - s->pad_top, v = o % OW + i % 3 - s->pad_left;
        if (h < 0 || h >= s->H || v < 0 || v >= s->W) continue;
        double p = (double)c->x[((n * s->C + i / 9) * s->H + h) * s->W + v] * (double)c->w[k * s->C * 9 + i];
        sum += p, *size += fabs(p);
    }
    return sum;
}

/* Errors are measured by the sizes of what is summed, since cancelled sums are as small as they like. */
TEST(wino_error_is_bounded) {
    static const int64_t layers[][2] = {{64, 20}, {128, 28}, {256, 14}, {512, 7}};
    for (int i = 0; i < (nc_test_emulated() ? 1 : 4); i++)
        for (int positive = 0; positive < 2; positive++) {
            wino_case c;
            bool made = make_case(&c, layer(1, layers[i][0], layers[i][1]), positive);
            if (made && run_case(&c, NCK_CONV_WINO, NULL))
                for (int64_t o = 0; o < c.ny; o += 7) {
                    double size, sum = exact(&c, o, &size);
                    CHECK_CLOSE((double)c.y[o] / size, sum / size, nc_tol_winograd_f32);
                }
            else
                nc_test_failed(__FILE__, __LINE__, "out of memory");
            free_case(&c);
        }
}

/* The tile that sees it, and no other: of 12 x 12 outputs the one in the middle sees pixel (5, 5). */
TEST(wino_spreads_nan_over_tiles) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        wino_case c;
        bool made = make_case(&c, layer(1, 16, 12), false);
        if (made) c.x[3 * 144 + 5 * 12 + 5] = bad[i];
        CHECK(made && run_case(&c, NCK_CONV_WINO, NULL));
        for (int64_t o = 0; made && o < c.ny; o++) {
            int64_t down = o / 12 % 12 / 4, across = o % 12 / 4;
            CHECK(isfinite(c.y[o]) == (down != 1 || across != 1));
        }
        free_case(&c);
    }
}

static bool wins(int64_t N, int64_t C, int64_t K, int64_t H, int64_t W) {
    conv_2d s = {N, C, H, W, K, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    nck_conv_shape shape = conv_2d_shape(NC_FLOAT, &s);
    return nck_conv_wino_wins(&shape);
}

TEST(wino_is_chosen_where_it_wins) {
    CHECK(wins(1, 64, 64, 56, 56) && wins(1, 128, 128, 28, 28) && wins(1, 256, 256, 14, 14));
    CHECK(wins(8, 512, 512, 7, 7) && !wins(1, 512, 512, 7, 7)); /* few tiles for many weights */
    CHECK(!wins(1, 3, 64, 112, 112) && !wins(1, 16, 16, 112, 112) && !wins(1, 256, 256, 1, 100));
    CHECK(!wins(0, 64, 64, 56, 56));
    conv_2d s = layer(1, 64, 56);
    s.stride_w = 2;
    nck_conv_shape strided = conv_2d_shape(NC_FLOAT, &s);
    s = layer(1, 64, 56), s.group = 2;
    nck_conv_shape grouped = conv_2d_shape(NC_FLOAT, &s);
    CHECK(!nck_conv_wino_wins(&strided) && !nck_conv_wino_wins(&grouped));
    for (int64_t d = 2; d <= 32; d *= 2) { /* of dilated images, while their phases fill tiles */
        s = layer(1, 64, 56), s.dil_h = s.dil_w = s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = d;
        nck_conv_shape dilated = conv_2d_shape(NC_FLOAT, &s);
        CHECK(nck_conv_wino_wins(&dilated) == (d < 32));
    }
}

/* The most that one thread does of items that are dealt out in turn: item i costs the tiles that are left for it of n,
 * `size` at most, and after `count` of them the tiles begin anew. */
static double busiest(int64_t items, int64_t count, int64_t size, int64_t n, int threads) {
    double work[64] = {0}, most = 0;
    for (int64_t i = 0; i < items; i++) {
        int least = 0;
        for (int t = 1; t < threads; t++)
            if (work[t] < work[least]) least = t;
        work[least] += (double)nc_max64(0, nc_min64(size, n - i % count * size));
    }
    for (int t = 0; t < threads; t++) most = work[t] > most ? work[t] : most;
    return most;
}

static int64_t items_of(const nck_wino_cut *c) {
    return c->own ? c->n_strips : c->pairs * (c->by_points ? NCK_WINO_POINTS : c->n_chunks);
}

/* How much longer the busiest thread works than all would if they shared evenly. */
static double imbalance(const nck_wino_cut *c, int threads) {
    double most = 0;
    if (c->by_points) return busiest(items_of(c), 1, 1, 1, threads) * threads / (double)items_of(c);
    if (c->own) return busiest(c->n_strips, c->n_strips, c->strip, c->tiles, threads) * threads / (double)c->tiles;
    for (int64_t first = 0; first < c->tiles; first += c->strip)
        most += busiest(c->pairs * c->n_chunks, c->n_chunks, c->chunk, nc_min64(c->strip, c->tiles - first), threads);
    return most * threads / (double)(c->tiles * c->pairs);
}

TEST(wino_work_is_shared_evenly) {
    static const int64_t layers[][3] = {{1, 64, 56}, {1, 128, 28}, {1, 256, 14}, {8, 256, 14}, {8, 512, 7}};
    static const int threads[] = {1, 2, 4, 8, 16};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            conv_2d s = layer(layers[i][0], layers[i][1], layers[i][2]);
            nck_conv_shape shape = conv_2d_shape(NC_FLOAT, &s);
            nck_wino_cut c = nck_conv_wino_cut(&shape, 16, threads[k]);
            CHECK(c.n_strips * c.strip >= c.tiles && c.n_chunks * c.chunk >= c.strip);
            CHECK(items_of(&c) >= threads[k]);
            CHECK(imbalance(&c, threads[k]) < 1.2);
        }
}

/* Several strips, of which the last is shorter: the bits of one thread, which goes by chunks. */
TEST(wino_points_have_the_bits_of_chunks) {
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, conv)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        wino_case c;
        conv_2d s = {1, 512, 26, 26, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        nc_pool *pool = nc_pool_create(16);
        bool made = make_case(&c, s, false) && pool && run_case(&c, NCK_CONV_WINO, NULL);
        nck_wino_cut cut = nck_conv_wino_cut(&c.shape, nck_channel_block(), 16);
        CHECK(cut.by_points && cut.n_strips > 1 && cut.tiles % cut.strip != 0);
        float *alone = c.y;
        c.y = nc_alloc((size_t)c.ny * sizeof(float));
        CHECK(made && c.y && run_case(&c, NCK_CONV_WINO, pool));
        CHECK(made && c.y && memcmp(alone, c.y, (size_t)c.ny * sizeof(float)) == 0);
        nc_free(alone), nc_pool_destroy(pool);
        free_case(&c);
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* Few tiles for many weights, many threads: each point's weights pass by once. */
TEST(wino_goes_by_points_where_chunks_would_read_all_weights) {
    static const int64_t layers[][3] = {{64, 56, false}, {128, 28, true}, {256, 14, true}};
    for (int i = 0; i < 3; i++) {
        conv_2d s = layer(1, layers[i][0], layers[i][1]);
        nck_conv_shape shape = conv_2d_shape(NC_FLOAT, &s);
        CHECK_INT(nck_conv_wino_cut(&shape, 16, 16).by_points, layers[i][2]);
        CHECK(!nck_conv_wino_cut(&shape, 16, 1).by_points && !nck_conv_wino_cut(&shape, 16, 2).by_points);
    }
}
