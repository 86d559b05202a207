/* kernels/cpu/attn/attn_test.c: attention against the reference over sizes, heads, masks, windows, lengths and stages;
 * equal bits for any number of threads. */
#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/attn/attn.h"
#include "tests/check.h"

enum { MOST = 1 << 15, N_ARRAYS = 8 };

typedef struct fixture {
    nck_attn_args a;
    void *p[N_ARRAYS]; /* q k v mask, y, y of the reference, qk, qk of the reference */
    void *workspace;
    double *row;
    bool joins; /* heads that share keys */
    bool seen[MOST];
} fixture;

static fixture fix;

static double get(nc_dtype t, const void *p, int64_t i) {
    return t == NC_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static nck_attn_operand operand(void *p, int64_t H, int64_t rows, int64_t columns) {
    return (nck_attn_operand){p, H * rows * columns, rows * columns, columns, 1};
}

/* s: B Hq Hkv S T D Dv */
static bool start(nc_dtype type, const int64_t *s) {
    uint32_t seed = 3;
    fix = (fixture){0};
    for (int k = 0; k < N_ARRAYS; k++) {
        if ((fix.p[k] = nc_alloc(MOST * 8)) == NULL) return false;
        for (int64_t i = 0; i < MOST; i++) {
            seed = seed * 1664525u + 1013904223u;
            double v = ((double)(seed >> 8) - 8388608.0) / 4194304.0;
            if (type == NC_FLOAT)
                ((float *)fix.p[k])[i] = (float)v;
            else
                ((double *)fix.p[k])[i] = v;
            fix.seen[i] = v > -1;
        }
    }
    fix.a = (nck_attn_args){.type = type,
                            .B = s[0],
                            .Hq = s[1],
                            .Hkv = s[2],
                            .S = s[3],
                            .T = s[4],
                            .D = s[5],
                            .Dv = s[6],
                            .q = operand(fix.p[0], s[1], s[3], s[5]),
                            .k = operand(fix.p[1], s[2], s[4], s[5]),
                            .v = operand(fix.p[2], s[2], s[4], s[6]),
                            .y = operand(fix.p[4], s[1], s[3], s[6]),
                            .scale = 0.37,
                            .left = -1,
                            .right = -1};
    size_t apart = nck_attn_workspace(type, s[0], s[1], s[3], s[4], s[5], s[6]),
           joined = nck_attn_workspace(type, s[0], s[2], s[1] / s[2], s[4], s[5], s[6]);
    fix.workspace = nc_alloc(nc_max_size(apart, joined) + 64);
    fix.row = nc_alloc((size_t)s[4] * 8 + 8);
    return fix.workspace != NULL && fix.row != NULL;
}

static void stop(void) {
    for (int k = 0; k < N_ARRAYS; k++) nc_free(fix.p[k]);
    nc_free(fix.workspace);
    nc_free(fix.row);
}

static void run(nc_pool *pool) {
    nck_attn_args a = fix.a;
    if (fix.joins) nck_attn_join_heads(&a);
    nck_attn(&a, nc_align64_pointer(fix.workspace), pool);
}

static void compare(void) {
    nc_dtype t = fix.a.type;
    nc_tolerance tol = t == NC_FLOAT ? nc_tol_kernel_f32 : nc_tol_kernel_f64;
    bool qk = fix.a.qk != NULL;
    run(NULL);
    fix.a.y.data = fix.p[5];
    if (qk) fix.a.qk = fix.p[7];
    nck_attn_ref(&fix.a, fix.row);
    fix.a.y.data = fix.p[4];
    if (qk) fix.a.qk = fix.p[6];
    int64_t rows = fix.a.B * fix.a.Hq * fix.a.S;
    for (int64_t i = 0; i < rows * fix.a.Dv; i++) CHECK_CLOSE(get(t, fix.p[4], i), get(t, fix.p[5], i), tol);
    for (int64_t i = 0; qk && i < rows * fix.a.T; i++) CHECK_CLOSE(get(t, fix.p[6], i), get(t, fix.p[7], i), tol);
}

static void set_mask(bool is_bool, int64_t cols) {
    fix.a.mask = is_bool ? (const void *)fix.seen : fix.p[3];
    fix.a.mask_bool = is_bool;
    fix.a.mask_cols = cols;
    fix.a.mask_strides[2] = cols;
    fix.a.mask_strides[3] = 1;
}

TEST(attn_kernel_sizes) {
    static const int64_t sizes[][7] = {{1, 1, 1, 1, 1, 1, 1},  {2, 3, 3, 5, 7, 9, 4},  {1, 4, 2, 70, 33, 8, 5},
                                       {2, 2, 1, 0, 3, 4, 4},  {1, 2, 2, 3, 0, 4, 4},  {1, 1, 1, 130, 65, 3, 17},
                                       {3, 6, 2, 4, 5, 16, 0}, {4, 4, 4, 131, 9, 3, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 2; k++) {
            REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, sizes[i]));
            compare();
            fix.a.causal = true;
            fix.a.softcap = 1.5;
            compare();
            stop();
        }
}

TEST(attn_kernel_biases) {
    static const int64_t s[7] = {2, 4, 2, 5, 11, 6, 3};
    static const int64_t lens[2] = {3, 11};
    for (int k = 0; k < 2; k++) {
        REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, s));
        set_mask(false, 11);
        compare();
        set_mask(true, 8);
        compare();
        fix.a.left = 2, fix.a.right = 1, fix.a.offset = 4;
        compare();
        fix.a.mask = NULL, fix.a.left = 0, fix.a.right = -1, fix.a.causal = true;
        fix.a.kv_lens = lens, fix.a.offset_by_lens = true; /* batch 0 has more queries than keys: blind rows */
        compare();
        for (int64_t i = 0; i < 2 * 3; i++) CHECK_NEAR(get(fix.a.type, fix.p[4], i), 0, 0);
        stop();
    }
}

/* Operand `o` of (rows, columns) as the transposed view of what lies there. */
static void turn(nck_attn_operand *o, int64_t rows) { o->row = 1, o->column = rows; }

/* Any of Q, K and V may be a transposed view, also where an item has a single query. */
TEST(attn_kernel_turned_operands) {
    static const int64_t sizes[][7] = {{1, 2, 1, 1, 7, 5, 4}, {2, 2, 2, 65, 65, 4, 3}, {1, 1, 1, 3, 600, 6, 5}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 16; k++) {
            REQUIRE(start(k & 8 ? NC_DOUBLE : NC_FLOAT, sizes[i]));
            if (k & 1) turn(&fix.a.q, fix.a.S);
            if (k & 2) turn(&fix.a.k, fix.a.T);
            if (k & 4) turn(&fix.a.v, fix.a.T);
            compare();
            fix.a.causal = true;
            compare();
            stop();
        }
}

/* Several blocks of keys: the sums are carried on, and blocks that nobody sees are left out, at either end. */
TEST(attn_kernel_blocks_of_keys) {
    static const int64_t sizes[][7] = {{1, 2, 1, 3, 1100, 5, 4}, {1, 1, 1, 1, 1030, 7, 3}, {1, 1, 1, 20, 1536, 3, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 2; k++) {
            REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, sizes[i]));
            compare();
            set_mask(true, 1020);
            compare();
            fix.a.mask = NULL, fix.a.causal = true, fix.a.offset = 600;
            compare();
            fix.a.left = 40;
            compare();
            fix.a.qk = fix.p[6], fix.a.qk_stage = NCK_ATTN_SOFTMAX;
            compare();
            fix.a.qk_stage = NCK_ATTN_BIASED;
            compare();
            fix.a.qk = NULL, fix.a.offset = -50; /* nobody sees anything */
            compare();
            stop();
        }
}

/* One query: heads that share keys together, more and fewer than take dot products. */
TEST(attn_kernel_one_query_of_joined_heads) {
    static const int64_t sizes[][7] = {{2, 6, 2, 1, 37, 5, 4},    {1, 4, 1, 1, 700, 33, 8}, {2, 3, 3, 1, 9, 16, 3},
                                       {1, 24, 2, 1, 130, 21, 6}, {1, 5, 1, 1, 1, 4, 4},    {1, 2, 1, 1, 0, 4, 4}};
    static const int64_t lens[2] = {5, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 2; k++) {
            REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, sizes[i]));
            fix.joins = true;
            compare();
            fix.a.sink = fix.p[3];
            compare();
            set_mask(false, fix.a.T);
            fix.a.mask_strides[1] = fix.a.mask_strides[0] = fix.a.T;
            compare();
            set_mask(true, fix.a.T);
            compare();
            fix.a.mask = NULL, fix.a.causal = true, fix.a.offset = fix.a.T - 1, fix.a.left = 3;
            fix.a.qk = fix.p[6], fix.a.qk_stage = NCK_ATTN_SOFTMAX;
            compare();
            fix.a.qk = NULL, fix.a.kv_lens = lens, fix.a.offset_by_lens = true, fix.a.softcap = 1.5;
            if (fix.a.T > 33) compare();
            stop();
        }
}

TEST(attn_kernel_nan_and_infinity_stay_in_their_rows) {
    static const int64_t s[7] = {1, 1, 1, 4, 600, 3, 2};
    REQUIRE(start(NC_FLOAT, s));
    float *q = fix.p[0];
    q[3] = NAN, q[7] = INFINITY;
    compare();
    const float *y = fix.p[4];
    CHECK(isfinite(y[0]) && isnan(y[2]) && isnan(y[4]) && isfinite(y[6]));
    stop();
}

TEST(attn_kernel_sink) {
    static const int64_t sizes[][7] = {
        {1, 1, 1, 1, 1, 1, 1}, {2, 4, 2, 70, 33, 8, 5}, {1, 2, 2, 3, 0, 4, 4}, {1, 2, 1, 3, 1100, 5, 4}};
    static const int64_t lens[2] = {3, 11};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 2; k++) {
            REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, sizes[i]));
            fix.a.sink = fix.p[3];
            compare();
            fix.a.qk = fix.p[6], fix.a.qk_stage = NCK_ATTN_SOFTMAX;
            fix.a.causal = true, fix.a.softcap = 1.5;
            fix.a.kv_lens = lens, fix.a.offset_by_lens = true; /* some rows see the sink alone */
            compare();
            stop();
        }
}

TEST(attn_kernel_stages) {
    static const int64_t s[7] = {1, 2, 1, 5, 6, 4, 3};
    for (int stage = NCK_ATTN_PRODUCT; stage <= NCK_ATTN_SOFTMAX; stage++) {
        REQUIRE(start(NC_DOUBLE, s));
        fix.a.qk = fix.p[6];
        fix.a.qk_stage = (nck_attn_stage)stage;
        fix.a.softcap = 2;
        set_mask(false, 6);
        compare();
        stop();
    }
}

/* Queries that see all keys are cut by the number of threads, others are not. */
static void check_threads(const int64_t *s, bool causal, int threads) {
    nc_pool *pool = nc_pool_create(threads);
    REQUIRE(pool != NULL);
    if (start(NC_FLOAT, s)) {
        fix.a.causal = causal;
        run(NULL);
        memcpy(fix.p[5], fix.p[4], MOST * 4);
        memset(fix.p[4], 0, MOST * 4);
        run(pool);
        CHECK(memcmp(fix.p[4], fix.p[5], (size_t)(s[0] * s[1] * s[3] * s[6]) * 4) == 0);
        stop();
    }
    nc_pool_destroy(pool);
}

TEST(attn_kernel_threads) {
    static const int64_t sizes[][7] = {
        {2, 3, 3, 70, 19, 8, 8}, {1, 1, 1, 333, 60, 16, 20}, {1, 2, 1, 641, 17, 8, 5}, {1, 1, 1, 1200, 9, 4, 8}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int threads = 2; threads < 9; threads += 3)
            for (int causal = 0; causal < 2; causal++) check_threads(sizes[i], causal, threads);
}
