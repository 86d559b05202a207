/* base/narrow.c: exact conversions of narrow elements, and single elements of packed data; see narrow.h.
 * A format is described by a row, so one rounding serves all of them. float8e8m0 has no sign and no fraction: it is an
 * exponent, rounded by a mode of its own. */
#include "base/narrow.h"

#include <math.h>
#include <string.h>

static const nc_narrow_format formats[NC_N_DTYPES] = {
    [NC_FLOAT8E4M3FN] = {.fraction = 3, .bias = 7, .max = 0x7E, .overflow = 0x7F, .nan = 0x7F},
    [NC_FLOAT8E4M3FNUZ] = {.fraction = 3, .bias = 8, .max = 0x7F, .overflow = 0x80, .nan = 0x80, .unsigned_zero = true},
    [NC_FLOAT8E5M2] = {.fraction = 2, .bias = 15, .max = 0x7B, .overflow = 0x7C, .nan = 0x7E},
    [NC_FLOAT8E5M2FNUZ] =
        {.fraction = 2, .bias = 16, .max = 0x7F, .overflow = 0x80, .nan = 0x80, .unsigned_zero = true},
    [NC_FLOAT4E2M1] = {.fraction = 1, .bias = 1, .max = 0x07},
    [NC_FLOAT6E2M3] = {.fraction = 3, .bias = 1, .max = 0x1F},
    [NC_FLOAT6E3M2] = {.fraction = 2, .bias = 3, .max = 0x1F},
};

enum { E8M0_NAN = 0xFF, E8M0_MAX = 0xFE, E8M0_BIAS = 127 };

const nc_narrow_format *nc_narrow_format_of(nc_dtype t) {
    return &formats[(int)t > 0 && t < NC_N_DTYPES ? t : NC_UNDEFINED];
}

bool nc_dtype_is_narrow(nc_dtype t) { return nc_dtype_class(t) == 'N' || nc_dtype_is_packed(t); }

/* ---- integers ---- */

int nc_narrow_to_int(nc_dtype t, uint8_t code) {
    int sign = 1 << (nc_dtype_bits(t) - 1);
    return nc_dtype_class(t) == 'I' ? (code ^ sign) - sign : code;
}

static uint8_t int_of_f64(nc_dtype t, double v) {
    unsigned n = 1u << nc_dtype_bits(t);
    int i = isfinite(v) ? (int)fmod(trunc(v), n) : 0;
    return (uint8_t)((unsigned)i & (n - 1));
}

/* ---- floats ---- */

float nc_narrow_to_f32(nc_dtype t, uint8_t code) {
    const nc_narrow_format *f = &formats[t];
    if (t == NC_FLOAT8E8M0) return code == E8M0_NAN ? NAN : ldexpf(1, code - E8M0_BIAS);
    if (nc_dtype_class(t) != 'N') return (float)nc_narrow_to_int(t, code);
    uint8_t sign = (uint8_t)(1u << (nc_dtype_bits(t) - 1)), magnitude = (uint8_t)(code & (sign - 1));
    if (f->unsigned_zero && code == f->nan) return NAN;
    if (!f->unsigned_zero && f->overflow && magnitude >= f->overflow) {
        float special = magnitude == f->overflow && f->overflow != f->nan ? INFINITY : NAN;
        return code & sign ? -special : special;
    }
    int exponent = magnitude >> f->fraction, fraction = magnitude & ((1 << f->fraction) - 1);
    if (exponent > 0) fraction |= 1 << f->fraction;
    float v = ldexpf((float)fraction, (exponent > 0 ? exponent : 1) - f->bias - f->fraction);
    return code & sign ? -v : v;
}

/* The code nearest to |v| > 0, ties to even, as a number that may lie beyond the format's largest. A carry out of the
 * fraction runs into the exponent, as it must. */
static int round_magnitude(const nc_narrow_format *f, double v) {
    int exponent;
    frexp(v, &exponent); /* v in [2^(exponent-1), 2^exponent) */
    int scale = exponent - 1 < 1 - f->bias ? 1 - f->bias : exponent - 1;
    double steps = rint(ldexp(v, f->fraction - scale)); /* at most 2^(fraction+1): exact */
    return (int)steps + ((scale + f->bias - 1) << f->fraction);
}

static uint8_t e8m0_of_f64(double v, nc_narrowing how) {
    int exponent;
    if (v != v) return E8M0_NAN;
    v = fabs(v);
    if (isinf(v)) return how.saturate ? E8M0_MAX : E8M0_NAN;
    if (v < 0x1p-127) return how.saturate ? 0 : E8M0_NAN;
    double top = frexp(v, &exponent) * 2; /* v = top * 2^(exponent-1), top in [1, 2) */
    bool up = how.round == NC_ROUND_UP ? top > 1 : how.round == NC_ROUND_NEAREST && top >= 1.5;
    int code = exponent - 1 + E8M0_BIAS + up;
    return code <= E8M0_MAX ? (uint8_t)code : how.saturate ? E8M0_MAX : E8M0_NAN;
}

uint8_t nc_f64_to_narrow(nc_dtype t, double v, nc_narrowing how) {
    const nc_narrow_format *f = &formats[t];
    if (t == NC_FLOAT8E8M0) return e8m0_of_f64(v, how);
    if (nc_dtype_class(t) != 'N') return int_of_f64(t, v);
    unsigned sign = signbit(v) ? 1u << (nc_dtype_bits(t) - 1) : 0;
    if (v != v) { /* no NaN: a zero, its sign turned over as common libraries do it */
        if (f->unsigned_zero) return f->nan;
        return (uint8_t)(f->nan ? sign | f->nan : sign ^ 1u << (nc_dtype_bits(t) - 1));
    }
    double magnitude = fabs(v);
    int code = magnitude > 0x1p100 ? 0x100 : magnitude > 0 ? round_magnitude(f, magnitude) : 0;
    if (code > f->max) {
        if (f->overflow && !how.saturate) return (uint8_t)(f->unsigned_zero ? f->overflow : sign | f->overflow);
        code = f->max;
    }
    return (uint8_t)(code == 0 && f->unsigned_zero ? 0 : sign | (unsigned)code);
}

/* ---- packed data ---- */

uint8_t nc_narrow_load(nc_dtype t, const void *data, int64_t i) {
    const uint8_t *p = data;
    unsigned bits = nc_dtype_bits(t);
    if (bits == 8) return p[i];
    uint64_t at = (uint64_t)i * bits;
    unsigned shift = at % 8, word = p[at / 8];
    if (shift + bits > 8) word |= (unsigned)p[at / 8 + 1] << 8;
    return (uint8_t)(word >> shift & ((1u << bits) - 1));
}

void nc_narrow_store(nc_dtype t, void *data, int64_t i, uint8_t code) {
    uint8_t *p = data;
    unsigned bits = nc_dtype_bits(t);
    if (bits == 8) {
        p[i] = code;
        return;
    }
    uint64_t at = (uint64_t)i * bits;
    unsigned shift = at % 8, mask = ((1u << bits) - 1) << shift, word = (unsigned)code << shift;
    p[at / 8] = (uint8_t)((p[at / 8] & ~mask) | (word & mask));
    if (shift + bits > 8) p[at / 8 + 1] = (uint8_t)((p[at / 8 + 1] & ~(mask >> 8)) | (word >> 8 & mask >> 8));
}
