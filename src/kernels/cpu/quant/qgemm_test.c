/* kernels/cpu/quant/qgemm_test.c: the integer product and convolution against the obvious loops: odd and empty sizes,
 * strides, all four pairs of types, zero points per row and column, threads. */
#include "kernels/cpu/quant/qconv.h"
#include "kernels/cpu/quant/qgemm.h"

#include "base/mem.h"
#include "tests/check.h"

static uint8_t *bytes_of(int64_t n, uint32_t seed) {
    uint8_t *p = nc_alloc((size_t)n + 1);
    for (int64_t i = 0; i < n && p; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (uint8_t)(seed >> 21);
    }
    return p;
}

static const struct {
    int64_t M, N, K;
    bool turn_a, turn_b;
    int za, zb; /* 0 none, 1 one, 2 one per row or column */
} products[] = {
    {1, 1, 1, 0, 0, 1, 1},     {1, 37, 300, 0, 0, 0, 2},  {5, 17, 7, 1, 0, 2, 0},    {4, 16, 512, 0, 1, 2, 2},
    {9, 33, 1025, 1, 1, 1, 2}, {67, 129, 40, 0, 0, 2, 1}, {515, 18, 33, 0, 0, 2, 2}, {3, 2060, 21, 0, 0, 1, 2},
    {0, 5, 5, 0, 0, 0, 0},     {5, 0, 5, 0, 0, 1, 1},     {5, 7, 0, 0, 0, 1, 1},
};

static void check_product(int i, nc_dtype a_type, nc_dtype b_type) {
    int64_t M = products[i].M, N = products[i].N, K = products[i].K;
    uint8_t *a = bytes_of(M * K, 1), *b = bytes_of(K * N, 2), *za = bytes_of(M, 3), *zb = bytes_of(N, 4);
    size_t bytes = (size_t)(M * N) * sizeof(int32_t);
    int32_t *got = nc_alloc(bytes + 4), *want = nc_alloc(bytes + 4);
    void *ws = nc_alloc_aligned(nck_qgemm_workspace(M, N, K) + 64, 64);
    REQUIRE(a && b && za && zb && got && want && ws);
    bool ta = products[i].turn_a, tb = products[i].turn_b;
    nck_qgemm_args g = {.M = M,
                        .N = N,
                        .K = K,
                        .a_type = a_type,
                        .b_type = b_type,
                        .a = a,
                        .a_rs = ta ? 1 : K,
                        .a_cs = ta ? M : 1,
                        .a_zero = products[i].za ? za : NULL,
                        .a_zeros = products[i].za == 2 && M > 0 ? M : 1,
                        .b = b,
                        .b_rs = tb ? 1 : N,
                        .b_cs = tb ? K : 1,
                        .b_zero = products[i].zb ? zb : NULL,
                        .b_zeros = products[i].zb == 2 && N > 0 ? N : 1,
                        .c = want,
                        .c_rs = N};
    nck_qgemm_ref(&g);
    g.c = got;
    for (int threads = 1; threads <= 4; threads += 3) {
        nc_pool *pool = nc_pool_create(threads);
        memset(got, 0x55, bytes);
        nck_qgemm(&g, ws, pool);
        if (memcmp(got, want, bytes) != 0) nc_test_failed(__FILE__, __LINE__, "product %d, %d threads", i, threads);
        nc_pool_destroy(pool);
    }
    nc_free(a), nc_free(b), nc_free(za), nc_free(zb), nc_free(got), nc_free(want), nc_free(ws);
}

TEST(qgemm_against_three_loops) {
    for (int i = 0; i < (int)(sizeof products / sizeof *products); i++) {
        check_product(i, NC_UINT8, NC_INT8);
        check_product(i, NC_INT8, NC_UINT8);
        check_product(i, NC_UINT8, NC_UINT8);
        check_product(i, NC_INT8, NC_INT8);
    }
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
};

TEST(qconv_against_loops) {
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        nck_qconv_args c = convs[i];
        int64_t nx = c.N * c.C, nw = c.K * c.C / c.group, ny = c.N * c.K;
        for (int d = 0; d < c.n_spatial; d++) nx *= c.in[d], nw *= c.window[d], ny *= c.out[d];
        uint8_t *x = bytes_of(nx, 7), *w = bytes_of(nw, 8), *zero = bytes_of(c.K, 9);
        int32_t *got = nc_alloc((size_t)ny * 4), *want = nc_alloc((size_t)ny * 4);
        void *ws = nc_alloc_aligned(nck_qconv_workspace(&c) + 64, 64);
        nc_pool *pool = nc_pool_create(3);
        REQUIRE(x && w && zero && got && want && ws && pool);
        c.x = x, c.w = w, c.w_zero = zero, c.x_zero = zero + 1;
        c.x_type = i % 2 ? NC_INT8 : NC_UINT8, c.w_type = i < 2 ? NC_INT8 : NC_UINT8;
        c.y = want;
        nck_qconv_ref(&c);
        c.y = got;
        nck_qconv(&c, ws, pool);
        CHECK(memcmp(got, want, (size_t)ny * 4) == 0);
        nc_pool_destroy(pool);
        nc_free(x), nc_free(w), nc_free(zero), nc_free(got), nc_free(want), nc_free(ws);
    }
}
