/* cuda/convert.cu: dense elements in another type, where one of the two is narrow (base/narrow.h) or floats become
 * integers, which stop at their ends. In front are defined: S, or bytes of codes; Y, what is stored; W, double, int64_t
 * or uint64_t, which holds every S; IN and OUT, the bits of a code, 0: no codes; INTEGER: Y is one of more bits. */
#ifndef Y
#define Y uint8_t
#define W double
#define IN 8
#define OUT 4
#define INTEGER 0
#endif
enum { TO_FLOAT, TO_EXPONENT, TO_INTEGER }; /* narrow types as convert.c tells them */

/* Mirrors convert_how in convert.c. */
struct convert_how {
    float value[256]; /* of the codes that are read */
    int to, fraction, bias, max, overflow, nan, unsigned_zero, saturate, round;
};

DEVICE W wide_at(const convert_how &h, const S *x, int64_t i) {
#if IN
    const uint8_t *p = (const uint8_t *)x + i * IN / 8;
    int shift = (int)(i * IN % 8);
    unsigned word = p[0];
    if (shift + IN > 8) word |= (unsigned)p[1] << 8;
    return (W)h.value[word >> shift & ((1u << IN) - 1)];
#else
    return (W)get(x[i]);
#endif
}

#if OUT
DEVICE int exponent_of(double v) { return (int)(__double_as_longlong(v) >> 52 & 0x7ff) - 1023; }

/* Rounds by 0 up, 1 to the nearest, 2 down. */
DEVICE unsigned exponent_code(const convert_how &h, double v) {
    int64_t part = __double_as_longlong(v) & 0xfffffffffffffll;
    if (v != v) return 0xff;
    v = fabs(v);
    if (v < 0x1p-127) return h.saturate ? 0 : 0xff;
    int code = exponent_of(v) + 127 + (h.round == 0 ? part != 0 : h.round == 1 && part >> 51);
    return !isinf(v) && code <= 0xfe ? code : h.saturate ? 0xfe : 0xff;
}

/* The code nearest to v > 0, ties to even; a carry out of the fraction runs into the exponent. */
DEVICE int magnitude_code(const convert_how &h, double v) {
    int scale = max(exponent_of(v), 1 - h.bias);
    double steps = rint(v * __longlong_as_double((int64_t)(1023 + h.fraction - scale) << 52));
    return (int)steps + ((scale + h.bias - 1) << h.fraction);
}

DEVICE unsigned code_of(const convert_how &h, double v) {
    const unsigned top = 1u << (OUT - 1);
    if (h.to == TO_EXPONENT) return exponent_code(h, v);
    if (h.to == TO_INTEGER) return isfinite(v) ? (unsigned)(int)fmod(trunc(v), 2.0 * top) & (2 * top - 1) : 0;
    unsigned sign = __double_as_longlong(v) < 0 ? top : 0;
    if (v != v) return h.unsigned_zero ? h.nan : h.nan ? sign | h.nan : sign ^ top;
    v = fabs(v);
    int code = v > 0x1p100 ? 0x100 : v > 0 ? magnitude_code(h, v) : 0;
    if (code > h.max) {
        if (h.overflow && !h.saturate) return h.unsigned_zero ? h.overflow : sign | h.overflow;
        code = h.max;
    }
    return code == 0 && h.unsigned_zero ? 0 : sign | code;
}
template <class T> DEVICE unsigned code_of(const convert_how &h, T v) {
    return h.to == TO_INTEGER ? (unsigned)v & ((1u << OUT) - 1) : code_of(h, (double)v);
}
#elif INTEGER
/* Of 8 and 16 bits: the low ones of an int32. */
DEVICE Y stored(double v) {
    if (v != v) return 0;
    if (sizeof(Y) < 4) return (Y)__double2int_rz(v);
    const bool is_signed = (Y)-1 < (Y)0;
    const double most = is_signed ? (double)(1ull << (8 * sizeof(Y) - 1)) : 2.0 * (1ull << (8 * sizeof(Y) - 1));
    if (is_signed) return (Y)__double2ll_rz(sizeof(Y) < 8 ? fmin(fmax(v, -most), most - 1) : v);
    return (Y)__double2ull_rz(sizeof(Y) < 8 ? fmin(fmax(v, 0.0), most - 1) : v);
}
template <class T> DEVICE Y stored(T v) { return (Y)v; }
#else
template <class T> DEVICE Y stored(T v) { return to<Y>::put(v); }
#endif

/* A thread writes the codes of eight elements, which fill whole bytes. */
extern "C" __global__ void convert(convert_how h, int64_t n, const S *__restrict__ x, Y *y) {
#if OUT
    for (int64_t g = first_item(); g * 8 < n; g += item_step()) {
        int many = (int)min(n - g * 8, (int64_t)8);
        uint64_t word = 0;
        for (int k = 0; k < many; k++) word |= (uint64_t)code_of(h, wide_at(h, x, g * 8 + k)) << k * OUT;
        for (int k = 0; k * 8 < many * OUT; k++) y[g * OUT + k] = (Y)(word >> k * 8);
    }
#else
    for (int64_t i = first_item(); i < n; i += item_step()) y[i] = stored(wide_at(h, x, i));
#endif
}
