/* ir/text_lex.c: the words of the text form: names, strings, numbers, and failures with line and column. Knows no
 * grammar. */
#include "ir/dim_core.h"
#include "ir/text_core.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- printing ---- */

void nc_text_put_string(nc_text *out, const char *s, size_t n) {
    nc_text_add(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            nc_text_addf(out, "\\%c", c);
        else if (c == '\n')
            nc_text_add(out, "\\n");
        else if (c == '\t')
            nc_text_add(out, "\\t");
        else if (c < 32 || c == 127)
            nc_text_addf(out, "\\x%02x", c);
        else
            nc_text_add_n(out, s + i, 1);
    }
    nc_text_add(out, "\"");
}

static bool ident_char(char c, bool first) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') return true;
    return !first && ((c >= '0' && c <= '9') || c == '.' || c == '$');
}

void nc_text_put_name(nc_text *out, const char *name) {
    size_t n = 0;
    while (name[n] && ident_char(name[n], n == 0)) n++;
    if (n && !name[n])
        nc_text_add(out, name);
    else
        nc_text_put_string(out, name, strlen(name));
}

void nc_text_put_float(nc_text *out, double v, int digits) {
    char buf[40];
    nc_text_of_double(buf, sizeof buf, digits, v);
    nc_text_add(out, isnan(v) ? "nan" : buf);
}

/* ---- reading ---- */

nc_code nc_read_fail(nc_reader *r, const char *fmt, ...) {
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    int line, column;
    nc_text_where(r->text, r->s, &line, &column);
    return nc_fail(r->w, NC_E_BAD_MODEL, "line %d, column %d: %s", line, column, what);
}

char nc_read_peek(nc_reader *r) {
    for (;; r->s++) {
        if (*r->s == '#') r->s += strcspn(r->s, "\n");
        if (*r->s == 0 || !strchr(" \t\r\n", *r->s)) return *r->s;
    }
}

bool nc_read_same_line(const nc_reader *r) {
    const char *p = r->s + strspn(r->s, " \t\r");
    return *p && *p != '\n' && *p != '#' && *p != ';';
}

bool nc_read_eat(nc_reader *r, char c) {
    if (nc_read_peek(r) != c) return false;
    r->s++;
    return true;
}

nc_code nc_read_expect(nc_reader *r, char c) {
    if (nc_read_eat(r, c)) return NC_OK;
    if (!*r->s) return nc_read_fail(r, "expected '%c', got the end", c);
    return nc_read_fail(r, "expected '%c', got '%c'", c, *r->s);
}

bool nc_read_at_ident(nc_reader *r) { return ident_char(nc_read_peek(r), true); }

static size_t ident_length(const char *s) {
    size_t n = 0;
    while (ident_char(s[n], n == 0)) n++;
    return n;
}

bool nc_read_word(nc_reader *r, const char *word) {
    nc_read_peek(r);
    size_t n = ident_length(r->s);
    if (n != strlen(word) || memcmp(r->s, word, n) != 0) return false;
    r->s += n;
    return true;
}

nc_code nc_read_ident(nc_reader *r, const char **out) {
    if (!nc_read_at_ident(r)) return nc_read_fail(r, "expected a name");
    size_t n = ident_length(r->s);
    *out = nc_arena_strn(&r->m->arena, r->s, n);
    NC_NEED(r->w, *out);
    r->s += n;
    return NC_OK;
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One character of a string, with its escapes; the cursor stands on it. False: a bad escape. */
static bool read_char(nc_reader *r, char *out) {
    char c = *r->s++;
    if (c == '\\') {
        c = *r->s;
        if (!c) return false;
        r->s++;
        if (c == 'n')
            c = '\n';
        else if (c == 't')
            c = '\t';
        else if (c == 'x') {
            int hi = hex(r->s[0]), lo = hi < 0 ? -1 : hex(r->s[1]);
            if (lo < 0) return false;
            c = (char)(hi * 16 + lo);
            r->s += 2;
        } else if (c != '"' && c != '\\') {
            return false;
        }
    }
    *out = c;
    return true;
}

nc_code nc_read_string(nc_reader *r, nc_str *out) {
    NC_TRY(nc_read_expect(r, '"'));
    size_t room = 0;
    for (const char *p = r->s; *p && *p != '"'; p++, room++)
        if (*p == '\\' && p[1]) p++;
    char *s = nc_arena_alloc(&r->m->arena, room + 1);
    NC_NEED(r->w, s);
    size_t n = 0;
    while (*r->s && *r->s != '"')
        if (!read_char(r, &s[n++])) return nc_read_fail(r, "bad escape in a string");
    if (!*r->s) return nc_read_fail(r, "the string does not end");
    r->s++;
    *out = (nc_str){s, n};
    return NC_OK;
}

nc_code nc_read_name(nc_reader *r, const char **out) {
    if (nc_read_peek(r) != '"') return nc_read_ident(r, out);
    nc_str s;
    NC_TRY(nc_read_string(r, &s));
    if (s.n == 0 || strlen(s.p) != s.n) return nc_read_fail(r, "a name is empty or holds a zero byte");
    *out = s.p;
    return NC_OK;
}

nc_code nc_read_int(nc_reader *r, int64_t *out) {
    nc_read_peek(r);
    char *end;
    errno = 0;
    long long v = strtoll(r->s, &end, 10);
    if (end == r->s) return nc_read_fail(r, "expected an integer");
    if (errno == ERANGE) return nc_read_fail(r, "the integer is too large");
    r->s = end;
    *out = v;
    return NC_OK;
}

nc_code nc_read_float(nc_reader *r, double *out) {
    nc_read_peek(r);
    char *end;
    double v = nc_text_to_double(r->s, &end);
    if (end == r->s) return nc_read_fail(r, "expected a number");
    r->s = end;
    *out = v;
    return NC_OK;
}

bool nc_read_number_is_float(nc_reader *r) {
    nc_read_peek(r);
    const char *p = r->s + (*r->s == '-' || *r->s == '+');
    p += strspn(p, "0123456789");
    return *p == '.' || *p == 'e' || *p == 'E' || *p == 'n' || *p == 'i';
}
