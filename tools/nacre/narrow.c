/* tools/nacre/narrow.c: elements of at most 8 bits as numbers: integers of 4 and 2 bits, floats of 8, 6 and 4. Packed
 * elements are one stream of bits, the first one lowest. */
#include "cli.h"

#include <math.h>

typedef enum ends { FINITE, LAST_IS_NAN, MINUS_ZERO_IS_NAN, INFINITE } ends; /* which codes are no numbers */

typedef struct form {
    nacre_type type;
    int bits, fraction, bias; /* fraction -1: an integer, bias 1 if signed */
    ends ends;
} form;

static const form forms[] = {
    {NACRE_UINT4, 4, -1, 0, FINITE},
    {NACRE_INT4, 4, -1, 1, FINITE},
    {NACRE_UINT2, 2, -1, 0, FINITE},
    {NACRE_INT2, 2, -1, 1, FINITE},
    {NACRE_FLOAT8E4M3FN, 8, 3, 7, LAST_IS_NAN},
    {NACRE_FLOAT8E4M3FNUZ, 8, 3, 8, MINUS_ZERO_IS_NAN},
    {NACRE_FLOAT8E5M2, 8, 2, 15, INFINITE},
    {NACRE_FLOAT8E5M2FNUZ, 8, 2, 16, MINUS_ZERO_IS_NAN},
    {NACRE_FLOAT4E2M1, 4, 1, 1, FINITE},
    {NACRE_FLOAT6E2M3, 6, 3, 1, FINITE},
    {NACRE_FLOAT6E3M2, 6, 2, 3, FINITE},
};

static unsigned code_at(const form *f, const unsigned char *p, int64_t i) {
    int64_t bit = i * f->bits;
    unsigned v = p[bit / 8] >> bit % 8;
    if (bit % 8 + f->bits > 8) v |= (unsigned)p[bit / 8 + 1] << (8 - bit % 8);
    return v & ((1u << f->bits) - 1);
}

static double float_of(const form *f, unsigned code) {
    unsigned sign = 1u << (f->bits - 1), size = code & (sign - 1), top = (1u << (f->bits - 1 - f->fraction)) - 1;
    unsigned exponent = size >> f->fraction, fraction = size & ((1u << f->fraction) - 1);
    if ((f->ends == LAST_IS_NAN && size == sign - 1) || (f->ends == MINUS_ZERO_IS_NAN && code == sign)) return NAN;
    if (f->ends == INFINITE && exponent == top) return fraction ? NAN : code & sign ? -INFINITY : INFINITY;
    double part = fraction + (exponent ? 1u << f->fraction : 0u);
    double v = ldexp(part, (exponent ? (int)exponent : 1) - f->bias - f->fraction);
    return code & sign ? -v : v;
}

double narrow_value(nacre_type t, const void *data, int64_t i) {
    const unsigned char *p = data;
    if (t == NACRE_FLOAT8E8M0) return p[i] == 255 ? NAN : ldexp(1, p[i] - 127);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        const form *f = &forms[k];
        if (f->type != t) continue;
        unsigned code = code_at(f, p, i);
        if (f->fraction >= 0) return float_of(f, code);
        return f->bias && code >> (f->bits - 1) ? (double)code - (1 << f->bits) : (double)code;
    }
    return NAN;
}
