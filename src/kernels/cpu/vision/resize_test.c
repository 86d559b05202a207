/* kernels/cpu/vision/resize_test.c: images resized along two axes beside sums over both tables, element by element:
 * lines that grow by whole numbers and others, blocks of channels behind them, short lines, places outside, threads. */
#include "kernels/cpu/vision/resize.h"

#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { PLANES = 13, MOST = 1 << 17, TABLE = 1 << 12 };

typedef struct image {
    int64_t in, out, inner; /* in by in + 1 places become `scale` times as many */
    nck_resize_rule rule;
    double scale;
} image;

static float from[MOST + 1], to[2][MOST + 1], buffer[2 * MOST + 1];
static double tables[2][TABLE];

static double wanted(const nck_resize_axis *a, const float *x, int64_t inner, int64_t i, int64_t j) {
    double sum = 0;
    for (int k = 0; k < a[0].taps; k++)
        for (int l = 0; l < a[1].taps; l++)
            sum += a[0].weight[i * a[0].taps + k] * a[1].weight[j * a[1].taps + l] *
                   (double)x[(a[0].index[i * a[0].taps + k] * a[1].in + a[1].index[j * a[1].taps + l]) * inner];
    return sum;
}

static void resize_both(const image *m, const nck_resize_axis *a, float *y, nc_pool *pool) {
    nc_tensor s = {.dtype = NC_FLOAT, .rank = 4, .dims = {PLANES, a[0].in, a[1].in, m->inner}, .data = from + 1};
    nc_tensor t = {.dtype = NC_FLOAT, .rank = 4, .dims = {PLANES, a[0].out, a[1].out, m->inner}, .data = y};
    REQUIRE(nc_tensor_numel(&t) <= MOST && nck_resize_buffer(&s, &t) <= MOST);
    if (m->rule.mode == NCK_RESIZE_NEAREST)
        nck_resize_nearest(&s, a, 2, &t, pool);
    else
        nck_resize(&s, a, 2, &t, buffer + 1, pool);
}

static void check_image(const image *m, nc_pool *pool) {
    nck_resize_axis a[2] = {{.axis = 1, .in = m->in, .out = m->out, .scale = m->scale},
                            {.axis = 2, .in = m->in + 1, .scale = m->scale}};
    a[1].out = (int64_t)((double)a[1].in * m->scale);
    for (int k = 0; k < 2; k++) {
        REQUIRE(nck_resize_table_bytes(a[k].in, a[k].out) <= sizeof tables[k]);
        nck_resize_table(&m->rule, &a[k], tables[k]);
    }
    int64_t n = PLANES * a[0].out * a[1].out * m->inner;
    resize_both(m, a, to[0] + 1, NULL);
    resize_both(m, a, to[1] + 1, pool);
    CHECK(memcmp(to[0] + 1, to[1] + 1, (size_t)n * sizeof(float)) == 0);
    for (int64_t e = 0; e < n; e++) {
        int64_t b = e % m->inner, j = e / m->inner % a[1].out, i = e / m->inner / a[1].out % a[0].out;
        int64_t plane = e / m->inner / a[1].out / a[0].out;
        double want = wanted(a, from + 1 + plane * a[0].in * a[1].in * m->inner + b, m->inner, i, j);
        if (fabs((double)to[0][e + 1] - want) > 1e-5)
            nc_test_failed(__FILE__, __LINE__,
                           "mode %d in %d times %g inner %d: place %d of plane %d is %g, expected %g",
                           (int)m->rule.mode, (int)m->in, m->scale, (int)m->inner, (int)(e % (n / PLANES)), (int)plane,
                           (double)to[0][e + 1], want);
    }
}

TEST(resize_images_grow_and_shrink) {
    static const double scales[] = {2, 4, 8, 3, 1.5, 0.5};
    static const int64_t sizes[] = {1, 2, 5, 6, 7, 11};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (int i = 0; i < MOST; i++) from[i + 1] = (float)((int64_t)i * 7919 % 4093) / 4096;
    for (int mode = 0; mode < 3; mode++)
        for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
                for (int64_t inner = 1; inner <= 8; inner *= 8) {
                    image m = {.in = sizes[k], .inner = inner, .scale = scales[s]};
                    m.rule = (nck_resize_rule){.mode = (nck_resize_mode)mode, .cubic_a = -0.75};
                    m.rule.coords = s % 2 == 0 ? NCK_COORDS_HALF_PIXEL : NCK_COORDS_ASYMMETRIC;
                    m.out = (int64_t)((double)m.in * m.scale);
                    if (m.out > 0 && m.out * m.out * inner <= MOST / PLANES / 2) check_image(&m, pool);
                }
    nc_pool_destroy(pool);
}
