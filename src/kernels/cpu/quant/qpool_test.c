/* kernels/cpu/quant/qpool_test.c: MaxPool of codes with channels last against the obvious loops: more channels than are
 * done together, and fewer; steps, dilations, windows that hang over the edge or see nothing, one to three dims. */
#include "kernels/cpu/quant/qpool.h"

#include "base/mem.h"
#include "tests/check.h"

static const nck_qpool_args pools[] = {
    {.N = 2,
     .C = 64,
     .w = {.in = {1, 9, 7}, .k = {1, 3, 3}, .out = {1, 5, 4}, .stride = {1, 2, 2}, .dil = {1, 1, 1}, .pad = {0, 1, 1}}},
    {.N = 1,
     .C = 131,
     .w = {.in = {1, 6, 8}, .k = {1, 2, 3}, .out = {1, 5, 4}, .stride = {1, 1, 1}, .dil = {1, 1, 2}, .pad = {0, 0, 0}}},
    {.N = 3,
     .C = 1,
     .w = {.in = {1, 1, 5}, .k = {1, 1, 2}, .out = {1, 1, 9}, .stride = {1, 1, 1}, .dil = {1, 1, 1}, .pad = {0, 0, 2}}},
    {.N = 1,
     .C = 70,
     .w = {.in = {4, 5, 3}, .k = {2, 2, 2}, .out = {2, 3, 2}, .stride = {2, 2, 2}, .dil = {1, 1, 1}, .pad = {0, 1, 1}}},
    {.N = 0,
     .C = 5,
     .w = {.in = {1, 2, 2}, .k = {1, 2, 2}, .out = {1, 1, 1}, .stride = {1, 1, 1}, .dil = {1, 1, 1}, .pad = {0, 0, 0}}},
};

static void check_pool(nck_qpool_args a, nc_dtype type, nc_pool *pool) {
    size_t nx = (size_t)(a.N * nck_window_n_in(&a.w) * a.C), ny = (size_t)(a.N * nck_window_n_out(&a.w) * a.C);
    uint8_t *x = nc_alloc(nx + 1), *got = nc_alloc(ny + 1), *want = nc_alloc(ny + 1);
    REQUIRE(x && got && want);
    for (size_t i = 0; i < nx; i++) x[i] = (uint8_t)(i * 2654435761u >> 13);
    memset(got, 0x55, ny + 1);
    a.type = type, a.x = x, a.y = want;
    nck_qpool_max_ref(&a);
    a.y = got;
    nck_qpool_max(&a, pool);
    CHECK(memcmp(got, want, ny) == 0);
    CHECK(got[ny] == 0x55);
    nc_free(x), nc_free(got), nc_free(want);
}

TEST(qpool_against_loops) {
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        check_pool(pools[i], NC_UINT8, pool), check_pool(pools[i], NC_INT8, NULL);
    }
    nc_pool_destroy(pool);
}
