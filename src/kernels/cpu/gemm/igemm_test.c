/* kernels/cpu/gemm/igemm_test.c: the 8-bit product against the obvious loops, on every ISA that this processor has: odd
 * and empty sizes, strides, all pairs of types, extremes, zero points per row and column, what becomes of the sums,
 * packed B, A by rows, unaligned memory, threads. */
#include "kernels/cpu/gemm/igemm.h"
#include "kernels/cpu/isa_testing.h"

#include "base/mem.h"
#include "tests/check.h"

#include <math.h>

/* Every fifth element is at one of the ends, so that neighbours leave 16 bits in some blocks and not in others. */
static void fill(uint8_t *p, int64_t n, uint32_t seed, bool extremes) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t v = seed >> 21;
        p[i] = extremes && v % 5 == 0 ? (uint8_t[]){0, 255, 128, 127}[v / 5 % 4] : (uint8_t)v;
    }
}

static const struct {
    int64_t M, N, K;
    bool turn_a, turn_b, small; /* small: |b| at most 60, so that all blocks are exact in 16 bits */
    int za, zb;                 /* 0 none, 1 one, 2 one per row or column */
} products[] = {
    {1, 1, 1, 0, 0, 0, 1, 1},     {1, 37, 300, 0, 0, 0, 0, 2},  {5, 17, 7, 1, 0, 0, 2, 0},
    {4, 16, 512, 0, 1, 0, 2, 2},  {9, 33, 1025, 1, 1, 1, 1, 2}, {67, 129, 40, 0, 0, 0, 2, 1},
    {515, 18, 33, 0, 0, 1, 2, 2}, {3, 260, 21, 0, 0, 0, 1, 2},  {0, 5, 5, 0, 0, 0, 0, 0},
    {5, 0, 5, 0, 0, 0, 1, 1},     {5, 7, 0, 0, 0, 0, 1, 1},     {25, 64, 130, 0, 0, 1, 1, 0},
    {24, 31, 64, 0, 0, 0, 0, 0},  {13, 70, 259, 1, 0, 0, 2, 2}, {2100, 5, 1030, 0, 0, 0, 1, 1},
    {2, 48, 2100, 0, 0, 1, 0, 0}, {7, 48, 2100, 0, 0, 0, 1, 0}, {1, 300, 41, 1, 0, 0, 1, 0},
    {1, 700, 129, 0, 0, 0, 1, 0}, {1, 300, 40, 0, 0, 0, 1, 2},  {1, 555, 132, 0, 1, 1, 1, 0},
    {3, 100, 44, 0, 0, 0, 2, 0},  {1, 555, 66, 0, 0, 0, 0, 1},  {5, 70, 36, 0, 0, 0, 1, 2},
    {1, 350, 66, 0, 0, 0, 0, 0},  {210, 5, 103, 0, 0, 0, 1, 1},
};
enum { N_PRODUCTS = sizeof products / sizeof *products };

typedef struct operands {
    uint8_t *a, *b, *za, *zb;
    float *scales, *bias;
    int32_t *sum_bias;
    void *got, *want, *packed, *workspace;
} operands;

static void some_rows(const void *ctx, int64_t i, int64_t n, int64_t step, uint8_t *to) {
    const nck_igemm_args *g = ctx;
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < g->K; k++) to[r * step + k] = ((const uint8_t *)g->a)[(i + r) * g->a_rs + k * g->a_cs];
}

/* What C holds before: bytes that no product leaves, or numbers that something is added to. */
static void before(const nck_igemm_args *g, size_t bytes, void *c) {
    memset(c, 0x55, bytes + 4);
    for (size_t k = 0; k < bytes / 4 && g->out.adds; k++) ((float *)c)[k] = (float)(k % 7) - 3;
}

static void check_run(const nck_igemm_args *g, const operands *o, int threads, const char *what) {
    size_t bytes = (size_t)(g->M * g->N) * (g->out.type == NC_INT32 || g->out.type == NC_FLOAT ? 4 : 1);
    nc_pool *pool = nc_pool_create(threads);
    nck_igemm_args run = *g;
    run.out.c = o->got;
    before(g, bytes, o->got);
    nck_igemm(&run, o->workspace, pool);
    if (memcmp(o->got, o->want, bytes) != 0)
        nc_test_failed(__FILE__, __LINE__, "%s: %s, %d x %d x %d, result %s, %d threads", nck_isa_get()->from.igemm,
                       what, (int)g->M, (int)g->N, (int)g->K, nc_dtype_name(g->out.type), threads);
    CHECK(((uint8_t *)o->got)[bytes] == 0x55);
    nc_pool_destroy(pool);
}

static void check_forms(nck_igemm_args *g, const operands *o) {
    static const nc_dtype types[] = {NC_INT32, NC_FLOAT, NC_UINT8, NC_INT8};
    for (int t = 0; t < 4; t++) {
        bool turned = t == 2; /* columns that lie apart, as channels of an image do */
        g->out.type = types[t], g->out.c = o->want;
        g->out.c_rs = turned ? 1 : g->N, g->out.c_cs = turned ? g->M : 1;
        g->out.bias = t == 1 && g->K % 2 ? o->bias : NULL;
        g->out.clamps = g->K % 3 != 0, g->out.low = -1.5f, g->out.high = 3;
        g->out.adds = t == 1 && g->K % 4 == 0;
        before(g, (size_t)(g->M * g->N) * (t < 2 ? 4 : 1), o->want);
        nck_igemm_ref(g);
        check_run(g, o, t == 1 ? 3 : 1, "B as it lies");
        nck_igemm_pack_b(g->b_type, g->K, g->N, g->b, g->b_rs, g->b_cs, o->packed, NULL);
        g->b_packed = o->packed;
        check_run(g, o, 4, "packed B");
        nck_igemm_args by_rows = *g;
        by_rows.rows = some_rows, by_rows.rows_ctx = g;
        check_run(&by_rows, o, 2, "A by rows");
        g->b_packed = NULL;
    }
}

static bool operands_make(int i, operands *o) {
    int64_t M = products[i].M, N = products[i].N, K = products[i].K;
    *o = (operands){nc_alloc((size_t)(M * K) + 2),
                    nc_alloc((size_t)(K * N) + 2),
                    nc_alloc((size_t)M + 1),
                    nc_alloc((size_t)N + 1),
                    nc_alloc((size_t)(M + N + 2) * 4),
                    nc_alloc((size_t)(N + 1) * 4),
                    nc_alloc((size_t)(N + 1) * 4),
                    nc_alloc((size_t)(M * N) * 4 + 4),
                    nc_alloc((size_t)(M * N) * 4 + 4),
                    nc_alloc_aligned(nck_igemm_packed_b_bytes(K, N) + 64, 64),
                    NULL};
    size_t bytes = nck_igemm_workspace(M, N, K, false, true);
    o->workspace = nc_alloc_aligned(bytes + 64, 64);
    if (!(o->a && o->b && o->za && o->zb && o->scales && o->bias && o->sum_bias && o->got && o->want && o->packed &&
          o->workspace))
        return false;
    fill(o->a, M * K + 2, 1, true), fill(o->b, K * N + 2, 2, !products[i].small);
    fill(o->za, M + 1, 3, true), fill(o->zb, N + 1, 4, true);
    for (int64_t k = 0; k < K * N + 2 && products[i].small; k++) o->b[k] = (uint8_t)((int8_t)o->b[k] / 3);
    for (int64_t k = 0; k < M + N + 2; k++) o->scales[k] = 0.001f * (float)(1 + k * 7 % 13);
    for (int64_t k = 0; k <= N; k++) o->bias[k] = (float)(k % 5) - 2, o->sum_bias[k] = (int32_t)(k * 997 % 4001 - 2000);
    return true;
}

static void operands_free(operands *o) {
    nc_free(o->a), nc_free(o->b), nc_free(o->za), nc_free(o->zb), nc_free(o->scales), nc_free(o->bias);
    nc_free(o->sum_bias), nc_free(o->got), nc_free(o->want), nc_free(o->packed), nc_free(o->workspace);
}

/* bias: times that of the sums. */
static void check_product(int i, nc_dtype a_type, nc_dtype b_type, float y_scale, int32_t bias) {
    int64_t M = products[i].M, N = products[i].N, K = products[i].K;
    bool ta = products[i].turn_a, tb = products[i].turn_b;
    operands o;
    REQUIRE(operands_make(i, &o));
    for (int64_t k = 0; k <= N; k++) o.sum_bias[k] *= bias;
    nck_igemm_args g = {.M = M,
                        .N = N,
                        .K = K,
                        .a_type = a_type,
                        .b_type = b_type,
                        .a = o.a + 1, /* odd addresses */
                        .a_rs = ta ? 1 : K,
                        .a_cs = ta ? M : 1,
                        .a_zero = products[i].za ? o.za : NULL,
                        .a_zeros = products[i].za == 2 && M > 0 ? M : 1,
                        .b = o.b + 1,
                        .b_rs = tb ? 1 : N,
                        .b_cs = tb ? K : 1,
                        .b_zero = products[i].zb ? o.zb : NULL,
                        .b_zeros = products[i].zb == 2 && N > 0 ? N : 1,
                        .out = {.sum_bias = i % 2 || bias > 1 ? o.sum_bias : NULL,
                                .a_scale = o.scales,
                                .a_scales = i % 3 == 0 && M > 0 ? M : 1,
                                .b_scale = o.scales + M,
                                .b_scales = i % 3 != 1 && N > 0 ? N : 1,
                                .y_scale = y_scale,
                                .y_zero = 3}};
    check_forms(&g, &o);
    operands_free(&o);
}

TEST(igemm_against_three_loops) {
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, igemm)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int i = 0; i < N_PRODUCTS; i++) {
            bool one = nc_test_emulated(); /* type of B, in turn */
            if (!one || i / 2 % 2) check_product(i, i % 2 ? NC_UINT8 : NC_INT8, NC_INT8, 0.07f, 1);
            if (!one || i / 2 % 2 == 0) check_product(i, i % 2 ? NC_INT8 : NC_UINT8, NC_UINT8, 0.07f, 1);
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* Sums whose codes are near the zero point, far from it, past every integer and no numbers; sums that are not small. */
TEST(igemm_codes_near_and_far) {
    static const float scales[] = {7e-2f, 1e-5f, 1e-7f, 1e-38f, 0, INFINITY, NAN};
    static const int rows[] = {11, N_PRODUCTS - 1, 16}; /* of few terms, of few columns, of many terms */
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, igemm)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int i = 0; i < 3; i++)
            for (int s = 0; s < 14; s++) check_product(rows[i], NC_UINT8, NC_INT8, scales[s % 7], s < 7 ? 1 : 4000);
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* Room that is booked for some sizes is enough for all smaller ones. */
TEST(igemm_workspace_grows) {
    for (int64_t s = 1; s < 5000; s = s * 3 / 2 + 1)
        for (int form = 0; form < 4; form++) {
            bool packed = form & 1, by_rows = form & 2;
            size_t at = nck_igemm_workspace(s, s, s, packed, by_rows);
            CHECK(nck_igemm_workspace(s + 1, s, s, packed, by_rows) >= at);
            CHECK(nck_igemm_workspace(s, s + 1, s, packed, by_rows) >= at);
            CHECK(nck_igemm_workspace(s, s, s + 1, packed, by_rows) >= at);
        }
}
