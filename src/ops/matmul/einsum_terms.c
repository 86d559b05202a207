/* ops/matmul/einsum_terms.c: reads an Einsum equation: terms of letters with at most one ellipsis, and a result that
 * is written out or, without an arrow, the ellipsis and then every letter that occurs once, in the order of the
 * alphabet. */
#include "ops/matmul/einsum.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    const char *at;
    char *why;
    size_t bytes_why;
    int ellipsis; /* dims it stands for in the widest operand; -1: not seen */
    int count[NC_EINSUM_LETTERS];
} reader;

static nc_code einsum_terms_wrong(reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, r->bytes_why, format, args);
    va_end(args);
    return NC_E_BAD_GRAPH;
}

static int letter(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}

static bool ends(const char *s) { return *s == '\0' || *s == ',' || (s[0] == '-' && s[1] == '>'); }

/* Letters of the term at `s`, and where its ellipsis is among them (-1: none). */
static nc_code read_term(reader *r, const char **s, nc_einsum_term *t, int *dots) {
    *dots = -1;
    t->rank = 0;
    for (; !ends(*s); ++*s) {
        if (**s == ' ') continue;
        if (strncmp(*s, "...", 3) == 0 && *dots < 0) {
            *dots = t->rank;
            *s += 2;
            continue;
        }
        int l = letter(**s);
        if (l < 0) return einsum_terms_wrong(r, "the equation holds '%c'", **s);
        if (t->rank == NC_MAX_RANK) return einsum_terms_wrong(r, "a term has more than %d letters", NC_MAX_RANK);
        t->label[t->rank++] = (uint8_t)l;
    }
    return NC_OK;
}

/* Puts n dims of the ellipsis at place `dots`. */
static nc_code open_dots(reader *r, nc_einsum_term *t, int dots, int n) {
    if (dots < 0) return NC_OK;
    if (t->rank + n > NC_MAX_RANK) return einsum_terms_wrong(r, "a term stands for more than %d dims", NC_MAX_RANK);
    memmove(t->label + dots + n, t->label + dots, (size_t)(t->rank - dots));
    for (int k = 0; k < n; k++) t->label[dots + k] = (uint8_t)(NC_EINSUM_LETTERS + NC_MAX_RANK - n + k);
    t->rank += n;
    return NC_OK;
}

static nc_code read_in(reader *r, const int *ranks, nc_einsum *e) {
    const char *s = r->at;
    for (int i = 0; i < e->n_in; i++) {
        int dots;
        nc_code code = read_term(r, &s, &e->in[i], &dots);
        if (code != NC_OK) return code;
        int n = ranks[i] - e->in[i].rank;
        if (n < 0 || (dots < 0 && n > 0))
            return einsum_terms_wrong(r, "term %d has %d letters, the operand %d dims", i, e->in[i].rank, ranks[i]);
        for (int k = 0; k < e->in[i].rank; k++) r->count[e->in[i].label[k]]++;
        if (dots >= 0 && n > r->ellipsis) r->ellipsis = n;
        if ((code = open_dots(r, &e->in[i], dots, n)) != NC_OK) return code;
        if ((*s == ',') != (i + 1 < e->n_in))
            return einsum_terms_wrong(r, "the equation has %s terms than the %d operands", *s == ',' ? "more" : "fewer",
                                      e->n_in);
        if (*s == ',') s++;
    }
    r->at = s;
    return NC_OK;
}

static nc_code read_out(reader *r, nc_einsum_term *out) {
    int dots = -1;
    if (*r->at == '\0') {
        out->rank = 0;
        for (int l = 0; l < NC_EINSUM_LETTERS; l++)
            if (r->count[l] == 1 && out->rank < NC_MAX_RANK) out->label[out->rank++] = (uint8_t)l;
        return r->ellipsis >= 0 ? open_dots(r, out, 0, r->ellipsis) : NC_OK;
    }
    const char *s = r->at + 2;
    nc_code code = read_term(r, &s, out, &dots);
    if (code != NC_OK) return code;
    if (*s != '\0') return einsum_terms_wrong(r, "there is more after the result's term");
    bool have[NC_EINSUM_LETTERS] = {false};
    for (int k = 0; k < out->rank; k++) {
        if (r->count[out->label[k]] == 0 || have[out->label[k]])
            return einsum_terms_wrong(r, "a letter of the result occurs %s",
                                      have[out->label[k]] ? "twice" : "in no operand");
        have[out->label[k]] = true;
    }
    return open_dots(r, out, dots, r->ellipsis > 0 ? r->ellipsis : 0);
}

nc_code nc_einsum_resolve(const char *equation, const int *ranks, int n_in, nc_einsum *e, char *why, size_t bytes_why) {
    reader r = {.at = equation, .why = why, .bytes_why = bytes_why, .ellipsis = -1};
    if (n_in < 1 || n_in > NC_EINSUM_MAX_IN)
        return einsum_terms_wrong(&r, "%d operands, at most %d are supported", n_in, NC_EINSUM_MAX_IN);
    e->n_in = n_in;
    nc_code code = read_in(&r, ranks, e);
    return code == NC_OK ? read_out(&r, &e->out) : code;
}
