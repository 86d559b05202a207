/* kernels/cpu/quant/nbits_test.c: products with weights of few bits against the reference, on every ISA: bits, blocks
 * that reach past K, zero points of every kind, groups by k, packed or not; equal bits for any number of threads. */
#include "kernels/cpu/quant/nbits.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/isa_testing.h"
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

static uint8_t panel_codes[8 * MOST], panel_zeros[8 * MOST];
static float panel_scales[MOST], panel_floats[MOST];

/* The same weights as panels. */
static nck_nbits packed_of(const nck_nbits *w) {
    nck_nbits p = *w;
    p.packed = true;
    CHECK(nck_nbits_codes_bytes(w) <= sizeof panel_codes && nck_nbits_zeros_bytes(w) <= sizeof panel_zeros);
    CHECK(nck_nbits_scales_bytes(w) <= sizeof panel_scales);
    nck_nbits_pack_codes(w, w->codes, panel_codes);
    nck_nbits_pack_scales(w, w->scales, panel_scales);
    p.codes = panel_codes, p.scales = panel_scales;
    if (w->zeros != NULL) nck_nbits_pack_zeros(w, w->zeros, panel_zeros), p.zeros = panel_zeros;
    if (w->float_zeros != NULL) nck_nbits_pack_scales(w, w->float_zeros, panel_floats), p.float_zeros = panel_floats;
    return p;
}

/* What a rounded A stands for. */
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

static void run(const nck_nbits *w, int64_t M, const float *add, nc_pool *pool) {
    void *room = nc_alloc(nck_nbits_workspace(w, M) + 64);
    REQUIRE(room != NULL);
    nck_nbits_matmul(w, M, a, add, y, nc_align64_pointer(room), pool);
    nc_free(room);
}

static void compare(const nck_nbits *w, int64_t M, const float *add, const char *what) {
    static float rounded[MOST];
    double grows = 1 + sqrt((double)w->K);
    nc_tolerance tol = {nc_tol_kernel_f32.rel * grows, nc_tol_kernel_f32.abs * grows};
    bool rounds = w->rounds && w->group_of_k == NULL;
    if (rounds) round_a(M, w->K, w->block, rounded);
    nck_nbits_matmul_ref(w, M, rounds ? rounded : a, add, want);
    run(w, M, add, NULL);
    for (int64_t i = 0; i < M * w->N; i++)
        if (!nc_close((double)y[i], (double)want[i], tol)) {
            nc_test_failed(__FILE__, __LINE__, "%s, %s, %d x %d x %d, %d bits, block %d, rounds %d: %g, expected %g",
                           nck_isa_get()->from.nbits, what, (int)M, (int)w->N, (int)w->K, w->bits, (int)w->block,
                           w->rounds, (double)y[i], (double)want[i]);
            return;
        }
    if (w->group_of_k != NULL) return;
    memcpy(want, y, sizeof want);
    nck_nbits p = packed_of(w);
    run(&p, M, add, NULL);
    if (memcmp(y, want, (size_t)(M * w->N) * sizeof *y) != 0)
        nc_test_failed(__FILE__, __LINE__, "%s, %s, %d bits: panels give other bits", nck_isa_get()->from.nbits, what,
                       w->bits);
}

static void check_zeros(nck_nbits *w, int64_t M) {
    w->codes = codes, w->scales = scales;
    compare(w, M, NULL, "the middle");
    w->zeros = packed;
    compare(w, M, bias, "zero points");
    w->zeros = NULL, w->float_zeros = zeros;
    compare(w, M, NULL, "zero points that are numbers");
    for (int64_t k = 0; k < w->K; k++) groups[k] = (int32_t)(k * 7 % nc_ceil_div(w->K, w->block));
    w->group_of_k = groups;
    compare(w, M, bias, "groups by k");
}

/* On every ISA: blocks of 16 to 256, a last block that reaches past K, few rows and more than a tile has, terms of
 * several tiles, A as it is and rounded. */
TEST(nbits_matmul) {
    static const int64_t sizes[][4] = {{1, 1, 16, 16},   {1, 33, 64, 16},   {3, 5, 50, 32},   {4, 70, 33, 16},
                                       {0, 3, 16, 16},   {1, 33, 64, 32},   {3, 37, 100, 64}, {2, 6, 1055, 32},
                                       {4, 7, 300, 128}, {2, 5, 513, 256},  {9, 65, 31, 32},  {6, 17, 130, 64},
                                       {6, 7, 1100, 32}, {5, 6, 1500, 256}, {260, 35, 33, 16}};
    fill();
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, nbits)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int bits = 2; bits <= 8; bits *= 2)
                for (int rounds = 0; rounds < 2; rounds++) {
                    nck_nbits w = {.N = sizes[i][1], .K = sizes[i][2], .block = sizes[i][3], .bits = bits};
                    w.rounds = rounds != 0;
                    check_zeros(&w, sizes[i][0]);
                }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(nbits_threads) {
    static float alone[MOST];
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    fill();
    for (int rounds = 0; rounds < 2; rounds++)
        for (int64_t M = 1; M < 7; M += 4) {
            nck_nbits w = {.N = 500, .K = 48, .block = 16, .bits = 4, .codes = codes, .scales = scales};
            w.rounds = rounds != 0;
            run(&w, M, bias, NULL);
            memcpy(alone, y, sizeof y);
            run(&w, M, bias, pool);
            CHECK(memcmp(alone, y, (size_t)(M * w.N) * sizeof *y) == 0);
        }
    nc_pool_destroy(pool);
}

/* Codes and x at their ends: no sum leaves its type. */
TEST(nbits_extremes) {
    memset(codes, 255, sizeof codes);
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, nbits)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int bits = 2; bits <= 8; bits *= 2)
            for (int sign = -1; sign < 2; sign += 2) {
                nck_nbits w = {.N = 20, .K = 512, .block = 128, .bits = bits, .codes = codes, .scales = scales};
                w.rounds = true;
                for (int i = 0; i < MOST; i++) a[i] = (float)sign, scales[i] = 1, zeros[i] = 0;
                w.float_zeros = zeros;
                run(&w, 1, NULL, NULL);
                for (int i = 0; i < 20; i++)
                    CHECK_CLOSE((double)y[i], (double)(sign * 512 * ((1 << bits) - 1)), nc_tol_kernel_f32);
            }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* Codes around the middle in blocks that are short, long and too long for sums in the low bits of a number. */
TEST(nbits_long_blocks) {
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, nbits)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int64_t block = 32; block <= 8192; block *= 4)
            for (int code = 0; code < 16; code += 15) {
                nck_nbits w = {.N = 1, .K = 8192, .block = block, .bits = 4, .codes = codes, .scales = scales};
                w.rounds = true;
                memset(codes, code * 17, sizeof codes);
                for (int i = 0; i < MOST; i++) a[i] = 127, scales[i] = 1;
                run(&w, 1, NULL, NULL);
                CHECK(y[0] == (float)((code - 8) * 127 * 8192));
            }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* A zero point of 0 times an infinity would be no number: such rows are multiplied as they are. */
TEST(nbits_infinities) {
    nck_nbits w = {.N = 3, .K = 64, .block = 32, .bits = 4, .codes = codes, .scales = scales, .float_zeros = zeros};
    fill();
    memset(zeros, 0, sizeof zeros);
    for (int i = 0; i < MOST; i++) codes[i] |= 0x11;
    for (int rounds = 0; rounds < 2; rounds++) {
        w.rounds = rounds != 0;
        a[40] = INFINITY;
        run(&w, 1, NULL, NULL);
        for (int i = 0; i < 3; i++) CHECK(isinf(y[i]));
        nck_nbits p = packed_of(&w);
        run(&p, 1, NULL, NULL);
        for (int i = 0; i < 3; i++) CHECK(isinf(y[i]));
        a[40] = NAN;
        run(&w, 1, NULL, NULL);
        for (int i = 0; i < 3; i++) CHECK(isnan(y[i]));
    }
}
