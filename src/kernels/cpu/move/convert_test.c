/* kernels/cpu/move/convert_test.c: type conversions: the ends of each type, NaN, halves, views, threads. */
#include "base/mem.h"
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/move/move.h"
#include "tests/check.h"

static void convert(nc_dtype from, const void *src, nc_dtype to, void *dst, int64_t n) {
    nc_tensor s = {.data = (void *)(uintptr_t)src, .dtype = from, .rank = 1, .dims = {n}, .strides = {1}};
    nc_tensor d = {.data = dst, .dtype = to, .rank = 1, .dims = {n}, .strides = {1}};
    CHECK_INT(nck_convert(&s, &d, NULL), NC_OK);
}

TEST(convert_float_to_ints) {
    float x[] = {1.9f, -1.9f, 300, -300, NAN, INFINITY, -INFINITY, 0.5f, -0.0f, 3e9f};
    int8_t i8[10], want8[10] = {1, -1, 44, -44, 0, -1, 0, 0, 0, -1};
    uint8_t u8[10], wantu[10] = {1, 255, 44, 212, 0, 255, 0, 0, 0, 255};
    uint8_t b[10], wantb[10] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 1};
    int64_t i64[10];
    uint64_t u64[10];
    int32_t i32[10];
    convert(NC_FLOAT, x, NC_INT8, i8, 10);
    convert(NC_FLOAT, x, NC_UINT8, u8, 10);
    convert(NC_FLOAT, x, NC_BOOL, b, 10);
    convert(NC_FLOAT, x, NC_INT64, i64, 10);
    convert(NC_FLOAT, x, NC_UINT64, u64, 10);
    convert(NC_FLOAT, x, NC_INT32, i32, 10);
    CHECK(memcmp(i8, want8, 10) == 0);
    CHECK(memcmp(u8, wantu, 10) == 0);
    CHECK(memcmp(b, wantb, 10) == 0);
    CHECK(i64[1] == -1 && i64[4] == 0 && i64[5] == INT64_MAX && i64[6] == INT64_MIN && i64[9] == 3000000000);
    CHECK(u64[1] == 0 && u64[5] == UINT64_MAX && u64[9] == 3000000000u);
    CHECK(i32[5] == INT32_MAX && i32[6] == INT32_MIN && i32[2] == 300);
}

TEST(convert_ints) {
    int64_t x[] = {-1, 256, INT64_MIN, INT64_MAX, 16777217};
    uint8_t u8[5], want[5] = {255, 0, 0, 255, 1};
    float f[5];
    double d[5];
    uint64_t u[2] = {UINT64_MAX, 5};
    convert(NC_INT64, x, NC_UINT8, u8, 5);
    CHECK(memcmp(u8, want, 5) == 0);
    convert(NC_INT64, x, NC_FLOAT, f, 5);
    CHECK(f[0] == -1 && f[3] == 0x1p63f && f[4] == 16777216.0f);
    convert(NC_UINT64, u, NC_DOUBLE, d, 2);
    CHECK(d[0] == 0x1p64 && d[1] == 5);
    uint8_t odd[2] = {7, 0};
    convert(NC_BOOL, odd, NC_FLOAT, f, 2);
    CHECK(f[0] == 1 && f[1] == 0);
}

TEST(convert_halves) {
    double x[] = {1.0, 65504, 1e6, -0.0, NAN};
    uint16_t h[5], b[5];
    float f[5];
    convert(NC_DOUBLE, x, NC_FLOAT16, h, 5);
    CHECK(h[0] == 0x3c00 && h[1] == 0x7bff && h[2] == 0x7c00 && h[3] == 0x8000);
    convert(NC_FLOAT16, h, NC_FLOAT, f, 5);
    CHECK(f[0] == 1 && f[1] == 65504 && isinf(f[2]) && isnan(f[4]));
    convert(NC_FLOAT16, h, NC_BFLOAT16, b, 5);
    CHECK(b[0] == 0x3f80 && b[2] == 0x7f80);
    int32_t i[5];
    convert(NC_FLOAT16, h, NC_INT32, i, 5);
    CHECK(i[0] == 1 && i[1] == 65504 && i[2] == INT32_MAX && i[4] == 0);
}

/* Dense rows, some of which go from type to type at once, against every second element of twice as many. */
static void check_dense(nc_dtype from, nc_dtype to, const double *values, int64_t n) {
    double spread[140], apart[70], one[70], other[70];
    size_t es = nc_dtype_bytes(from);
    memset(one, 0, sizeof one), memset(other, 0, sizeof other);
    convert(NC_DOUBLE, values, from, apart, n);
    for (int64_t i = 0; i < n; i++) memcpy((char *)spread + 2 * (size_t)i * es, (char *)apart + (size_t)i * es, es);
    convert(from, apart, to, one, n);
    nc_tensor s = {.data = spread, .dtype = from, .rank = 1, .dims = {n}, .strides = {2}};
    nc_tensor d = {.data = other, .dtype = to, .rank = 1, .dims = {n}, .strides = {1}};
    CHECK_INT(nck_convert(&s, &d, NULL), NC_OK);
    if (memcmp(one, other, sizeof one) != 0)
        nc_test_failed(__FILE__, __LINE__, "%s to %s, %d elements", nc_dtype_name(from), nc_dtype_name(to), (int)n);
}

TEST(convert_dense_rows) {
    static const nc_dtype types[] = {NC_FLOAT, NC_DOUBLE, NC_FLOAT16, NC_BFLOAT16, NC_INT8,
                                     NC_INT32, NC_INT64,  NC_UINT8,   NC_UINT16,   NC_BOOL};
    enum { N = sizeof types / sizeof *types };
    static const double odd[] = {NAN,    INFINITY, -INFINITY, -0.0,  0.5,    1e-7,   6e-8, 65504, 65519.9,
                                 -70000, 3e9,      -3e9,      1e-41, 1e19,   -1e19,  2.5,  3.5,   1.0009765625,
                                 1e300,  127,      -128,      255,   32768., 2049.5, 3,    -3,    1e-45};
    double values[70], tame[70];
    for (int i = 0; i < 70; i++) values[i] = i < 27 ? odd[i] : (double)(i - 40) * 1.37;
    for (int i = 0; i < 70; i++) tame[i] = i == 60 ? 0x1.fffffep30 : i == 61 ? -0x1.fffffep30 : (double)(i - 40) * 1.37;
    for (int k = 0; nck_isa_at(k); k = NEXT_ISA(k, linear)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(k)->name));
        for (int i = 0; i < N * N; i++)
            for (int64_t n = 1; n <= 70; n += 23) {
                check_dense(types[i / N], types[i % N], values, n);
                check_dense(types[i / N], types[i % N], tame, n);
            }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(convert_views_and_threads) {
    enum { R = 171, C = 263 };
    int16_t *x = nc_alloc(R * C * 2);
    double *one = nc_alloc(R * C * 8), *five = nc_alloc(R * C * 8);
    REQUIRE(x && one && five);
    for (int i = 0; i < R * C; i++) x[i] = (int16_t)(i * 31);
    nc_tensor s = {.data = x, .dtype = NC_INT16, .rank = 2, .dims = {C, R}, .strides = {1, C}};
    nc_tensor d = {.data = one, .dtype = NC_DOUBLE, .rank = 2, .dims = {C, R}, .strides = {R, 1}};
    nc_pool *pool = nc_pool_create(5);
    CHECK_INT(nck_convert(&s, &d, NULL), NC_OK);
    d.data = five;
    CHECK_INT(nck_convert(&s, &d, pool), NC_OK);
    CHECK(memcmp(one, five, R * C * 8) == 0);
    for (int i = 0; i < C; i++)
        for (int j = 0; j < R; j++) CHECK(one[i * R + j] == x[i + j * C]);
    nc_pool_destroy(pool);
    nc_free(x), nc_free(one), nc_free(five);
}

TEST(convert_refuses) {
    float x[2] = {1, 2}, y[2];
    nc_tensor s = {.data = x, .dtype = NC_COMPLEX64, .rank = 1, .dims = {1}, .strides = {1}}, d = s;
    d.data = y;
    CHECK_INT(nck_convert(&s, &d, NULL), NC_OK);
    CHECK(y[1] == 2);
    d.dtype = NC_FLOAT;
    CHECK_INT(nck_convert(&s, &d, NULL), NC_E_UNSUPPORTED);
    s.dtype = NC_STRING;
    CHECK_INT(nck_convert(&s, &d, NULL), NC_E_UNSUPPORTED);
}
