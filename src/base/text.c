/* base/text.c: a growing text. Once an allocation failed, the text stays as it was and ignores what follows, so a
 * dump is written without checks and `failed` is read once at the end. */
#include "base/text.h"

#include "base/mem.h"

#include <locale.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more bytes and the NUL. */
static bool reserve(nc_text *t, size_t n) {
    if (t->failed) return false;
    size_t need;
    if (__builtin_add_overflow(t->n, n, &need) || need > PTRDIFF_MAX / 2) {
        t->failed = true;
        return false;
    }
    if (need < t->cap) return true;
    size_t cap = t->cap ? t->cap : 64;
    while (cap <= need) cap *= 2;
    char *s = nc_realloc(t->s, cap);
    if (s == NULL) {
        t->failed = true;
        return false;
    }
    t->s = s;
    t->cap = cap;
    return true;
}

void nc_text_add(nc_text *t, const char *s) { nc_text_add_n(t, s, strlen(s)); }

void nc_text_add_n(nc_text *t, const char *s, size_t n) {
    if (!reserve(t, n)) return;
    if (n > 0) memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = '\0';
}

void nc_text_addf(nc_text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) t->failed = true;
    if (n < 0 || !reserve(t, (size_t)n)) return;
    va_start(ap, fmt);
    vsnprintf(t->s + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

/* Columns count characters, not bytes: UTF-8 continuation bytes take no room. */
static size_t current_column(const nc_text *t) {
    size_t column = 0;
    for (size_t i = t->n; i > 0 && t->s[i - 1] != '\n'; i--) column += ((unsigned char)t->s[i - 1] & 0xC0) != 0x80;
    return column;
}

void nc_text_pad(nc_text *t, size_t column) {
    size_t at = current_column(t), n = at < column ? column - at : 1;
    if (!reserve(t, n)) return;
    memset(t->s + t->n, ' ', n);
    t->n += n;
    t->s[t->n] = '\0';
}

void nc_text_release(nc_text *t) {
    nc_free(t->s);
    *t = (nc_text){0};
}

/* ---- numbers ---- */

static locale_t c_locale(void) {
    static _Atomic(locale_t) made;
    locale_t l = atomic_load(&made);
    if (!l) { /* glibc's "C" is one object however often it is asked for */
        l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        atomic_store(&made, l);
    }
    return l;
}

double nc_text_to_double(const char *s, char **end) {
    locale_t l = c_locale();
    return l ? strtod_l(s, end, l) : strtod(s, end);
}

void nc_text_of_double(char *out, size_t bytes, int digits, double v) {
    locale_t l = c_locale(), old = l ? uselocale(l) : (locale_t)0;
    snprintf(out, bytes, "%.*g", digits, v);
    if (l) uselocale(old);
}

void nc_text_where(const char *text, const char *at, int *line, int *column) {
    *line = *column = 1;
    for (const char *p = text; p < at; p++) {
        *column = *p == '\n' ? 1 : *column + 1;
        *line += *p == '\n';
    }
}
