/* kernels/cpu/quant/nbits_test.c: products with weights of few bits against the reference: bits, blocks that reach past
 * K, zero points of every kind, groups by k; equal bits for any number of threads. */
#include "kernels/cpu/quant/nbits.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/isa.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { MOST = 1 << 14 };

static float a[MOST], scales[MOST], zeros[MOST], bias[MOST], y[MOST], want[MOST];
static uint8_t codes[MOST], packed[MOST];
static int32_t groups[MOST];

static void fill(void) {
    uint32_t seed = 5;
    for (int i = 0; i < MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        a[i] = bias[i] = (float)(seed >> 8) / 8388608.0f - 1;
        scales[i] = 0.01f + (float)(seed >> 12 & 255) / 10000.0f;
        zeros[i] = (float)(seed >> 9 & 7);
        codes[i] = (uint8_t)(seed >> 16), packed[i] = (uint8_t)(seed >> 20);
    }
}

static void compare(const nck_nbits *w, int64_t M, const float *add, nc_pool *pool) {
    void *room = nc_alloc(nck_nbits_workspace(M, w->N, w->K) + 64);
    REQUIRE(room != NULL);
    nck_nbits_matmul(w, M, a, add, y, nc_align64_pointer(room), pool);
    nck_nbits_matmul_ref(w, M, a, add, want);
    double grows = 1 + sqrt((double)w->K);
    nc_tolerance tol = {nc_tol_kernel_f32.rel * grows, nc_tol_kernel_f32.abs * grows};
    for (int64_t i = 0; i < M * w->N; i++)
        if (!nc_close((double)y[i], (double)want[i], tol)) {
            CHECK_CLOSE((double)y[i], (double)want[i], tol);
            break;
        }
    nc_free(room);
}

TEST(nbits_matmul) {
    static const int64_t sizes[][4] = {
        {1, 1, 16, 16}, {1, 33, 64, 16}, {3, 5, 50, 32}, {4, 70, 33, 16}, {0, 3, 16, 16}};
    fill();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 2; bits <= 8; bits *= 2) {
            nck_nbits w = {.N = sizes[i][1],
                           .K = sizes[i][2],
                           .block = sizes[i][3],
                           .bits = bits,
                           .codes = codes,
                           .scales = scales};
            compare(&w, sizes[i][0], NULL, NULL);
            w.zeros = packed;
            compare(&w, sizes[i][0], bias, NULL);
            w.zeros = NULL, w.float_zeros = zeros;
            compare(&w, sizes[i][0], NULL, NULL);
            for (int64_t k = 0; k < w.K; k++) groups[k] = (int32_t)(k * 7 % nc_ceil_div(w.K, w.block));
            w.group_of_k = groups;
            compare(&w, sizes[i][0], bias, NULL);
        }
}

TEST(nbits_threads) {
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    fill();
    nck_nbits w = {.N = 100, .K = 48, .block = 16, .bits = 4, .codes = codes, .scales = scales};
    compare(&w, 5, bias, NULL);
    memcpy(want, y, sizeof y);
    static float alone[MOST];
    memcpy(alone, y, sizeof y);
    compare(&w, 5, bias, pool);
    CHECK(memcmp(alone, y, 500 * sizeof *y) == 0);
    nc_pool_destroy(pool);
}

/* Codes as they lie in memory, on every ISA: blocks of 32 to 256, a last block that reaches past K, A as it is and
 * rounded. What a rounded A stands for is written out here. */
static void round_a(int64_t M, int64_t K, int64_t block, float *rounded) {
    for (int64_t i = 0; i < M; i++)
        for (int64_t b = 0; b < K; b += block) {
            float most = 0;
            int64_t end = nc_min64(K, b + block);
            for (int64_t k = b; k < end; k++) most = fmaxf(most, fabsf(a[i * K + k]));
            float inverse = most > 0 ? 127 / most : 0;
            for (int64_t k = b; k < end; k++) rounded[i * K + k] = rintf(a[i * K + k] * inverse) * (most / 127);
        }
}

static void check_stream(nck_nbits *w, int64_t M) {
    static float rounded[MOST];
    void *room = nc_alloc(nck_nbits_workspace(M, w->N, w->K) + 64);
    double grows = 1 + sqrt((double)w->K);
    nc_tolerance tol = {nc_tol_kernel_f32.rel * grows, nc_tol_kernel_f32.abs * grows};
    REQUIRE(room != NULL);
    for (w->rounds = false;; w->rounds = true) {
        CHECK(nck_nbits_stream(w, M, a, bias, y, nc_align64_pointer(room), NULL));
        round_a(M, w->K, w->block, rounded);
        nck_nbits_matmul_ref(w, M, w->rounds ? rounded : a, bias, want);
        for (int64_t i = 0; i < M * w->N; i++)
            if (!nc_close((double)y[i], (double)want[i], tol)) {
                nc_test_failed(__FILE__, __LINE__, "%s, block %d, rounds %d: %g, expected %g",
                               nck_isa_get()->from.nbits, (int)w->block, w->rounds, (double)y[i], (double)want[i]);
                break;
            }
        if (w->rounds) break;
    }
    nc_free(room);
}

TEST(nbits_streams_few_rows) {
    static const int64_t sizes[][4] = {{1, 1, 32, 32},   {1, 33, 64, 32},  {3, 37, 100, 64}, {2, 6, 1055, 32},
                                       {4, 7, 300, 128}, {2, 5, 513, 256}, {1, 65, 31, 32}};
    fill();
    for (int k = 0; nck_isa_at(k) != NULL; k++) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            nck_nbits w = {.N = sizes[i][1], .K = sizes[i][2], .block = sizes[i][3], .bits = 4};
            w.codes = codes, w.scales = scales;
            check_stream(&w, sizes[i][0]);
            w.zeros = packed;
            check_stream(&w, sizes[i][0]);
            w.zeros = NULL, w.float_zeros = zeros;
            check_stream(&w, sizes[i][0]);
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(nbits_streams_no_infinities) {
    nck_nbits w = {.N = 3, .K = 64, .block = 32, .bits = 4, .codes = codes, .scales = scales};
    void *room = nc_alloc(nck_nbits_workspace(1, w.N, w.K) + 64);
    REQUIRE(room != NULL);
    fill();
    a[40] = INFINITY;
    CHECK(!nck_nbits_stream(&w, 1, a, NULL, y, nc_align64_pointer(room), NULL));
    compare(&w, 1, NULL, NULL);
    a[40] = NAN;
    w.rounds = true;
    CHECK(!nck_nbits_stream(&w, 1, a, NULL, y, nc_align64_pointer(room), NULL));
    compare(&w, 1, NULL, NULL);
    nc_free(room);
}
