/* base/narrow_test.c: narrow elements against their definitions: the value of every code, and rounding by a search over
 * all codes for every code, every midpoint between two, their neighbours, and all halves. Packed data. */
#include "base/narrow.h"

#include "base/shape.h"
#include "tests/check.h"

typedef struct definition {
    nc_dtype type;
    int bits, fraction, bias;
    int n_finite; /* codes from 0 on that are finite and not negative */
    char rest;    /* beyond them: 'i' one infinity, then NaN; 'n' NaN; 'z' NaN is the code of -0; '-' nothing */
} definition;

static const definition definitions[] = {
    {NC_FLOAT8E4M3FN, 8, 3, 7, 127, 'n'}, {NC_FLOAT8E4M3FNUZ, 8, 3, 8, 128, 'z'},
    {NC_FLOAT8E5M2, 8, 2, 15, 124, 'i'},  {NC_FLOAT8E5M2FNUZ, 8, 2, 16, 128, 'z'},
    {NC_FLOAT4E2M1, 4, 1, 1, 8, '-'},     {NC_FLOAT6E2M3, 6, 3, 1, 32, '-'},
    {NC_FLOAT6E3M2, 6, 2, 3, 32, '-'},
};
enum { N_DEFINITIONS = sizeof definitions / sizeof *definitions };

/* Of a finite code that is not negative; one past the last is what it would be if the format went on. */
static double value_of(const definition *d, int code) {
    int e = code >> d->fraction, f = code & ((1 << d->fraction) - 1);
    return e == 0 ? f * pow(2, 1 - d->bias - d->fraction)
                  : ((1 << d->fraction) + f) * pow(2, e - d->bias - d->fraction);
}

static uint8_t nearest(const definition *d, double v, bool saturate) {
    int sign = signbit(v) ? 1 << (d->bits - 1) : 0, best = 0;
    for (int code = 1; code <= d->n_finite; code++) {
        double near = fabs(fabs(v) - value_of(d, code)), before = fabs(fabs(v) - value_of(d, best));
        if (near < before || (near == before && code % 2 == 0)) best = code;
    }
    if (best == d->n_finite || fabs(v) > value_of(d, d->n_finite)) {
        if (saturate || d->rest == '-')
            best = d->n_finite - 1;
        else
            return (uint8_t)(d->rest == 'z' ? 0x80 : sign | (d->rest == 'i' ? 0x7C : 0x7F));
    }
    return (uint8_t)(best == 0 && d->rest == 'z' ? 0 : sign | best);
}

static void check_rounding(const definition *d, double v) {
    for (int saturate = 0; saturate < 2; saturate++) {
        uint8_t got = nc_f64_to_narrow(d->type, v, (nc_narrowing){.saturate = saturate});
        uint8_t want = nearest(d, v, saturate);
        if (got != want)
            nc_test_failed(__FILE__, __LINE__, "%s of %a, saturate %d: %#x, expected %#x", nc_dtype_name(d->type), v,
                           saturate, got, want);
    }
}

TEST(narrow_values) {
    for (int i = 0; i < N_DEFINITIONS; i++) {
        const definition *d = &definitions[i];
        for (int code = 0; code < 1 << d->bits; code++) {
            int magnitude = code & ((1 << (d->bits - 1)) - 1);
            bool negative = magnitude != code;
            double got = (double)nc_narrow_to_f32(d->type, (uint8_t)code);
            if (d->rest == 'z' && code == 0x80)
                CHECK(isnan(got));
            else if (magnitude < d->n_finite)
                CHECK(got == (negative ? -value_of(d, magnitude) : value_of(d, magnitude)) &&
                      !signbit(got) == !negative);
            else if (d->rest == 'i' && magnitude == d->n_finite)
                CHECK(isinf(got) && !signbit(got) == !negative);
            else
                CHECK(isnan(got));
        }
    }
    CHECK(nc_narrow_to_f32(NC_FLOAT4E2M1, 7) == 6 && nc_narrow_to_f32(NC_FLOAT8E4M3FN, 0x7E) == 448);
    CHECK(nc_narrow_to_f32(NC_FLOAT6E2M3, 0x1F) == 7.5f && nc_narrow_to_f32(NC_FLOAT6E3M2, 0x1F) == 28);
    CHECK(nc_narrow_to_f32(NC_FLOAT8E5M2FNUZ, 0x7F) == 57344 && nc_narrow_to_f32(NC_FLOAT8E4M3FNUZ, 0x7F) == 240);
}

TEST(narrow_rounding) {
    for (int i = 0; i < N_DEFINITIONS; i++) {
        const definition *d = &definitions[i];
        for (int code = 0; code <= d->n_finite; code++) {
            double at = value_of(d, code), middle = (at + value_of(d, code + 1)) / 2;
            double places[] = {at,     nextafter(at, 0),     nextafter(at, 1e9),
                               middle, nextafter(middle, 0), nextafter(middle, 1e9)};
            for (int k = 0; k < 6; k++) {
                check_rounding(d, places[k]);
                check_rounding(d, -places[k]);
            }
        }
        for (int h = 0; h < 65536; h += nc_test_emulated() ? 61 : 3) /* infinities too; NaN below */
            if (!isnan(nc_f16_to_f32((uint16_t)h))) check_rounding(d, (double)nc_f16_to_f32((uint16_t)h));
        check_rounding(d, 1e300);
        check_rounding(d, -5e-324);
        check_rounding(d, INFINITY);
    }
}

TEST(narrow_nan) {
    nc_narrowing how = {.saturate = true};
    CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E4M3FN, NAN, how) & 0x7F, 0x7F);
    CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E4M3FNUZ, -NAN, how), 0x80);
    CHECK(isnan(nc_narrow_to_f32(NC_FLOAT8E5M2, nc_f64_to_narrow(NC_FLOAT8E5M2, NAN, how))));
    CHECK_INT(nc_f64_to_narrow(NC_FLOAT4E2M1, NAN, how) & 7, 0);
    CHECK_INT(nc_f64_to_narrow(NC_INT4, NAN, how), 0);
    CHECK_INT(nc_f64_to_narrow(NC_UINT2, INFINITY, how), 0);
}

TEST(narrow_powers_of_two) {
    static const struct {
        double v;
        int up, nearest, down, wild; /* saturated; `wild` is nearest without */
    } rows[] = {
        {1, 127, 127, 127, 127},
        {1.1, 128, 127, 127, 127},
        {1.5, 128, 128, 127, 128},
        {1.75, 128, 128, 127, 128},
        {0, 0, 0, 0, 255},
        {0x1p-127, 0, 0, 0, 0},
        {0x1.8p-127, 1, 1, 0, 1},
        {0x1p-130, 0, 0, 0, 255},
        {0x1p127, 254, 254, 254, 254},
        {0x1.8p127, 254, 254, 254, 255},
        {INFINITY, 254, 254, 254, 255},
        {NAN, 255, 255, 255, 255},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double v = rows[i].v;
        CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E8M0, v, (nc_narrowing){true, NC_ROUND_UP}), rows[i].up);
        CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E8M0, v, (nc_narrowing){true, NC_ROUND_NEAREST}), rows[i].nearest);
        CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E8M0, v, (nc_narrowing){true, NC_ROUND_DOWN}), rows[i].down);
        CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E8M0, v, (nc_narrowing){false, NC_ROUND_NEAREST}), rows[i].wild);
    }
    for (int code = 0; code < 255; code++) {
        double v = (double)nc_narrow_to_f32(NC_FLOAT8E8M0, (uint8_t)code);
        CHECK(v == pow(2, code - 127));
        CHECK_INT(nc_f64_to_narrow(NC_FLOAT8E8M0, v, (nc_narrowing){true, NC_ROUND_UP}), code);
    }
    CHECK(isnan(nc_narrow_to_f32(NC_FLOAT8E8M0, 255)));
}

TEST(narrow_integers) {
    nc_narrowing how = {.saturate = true};
    for (int v = -40; v <= 40; v++) {
        CHECK_INT(nc_narrow_to_int(NC_INT4, nc_f64_to_narrow(NC_INT4, v, how)), ((v + 8) & 15) - 8);
        CHECK_INT(nc_narrow_to_int(NC_UINT4, nc_f64_to_narrow(NC_UINT4, v, how)), v & 15);
        CHECK_INT(nc_narrow_to_int(NC_INT2, nc_f64_to_narrow(NC_INT2, v, how)), ((v + 2) & 3) - 2);
        CHECK_INT(nc_narrow_to_int(NC_UINT2, nc_f64_to_narrow(NC_UINT2, v, how)), v & 3);
    }
    CHECK_INT(nc_narrow_to_int(NC_INT4, nc_f64_to_narrow(NC_INT4, -3.7, how)), -3);
    CHECK(nc_narrow_to_f32(NC_INT4, 15) == -1 && nc_narrow_to_f32(NC_UINT4, 15) == 15);
}

TEST(narrow_packed) {
    static const nc_dtype types[] = {NC_INT4, NC_UINT2, NC_FLOAT6E3M2, NC_FLOAT8E5M2};
    uint8_t data[16], codes[13];
    for (int t = 0; t < 4; t++) {
        unsigned bits = nc_dtype_bits(types[t]);
        memset(data, 0xAA, sizeof data);
        for (int i = 0; i < 13; i++) codes[i] = (uint8_t)((i * 37 + 11) & ((1 << bits) - 1));
        for (int i = 12; i >= 0; i--) nc_narrow_store(types[t], data, i, codes[i]);
        for (int i = 0; i < 13; i++) CHECK_INT(nc_narrow_load(types[t], data, i), codes[i]);
        int64_t dims[] = {13};
        size_t bytes;
        CHECK(nc_tensor_bytes(types[t], dims, 1, &bytes) && bytes == (13 * bits + 7) / 8);
        for (size_t i = bytes; i < sizeof data; i++) CHECK_INT(data[i], 0xAA);
    }
    uint8_t four[2] = {0}, six[3] = {0};
    for (int i = 0; i < 4; i++) nc_narrow_store(NC_UINT4, four, i, (uint8_t)(i + 1));
    CHECK(four[0] == 0x21 && four[1] == 0x43);
    for (int i = 0; i < 4; i++) nc_narrow_store(NC_FLOAT6E2M3, six, i, (uint8_t)(60 + i));
    CHECK(six[0] == (60 | (61 & 3) << 6) && six[1] == (61 >> 2 | (62 & 15) << 4) && six[2] == (62 >> 4 | 63 << 2));
}
