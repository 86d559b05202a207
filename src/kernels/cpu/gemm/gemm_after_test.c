/* kernels/cpu/gemm/gemm_after_test.c: what is done to a product's result behind its sums, to the bit as it were done
 * afterwards: small, one-row, blocked and empty sums, packed or not, on any number of threads; and in batches. */
#include "kernels/cpu/gemm/gemm_batch.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"

#include <string.h>

/* y = (c + v) * s + r, with v for each column, s a number and r for each element. */
static const nck_tile_op ops[] = {{.lane = NCK_LANE_add, .dst = 4, .src = {0, 1}},
                                  {.lane = NCK_LANE_mul, .dst = 4, .src = {4, 2}},
                                  {.lane = NCK_LANE_add, .dst = 4, .src = {4, 3}}};
static const uint16_t out_reg[] = {4};
static const nck_tile_prog whole = {
    .compute = NC_FLOAT, .n_in = 4, .n_out = 1, .n_reg = 5, .n_op = 3, .op = ops, .out_reg = out_reg};
/* y = c * s + r: no operand begins anew with a row. */
static const nck_tile_op flat_ops[] = {{.lane = NCK_LANE_mul, .dst = 3, .src = {0, 1}},
                                       {.lane = NCK_LANE_add, .dst = 3, .src = {3, 2}}};
static const uint16_t flat_reg[] = {3};
static const nck_tile_prog flat = {
    .compute = NC_FLOAT, .n_in = 3, .n_out = 1, .n_reg = 4, .n_op = 2, .op = flat_ops, .out_reg = flat_reg};

static float *numbers(int64_t n, uint32_t seed) {
    float *p = nc_alloc((size_t)(n + 1) * sizeof *p);
    for (int64_t i = 0; p && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = ((float)(seed >> 8) - 8388608.0f) / 8388608.0f;
    }
    return p;
}

typedef struct fixture {
    float *a, *b, *v, *r, *want, *got;
    char *packed, *workspace;
    size_t bytes;
    int64_t n_batches;
    nck_gemm_args g;
    nck_gemm_after after, after_flat;
} fixture;

static const float factor = 0.75f;

static bool fixture_init(fixture *f, int64_t n_batches, int64_t M, int64_t N, int64_t K) {
    *f = (fixture){.n_batches = n_batches, .bytes = (size_t)(n_batches * M * N) * sizeof(float)};
    f->a = numbers(n_batches * M * K, 1), f->b = numbers(K * N, 2), f->v = numbers(N, 3);
    f->r = numbers(n_batches * M * N, 4), f->want = nc_alloc(f->bytes + 1), f->got = nc_alloc(f->bytes + 1);
    f->packed = nc_alloc(nck_gemm_packed_b_bytes(NC_FLOAT, K, N) + 64);
    f->workspace = nc_alloc(nck_gemm_batch_workspace(NC_FLOAT, n_batches, M, N, K, false) + 64);
    f->g = (nck_gemm_args){.type = NC_FLOAT,
                           .M = M,
                           .N = N,
                           .K = K,
                           .alpha = 1,
                           .a = f->a,
                           .a_rs = K,
                           .a_cs = 1,
                           .b = f->b,
                           .b_rs = N,
                           .b_cs = 1,
                           .c = f->got,
                           .c_rs = N,
                           .c_cs = 1};
    f->after = (nck_gemm_after){.prog = &whole, .in = {[1] = {f->v, 0, 1}, [2] = {&factor, 0, 0}, [3] = {f->r, N, 1}}};
    f->after_flat = (nck_gemm_after){.prog = &flat, .in = {[1] = {&factor, 0, 0}, [2] = {f->r, N, 1}}};
    return f->a && f->b && f->v && f->r && f->want && f->got && f->packed && f->workspace;
}

static void fixture_release(fixture *f) {
    nc_free(f->a), nc_free(f->b), nc_free(f->v), nc_free(f->r), nc_free(f->want), nc_free(f->got);
    nc_free(f->packed), nc_free(f->workspace);
}

static void run(fixture *f, const nck_gemm_after *after, float *c, bool packed, nc_pool *pool) {
    nck_gemm_batch b = {.one = f->g};
    int64_t dims[1] = {f->n_batches}, M = f->g.M, N = f->g.N, K = f->g.K;
    int64_t strides[3][NC_MAX_RANK] = {{M * K}, {0}, {M * N}};
    nck_walk walk;
    nck_walk_init(&walk, 1, dims, 3, strides);
    b.walk = &walk, b.one.c = c, b.one.after = after;
    if (packed) nck_gemm_pack_b(NC_FLOAT, K, N, f->b, N, 1, nc_align64_pointer(f->packed));
    if (packed) b.one.b_packed = nc_align64_pointer(f->packed);
    nck_gemm_batch_run(&b, nc_align64_pointer(f->workspace),
                       nck_gemm_batch_workspace(NC_FLOAT, f->n_batches, M, N, K, packed), pool);
}

static void check(int64_t n_batches, int64_t M, int64_t N, int64_t K, nc_pool *pool) {
    fixture f;
    REQUIRE(fixture_init(&f, n_batches, M, N, K));
    for (int kind = 0; kind < 2; kind++) {
        run(&f, NULL, f.want, false, NULL);
        for (int64_t i = 0; i < n_batches * M * N; i++)
            f.want[i] = (kind ? f.want[i] : f.want[i] + f.v[i % N]) * factor + f.r[i];
        for (int way = 0; way < 4; way++) {
            memset(f.got, 0x5a, f.bytes);
            run(&f, kind ? &f.after_flat : &f.after, f.got, way & 1, way & 2 ? pool : NULL);
            CHECK(memcmp(f.got, f.want, f.bytes) == 0);
        }
    }
    fixture_release(&f);
}

TEST(gemm_after_is_done_once_to_every_element) {
    static const int64_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},     {1, 333, 800}, {17, 31, 40},   {129, 63, 600},
                                       {9, 700, 12},  {300, 33, 70}, {5, 7, 0},     {0, 4, 4},      {4, 0, 4},
                                       {15, 1, 20},   {2, 16, 1600}, {70, 1100, 9}, {200, 96, 900}, {300, 1, 70},
                                       {700, 1, 900}, {90, 2, 200}};
    nc_pool *pool = nc_pool_create(3);
    for (size_t i = 0; pool && i < sizeof sizes / sizeof sizes[0]; i++)
        for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, gemm)) {
            CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
            check(1, sizes[i][0], sizes[i][1], sizes[i][2], pool);
        }
    CHECK(nck_isa_set_for_test(NULL));
    nc_pool_destroy(pool);
}

/* More terms than one block of K holds: what follows waits for the last. */
TEST(gemm_after_waits_for_the_last_block) {
    nc_pool *pool = nc_pool_create(3);
    check(1, 33, 65, 25000, pool);
    nc_pool_destroy(pool);
}

TEST(gemm_after_follows_every_batch) {
    nc_pool *pool = nc_pool_create(3);
    check(5, 3, 4, 2, pool);
    check(7, 40, 33, 64, pool);
    check(3, 150, 70, 300, pool);
    nc_pool_destroy(pool);
}
