/* kernels/cpu/attn/attn_grad_test.c: the gradient of attention against the reference, which always works in double,
 * over sizes, heads, layouts, masks, windows and lengths; results that are not wanted; equal bits for any number of
 * threads. */
#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/attn/attn_grad.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { MOST = 1 << 15, READ = 5, MADE = 3 };

typedef struct fixture {
    nck_attn_grad_args g, ref;
    void *in[READ], *out[MADE]; /* q k v mask dy; dq dk dv */
    double *wide[READ], *right[MADE], *qk, *y, *rows;
    bool seen[MOST];
    void *workspace;
} fixture;

static fixture fix;

static double get(nc_dtype t, const void *p, int64_t i) {
    return t == NC_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static void put(nc_dtype t, void *p, int64_t i, double v) {
    if (t == NC_FLOAT)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}

/* packed: heads side by side in a row */
static nck_attn_operand operand(void *p, int64_t H, int64_t rows, int64_t columns, bool packed) {
    return (nck_attn_operand){p, H * rows * columns, packed ? columns : rows * columns, packed ? H * columns : columns,
                              1};
}

static bool allocate(nc_dtype type) {
    uint32_t seed = 7;
    bool fine = (fix.qk = nc_alloc(MOST * 8)) != NULL && (fix.y = nc_alloc(MOST * 8)) != NULL;
    for (int k = 0; fine && k < MADE; k++)
        fine = (fix.out[k] = nc_alloc(MOST * 8)) != NULL && (fix.right[k] = nc_alloc(MOST * 8)) != NULL;
    for (int k = 0; fine && k < READ; k++) {
        fine = (fix.in[k] = nc_alloc(MOST * 8)) != NULL && (fix.wide[k] = nc_alloc(MOST * 8)) != NULL;
        for (int64_t i = 0; fine && i < MOST; i++) {
            seed = seed * 1664525u + 1013904223u;
            put(type, fix.in[k], i, ((double)(seed >> 8) - 8388608.0) / 4194304.0);
            fix.wide[k][i] = get(type, fix.in[k], i);
            fix.seen[i] = fix.wide[k][i] > -1;
        }
    }
    return fine;
}

/* s: B Hq Hkv S T D Dv */
static nck_attn_grad_args args(nc_dtype type, const int64_t *s, bool packed, void *const *in, void *const *out) {
    return (nck_attn_grad_args){.a = {.type = type,
                                      .B = s[0],
                                      .Hq = s[1],
                                      .Hkv = s[2],
                                      .S = s[3],
                                      .T = s[4],
                                      .D = s[5],
                                      .Dv = s[6],
                                      .q = operand(in[0], s[1], s[3], s[5], packed),
                                      .k = operand(in[1], s[2], s[4], s[5], packed),
                                      .v = operand(in[2], s[2], s[4], s[6], packed),
                                      .scale = 0.37,
                                      .left = -1,
                                      .right = -1},
                                .dy = operand(in[4], s[1], s[3], s[6], packed),
                                .dq = operand(out[0], s[1], s[3], s[5], packed),
                                .dk = operand(out[1], s[2], s[4], s[5], packed),
                                .dv = operand(out[2], s[2], s[4], s[6], packed)};
}

static bool start(nc_dtype type, const int64_t *s, bool packed) {
    fix = (fixture){.rows = NULL};
    if (!allocate(type)) return false;
    void *wide[READ], *right[MADE];
    for (int k = 0; k < READ; k++) wide[k] = fix.wide[k];
    for (int k = 0; k < MADE; k++) right[k] = fix.right[k];
    fix.g = args(type, s, packed, fix.in, fix.out);
    fix.ref = args(NC_DOUBLE, s, packed, wide, right);
    fix.workspace = nc_alloc(nck_attn_grad_workspace(type, s[0], s[2], s[3], s[4], s[5], s[6]) + 64);
    fix.rows = nc_alloc((size_t)s[4] * 16 + 8);
    return fix.workspace != NULL && fix.rows != NULL;
}

static void stop(void) {
    for (int k = 0; k < READ; k++) nc_free(fix.in[k]), nc_free(fix.wide[k]);
    for (int k = 0; k < MADE; k++) nc_free(fix.out[k]), nc_free(fix.right[k]);
    nc_free(fix.qk), nc_free(fix.y), nc_free(fix.rows), nc_free(fix.workspace);
}

static void run(nc_pool *pool) { nck_attn_grad(&fix.g, nc_align64_pointer(fix.workspace), pool); }

static void sizes_made(int64_t *n) {
    const nck_attn_args *a = &fix.g.a;
    n[0] = a->B * a->Hq * a->S * a->D, n[1] = a->B * a->Hkv * a->T * a->D, n[2] = a->B * a->Hkv * a->T * a->Dv;
}

/* What fix.g.a says of bias and softcap holds for the reference too. */
static void compare(void) {
    nc_dtype t = fix.g.a.type;
    nc_tolerance tol = t == NC_FLOAT ? nc_tol_kernel_f32 : nc_tol_kernel_f64;
    nck_attn_args a = fix.g.a, *r = &fix.ref.a;
    a.type = NC_DOUBLE, a.q = r->q, a.k = r->k, a.v = r->v, a.qk = fix.qk, a.qk_stage = NCK_ATTN_SOFTMAX;
    a.y = operand(fix.y, a.Hq, a.S, a.Dv, false);
    if (a.mask != NULL && !a.mask_bool) a.mask = fix.wide[3];
    *r = a;
    nck_attn_ref(r, fix.rows);
    nck_attn_grad_ref(&fix.ref, fix.rows);
    for (int k = 0; k < MADE; k++) memset(fix.out[k], 0x5a, MOST * nc_dtype_bytes(t));
    run(NULL);
    int64_t n[MADE];
    sizes_made(n);
    for (int k = 0; k < MADE; k++)
        for (int64_t i = 0; i < n[k]; i++) CHECK_CLOSE(get(t, fix.out[k], i), fix.right[k][i], tol);
}

static void set_mask(bool is_bool, int64_t cols) {
    fix.g.a.mask = is_bool ? (const void *)fix.seen : fix.in[3];
    fix.g.a.mask_bool = is_bool;
    fix.g.a.mask_cols = cols;
    fix.g.a.mask_strides[2] = cols;
    fix.g.a.mask_strides[3] = 1;
}

TEST(attn_grad_kernel_sizes) {
    static const int64_t sizes[][7] = {{1, 1, 1, 1, 1, 1, 1}, {2, 3, 3, 5, 7, 9, 4}, {1, 4, 2, 70, 33, 8, 5},
                                       {2, 2, 1, 0, 3, 4, 4}, {1, 2, 2, 3, 0, 4, 4}, {1, 1, 1, 130, 65, 3, 17},
                                       {3, 6, 2, 4, 5, 16, 0}, {4, 4, 4, 131, 9, 3, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int k = 0; k < 4; k++) {
            REQUIRE(start(k & 1 ? NC_DOUBLE : NC_FLOAT, sizes[i], k & 2));
            compare();
            fix.g.a.causal = true;
            fix.g.a.softcap = 1.5;
            compare();
            stop();
        }
}

TEST(attn_grad_kernel_biases) {
    static const int64_t s[7] = {2, 4, 2, 5, 11, 6, 3};
    static const int64_t lens[2] = {3, 11};
    for (int k = 0; k < 2; k++) {
        REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, s, false));
        set_mask(false, 11);
        compare();
        set_mask(true, 8);
        compare();
        fix.g.a.left = 2, fix.g.a.right = 1, fix.g.a.offset = 4;
        compare();
        fix.g.a.mask = NULL, fix.g.a.left = 0, fix.g.a.right = -1, fix.g.a.causal = true;
        fix.g.a.kv_lens = lens, fix.g.a.offset_by_lens = true; /* batch 0 has more queries than keys: blind rows */
        compare();
        for (int64_t i = 0; i < 2 * 6; i++) CHECK_NEAR(get(fix.g.a.type, fix.out[0], i), 0, 0);
        fix.g.a.kv_lens = NULL, fix.g.a.offset_by_lens = false, fix.g.a.offset = -50; /* nobody sees anything */
        compare();
        stop();
    }
}

/* So many keys that a block has fewer queries; rows longer than a run of sums. */
TEST(attn_grad_kernel_many_keys) {
    static const int64_t s[7] = {1, 1, 1, 19, 1500, 2, 3};
    for (int k = 0; k < 2; k++) {
        REQUIRE(start(k ? NC_DOUBLE : NC_FLOAT, s, false));
        compare();
        fix.g.a.causal = true, fix.g.a.offset = 1200, fix.g.a.left = 700;
        compare();
        stop();
    }
}

TEST(attn_grad_kernel_makes_what_is_wanted_alone) {
    static const int64_t s[7] = {1, 2, 1, 9, 6, 4, 4};
    for (int k = 0; k < MADE; k++) {
        REQUIRE(start(NC_FLOAT, s, false));
        compare();
        float first = ((float *)fix.out[k])[0];
        nck_attn_operand *made[MADE] = {&fix.g.dq, &fix.g.dk, &fix.g.dv};
        for (int i = 0; i < MADE; i++)
            if (i != k) made[i]->data = NULL;
        for (int i = 0; i < MADE; i++) memset(fix.out[i], 0x5a, MOST * 4);
        run(NULL);
        CHECK(((float *)fix.out[k])[0] == first);
        for (int i = 0; i < MADE; i++)
            if (i != k) CHECK_INT(*(unsigned char *)fix.out[i], 0x5a);
        stop();
    }
}

TEST(attn_grad_kernel_nan_stays_in_its_row) {
    static const int64_t s[7] = {1, 1, 1, 4, 6, 3, 2};
    REQUIRE(start(NC_FLOAT, s, false));
    ((float *)fix.in[0])[3] = NAN;
    run(NULL);
    const float *dq = fix.out[0];
    CHECK(isfinite(dq[0]) && isnan(dq[3]) && isfinite(dq[6]) && isnan(*(float *)fix.out[1]));
    stop();
}

TEST(attn_grad_kernel_threads) {
    static const int64_t sizes[][7] = {{2, 6, 3, 70, 19, 8, 8}, {1, 1, 1, 70, 90, 8, 8}};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!start(NC_FLOAT, sizes[i], true)) break;
        int64_t n[MADE];
        sizes_made(n);
        run(NULL);
        for (int k = 0; k < MADE; k++) memcpy(fix.right[k], fix.out[k], MOST * 4);
        run(pool);
        for (int k = 0; k < MADE; k++) CHECK(memcmp(fix.right[k], fix.out[k], (size_t)n[k] * 4) == 0);
        stop();
    }
    nc_pool_destroy(pool);
}
