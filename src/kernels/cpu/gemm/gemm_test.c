/* kernels/cpu/gemm/gemm_test.c: the blocked product against three loops, over strides, odd and empty sizes, NaN and
 * infinity, unaligned operands; equal bits for threads, packing and every ISA, of bf16 every one with the same
 * instructions for it, or none. */
#include "base/mem.h"
#include "base/real.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"

typedef struct gemm_case {
    int64_t M, N, K;
    double alpha, beta;
    bool turn_a, turn_b, turn_c;
    char bias; /* 0 none, 'r' row, 'c' column, 'm' matrix, 's' scalar */
} gemm_case;

static const gemm_case cases[] = {
    {1, 1, 1, 1, 0, 0, 0, 0, 0},           {1, 37, 300, 1, 0, 0, 0, 0, 'r'},    {1, 333, 800, 1, 0, 0, 0, 0, 'r'},
    {1, 100, 64, 2, 1, 0, 1, 0, 0},        {3, 13, 7, 1, 0, 0, 0, 0, 'c'},      {8, 12, 256, 1, 0, 1, 0, 0, 0},
    {9, 13, 257, -1, 0.5, 0, 1, 0, 'm'},   {17, 31, 513, 1, 0, 1, 1, 0, 's'},   {65, 97, 40, 1, 1, 0, 0, 1, 'r'},
    {100, 200, 300, 0.5, 2, 0, 0, 0, 'r'}, {129, 63, 600, 1, 0, 0, 1, 1, 'c'},  {5, 1, 1000, 1, 0, 0, 0, 0, 0},
    {800, 5, 9, 1, 0, 1, 0, 0, 'r'},       {7, 3200, 30, 1, 0, 0, 1, 0, 'r'},   {70, 3100, 12, 1, 0, 0, 0, 0, 0},
    {0, 5, 5, 1, 0, 0, 0, 0, 0},           {5, 0, 5, 1, 0, 0, 0, 0, 0},         {5, 7, 0, 1, 0.5, 0, 0, 0, 'r'},
    {5, 7, 0, 1, 0, 0, 0, 0, 0},           {1, 269, 203, 1, 1, 0, 1, 0, 'r'},   {1, 50, 131, 0.5, 2, 0, 1, 1, 's'},
    {1, 40, 1601, 1, 0.5, 0, 0, 0, 'r'},   {1, 731, 800, 1, 0.5, 0, 0, 0, 'r'}, {90, 40, 129, 1, 1, 0, 0, 0, 'r'},
    {173, 17, 801, 1, 0, 0, 1, 0, 0},
};

typedef struct operands {
    size_t es, c_bytes;
    char *a, *b, *c0, *got, *want, *bias;
    nck_gemm_args args;
    uint64_t posts; /* how often the last product asked threads to help */
} operands;

static void put(nc_dtype type, void *p, int64_t i, double v) {
    if (type == NC_FLOAT)
        ((float *)p)[i] = (float)v;
    else if (type == NC_DOUBLE)
        ((double *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = type == NC_FLOAT16 ? nc_f32_to_f16((float)v) : nc_f32_to_bf16((float)v);
}
static double get(nc_dtype type, const void *p, int64_t i) { return nc_real_get_any(type, p, i); }
static nc_dtype sums_of(nc_dtype type) { return type == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT; }

static char *random_matrix(nc_dtype type, int64_t n, uint32_t seed) {
    char *p = nc_alloc((size_t)(n + 1) * nc_dtype_bytes(type));
    for (int64_t i = 0; i < n && p; i++) {
        seed = seed * 1664525u + 1013904223u;
        put(type, p, i, ((double)(seed >> 8) - 8388608.0) / 8388608.0);
    }
    return p;
}

static bool operands_init(operands *o, nc_dtype type, const gemm_case *c) {
    int64_t M = c->M, N = c->N, K = c->K;
    nc_dtype sums = sums_of(type);
    o->es = nc_dtype_bytes(sums);
    o->c_bytes = (size_t)(M * N) * o->es;
    o->a = random_matrix(type, M * K, 1);
    o->b = random_matrix(type, K * N, 2);
    o->c0 = random_matrix(sums, M * N, 3);
    o->bias = random_matrix(sums, M * N + M + N, 4);
    o->got = nc_alloc(o->c_bytes);
    o->want = nc_alloc(o->c_bytes);
    o->args = (nck_gemm_args){.type = type,
                              .M = M,
                              .N = N,
                              .K = K,
                              .alpha = c->alpha,
                              .beta = c->beta,
                              .a = o->a,
                              .a_rs = c->turn_a ? 1 : K,
                              .a_cs = c->turn_a ? M : 1,
                              .b = o->b,
                              .b_rs = c->turn_b ? 1 : N,
                              .b_cs = c->turn_b ? K : 1,
                              .c_rs = c->turn_c ? 1 : N,
                              .c_cs = c->turn_c ? M : 1,
                              .bias = c->bias ? o->bias : NULL,
                              .bias_rs = c->bias == 'm' ? N : c->bias == 'c',
                              .bias_cs = c->bias == 'm' || c->bias == 'r'};
    return o->a && o->b && o->c0 && o->bias && o->got && o->want;
}

static void operands_release(operands *o) {
    nc_free(o->a), nc_free(o->b), nc_free(o->c0), nc_free(o->bias), nc_free(o->got), nc_free(o->want);
}

static void multiply(operands *o, void *c, bool packed, int threads) {
    nck_gemm_args g = o->args;
    void *bp = NULL, *ws;
    nc_pool *pool = threads > 1 ? nc_pool_create(threads) : NULL;
    if (packed) {
        bp = nc_alloc_aligned(nck_gemm_packed_b_bytes(g.type, g.K, g.N), 64);
        REQUIRE(bp);
        nck_gemm_pack_b(g.type, g.K, g.N, g.b, g.b_rs, g.b_cs, bp);
        g.b = NULL;
        g.b_packed = bp;
    }
    ws = nc_alloc_aligned(nck_gemm_workspace(g.type, g.M, g.N, g.K, packed), 64);
    REQUIRE(ws);
    memcpy(c, o->c0, o->c_bytes);
    g.c = c;
    nck_gemm(&g, ws, pool);
    nc_free(ws), nc_free(bp);
    o->posts = pool ? nc_pool_posts(pool) : 0;
    if (pool) nc_pool_destroy(pool);
}

/* Instructions of bf16 have bits of their own. */
static bool has_other_bits(nc_dtype type, const nck_isa *a, const nck_isa *b) {
    return type == NC_BFLOAT16 && a->gemm->bf16 != b->gemm->bf16;
}

static const char *chosen; /* NULL: the best ISA */

static void check_case(nc_dtype type, const gemm_case *c) {
    operands o;
    REQUIRE(operands_init(&o, type, c));
    memcpy(o.want, o.c0, o.c_bytes);
    nck_gemm_args ref = o.args;
    ref.c = o.want;
    nck_gemm_ref(&ref);
    multiply(&o, o.got, false, 1);
    nc_dtype sums = sums_of(type);
    nc_tolerance tol = nc_tol_of_sum(sums == NC_FLOAT ? nc_tol_kernel_f32 : nc_tol_kernel_f64, (double)c->K);
    for (int64_t i = 0; i < c->M * c->N; i++) CHECK_CLOSE(get(sums, o.got, i), get(sums, o.want, i), tol);
    static const struct {
        bool packed;
        int threads;
    } ways[] = {{1, 1}, {0, 2}, {0, 5}, {1, 5}};
    for (int w = 0; w < 4; w++) {
        multiply(&o, o.want, ways[w].packed, ways[w].threads);
        CHECK(memcmp(o.got, o.want, o.c_bytes) == 0);
    }
    const nck_isa at = *nck_isa_get();
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, gemm)) {
        if (has_other_bits(type, nck_isa_at(i), &at)) continue;
        CHECK(nck_isa_set_for_test(nck_isa_at(i)->name));
        multiply(&o, o.want, i % 2, 1);
        CHECK(memcmp(o.got, o.want, o.c_bytes) == 0);
    }
    CHECK(nck_isa_set_for_test(chosen));
    operands_release(&o);
}

TEST(gemm_f32) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(NC_FLOAT, &cases[i]);
}
TEST(gemm_f64) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(NC_DOUBLE, &cases[i]);
}
TEST(gemm_f16) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(NC_FLOAT16, &cases[i]);
}
/* Calls check for the choice "portable", which widens bf16, and for each that has other instructions of it. */
static void for_each_bf16(void (*check)(nc_dtype)) {
    const nck_gemm_unit *last = NULL;
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, gemm)) {
        const nck_gemm_unit *now = nck_isa_at(i)->gemm->bf16;
        if (i > 0 && now == last) continue;
        CHECK(nck_isa_set_for_test(chosen = nck_isa_at(i)->name));
        check(NC_BFLOAT16);
        last = now;
    }
    CHECK(nck_isa_set_for_test(chosen = NULL));
}
static void check_cases(nc_dtype type) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(type, &cases[i]);
}
TEST(gemm_bf16) { for_each_bf16(check_cases); }

/* Terms that fill no group, panels of any number of rows, operands with every kind of strides. */
static void check_groups(nc_dtype type) {
    for (int64_t K = 1; K < 100; K += K < 4 ? 1 : 15)
        for (int64_t M = 1; M < 36; M += 1 + M / 4)
            check_case(type,
                       &(gemm_case){M, 3 + 7 * M % 70, K, 1, (double)(K % 2), M % 2, K % 3 == 0, 0, "\0rcm"[M % 4]});
}
TEST(gemm_bf16_groups) { for_each_bf16(check_groups); }

/* Neither terms nor lanes side by side: as packed from a copy that has them so. */
static void check_far_apart(nc_dtype type) {
    enum { APART = 3 };
    operands o;
    gemm_case c = {37, 45, 75, 1, 0, 0, 0, 0, 0};
    REQUIRE(operands_init(&o, type, &c));
    multiply(&o, o.want, false, 1);
    uint16_t *a = nc_alloc_zero((size_t)(c.M * c.K * APART), sizeof *a),
             *b = nc_alloc_zero((size_t)(c.K * c.N * APART), sizeof *b);
    REQUIRE(a && b);
    for (int64_t i = 0; i < c.M * c.K; i++) memcpy(a + i * APART, o.a + i * 2, 2);
    for (int64_t i = 0; i < c.K * c.N; i++) memcpy(b + i * APART, o.b + i * 2, 2);
    o.args.a = a, o.args.a_rs *= APART, o.args.a_cs *= APART;
    o.args.b = b, o.args.b_rs *= APART, o.args.b_cs *= APART;
    for (int packed = 0; packed < 2; packed++) {
        multiply(&o, o.got, packed, 1);
        CHECK(memcmp(o.got, o.want, o.c_bytes) == 0);
    }
    nc_free(a), nc_free(b);
    operands_release(&o);
}
TEST(gemm_bf16_far_apart) { for_each_bf16(check_far_apart); }

/* Sums that the micro-kernels put on C or on a bias themselves, last panels of one and two vectors, a C far away. */
TEST(gemm_put_on_something) {
    static const gemm_case put[] = {
        {64, 64, 128, 1, 0, 0, 0, 0, 'm'}, {64, 128, 64, 1, 1, 0, 1, 0, 0},    {24, 28, 1600, 1, 1, 0, 0, 0, 'm'},
        {72, 16, 900, 1, 0, 1, 0, 0, 'r'}, {30, 19, 800, 1, 1, 0, 0, 0, 'r'},  {128, 256, 100, 1, 1, 1, 0, 0, 0},
        {16, 20, 700, 1, 0, 0, 0, 0, 'm'}, {800, 700, 20, 1, 0, 0, 0, 0, 'm'}, {800, 700, 20, 1, 1, 1, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof put / sizeof *put; i++) check_case(NC_FLOAT, &put[i]), check_case(NC_DOUBLE, &put[i]);
}

/* More than the workspace holds at once: several blocks of rows, of columns and of K. Of their reference every fifth
 * row. */
static void check_blocks(nc_dtype type) {
    enum { EVERY = 5 };
    static const gemm_case large[] = {{145, 260, 9001, 1, 0, 0, 0, 0, 'r'}, {150, 20, 17000, 1, 1, 0, 1, 0, 0}};
    for (int i = type != NC_FLOAT && nc_test_emulated(); i < 2; i++) { /* the driver is one for all types */
        operands o;
        REQUIRE(operands_init(&o, type, &large[i]));
        memcpy(o.want, o.c0, o.c_bytes);
        nck_gemm_args ref = o.args;
        ref.c = o.want, ref.M /= EVERY, ref.a_rs *= EVERY, ref.c_rs *= EVERY;
        nck_gemm_ref(&ref);
        multiply(&o, o.got, false, 1);
        nc_tolerance tol = nc_tol_of_sum(nc_tol_kernel_f32, (double)large[i].K);
        for (int64_t k = 0; k < large[i].M * large[i].N; k++)
            if (k / large[i].N % EVERY == 0) CHECK_CLOSE(get(NC_FLOAT, o.got, k), get(NC_FLOAT, o.want, k), tol);
        multiply(&o, o.want, true, 3);
        CHECK(memcmp(o.got, o.want, o.c_bytes) == 0);
        operands_release(&o);
    }
}
TEST(gemm_blocks) {
    check_blocks(NC_FLOAT);
    check_blocks(NC_FLOAT16);
    for_each_bf16(check_blocks);
}

static void check_one_row(nc_dtype type) {
    operands all, one;
    gemm_case c = {50, 70, 300, 1, 0, 0, 0, 0, 0};
    REQUIRE(operands_init(&all, type, &c));
    multiply(&all, all.got, false, 1);
    c.M = 1;
    REQUIRE(operands_init(&one, type, &c));
    multiply(&one, one.got, false, 1);
    CHECK(memcmp(all.got, one.got, one.c_bytes) == 0);
    operands_release(&all);
    operands_release(&one);
}
TEST(gemm_row_bits_do_not_depend_on_the_other_rows) {
    check_one_row(NC_FLOAT);
    check_one_row(NC_FLOAT16);
    for_each_bf16(check_one_row);
}

/* The same product with A laid out with rows rs and terms cs elements apart, into o->want. */
static void multiply_laid(operands *o, int64_t rs, int64_t cs, bool packed) {
    nck_gemm_args *g = &o->args;
    const float *from = g->a;
    float *a = nc_alloc_zero((size_t)(g->M * rs + g->K * cs), sizeof *a);
    REQUIRE(a);
    for (int64_t i = 0; i < g->M; i++)
        for (int64_t k = 0; k < g->K; k++) a[i * rs + k * cs] = from[i * g->a_rs + k * g->a_cs];
    operands laid = *o;
    laid.args.a = a, laid.args.a_rs = rs, laid.args.a_cs = cs;
    multiply(&laid, o->want, packed, 1);
    nc_free(a);
}

/* Few columns: rows that lie side by side are read in place, in panels of any number of rows; turned ones, and those
 * that would crowd the cache, are packed. */
TEST(gemm_rows_read_in_place_have_the_bits_of_packed_ones) {
    for (int64_t M = 2; M < 30; M++) {
        gemm_case c = {M, M % 3 == 0 ? 64 : 70, 129, 1, (double)(M % 2), 0, 0, 0, 'r'};
        const int64_t ways[][2] = {{1, M}, {131, 1}, {512, 1}};
        operands o;
        REQUIRE(operands_init(&o, NC_FLOAT, &c));
        multiply(&o, o.got, M % 2, 1);
        for (int w = 0; w < 3; w++) {
            multiply_laid(&o, ways[w][0], ways[w][1], M % 2);
            CHECK(memcmp(o.got, o.want, o.c_bytes) == 0);
        }
        operands_release(&o);
    }
}

/* A corner of a product that is blocked, and the same corner as a product of its own that is too small for it. */
static void check_corner(nc_dtype type, gemm_case c, int64_t m, int64_t n) {
    operands all;
    REQUIRE(operands_init(&all, type, &c));
    multiply(&all, all.want, false, 1);
    operands corner = all;
    corner.args.M = m, corner.args.N = n;
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, gemm))
        for (int packed = 0; packed < 2; packed++) {
            CHECK(nck_isa_set_for_test(nck_isa_at(i)->name));
            multiply(&corner, corner.got, packed, 1);
            for (int64_t r = 0; r < c.M; r++)
                for (int64_t j = 0; j < c.N; j++) {
                    size_t at = (size_t)(r * all.args.c_rs + j * all.args.c_cs) * all.es;
                    const char *want = r < m && j < n ? all.want : all.c0; /* what is not of the corner stays */
                    CHECK(memcmp(all.got + at, want + at, all.es) == 0);
                }
        }
    CHECK(nck_isa_set_for_test(NULL));
    operands_release(&all);
}

TEST(gemm_small_has_the_bits_of_the_blocked_one) {
    static const int64_t corners[][2] = {{1, 1}, {4, 8}, {5, 7}, {1, 40}, {9, 1}, {3, 17}, {2, 16}};
    static const struct {
        int64_t K;
        double alpha, beta;
        bool turned;
        char bias;
    } ways[] = {{1, 1, 0, 0, 0},     {8, 1, 0, 0, 'r'}, {7, 1, 0, 1, 'c'},     {19, 0.5, 2, 0, 'm'},
                {33, -1, 1, 1, 's'}, {64, 1, 0, 0, 0},  {64, 3, 0.25, 1, 'r'}, {65, 1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (int turned_c = 0; turned_c < 2; turned_c++) {
                bool t = ways[w].turned;
                gemm_case c = {70, 90, ways[w].K, ways[w].alpha, ways[w].beta, t, t, turned_c, ways[w].bias};
                check_corner(NC_FLOAT, c, corners[i][0], corners[i][1]);
                check_corner(NC_DOUBLE, c, corners[i][0], corners[i][1]);
            }
}

/* Two and three rows go through several panels of packed columns at once. */
TEST(gemm_few_rows_have_the_bits_of_many) {
    static const int64_t terms[] = {70, 801, 1601}, columns[] = {40, 97, 128, 260, 333};
    for (int i = 0; i < 15; i++) {
        gemm_case c = {20, 333, terms[i % 3], i % 4 == 3 ? 0.5 : 1, i % 2, 0, i % 3 == 0, i % 7 == 0, "\0rcms"[i % 5]};
        check_corner(NC_FLOAT, c, 2, columns[i % 5]);
        check_corner(NC_FLOAT, c, 3, columns[i % 5]);
    }
}

/* A product of few columns is turned. */
TEST(gemm_few_columns_have_the_bits_of_many) {
    static const int64_t terms[] = {17, 130, 801, 1601}, columns[] = {1, 2, 3, 8};
    static const gemm_case few[] = {{400, 1, 600, 1, 0, 0, 0, 0, 'c'},
                                    {1100, 1, 1601, 1, 1, 1, 0, 0, 'r'},
                                    {333, 3, 900, 2, 0.5, 0, 1, 1, 'm'},
                                    {520, 8, 140, 1, 0, 0, 0, 0, 's'}};
    for (int i = 0; i < 16; i++) {
        gemm_case c = {210, 40, terms[i / 4], 1, i % 2, i % 3 == 0, i % 5 == 0, i % 7 == 0, "\0rcms"[i % 5]};
        check_corner(i % 2 ? NC_DOUBLE : NC_FLOAT, c, 203, columns[i % 4]);
        check_corner(i % 2 ? NC_FLOAT : NC_DOUBLE, c, 37, columns[i % 4]);
    }
    for (int i = 0; i < 4; i++) check_case(NC_FLOAT, &few[i]), check_case(NC_DOUBLE, &few[i]);
}

/* One bad number in A spoils its row alone, one in B its column alone; zero beta hides NaN in C. */
static void check_nan(nc_dtype type) {
    for (int64_t M = 4; M <= 11; M += 7) { /* a small product and a blocked one */
        operands o;
        gemm_case c = {M, 29, 19, 1, 0, 0, 0, 0, 0};
        REQUIRE(operands_init(&o, type, &c));
        put(type, o.a, 3 * 19 + 5, NAN);
        put(type, o.b, 7 * 29 + 28, INFINITY);
        for (int64_t i = 0; i < M * 29; i++) ((float *)(void *)o.c0)[i] = NAN;
        for (int packed = 0; packed < 2; packed++) {
            multiply(&o, o.got, packed, 1);
            for (int64_t i = 0; i < M; i++)
                for (int j = 0; j < 29; j++) {
                    float v = ((float *)(void *)o.got)[i * 29 + j];
                    CHECK(i == 3 ? isnan(v) : j == 28 ? isinf(v) : isfinite(v));
                }
        }
        operands_release(&o);
    }
}
TEST(gemm_nan_stays_in_its_row_and_column) {
    check_nan(NC_FLOAT);
    check_nan(NC_FLOAT16);
    for_each_bf16(check_nan);
}

static void check_unaligned(nc_dtype type) {
    for (int64_t M = 4; M <= 6; M += 2) { /* a small product and a blocked one */
        operands o;
        gemm_case c = {M, 25, 33, 1, 0, 0, 0, 0, 0};
        size_t es = nc_dtype_bytes(type);
        REQUIRE(operands_init(&o, type, &c));
        multiply(&o, o.want, false, 1);
        char *a = nc_alloc(6 * 33 * es + 1), *b = nc_alloc(33 * 25 * es + 1);
        REQUIRE(a && b);
        memcpy(a + 1, o.a, (size_t)M * 33 * es);
        memcpy(b + 1, o.b, 33 * 25 * es);
        o.args.a = a + 1;
        o.args.b = b + 1;
        for (int packed = 0; packed < 2; packed++) {
            multiply(&o, o.got, packed, 1);
            CHECK(memcmp(o.got, o.want, o.c_bytes) == 0);
        }
        nc_free(a), nc_free(b);
        operands_release(&o);
    }
}
TEST(gemm_unaligned) {
    check_unaligned(NC_FLOAT);
    check_unaligned(NC_FLOAT16);
    for_each_bf16(check_unaligned);
}

/* The weights of a hidden layer are read by several threads, those of a small one by the caller. */
TEST(gemm_shares_one_row) {
    static const int64_t sizes[][2] = {{512, 512}, {512, 256}, {64, 256}};
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, gemm)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (int i = 0; i < 3; i++) {
            operands o;
            gemm_case c = {1, sizes[i][1], sizes[i][0], 1, 0, 0, 0, 0, 0};
            REQUIRE(operands_init(&o, NC_FLOAT, &c));
            multiply(&o, o.got, true, 2);
            CHECK_INT(o.posts > 0, i < 2);
            operands_release(&o);
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(gemm_workspace_grows) {
    for (int64_t m = 0; m < 2000; m += 61)
        for (int64_t n = 0; n < 4000; n += 333)
            for (int64_t k = 0; k < 900; k += 111) {
                size_t w = nck_gemm_workspace(NC_FLOAT, m, n, k, false);
                CHECK(nck_gemm_workspace(NC_FLOAT, m + 1, n, k, false) >= w);
                CHECK(nck_gemm_workspace(NC_FLOAT, m, n + 1, k, false) >= w);
                CHECK(nck_gemm_workspace(NC_FLOAT, m, n, k + 1, false) >= w);
                CHECK(nck_gemm_workspace(NC_FLOAT, m, n, k, true) <= w);
            }
}
