/* base/json.c: a parser of RFC 8259 that goes down as deep as MAX_DEPTH and no further. */
#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32

typedef struct parser {
    nc_work *w;
    nc_arena *arena;
    const char *start, *p, *end;
} parser;

static nc_code bad(parser *x, const char *what) {
    return nc_fail(x->w, NC_E_BAD_MODEL, "JSON: %s at byte %zu", what, (size_t)(x->p - x->start));
}

static int peek(parser *x) {
    while (x->p < x->end && strchr(" \t\r\n", *x->p) && *x->p) x->p++;
    return x->p < x->end ? (unsigned char)*x->p : -1;
}

static bool take(parser *x, char c) {
    if (peek(x) != c) return false;
    x->p++;
    return true;
}

/* Bytes of the UTF-8 sequence at s, of which n are there; 0: none. */
static int utf8(const char *s, size_t n) {
    unsigned char c = (unsigned char)*s;
    int bytes = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    if (!bytes || (size_t)bytes > n) return 0;
    for (int i = 1; i < bytes; i++)
        if (((unsigned char)s[i] & 0xC0) != 0x80) return 0;
    unsigned char d = bytes > 1 ? (unsigned char)s[1] : 0;
    bool overlong = (c == 0xE0 && d < 0xA0) || (c == 0xF0 && d < 0x90);
    bool outside = (c == 0xED && d >= 0xA0) || (c == 0xF4 && d >= 0x90); /* surrogates; above U+10FFFF */
    return overlong || outside ? 0 : bytes;
}

static bool hex4(parser *x, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, x->p++) {
        char c = x->p < x->end ? *x->p : '\0', low = (char)(c | 0x20);
        bool decimal = c >= '0' && c <= '9';
        if (!decimal && !(low >= 'a' && low <= 'f')) return false;
        *out = *out << 4 | (uint32_t)(decimal ? c - '0' : low - 'a' + 10);
    }
    return true;
}

/* Behind "\u"; a pair of surrogates is one character. */
static bool unicode(parser *x, char **to) {
    uint32_t c, low;
    if (!hex4(x, &c) || c == 0 || (c >= 0xDC00 && c < 0xE000)) return false;
    if (c >= 0xD800 && c < 0xDC00) {
        if (x->end - x->p < 6 || x->p[0] != '\\' || x->p[1] != 'u') return false;
        x->p += 2;
        if (!hex4(x, &low) || low < 0xDC00 || low >= 0xE000) return false;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (c < 0x80) {
        *(*to)++ = (char)c;
        return true;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *(*to)++ = (char)((0xFF00 >> (more + 1) & 0xFF) | c >> 6 * more);
    for (int i = more - 1; i >= 0; i--) *(*to)++ = (char)(0x80 | (c >> 6 * i & 0x3F));
    return true;
}

static bool escape(parser *x, char **to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (x->p == x->end) return false;
    char c = *x->p++;
    if (c == 'u') return unicode(x, to);
    const char *at = c ? strchr(from, c) : NULL;
    if (at) *(*to)++ = into[at - from];
    return at != NULL;
}

static nc_code string(parser *x, const char **out) {
    if (!take(x, '"')) return bad(x, "a string is expected");
    const char *close = x->p;
    while (close < x->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= x->end) return bad(x, "a string without its end");
    char *s = nc_arena_alloc(x->arena, (size_t)(close - x->p) + 1), *to = s;
    NC_NEED(x->w, s);
    while (x->p < close) {
        if ((unsigned char)*x->p < 0x20) return bad(x, "a control character in a string");
        if (*x->p == '\\') {
            x->p++;
            if (!escape(x, &to)) return bad(x, "an escape that is none");
            continue;
        }
        int bytes = utf8(x->p, (size_t)(close - x->p));
        if (!bytes) return bad(x, "bytes that are not UTF-8");
        memcpy(to, x->p, (size_t)bytes);
        to += bytes;
        x->p += bytes;
    }
    x->p = close + 1;
    *to = '\0';
    *out = s;
    return NC_OK;
}

static bool digits(const char **p, const char *end) {
    const char *from = *p;
    while (*p < end && **p >= '0' && **p <= '9') ++*p;
    return *p > from;
}

static nc_code number(parser *x, nc_json *v) {
    const char *p = x->p;
    bool negative = *p == '-', whole = true, fine;
    p += negative;
    const char *first = p;
    fine = digits(&p, x->end) && !(*first == '0' && p - first > 1);
    if (fine && p < x->end && *p == '.') p++, whole = false, fine = digits(&p, x->end);
    if (fine && p < x->end && (*p | 0x20) == 'e') {
        p++, whole = false;
        if (p < x->end && (*p == '+' || *p == '-')) p++;
        fine = digits(&p, x->end);
    }
    if (!fine || p - x->p > 400) return bad(x, "a number that is none");
    char *text = nc_arena_strn(x->arena, x->p, (size_t)(p - x->p));
    NC_NEED(x->w, text);
    v->kind = NC_JSON_NUMBER;
    v->d = nc_text_to_double(text, NULL);
    v->is_int = whole;
    for (const char *q = first; q < p && v->is_int; q++)
        v->is_int = !__builtin_mul_overflow(v->i, (int64_t)10, &v->i) &&
                    !__builtin_add_overflow(v->i, negative ? '0' - *q : *q - '0', &v->i);
    x->p = p;
    return NC_OK;
}

static nc_code value(parser *x, int depth, nc_json *v);

static nc_code items(parser *x, int depth, nc_json *v, char close) {
    nc_json **last = &v->first;
    x->p++;
    if (take(x, close)) return NC_OK;
    do {
        nc_json *item = nc_arena_alloc(x->arena, sizeof *item);
        NC_NEED(x->w, item);
        if (v->kind == NC_JSON_OBJECT) {
            NC_TRY(string(x, &item->key));
            if (!take(x, ':')) return bad(x, "':' is expected");
        }
        NC_TRY(value(x, depth + 1, item));
        *last = item;
        last = &item->next;
        v->n++;
    } while (take(x, ','));
    return take(x, close) ? NC_OK : bad(x, close == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
}

static bool word(parser *x, const char *s) {
    size_t n = strlen(s);
    if ((size_t)(x->end - x->p) < n || memcmp(x->p, s, n) != 0) return false;
    x->p += n;
    return true;
}

static nc_code value(parser *x, int depth, nc_json *v) {
    int c = peek(x);
    if (depth > MAX_DEPTH) return bad(x, "nested too deep");
    if (c == '"') {
        v->kind = NC_JSON_STRING;
        return string(x, &v->s);
    }
    if (c == '-' || (c >= '0' && c <= '9')) return number(x, v);
    if (c == '{' || c == '[') {
        v->kind = c == '{' ? NC_JSON_OBJECT : NC_JSON_LIST;
        return items(x, depth, v, c == '{' ? '}' : ']');
    }
    v->kind = NC_JSON_BOOL;
    if (word(x, "true")) return v->i = 1, NC_OK;
    if (word(x, "false")) return NC_OK;
    v->kind = NC_JSON_NULL;
    return word(x, "null") ? NC_OK : bad(x, "a value is expected");
}

nc_code nc_json_parse(nc_work *w, nc_arena *a, const char *s, size_t n, nc_json **out) {
    parser x = {w, a, s, s, s + n};
    nc_json *v = nc_arena_alloc(a, sizeof *v);
    NC_NEED(w, v);
    NC_TRY(value(&x, 0, v));
    if (peek(&x) >= 0) return bad(&x, "more than one value");
    *out = v;
    return NC_OK;
}

const nc_json *nc_json_get(const nc_json *object, const char *key) {
    if (!object || object->kind != NC_JSON_OBJECT) return NULL;
    for (const nc_json *v = object->first; v; v = v->next)
        if (strcmp(v->key, key) == 0) return v;
    return NULL;
}

bool nc_json_put_string(nc_text *out, const char *s) {
    size_t n = strlen(s);
    for (size_t i = 0, bytes; i < n; i += bytes)
        if (!(bytes = (size_t)utf8(s + i, n - i))) return false;
    nc_text_add(out, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            nc_text_addf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            nc_text_addf(out, "\\u%04x", (unsigned)*s);
        else
            nc_text_add_n(out, s, 1);
    }
    nc_text_add(out, "\"");
    return true;
}
