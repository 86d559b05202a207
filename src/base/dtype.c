/* base/dtype.c: the table of element types and exact scalar conversions of the 16-bit floats.
 * These are the slow, obvious conversions that SIMD ones are compared with; NaNs become quiet and keep the top of
 * their payload, as the conversion instructions of x86-64 and AArch64 do it. */
#include "base/dtype.h"

#include <string.h>

static const struct {
    unsigned short bits;
    char class_;
    const char *name;
} types[NC_N_DTYPES] = {
#define X(name, number, bits, class_, text) [number] = {bits, #class_[0], text},
#include "base/dtypes.list"
#undef X
};

static bool is_known(nc_dtype t) { return (int)t > 0 && (int)t < NC_N_DTYPES && types[t].name != NULL; }

size_t nc_dtype_bytes(nc_dtype t) { return is_known(t) ? types[t].bits / 8u : 0; }

unsigned nc_dtype_bits(nc_dtype t) { return is_known(t) ? types[t].bits : 0; }

const char *nc_dtype_name(nc_dtype t) { return is_known(t) ? types[t].name : "?"; }

char nc_dtype_class(nc_dtype t) { return is_known(t) ? types[t].class_ : '\0'; }

nc_dtype nc_dtype_parse(const char *name) {
    for (int t = 1; t < NC_N_DTYPES; t++) {
        if (types[t].name && strcmp(types[t].name, name) == 0) return (nc_dtype)t;
    }
    return NC_UNDEFINED;
}

static uint32_t bits_of_f32(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float f32_of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float nc_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3FF;
    if (exponent == 31) return f32_of_bits(sign | 0x7F800000 | (fraction ? 0x400000 | fraction << 13 : 0));
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in f32 */
        float magnitude = (float)fraction * 0x1p-24f;
        return f32_of_bits(sign | bits_of_f32(magnitude));
    }
    return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* The half nearest to significand * 2^(exponent-52), ties to even; bit 52 is the top bit of the significand.
 * A carry out of the fraction runs into the exponent, and from the largest one into infinity, as it must. */
static uint16_t round_to_half(uint32_t sign, int exponent, uint64_t significand) {
    if (exponent > 15) return (uint16_t)(sign | 0x7C00);
    if (exponent < -25) return (uint16_t)sign;
    int shift = exponent < -14 ? 42 - 14 - exponent : 42;
    uint32_t biased = exponent < -14 ? 0 : (uint32_t)(exponent + 14);
    uint64_t kept = significand >> shift, rest = significand & ((UINT64_C(1) << shift) - 1);
    uint64_t tie = UINT64_C(1) << (shift - 1);
    if (rest > tie || (rest == tie && (kept & 1))) kept++;
    return (uint16_t)(sign | ((biased << 10) + (uint32_t)kept));
}

uint16_t nc_f32_to_f16(float f) {
    uint32_t u = bits_of_f32(f), sign = u >> 16 & 0x8000, fraction = u & 0x7FFFFF;
    int biased = (int)(u >> 23 & 0xFF);
    if (biased == 0xFF && fraction) return (uint16_t)(sign | 0x7E00 | fraction >> 13);
    if (biased == 0) return (uint16_t)sign;
    return round_to_half(sign, biased - 127, (uint64_t)(fraction | 0x800000) << 29);
}

uint16_t nc_f64_to_f16(double d) {
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    uint32_t sign = (uint32_t)(u >> 48) & 0x8000;
    uint64_t fraction = u & ((UINT64_C(1) << 52) - 1);
    int biased = (int)(u >> 52 & 0x7FF);
    if (biased == 0x7FF && fraction) return (uint16_t)(sign | 0x7E00 | (uint32_t)(fraction >> 42));
    if (biased == 0) return (uint16_t)sign;
    return round_to_half(sign, biased - 1023, fraction | UINT64_C(1) << 52);
}

float nc_bf16_to_f32(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

uint16_t nc_f32_to_bf16(float f) {
    uint32_t u = bits_of_f32(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

bool nc_dtype_is_aligned(nc_dtype t, const void *p) {
    size_t elem = t == NC_STRING ? sizeof(void *) : nc_dtype_bytes(t);
    return elem < 2 || (uintptr_t)p % (elem > 8 ? 8 : elem) == 0;
}
