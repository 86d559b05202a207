/* ops/string/letter_case.c: see letter_case.h. Pairs lie either a fixed step apart or side by side, capital first. */
#include "ops/string/letter_case.h"

#include "base/mem.h"
#include "ops/string/regex_program.h"

#include <string.h>

static const struct {
    int32_t lo, hi; /* capitals */
    int32_t step;   /* to the small letter; 1: every second is a capital */
} pairs[] = {{'A', 'Z', 32},     {0xc0, 0xd6, 32},   {0xd8, 0xde, 32},   {0x100, 0x12e, 1},  {0x132, 0x136, 1},
             {0x139, 0x147, 1},  {0x14a, 0x176, 1},  {0x179, 0x17d, 1},  {0x1cd, 0x1db, 1},  {0x1de, 0x1ee, 1},
             {0x1f8, 0x21e, 1},  {0x222, 0x232, 1},  {0x386, 0x386, 38}, {0x388, 0x38a, 37}, {0x38c, 0x38c, 64},
             {0x38e, 0x38f, 63}, {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32}, {0x400, 0x40f, 80}, {0x410, 0x42f, 32},
             {0x460, 0x480, 1},  {0x48a, 0x4be, 1},  {0x4d0, 0x52e, 1},  {0x531, 0x556, 48}, {0x1e00, 0x1e94, 1},
             {0x1ea0, 0x1efe, 1}};

static int32_t letter_to(nc_letter_case to, int32_t c) {
    for (size_t i = 0; to != NC_CASE_KEEP && i < sizeof pairs / sizeof pairs[0]; i++) {
        int32_t lo = pairs[i].lo, hi = pairs[i].hi, step = pairs[i].step;
        int32_t capital = to == NC_CASE_LOWER ? c : c - step;
        if (capital < lo || capital > hi || (step == 1 && (capital - lo) % 2 != 0)) continue;
        return to == NC_CASE_LOWER ? c + step : capital;
    }
    return c;
}

static size_t put_utf8(char *p, int32_t c) {
    if (c < 0x80) return p[0] = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* Pairs have the same length in UTF-8, and what is no letter is copied. */
char *nc_letters_to(nc_letter_case to, const char *p, size_t n, size_t *n_out) {
    char *out = nc_alloc(2 * n + 1), *at = out;
    const char *end = p + n;
    if (out == NULL) return NULL;
    while (n > 0 && p < end) {
        const char *from = p;
        int32_t c = nc_utf8_next(&p, end), changed = letter_to(to, c);
        if (changed == c) {
            memcpy(at, from, (size_t)(p - from));
            at += p - from;
        } else {
            at += put_utf8(at, changed);
        }
    }
    *at = '\0';
    *n_out = (size_t)(at - out);
    return out;
}

bool nc_equal_but_case(const char *a, size_t n_a, const char *b, size_t n_b) {
    const char *end_a = a + n_a, *end_b = b + n_b;
    while (n_a > 0 && n_b > 0 && a < end_a && b < end_b)
        if (letter_to(NC_CASE_LOWER, nc_utf8_next(&a, end_a)) != letter_to(NC_CASE_LOWER, nc_utf8_next(&b, end_b)))
            return false;
    return (n_a == 0 || a == end_a) && (n_b == 0 || b == end_b);
}
