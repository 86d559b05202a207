/* base/dtype_test.c: the type table, and 16-bit conversions against a search over all halves. */
#include "base/dtype.h"

#include "tests/check.h"

#include <float.h>

TEST(dtype_table) {
    CHECK_INT(NC_FLOAT, 1);
    CHECK_INT(NC_N_DTYPES, 29);
    CHECK_INT(nc_dtype_bytes(NC_COMPLEX128), 16);
    CHECK_INT(nc_dtype_bytes(NC_BOOL), 1);
    CHECK_INT(nc_dtype_bytes(NC_STRING), 0);
    CHECK_INT(nc_dtype_bytes(NC_INT4), 0);
    CHECK_INT(nc_dtype_bits(NC_FLOAT6E2M3), 6);
    CHECK(nc_dtype_is_packed(NC_UINT2) && !nc_dtype_is_packed(NC_FLOAT8E8M0) && !nc_dtype_is_packed(NC_STRING));
    CHECK_INT(nc_dtype_bytes(NC_UNDEFINED), 0);
    CHECK_INT(nc_dtype_bytes((nc_dtype)-1), 0);
    CHECK_INT(nc_dtype_bytes((nc_dtype)1000), 0);
    CHECK_STR(nc_dtype_name((nc_dtype)29), "?");
    CHECK_INT(nc_dtype_class(NC_UINT16), 'U');
    CHECK_INT(nc_dtype_class(NC_UNDEFINED), 0);
    CHECK(nc_dtype_is_float(NC_BFLOAT16) && !nc_dtype_is_float(NC_INT8));
    CHECK_INT(nc_dtype_parse("float12"), NC_UNDEFINED);
    CHECK_INT(nc_dtype_parse(""), NC_UNDEFINED);
    for (int t = 1; t < NC_N_DTYPES; t++) CHECK_INT(nc_dtype_parse(nc_dtype_name((nc_dtype)t)), t);
}

/* The definition: (-1)^s * f * 2^e, as a double. */
static double value_of_half(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

/* The nearest half by bisection over the positive ones, ties to the even pattern; infinity counts as 2^16. */
static uint16_t nearest_half(double d) {
    uint16_t sign = signbit(d) ? 0x8000 : 0;
    double a = fabs(d);
    if (a >= 65536) return sign | 0x7C00;
    uint16_t low = 0, high = 0x7C00; /* value(low) <= a < value(high) */
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (value_of_half(middle) <= a) low = middle;
        else high = middle;
    }
    double below = a - value_of_half(low), above = (high == 0x7C00 ? 65536.0 : value_of_half(high)) - a;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

TEST(f16_all_halves_round_trip) {
    for (int i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = nc_f16_to_f32(h);
        double v = value_of_half(h);
        if (isnan(v)) {
            CHECK(isnan(f) && nc_f32_to_f16(f) == (h | 0x200) && nc_f64_to_f16((double)f) == (h | 0x200));
            CHECK(!signbit(f) == !(h & 0x8000));
            continue;
        }
        CHECK((double)f == v && !signbit(f) == !(h & 0x8000));
        CHECK_INT(nc_f32_to_f16(f), h);
        CHECK_INT(nc_f64_to_f16((double)f), h);
    }
}

static void check_to_half(double d) {
    uint16_t want = nearest_half(d), got = nc_f64_to_f16(d);
    if (got != want) nc_test_failed(__FILE__, __LINE__, "f64 %a: %04x, expected %04x", d, got, want);
    float f = (float)d;
    if ((double)f != d) return;
    got = nc_f32_to_f16(f);
    if (got != want) nc_test_failed(__FILE__, __LINE__, "f32 %a: %04x, expected %04x", d, got, want);
}

/* Midway between all neighbours, and one step of f32 and of f64 to either side. */
TEST(f16_rounds_ties_to_even) {
    for (int i = 0; i < 0x7C00; i++) {
        double next = i == 0x7BFF ? 65536.0 : value_of_half((uint16_t)(i + 1));
        double tie = (value_of_half((uint16_t)i) + next) / 2;
        double near[] = {tie, nextafter(tie, 0), nextafter(tie, INFINITY), (double)nextafterf((float)tie, 0),
                         (double)nextafterf((float)tie, INFINITY)};
        for (int k = 0; k < 5; k++) {
            check_to_half(near[k]);
            check_to_half(-near[k]);
        }
    }
}

TEST(f16_extremes) {
    double values[] = {0.0, -0.0, (double)FLT_MIN, (double)FLT_TRUE_MIN, DBL_TRUE_MIN, (double)FLT_MAX, DBL_MAX,
                       65504, 65519.99, 65520, 0x1p-25, 0x1.0000000000001p-25, 0x1p-26, 0x1.fffffep-26, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        check_to_half(values[i]);
        check_to_half(-values[i]);
    }
    CHECK_INT(nc_f32_to_f16(NAN) & 0x7E00, 0x7E00);
    CHECK_INT(nc_f64_to_f16((double)NAN) & 0x7E00, 0x7E00);
    uint32_t low_payload = 0x7F800001; /* a NaN whose payload does not fit must not become infinity */
    float f;
    memcpy(&f, &low_payload, sizeof f);
    CHECK_INT(nc_f32_to_f16(f), 0x7E00);
    CHECK_INT(nc_f32_to_bf16(f), 0x7FC0);
}

/* 1 + 2^-11 + 2^-40: through f32 this would first become the tie and then round down to 1. */
TEST(f16_from_double_rounds_once) {
    CHECK_INT(nc_f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3C01);
    CHECK_INT(nc_f32_to_f16((float)(1 + 0x1p-11 + 0x1p-40)), 0x3C00);
}

/* bf16 neighbours are f32 numbers, so the nearest can be found by comparing distances in f64. */
TEST(bf16_rounds_to_nearest_even) {
    for (int i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = nc_bf16_to_f32(h);
        if (isnan(f)) {
            CHECK_INT(nc_f32_to_bf16(f), h | 0x40);
            continue;
        }
        CHECK_INT(nc_f32_to_bf16(f), h);
        if ((h & 0x7FFF) >= 0x7F7F) continue;
        double low = (double)f, high = (double)nc_bf16_to_f32((uint16_t)(h + 1));
        float tie = (float)((low + high) / 2);
        CHECK_INT(nc_f32_to_bf16(tie), h % 2 ? h + 1 : h);
        CHECK_INT(nc_f32_to_bf16(nextafterf(tie, (float)low)), h);
        CHECK_INT(nc_f32_to_bf16(nextafterf(tie, (float)high)), h + 1);
    }
    CHECK_INT(nc_f32_to_bf16(FLT_MAX), 0x7F80);
    CHECK_INT(nc_f32_to_bf16(-FLT_MAX), 0xFF80);
}
