/* kernels/cpu/reduce/reduce_test.c: reductions against the element-wise one, for all types and ops, over strided views,
 * empty and odd sizes, with NaN; equal bits for threads and every ISA. */
#include "base/mem.h"
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/reduce/reduce_kernel.h"
#include "tests/check.h"

typedef struct reduce_case {
    int rank;
    int64_t dims[4], strides[4]; /* strides 0: dense */
    nc_axes axes;
} reduce_case;

static const reduce_case cases[] = {
    {0, {0}, {0}, 0},
    {1, {1}, {0}, 1},
    {1, {7}, {0}, 1},
    {1, {1001}, {0}, 1},
    {1, {70001}, {0}, 1},
    {1, {70001}, {2}, 1},
    {1, {0}, {0}, 1},
    {2, {0, 5}, {0}, 1},
    {2, {5, 0}, {0}, 1},
    {2, {13, 517}, {0}, 2},
    {2, {517, 131}, {0}, 1},
    {2, {40000, 67}, {0}, 1},
    {2, {3, 40000}, {0}, 2},
    {2, {33, 65}, {1, 33}, 1},
    {2, {33, 65}, {1, 33}, 2},
    {2, {33, 65}, {0}, 0},
    {2, {20001, 2}, {0}, 2},
    {2, {517, 8}, {0}, 2},
    {2, {517, 3}, {1, 517}, 2},
    {3, {7, 131, 5}, {1500, 11, 2}, 4},
    {3, {7, 2, 131}, {700, 3, 5}, 2},
    {3, {5, 19, 23}, {0}, 2},
    {3, {5, 19, 23}, {0}, 5},
    {3, {5, 19, 23}, {0}, 7},
    {4, {3, 5, 7, 9}, {0}, 10},
    {4, {3, 5, 7, 9}, {1, 3, 15, 105}, 6},
    {4, {2, 200, 9, 70}, {0}, 5},
};
enum { MOST = 40000 * 67 };

static void put(nc_dtype type, void *p, int64_t i, double v) {
    if (type == NC_FLOAT) ((float *)p)[i] = (float)v;
    if (type == NC_DOUBLE) ((double *)p)[i] = v;
    if (type == NC_INT32) ((int32_t *)p)[i] = (int32_t)(v * 1000);
    if (type == NC_INT64) ((int64_t *)p)[i] = (int64_t)(v * 1e6);
}
static double get(nc_dtype type, const void *p, int64_t i) {
    if (type == NC_FLOAT) return (double)((const float *)p)[i];
    if (type == NC_DOUBLE) return ((const double *)p)[i];
    if (type == NC_INT32) return ((const int32_t *)p)[i];
    return (double)((const int64_t *)p)[i];
}

static void check_case(const reduce_case *c, nck_reduce_op op, nc_tensor *x, void *ref, void *one, void *other) {
    int64_t n_out = 1, n_red = 1;
    x->rank = c->rank;
    memcpy(x->dims, c->dims, sizeof c->dims);
    nc_dense_strides(x->dims, x->rank, x->strides);
    if (c->strides[0]) memcpy(x->strides, c->strides, sizeof c->strides);
    for (int d = 0; d < c->rank; d++) *(c->axes >> d & 1 ? &n_red : &n_out) *= c->dims[d];
    size_t bytes = (size_t)n_out * nc_dtype_bytes(x->dtype);
    void *work = nc_alloc(nck_reduce_workspace(n_out, n_red));
    REQUIRE(work);
    CHECK_INT(nck_reduce_ref(op, x, c->axes, ref), NC_OK);
    CHECK_INT(nck_reduce(op, x, c->axes, one, work, NULL), NC_OK);
    nc_tolerance tol = x->dtype == NC_FLOAT ? nc_tol_kernel_f32 : nc_tol_kernel_f64;
    if (op == NCK_REDUCE_SUM) tol = nc_tol_of_sum(tol, (double)n_red);
    if (!nc_dtype_is_float(x->dtype)) tol = (nc_tolerance){0};
    for (int64_t i = 0; i < n_out; i++) CHECK_CLOSE(get(x->dtype, one, i), get(x->dtype, ref, i), tol);
    for (int way = 0; way < 2 || nck_isa_at(way - 2); way++) {
        nc_pool *pool = nc_pool_create(way == 0 ? 2 : 5);
        if (way >= 2) CHECK(nck_isa_set_for_test(nck_isa_at(way - 2)->name));
        CHECK_INT(nck_reduce(op, x, c->axes, other, work, pool), NC_OK);
        CHECK(memcmp(one, other, bytes) == 0);
        nc_pool_destroy(pool);
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_free(work);
}

static void check_type(nc_dtype type) {
    void *data = nc_alloc(MOST * 8), *a = nc_alloc(1 << 20), *b = nc_alloc(1 << 20), *c = nc_alloc(1 << 20);
    REQUIRE(data && a && b && c);
    uint32_t seed = 5;
    for (int64_t i = 0; i < MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        put(type, data, i, ((double)(seed >> 8) - 8388608.0) / 8388608.0);
    }
    nc_tensor x = {.data = data, .dtype = type};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (nc_test_emulated() && cases[i].dims[0] * cases[i].dims[1] > 100000) continue;
        for (int op = 0; op < 4; op++) check_case(&cases[i], (nck_reduce_op)op, &x, a, b, c);
    }
    nc_free(data), nc_free(a), nc_free(b), nc_free(c);
}

TEST(reduce_f32) { check_type(NC_FLOAT); }
TEST(reduce_f64) { check_type(NC_DOUBLE); }
TEST(reduce_i32) { check_type(NC_INT32); }
TEST(reduce_i64) { check_type(NC_INT64); }

/* (outer, n, inner) against the plain loop. */
static void check_bytes(const int64_t *d, nc_dtype type, bool least, int threads) {
    static uint8_t x[1 << 16], got[1 << 16];
    nc_tensor t = {.data = x, .dtype = type, .rank = 3, .dims = {d[0], d[1], d[2]}};
    nc_dense_strides(t.dims, 3, t.strides);
    for (int64_t i = 0; i < d[0] * d[1] * d[2]; i++) x[i] = (uint8_t)((uint64_t)i * 2654435761u >> 13);
    nc_pool *pool = nc_pool_create(threads);
    REQUIRE(nck_reduce_bytes(least, &t, 2, got, pool));
    nc_pool_destroy(pool);
    for (int64_t o = 0; o < d[0]; o++)
        for (int64_t c = 0; c < d[2]; c++) {
            int want = least ? 999 : -999;
            for (int64_t r = 0; r < d[1]; r++) {
                uint8_t u = x[(o * d[1] + r) * d[2] + c];
                int v = type == NC_INT8 ? (int8_t)u : u;
                if (least ? v < want : v > want) want = v;
            }
            CHECK_INT(type == NC_INT8 ? (int8_t)got[o * d[2] + c] : got[o * d[2] + c], want);
        }
}

TEST(reduce_bytes) {
    static const int64_t dims[][3] = {{1, 1, 1},   {1, 65000, 1}, {3, 63, 1},   {3, 64, 1},   {700, 65, 1}, {5, 7, 3},
                                      {2, 37, 64}, {2, 3, 129},   {1, 500, 65}, {300, 2, 70}, {9, 1, 100},  {0, 3, 5}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int k = 0; k < 8; k++) check_bytes(dims[i], k & 1 ? NC_INT8 : NC_UINT8, k & 2, k & 4 ? 3 : 1);
}

TEST(reduce_bytes_apart) { /* left to others */
    uint8_t x[24] = {0}, y[24];
    nc_tensor t = {.data = x, .dtype = NC_UINT8, .rank = 3, .dims = {2, 3, 4}, .strides = {12, 4, 1}};
    CHECK(!nck_reduce_bytes(false, &t, 5, y, NULL));
    t.strides[2] = 2;
    CHECK(!nck_reduce_bytes(false, &t, 2, y, NULL));
}

TEST(reduce_nothing) {
    float f = 5;
    int32_t i = 5;
    nc_tensor x = {.dtype = NC_FLOAT, .rank = 1, .dims = {0}, .strides = {1}};
    CHECK_INT(nck_reduce(NCK_REDUCE_SUM, &x, 1, &f, NULL, NULL), NC_OK);
    CHECK(f == 0);
    CHECK_INT(nck_reduce(NCK_REDUCE_MEAN, &x, 1, &f, NULL, NULL), NC_OK);
    CHECK(isnan(f));
    CHECK_INT(nck_reduce(NCK_REDUCE_MAX, &x, 1, &f, NULL, NULL), NC_OK);
    CHECK(f == -INFINITY);
    x.dtype = NC_INT32;
    CHECK_INT(nck_reduce(NCK_REDUCE_MIN, &x, 1, &i, NULL, NULL), NC_OK);
    CHECK_INT(i, INT32_MAX);
    CHECK_INT(nck_reduce(NCK_REDUCE_MEAN, &x, 1, &i, NULL, NULL), NC_OK);
    CHECK_INT(i, 0);
    x.dtype = NC_BOOL;
    CHECK_INT(nck_reduce(NCK_REDUCE_MAX, &x, 1, &i, NULL, NULL), NC_E_UNSUPPORTED);
}

TEST(reduce_nan_wins) {
    float x[5 * 37], out[37];
    for (int at = 0; at < 37; at++) {
        for (int i = 0; i < 5 * 37; i++) x[i] = (float)(i % 7) - 3;
        x[2 * 37 + at] = NAN;
        x[3 * 37] = INFINITY;
        nc_tensor t = {.data = x, .dtype = NC_FLOAT, .rank = 2, .dims = {5, 37}, .strides = {37, 1}};
        for (int op = NCK_REDUCE_SUM; op <= NCK_REDUCE_MIN; op++) {
            CHECK_INT(nck_reduce((nck_reduce_op)op, &t, 2, out, NULL, NULL), NC_OK);
            CHECK(isnan(out[2]) && !isnan(out[0]) && !isnan(out[3]));
            CHECK_INT(nck_reduce((nck_reduce_op)op, &t, 1, out, NULL, NULL), NC_OK);
            for (int c = 0; c < 37; c++) CHECK((c == at) == (isnan(out[c]) != 0));
        }
    }
}

enum { SIDE = 70 };

static float extreme_of(bool least, const float *x, int64_t n, int64_t apart) {
    float e = x[0];
    for (int64_t i = 1; i < n; i++) {
        float v = x[i * apart];
        e = (least ? e < v : e > v) || isnan(e) ? e : v;
    }
    return e;
}

/* n elements for each of `rows` results, along the last axis or down the first. */
static void check_extremes(bool least, int axis, int64_t rows, int64_t n) {
    static float x[SIDE * SIDE], got[SIDE];
    nc_tensor t = {.data = x, .dtype = NC_FLOAT, .rank = 2, .dims = {rows, n}, .strides = {n, 1}};
    if (axis == 0) t.dims[0] = n, t.dims[1] = rows, t.strides[0] = rows;
    for (int64_t i = 0; i < rows * n; i++) x[i] = i % 211 == 50 ? NAN : (float)(i * 7919 % 1009) - (least ? -9 : 2000);
    REQUIRE(nck_reduce(least ? NCK_REDUCE_MIN : NCK_REDUCE_MAX, &t, (nc_axes)1 << axis, got, NULL, NULL) == NC_OK);
    for (int64_t r = 0; r < rows; r++) {
        float want = extreme_of(least, axis == 0 ? x + r : x + r * n, n, axis == 0 ? rows : 1);
        CHECK(isnan(want) ? isnan(got[r]) : got[r] == want);
    }
}

/* Rows whose extremes are found together, one by one and by vectors, and strips of columns; NaN in some. */
TEST(reduce_extremes_of_many_rows) {
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, reduce)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (int k = 0; k < 6; k++)
            for (int form = 0; form < 4; form++)
                check_extremes(form / 2, form % 2, 67 - k, (int64_t[]){3, 17, 32, 33, 64, 70}[k]);
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* y (rows, n) of a (rows, width) and b (n, width), or y (rows, width) of a (rows, n); behind each row of y two elements
 * that stay. */
static void check_few(const nck_reduce_table *table, bool sums, bool adds, int64_t rows, int64_t n, int64_t width) {
    static float a[9 * SIDE + 1], b[SIDE * SIDE + 1], y[9 * (SIDE + 2)];
    int64_t across = sums ? n : width, out = sums ? width : n;
    for (int64_t i = 0; i < 9 * SIDE + 1; i++) a[i] = (float)(i * 7919 % 101) / 64 - 0.7F;
    for (int64_t i = 0; i < SIDE * SIDE + 1; i++) b[i] = (float)(i * 104729 % 103) / 64 - 0.9F;
    for (int64_t i = 0; i < rows * (out + 2); i++) y[i] = 3;
    (sums ? table->few_sums : table->few_dots)(&(nck_few){.a = a + 1,
                                                          .a_row = across,
                                                          .b = b + 1,
                                                          .b_row = width,
                                                          .y = y,
                                                          .y_row = out + 2,
                                                          .rows = rows,
                                                          .n = n,
                                                          .width = width,
                                                          .by = 0.5F,
                                                          .adds = adds});
    for (int64_t i = 0; i < rows * (out + 2); i++) {
        int64_t r = i / (out + 2), j = i % (out + 2);
        double want = sums && adds ? 3 : 0;
        for (int64_t k = 0; k < across; k++)
            want += (sums ? 1 : 0.5) * (double)a[1 + r * across + k] *
                    (double)b[1 + (sums ? k * width + j : j * width + k)];
        CHECK_CLOSE((double)y[i], j < out ? want : 3, nc_tol_kernel_f32);
    }
}

/* Few rows with many, which lie at any place: odd numbers of all, more and fewer than go together. */
TEST(reduce_few_rows_with_many) {
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 16, 19, 37, 64, 70};
    int n = sizeof sizes / sizeof *sizes;
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, reduce)) {
        const nck_reduce_table *table = nck_isa_at(isa)->reduce;
        CHECK((table->few_dots != NULL) == (isa > 0 && table->width <= 8));
        int most = SIDE / table->width + 1; /* vectors of a row */
        for (int k = 0; table->few_dots && k < n * most * 3; k++)
            check_few(table, k % 3 > 0, k % 3 == 2, 1 + k % 9, sizes[k / 3 % n], k / 3 / n * table->width);
    }
}

/* A running sum in f32 stops growing at 2^24; the tree does not. */
TEST(reduce_sum_stays_accurate) {
    int64_t n = 20000000;
    float one = 1, out = 0;
    nc_tensor x = {.data = &one, .dtype = NC_FLOAT, .rank = 1, .dims = {n}, .strides = {0}};
    void *work = nc_alloc(nck_reduce_workspace(1, n));
    REQUIRE(work);
    CHECK_INT(nck_reduce(NCK_REDUCE_SUM, &x, 1, &out, work, NULL), NC_OK);
    CHECK(out == 20000000.0f);
    nc_free(work);
}

/* Products of any count, side by side and apart, beside the reference: floats near 1, integers that wrap. */
TEST(reduce_products) {
    enum { MOST_TERMS = 3000 };
    static const int64_t counts[] = {0, 1, 7, 8, 9, 17, 40, MOST_TERMS};
    static const nc_dtype types[] = {NC_FLOAT, NC_DOUBLE, NC_INT32, NC_INT64};
    static double room[2 * MOST_TERMS], work[64];
    for (int i = 0; i < 4 * 8 * 2; i++) {
        int64_t n = counts[i / 4 % 8], apart = 1 + i / 32;
        nc_tensor x = {.data = room, .dtype = types[i % 4], .rank = 1, .dims = {n}, .strides = {apart}};
        bool exact = !nc_dtype_is_float(x.dtype);
        for (int64_t k = 0; k < 2 * MOST_TERMS; k++)
            put(x.dtype, room, k, exact ? (double)(2 * (k % 5) - 3) : 1 + (double)(k * 37 % 101 - 50) * 1e-4);
        double got = 0, want = 0;
        REQUIRE(nck_reduce_workspace(1, n) <= sizeof work);
        CHECK_INT(nck_reduce_ref(NCK_REDUCE_PROD, &x, 1, &want), NC_OK);
        CHECK_INT(nck_reduce(NCK_REDUCE_PROD, &x, 1, &got, work, NULL), NC_OK);
        nc_tolerance tol = nc_tol_of_sum(x.dtype == NC_FLOAT ? nc_tol_kernel_f32 : nc_tol_kernel_f64, (double)n);
        if (exact)
            CHECK(memcmp(&got, &want, nc_dtype_bytes(x.dtype)) == 0);
        else
            CHECK_CLOSE(get(x.dtype, &got, 0), get(x.dtype, &want, 0), tol);
    }
}
