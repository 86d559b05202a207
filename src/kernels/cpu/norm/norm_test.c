/* kernels/cpu/norm/norm_test.c: normalized rows against the reference over odd sizes and every way to pick a scale, NaN
 * and infinities; the same bits for any threads. */
#include "kernels/cpu/norm/norm.h"

#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { MAX = 6 * 1200 };

static float x[MAX], scale[1200], bias[1200], got[MAX], want[MAX], again[MAX];

static void fill(float *p, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) - 8388608.0f) / 4194304.0f;
    }
}

static void check_rows(int64_t rows, int64_t cols, bool center, nck_norm_pick pick, bool plain, nc_pool *pool) {
    nck_norm_args a = {.type = NC_FLOAT,
                       .rows = rows,
                       .cols = cols,
                       .center = center,
                       .epsilon = 1e-5,
                       .x = x,
                       .scale = plain ? NULL : scale,
                       .bias = plain ? NULL : bias,
                       .pick = pick,
                       .y = got};
    nck_norm_rows(&a, NULL);
    a.y = again;
    nck_norm_rows(&a, pool);
    a.y = want;
    nck_norm_rows_ref(&a);
    CHECK(memcmp(got, again, (size_t)(rows * cols) * sizeof *got) == 0);
    for (int64_t i = 0; i < rows * cols; i++) CHECK_CLOSE(got[i], want[i], nc_tol_kernel_f32);
}

TEST(norm_rows_against_reference) {
    static const int64_t cols[] = {1, 2, 7, 16, 513, 1200};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    fill(x, MAX, 1);
    fill(scale, 1200, 2);
    fill(bias, 1200, 3);
    for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++)
        for (int center = 0; center < 2; center++) {
            check_rows(6, cols[i], center, (nck_norm_pick){1, 0, 1, 1}, false, pool);
            check_rows(6, cols[i], center, (nck_norm_pick){3, 1, 1, 0}, false, pool);
            check_rows(6, cols[i], center, (nck_norm_pick){2, 3, (cols[i] + 2) / 3, 1}, false, pool);
            check_rows(6, cols[i], center, (nck_norm_pick){1, 0, 1, 0}, true, pool);
        }
    nc_pool_destroy(pool);
}

TEST(norm_rows_with_nan_and_infinity) {
    const float odd[6] = {NAN, 1, 2, INFINITY, 1, 2};
    float y[6], mean[2];
    nck_norm_args a = {.type = NC_FLOAT,
                       .rows = 2,
                       .cols = 3,
                       .center = true,
                       .epsilon = 1e-5,
                       .x = odd,
                       .pick = {1, 0, 1, 0},
                       .y = y,
                       .mean = mean};
    nck_norm_rows(&a, NULL);
    for (int i = 0; i < 6; i++) CHECK(isnan(y[i]));
    CHECK(isnan(mean[0]) && isinf(mean[1]));
}

TEST(norm_channel_stats) {
    const float v[8] = {1, 2, 10, 20, 3, 4, 30, 40};
    float mean[2], var[2];
    nck_channel_stats(NC_FLOAT, 2, 2, 2, v, mean, var, NULL);
    CHECK_CLOSE(mean[0], 2.5, nc_tol_kernel_f32);
    CHECK_CLOSE(mean[1], 25, nc_tol_kernel_f32);
    CHECK_CLOSE(var[0], 1.25, nc_tol_kernel_f32);
    CHECK_CLOSE(var[1], 125, nc_tol_kernel_f32);
}
