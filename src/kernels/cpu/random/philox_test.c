/* kernels/cpu/random/philox_test.c: the published Random123 vectors, cuts and threads, dropout's values. */
#include "base/mem.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/philox_text.h"
#include "tests/check.h"

/* Random123 kat_vectors, lines "philox4x32 10". */
TEST(philox_known_answers) {
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t got[4];
        nck_philox_rounds(kat[i].counter, kat[i].key, got);
        CHECK(memcmp(got, kat[i].want, sizeof got) == 0);
        nck_philox4(kat[i].key[0] | (uint64_t)kat[i].key[1] << 32, kat[i].counter[2], kat[i].counter[3],
                    kat[i].counter[0] | (uint64_t)kat[i].counter[1] << 32, got);
        CHECK(memcmp(got, kat[i].want, sizeof got) == 0);
    }
}

TEST(philox_uniform_ends) {
    CHECK(nck_philox_uniform(0) == 0.0f);
    CHECK(nck_philox_uniform(0xffffffffu) < 1.0f);
}

TEST(philox_uniform_range_and_cuts) {
    enum { N = 20011 };
    float *whole = nc_alloc(N * sizeof *whole), *cut = nc_alloc(N * sizeof *cut);
    REQUIRE(whole && cut);
    nck_rng rng = {.seed = 42, .node_id = 7, .step = 3, .first = 5};
    nck_random_uniform(NC_FLOAT, N, rng, -2, 6, whole, NULL);
    for (int64_t at = 0, n = 1; at < N; at += n, n = n * 2 + 1) {
        nck_rng part = rng;
        part.first += at;
        nck_random_uniform(NC_FLOAT, n < N - at ? n : N - at, part, -2, 6, cut + at, NULL);
    }
    CHECK(memcmp(whole, cut, N * sizeof *whole) == 0);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        CHECK(whole[i] >= -2 && whole[i] < 6);
        sum += (double)whole[i];
    }
    CHECK_CLOSE(sum / N, 2, nc_tol_draws);
    nc_free(whole);
    nc_free(cut);
}

static void check_dropout(nc_dtype type, int64_t n, double ratio) {
    size_t es = nc_dtype_bytes(type), bytes = (size_t)n * es;
    char *x = nc_alloc(bytes + 8), *y = nc_alloc(bytes + 8), *y5 = nc_alloc(bytes + 8), *dx = nc_alloc(bytes + 8);
    uint8_t *mask = nc_alloc((size_t)n + 1), *mask5 = nc_alloc((size_t)n + 1), *want = nc_alloc((size_t)n + 1);
    nck_rng rng = {.seed = 0x123456789abcdefu, .node_id = 1, .step = 9, .first = 0};
    for (int64_t i = 0; i < n; i++) {
        double v = i % 11 == 3 ? (double)NAN : (double)i - 20;
        if (type == NC_FLOAT)
            ((float *)(void *)x)[i] = (float)v;
        else
            ((double *)(void *)x)[i] = v;
    }
    nck_dropout_mask_ref(n, rng, ratio, want);
    nck_dropout(type, n, rng, ratio, x, y, mask, NULL);
    CHECK(n == 0 || memcmp(mask, want, (size_t)n) == 0);
    for (int64_t i = 0; i < n; i++) {
        double v = type == NC_FLOAT ? (double)((float *)(void *)x)[i] : ((double *)(void *)x)[i];
        double got = type == NC_FLOAT ? (double)((float *)(void *)y)[i] : ((double *)(void *)y)[i];
        CHECK_CLOSE(got, want[i] ? v / (1 - ratio) : 0, nc_tol_kernel_f32);
    }
    nc_pool *pool = nc_pool_create(5);
    nck_dropout(type, n, rng, ratio, x, y5, mask5, pool);
    CHECK(memcmp(y, y5, bytes) == 0 && memcmp(mask, mask5, (size_t)n) == 0);
    nck_dropout_grad(type, n, ratio, x, mask, dx, pool);
    CHECK(memcmp(y, dx, bytes) == 0);
    nc_pool_destroy(pool);
    nc_free(x), nc_free(y), nc_free(y5), nc_free(dx), nc_free(mask), nc_free(mask5), nc_free(want);
}

TEST(philox_dropout) {
    static const int64_t sizes[] = {0, 1, 3, 4, 255, 257, 8191, 20003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_dropout(NC_FLOAT, sizes[i], 0.5);
        check_dropout(NC_DOUBLE, sizes[i], 0.1);
        check_dropout(NC_FLOAT, sizes[i], 0);
    }
}

TEST(philox_dropout_all) {
    float x[9] = {1, INFINITY, NAN, 4, 5, 6, 7, 8, 9}, y[9];
    nck_dropout(NC_FLOAT, 9, (nck_rng){.seed = 1}, 1.0, x, y, NULL, NULL);
    for (int i = 0; i < 9; i++) CHECK(y[i] == 0);
}
