/* kernels/cpu/quant/linear_test.c: quantize and dequantize against the reference, over types, layouts of the scale, odd
 * sizes, NaN and infinity; the same bits for any number of threads. */
#include "kernels/cpu/quant/linear.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"

typedef struct layout {
    int64_t outer, axis, inner, block;
    char kind; /* 't' tensor, 'a' axis, 'b' blocks */
} layout;

static const layout layouts[] = {{1, 1, 1, 1, 't'},    {1, 20011, 1, 1, 't'}, {3, 5, 7, 1, 'a'},
                                 {2, 33, 1, 1, 'a'},   {1, 7, 3001, 1, 'a'},  {2, 10, 9, 3, 'b'},
                                 {5, 130, 1, 32, 'b'}, {1, 0, 4, 1, 'a'},     {1, 65, 300, 16, 'b'}};

static uint32_t seed;
static double uniform(double low, double high) {
    seed = seed * 1664525u + 1013904223u;
    return low + (high - low) * (double)(seed >> 8) / 16777216.0;
}

static int64_t lay(const layout *l, nck_linear *a) {
    int64_t blocks = nc_ceil_div(l->axis, l->block);
    *a = (nck_linear){.outer = l->outer, .axis = l->axis, .inner = l->inner, .block = l->block};
    if (l->kind == 't') return 1;
    a->s_axis = l->kind == 'a' ? 1 : l->inner;
    if (l->kind == 'a') return l->axis;
    a->s_inner = 1;
    a->s_outer = blocks * l->inner;
    return l->outer * blocks * l->inner;
}

static void check(const layout *l, nc_dtype x_type, nc_dtype y_type, bool back) {
    nck_linear a;
    int64_t n_scales = lay(l, &a), n = l->outer * l->axis * l->inner;
    size_t bytes = (size_t)n * 4 + 8;
    double *scale = nc_alloc((size_t)(n_scales + 1) * 8), *zero = nc_alloc((size_t)(n_scales + 1) * 8);
    double *values = nc_alloc((size_t)(n + 1) * 8);
    char *x = nc_alloc_zero(bytes, 1), *got = nc_alloc_zero(bytes, 1), *want = nc_alloc_zero(bytes, 1);
    REQUIRE(scale && zero && values && x && got && want);
    bool narrow_float = nc_dtype_class(back ? x_type : y_type) == 'N';
    for (int64_t i = 0; i < n_scales; i++) {
        scale[i] = (double)(float)uniform(0.01, 0.6);
        zero[i] = narrow_float ? 0 : floor(uniform(0, 4)) - (nc_dtype_class(back ? x_type : y_type) == 'I' ? 2 : 0);
    }
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -0.0, 0.5, -0.5, 1.5, 1e-40};
    for (int64_t i = 0; i < n; i++) values[i] = !back && i % 17 < 9 && i > 40 ? odd[i % 17] : uniform(-90, 90);
    nc_tensor from = {.data = values, .dtype = NC_DOUBLE, .rank = 1, .dims = {n}, .strides = {1}};
    nc_tensor to = {.data = x, .dtype = x_type, .rank = 1, .dims = {n}, .strides = {1}};
    CHECK_INT(nck_convert(&from, &to, NULL), NC_OK);
    a.scale = scale, a.zero = zero, a.x = x, a.x_type = x_type, a.y_type = y_type;
    a.how.saturate = l->outer == 2;
    a.precision = x_type == NC_FLOAT16 ? NC_FLOAT16 : NC_FLOAT;
    a.y = want;
    (back ? nck_dequantize_ref : nck_quantize_ref)(&a);
    for (int threads = 1; threads <= 3; threads += 2) {
        nc_pool *pool = nc_pool_create(threads);
        memset(got, 0, bytes);
        a.y = got;
        (back ? nck_dequantize : nck_quantize)(&a, pool);
        if (memcmp(got, want, bytes) != 0)
            nc_test_failed(__FILE__, __LINE__, "%s to %s, layout %d, %d threads", nc_dtype_name(x_type),
                           nc_dtype_name(y_type), (int)(l - layouts), threads);
        nc_pool_destroy(pool);
    }
    nc_free(scale), nc_free(zero), nc_free(values), nc_free(x), nc_free(got), nc_free(want);
}

TEST(quantize_all_types) {
    static const nc_dtype types[] = {NC_UINT8,        NC_INT8,           NC_UINT16,     NC_INT16,
                                     NC_INT4,         NC_UINT4,          NC_INT2,       NC_UINT2,
                                     NC_FLOAT8E4M3FN, NC_FLOAT8E5M2FNUZ, NC_FLOAT4E2M1, NC_FLOAT6E2M3};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            check(&layouts[l], NC_FLOAT, types[t], false);
            if (l % 3 == 0) check(&layouts[l], NC_FLOAT16, types[t], false);
            if (l % 4 == 1) check(&layouts[l], NC_INT32, types[t], false);
        }
}

TEST(dequantize_all_types) {
    static const nc_dtype types[] = {NC_UINT8, NC_INT8,       NC_UINT16,     NC_INT32,     NC_INT4,
                                     NC_UINT2, NC_FLOAT8E5M2, NC_FLOAT4E2M1, NC_FLOAT6E3M2};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            check(&layouts[l], types[t], NC_FLOAT, true);
            if (l % 3 == 2) check(&layouts[l], types[t], l % 2 ? NC_FLOAT16 : NC_BFLOAT16, true);
        }
}

TEST(quantize_range) {
    float x[] = {3, NAN, -7, 0.5f, -INFINITY, 2}, low, high;
    nck_range_f32(x, 4, &low, &high, NULL);
    CHECK(low == -7 && high == 3);
    nck_range_f32(x, 6, &low, &high, NULL);
    CHECK(low == -INFINITY && high == 3);
    nck_range_f32(x, 0, &low, &high, NULL);
    CHECK(low == 0 && high == 0);
}

/* Bytes go to each ISA's loops: the reference's bits, around the length of their blocks and from odd places. */
static void check_runs(int64_t n, nc_dtype code) {
    float x[260], back[260], want_back[260];
    uint8_t y[260], want[260];
    double scale[260], zero[260];
    for (int64_t i = 0; i < 260; i++) {
        x[i] = i % 13 == 5 ? (float[]){NAN, INFINITY, -INFINITY, 1e30f, -0.0f}[i % 5] : (float)uniform(-9, 9);
        scale[i] = (double)(float)uniform(0.01, 0.2),
        zero[i] = code == NC_INT8 ? (double)(i % 100 - 50) : (double)(i % 256);
    }
    nck_linear a = {.outer = 1, .axis = n, .inner = 1, .block = 1, .scale = scale, .zero = zero, .precision = NC_FLOAT};
    for (a.s_axis = 0; a.s_axis < 2; a.s_axis++) {
        a.x = x + 1, a.x_type = NC_FLOAT, a.y_type = code, a.y = want + 3;
        nck_quantize_ref(&a);
        a.y = y + 3;
        nck_quantize(&a, NULL);
        CHECK(memcmp(y + 3, want + 3, (size_t)n) == 0);
        a.x = want + 3, a.x_type = code, a.y_type = NC_FLOAT, a.y = want_back + 1;
        nck_dequantize_ref(&a);
        a.y = back + 1;
        nck_dequantize(&a, NULL);
        CHECK(memcmp(back + 1, want_back + 1, (size_t)n * sizeof *back) == 0);
    }
}

TEST(quantize_bytes_on_every_isa) {
    static const int64_t lengths[] = {0, 1, 15, 63, 64, 65, 128, 191, 250};
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, linear)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            check_runs(lengths[i], NC_UINT8);
            check_runs(lengths[i], NC_INT8);
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

/* Quotients next to the middle between two codes, and scales at both ends of what f32 has. */
static void check_middles(float scale) {
    enum { N = 3 * 256 };
    float x[N];
    uint8_t y[N], want[N];
    double each = (double)scale, zero = 100;
    for (int i = 0; i < N; i++) {
        float middle = ((float)(i / 3) - 128.5f) * scale;
        x[i] = i % 3 == 0 ? middle : nextafterf(middle, i % 3 == 1 ? INFINITY : -INFINITY);
    }
    nck_linear a = {.outer = 1, .axis = N, .inner = 1, .block = 1, .scale = &each, .zero = &zero};
    a.x = x, a.x_type = NC_FLOAT, a.y_type = NC_UINT8, a.y = want, a.precision = NC_FLOAT;
    nck_quantize_ref(&a);
    a.y = y;
    nck_quantize(&a, NULL);
    CHECK(memcmp(y, want, sizeof y) == 0);
}

TEST(quantize_rounds_quotients_as_division_does) {
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, linear)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int i = 0; i < 200; i++) check_middles((float)uniform(0.001, 3));
        check_middles(0x1p-126f), check_middles(1e-40f), check_middles(0x1p119f), check_middles(0);
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(quantize_range_is_the_same_for_any_cut) {
    enum { N = 100003 };
    float *x = nc_alloc(N * sizeof *x), low, high;
    REQUIRE(x);
    for (int i = 0; i < N; i++) x[i] = i % 1000 == 7 ? NAN : (float)uniform(-3, 5);
    x[77777] = -3.5f, x[N - 1] = 6;
    nc_pool *pool = nc_pool_create(3);
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, linear)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        nck_range_f32(x, N, &low, &high, k % 2 ? pool : NULL);
        CHECK(low == -3.5f && high == 6);
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_pool_destroy(pool);
    nc_free(x);
}

TEST(quantize_sums_of_codes) {
    enum { N = 131 };
    uint8_t a[N + 1], b[N + 1], y[N + 2], want[N + 2];
    nc_pool *pool = nc_pool_create(2);
    for (int i = 0; i <= N; i++) a[i] = (uint8_t)(i * 37), b[i] = (uint8_t)(i * 101 + 5);
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, linear)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int n = 0; n <= N; n += n < 3 ? 1 : 32)
            for (int t = 0; t < 12; t++) {
                static const float scales[] = {0.11f, 2.9f, 3.1f, 1e30f, INFINITY, -0.4f}; /* 60 beside y's: 3 */
                nc_dtype type = t & 1 ? NC_INT8 : NC_UINT8;
                nck_codes pa = {0.03f, t & 1 ? -7 : 120}, pb = {scales[t / 2], 3}, py = {0.05f, 11};
                memset(y, 0x55, sizeof y), memset(want, 0x55, sizeof want);
                nck_add_codes_ref(type, n, a + 1, pa, b, pb, want + 1, py);
                nck_add_codes(type, n, a + 1, pa, b, pb, y + 1, py, pool);
                CHECK(memcmp(y, want, sizeof y) == 0);
            }
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_pool_destroy(pool);
}

TEST(quantize_maps_of_codes) {
    enum { N = 70001 };
    uint8_t table[256], *x = nc_alloc(N + 1), *y = nc_alloc(N + 2);
    REQUIRE(x && y);
    nc_pool *pool = nc_pool_create(3);
    for (int i = 0; i < 256; i++) table[i] = (uint8_t)(i * 91 + 17);
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, linear)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int n = 0; n <= N; n = n < 70 ? n + 1 : n < N ? N : N + 1) {
            for (int i = 0; i <= N; i++) x[i] = (uint8_t)(i * 37 + i / 256);
            memset(y, 0x55, N + 2);
            nck_map_codes(n, x + 1, table, y + 1, n % 2 ? pool : NULL);
            nck_map_codes(n, x + 1, table, x + 1, pool); /* in place */
            bool same = y[0] == 0x55 && y[n + 1] == 0x55;
            for (int i = 0; i < n; i++)
                same &= y[i + 1] == table[(uint8_t)((i + 1) * 37 + (i + 1) / 256)] && x[i + 1] == y[i + 1];
            CHECK(same);
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
    nc_pool_destroy(pool);
    nc_free(x), nc_free(y);
}
