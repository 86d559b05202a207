/* kernels/cpu/norm/norm_columns_test.c: channels of one element an image against the same numbers as channels of one
 * image; the same bits for any threads. */
#include "kernels/cpu/norm/norm.h"

#include "tests/check.h"

#include <string.h>

enum { MOST_N = 300, MOST_C = 200, MAX = MOST_N * MOST_C };
enum { PARAMETERS = 4 };

static float x[MAX], dy[MAX], turned_x[MAX], turned_dy[MAX], given[PARAMETERS][MOST_C];
static float y[3][MAX], sums[3][2][MOST_C];

static void fill(float *p, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) - 8388608.0f) / 4194304.0f;
    }
}

static void turn(const float *from, int64_t rows, int64_t cols, float *to) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) to[c * rows + r] = from[r * cols + c];
}

/* way 0: as columns; 1: with threads; 2: as one image, turned. */
static nc_pool *pool_of(int way, nc_pool *pool) { return way == 1 ? pool : NULL; }

static void check_ways(int64_t N, int64_t C) {
    CHECK(memcmp(y[0], y[1], (size_t)(N * C) * sizeof **y) == 0 && memcmp(sums[0], sums[1], sizeof sums[0]) == 0);
    for (int64_t i = 0; i < N * C; i++)
        CHECK_CLOSE(y[0][i], y[2][i % C * N + i / C], nc_tol_of_sum(nc_tol_kernel_f32, (double)N));
    for (int64_t c = 0; c < 2 * C; c++)
        CHECK_CLOSE(sums[0][c / C][c % C], sums[2][c / C][c % C], nc_tol_of_sum(nc_tol_kernel_f32, (double)N));
}

static void check_result(int64_t N, int64_t C, nc_pool *pool) {
    for (int way = 0; way < 3; way++) {
        nck_norm_channels a = {NC_FLOAT, N, C, 1, 1e-5, x, given[0], given[1], sums[way][0], sums[way][1], y[way]};
        if (way == 2) a.N = 1, a.size = N, a.x = turned_x;
        nck_channel_stats(a.type, a.N, C, a.size, a.x, sums[way][0], sums[way][1], pool_of(way, pool));
        nck_norm_by_channel(&a, pool_of(way, pool));
    }
    check_ways(N, C);
}

/* The statistics found, given, and not following x. */
static void check_gradients(int64_t N, int64_t C, int kind, nc_pool *pool) {
    for (int way = 0; way < 3; way++) {
        nck_norm_channels_back a = {
            .type = NC_FLOAT, .N = N, .C = C, .size = 1, .epsilon = 1e-5, .dy = dy, .x = x, .scale = given[0]};
        if (way == 2) a.N = 1, a.size = N, a.x = turned_x, a.dy = turned_dy;
        if (kind > 0) a.mean = given[2], a.inv_std = given[3];
        a.constant = kind == 2;
        a.dx = y[way], a.dscale = sums[way][0], a.dbias = sums[way][1];
        nck_norm_channels_grad(&a, pool_of(way, pool));
    }
    check_ways(N, C);
}

TEST(norm_columns_as_channels_of_one_image) {
    static const int64_t of_n[] = {9, 17, 300}, of_c[] = {1, 3, 64, 65, 200};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    fill(x, MAX, 1), fill(dy, MAX, 2);
    for (int i = 0; i < PARAMETERS; i++) fill(given[i], MOST_C, (uint32_t)(3 + i));
    for (int i = 0; i < 15; i++) {
        int64_t N = of_n[i % 3], C = of_c[i / 3];
        turn(x, N, C, turned_x), turn(dy, N, C, turned_dy);
        memset(sums, 0, sizeof sums);
        check_result(N, C, pool);
        for (int kind = 0; kind < 3; kind++) check_gradients(N, C, kind, pool);
    }
    nc_pool_destroy(pool);
}

TEST(norm_columns_of_nothing) {
    nck_norm_channels_back a = {.type = NC_FLOAT, .C = 3, .size = 1, .dscale = sums[0][0], .dbias = sums[0][1]};
    a.scale = given[0];
    memset(sums, 1, sizeof sums);
    nck_norm_channels_grad(&a, NULL);
    for (int c = 0; c < 6; c++) CHECK(sums[0][c / 3][c % 3] == 0);
    nck_norm_by_channel(&(nck_norm_channels){.type = NC_FLOAT, .N = 2, .size = 1}, NULL);
}
