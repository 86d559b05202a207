/* kernels/cpu/gemm/gemm_batch_test.c: batches against one product after another, to the bit: broadcast operands, tiny
 * and larger products, integers, with room for groups and without, on threads and alone. */
#include "kernels/cpu/gemm/gemm_batch.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "base/real.h"
#include "tests/check.h"

#include <string.h>

enum { D0 = 8, D1 = 3, N_BATCHES = D0 * D1 };

typedef struct batch_case {
    nc_dtype type;
    int64_t M, N, K;
} batch_case;

static const batch_case cases[] = {{NC_FLOAT, 5, 2, 7},  {NC_FLOAT, 2, 3, 4},     {NC_FLOAT, 1, 1, 1},
                                   {NC_DOUBLE, 3, 2, 5}, {NC_DOUBLE, 9, 17, 300}, {NC_FLOAT, 4, 5, 0},
                                   {NC_INT32, 3, 4, 5},  {NC_INT64, 2, 2, 9},     {NC_FLOAT, 33, 90, 700}};

static void *numbers(nc_dtype type, int64_t n, uint32_t seed) {
    char *p = nc_alloc((size_t)(n + 1) * nc_dtype_bytes(type));
    for (int64_t i = 0; p && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (nc_dtype_is_float(type))
            nc_real_put(type, p, i, ((double)(seed >> 8) - 8388608.0) / 8388608.0);
        else
            memset(p + i * (int64_t)nc_dtype_bytes(type), (int)(seed >> 24), nc_dtype_bytes(type));
    }
    return p;
}

/* A (D0,1,M,K) and B (D1,K,N) to C (D0,D1,M,N). */
static nck_gemm_batch batch_of(const batch_case *k, const void *a, const void *b, void *c, nck_walk *walk) {
    int64_t dims[2] = {D0, D1};
    int64_t strides[3][NC_MAX_RANK] = {{k->M * k->K, 0}, {0, k->K * k->N}, {D1 * k->M * k->N, k->M * k->N}};
    nck_gemm_batch r = {.one = {.type = k->type,
                                .M = k->M,
                                .N = k->N,
                                .K = k->K,
                                .alpha = 1,
                                .a = a,
                                .a_rs = k->K,
                                .a_cs = 1,
                                .b = b,
                                .b_rs = k->N,
                                .b_cs = 1,
                                .c = c,
                                .c_rs = k->N,
                                .c_cs = 1},
                        .walk = walk};
    nck_walk_init(walk, 2, dims, 3, strides);
    return r;
}

static void one_by_one(const batch_case *k, const nck_gemm_batch *b, char *c, void *workspace) {
    int64_t es = (int64_t)nc_dtype_bytes(k->type);
    for (int64_t i = 0; i < N_BATCHES; i++) {
        nck_gemm_args g = b->one;
        g.a = (const char *)g.a + i / D1 * k->M * k->K * es;
        g.b = (const char *)g.b + i % D1 * k->K * k->N * es;
        g.c = c + i * k->M * k->N * es;
        nck_gemm_any(&g, workspace, NULL);
    }
}

TEST(gemm_batch_is_one_product_after_another) {
    nc_pool *pool = nc_pool_create(3);
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        const batch_case *k = &cases[t];
        size_t es = nc_dtype_bytes(k->type), out = (size_t)(N_BATCHES * k->M * k->N) * es;
        size_t most = nck_gemm_batch_workspace(k->type, N_BATCHES, k->M, k->N, k->K, false);
        size_t least = nck_gemm_batch_workspace(k->type, 1, k->M, k->N, k->K, false);
        void *a = numbers(k->type, D0 * k->M * k->K, 1), *b = numbers(k->type, D1 * k->K * k->N, 2);
        char *want = nc_alloc(out), *got = nc_alloc(out), *block = nc_alloc(most + 64);
        CHECK(a && b && want && got && block && pool && least <= most);
        nck_walk walk;
        nck_gemm_batch batch = batch_of(k, a, b, got, &walk);
        one_by_one(k, &batch, want, nc_align64_pointer(block));
        for (int way = 0; way < 4; way++) {
            memset(got, 0x5a, out);
            nck_gemm_batch_run(&batch, nc_align64_pointer(block), way & 1 ? most : least, way & 2 ? pool : NULL);
            CHECK(memcmp(got, want, out) == 0);
        }
        nc_free(a), nc_free(b), nc_free(want), nc_free(got), nc_free(block);
    }
    nc_pool_destroy(pool);
}

/* Integers by strips of columns, parts of strips among them, of operands that lie in any way, beside plain sums. */
TEST(gemm_of_integers) {
    enum { M = 2, MOST = 70, K = 5 };
    static const int64_t columns[] = {1, 31, 32, 33, 64, MOST};
    static const struct { double alpha, beta; } by[] = {{1, 0}, {3, 0}, {-1, 2}};
    uint32_t *a = numbers(NC_UINT32, M * K, 1), *b = numbers(NC_UINT32, K * MOST, 2);
    uint32_t *old = numbers(NC_UINT32, M * MOST, 3), c[M * MOST];
    REQUIRE(a && b && old);
    for (int i = 0; i < 6 * 3 * 2 * 2; i++) {
        int64_t N = columns[i % 6];
        double alpha = by[i / 6 % 3].alpha, beta = by[i / 6 % 3].beta;
        bool turned = i / 18 % 2, none = i / 36;
        nck_gemm_args g = {.type = NC_INT32,
                           .M = M,
                           .N = N,
                           .K = none ? 0 : K,
                           .alpha = alpha,
                           .beta = beta,
                           .a = a,
                           .a_rs = K,
                           .a_cs = 1,
                           .b = b,
                           .b_rs = turned ? 1 : N,
                           .b_cs = turned ? K : 1,
                           .c = c,
                           .c_rs = N,
                           .c_cs = 1};
        memcpy(c, old, sizeof c);
        nck_gemm_any(&g, NULL, NULL);
        for (int64_t at = 0; at < M * N; at++) {
            uint32_t sum = 0;
            for (int64_t k = 0; k < g.K; k++) sum += a[at / N * K + k] * b[k * g.b_rs + at % N * g.b_cs];
            CHECK_INT(c[at], (uint32_t)(int64_t)alpha * sum + (uint32_t)(int64_t)beta * old[at]);
        }
    }
    nc_free(a);
    nc_free(b);
    nc_free(old);
}
