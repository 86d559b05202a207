/* ir/dim_text.c: dims as text: `2*batch+1`, `floor((h+1)/3)`, `max(a,b)`. What is printed parses back to the same
 * dim.
 *
 *   sum  := ['-'] prod (('+' | '-') prod)*          prod := fac ('*' fac)*
 *   fac  := integer | symbol | '(' sum ')'
 *         | ('floor' | 'ceil') '(' sum '/' sum ')' | ('max' | 'min' | 'spread') '(' sum ',' sum ')'
 *   symbol := identifier | '"' any bytes, with \" and \\ '"' */
#include "base/shape.h"
#include "ir/dim_core.h"

#include <inttypes.h>
#include <string.h>

bool nc_dim_ident(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) return false;
    }
    return n > 0;
}

/* ---- printing ---- */

static const struct {
    const char *name;
    char between;
} functions[] = {[NC_ATOM_FLOOR] = {"floor", '/'},
                 [NC_ATOM_CEIL] = {"ceil", '/'},
                 [NC_ATOM_MAX] = {"max", ','},
                 [NC_ATOM_MIN] = {"min", ','},
                 [NC_ATOM_SPREAD] = {"spread", ','}};

static void print_name(nc_text *out, const char *name) {
    if (nc_dim_ident(name, strlen(name))) {
        nc_text_add(out, name);
        return;
    }
    nc_text_add(out, "\"");
    for (const char *p = name; *p; p++) {
        if (*p == '"' || *p == '\\') nc_text_add(out, "\\");
        nc_text_add_n(out, p, 1);
    }
    nc_text_add(out, "\"");
}

static void print_operand(nc_text *out, const nc_dim *d, bool brackets) {
    if (brackets) nc_text_add(out, "(");
    nc_dim_print(out, d);
    if (brackets) nc_text_add(out, ")");
}

static void print_atom(nc_text *out, const nc_atom *x) {
    if (x->kind == NC_ATOM_SYM) {
        print_name(out, x->name);
        return;
    }
    bool divides = functions[x->kind].between == '/';
    nc_text_addf(out, "%s(", functions[x->kind].name);
    print_operand(out, x->a, divides && x->a->n > 1);
    nc_text_addf(out, "%c", functions[x->kind].between);
    bool simple = x->b->n == 1 && (x->b->terms[0].n == 0 || (x->b->terms[0].n == 1 && x->b->terms[0].coef == 1));
    print_operand(out, x->b, divides && !simple);
    nc_text_add(out, ")");
}

void nc_dim_print(nc_text *out, const nc_dim *d) {
    if (d->size > NC_DIM_MAX_PRINT) {
        nc_text_addf(out, "dim_%d", d->id);
        return;
    }
    if (d->n == 0) nc_text_add(out, "0");
    for (int i = 0; i < d->n; i++) {
        const nc_term *x = &d->terms[i];
        if (i && x->coef > 0) nc_text_add(out, "+");
        if (x->n == 0)
            nc_text_addf(out, "%" PRId64, x->coef);
        else if (x->coef == -1)
            nc_text_add(out, "-");
        else if (x->coef != 1)
            nc_text_addf(out, "%" PRId64 "*", x->coef);
        for (int k = 0; k < x->n; k++) {
            if (k) nc_text_add(out, "*");
            print_atom(out, x->f[k]);
        }
    }
}

/* ---- parsing ---- */

typedef struct reader {
    nc_dims *t;
    const char *s;
    int depth;
} reader;

static const nc_dim *read_sum(reader *r);

static bool eat(reader *r, char c) {
    while (*r->s == ' ') r->s++;
    if (*r->s != c) return false;
    r->s++;
    return true;
}

static const nc_dim *read_number(reader *r, bool negative) {
    int64_t v = 0;
    for (; *r->s >= '0' && *r->s <= '9'; r->s++) {
        int64_t digit = negative ? '0' - *r->s : *r->s - '0';
        if (!nc_mul_i64(v, 10, &v) || !nc_add_i64(v, digit, &v)) return NULL;
    }
    return nc_dim_const(r->t, v);
}

static const nc_dim *read_function(reader *r, nc_atom_kind kind) {
    const nc_dim *a = read_sum(r);
    if (!a || !eat(r, functions[kind].between)) return NULL;
    const nc_dim *b = read_sum(r);
    if (!b || !eat(r, ')')) return NULL;
    switch (kind) {
    case NC_ATOM_FLOOR: return nc_dim_floordiv(r->t, a, b);
    case NC_ATOM_CEIL: return nc_dim_ceildiv(r->t, a, b);
    case NC_ATOM_MAX: return nc_dim_max(r->t, a, b);
    case NC_ATOM_SPREAD: return nc_dim_spread(r->t, a, b);
    default: return nc_dim_min(r->t, a, b);
    }
}

static const nc_dim *read_quoted(reader *r) {
    const char *from = ++r->s;
    while (*r->s && *r->s != '"') r->s += r->s[0] == '\\' && r->s[1] ? 2 : 1;
    if (*r->s != '"' || r->s == from) return NULL;
    char *name = nc_arena_strn(&r->t->arena, from, (size_t)(r->s++ - from));
    if (!name) r->t->out_of_memory = true;
    if (!name) return NULL;
    char *to = name;
    for (const char *p = name; *p; p++) {
        if (*p == '\\') p++;
        *to++ = *p;
    }
    *to = 0;
    return nc_dim_sym(r->t, name);
}

static const nc_dim *read_symbol(reader *r) {
    if (*r->s == '"') return read_quoted(r);
    size_t n = 0;
    while (nc_dim_ident(r->s, n + 1)) n++;
    if (n == 0) return NULL;
    const char *from = r->s;
    r->s += n;
    for (nc_atom_kind k = NC_ATOM_FLOOR; k <= NC_ATOM_SPREAD; k++)
        if (strlen(functions[k].name) == n && memcmp(from, functions[k].name, n) == 0 && eat(r, '('))
            return read_function(r, k);
    char *name = nc_arena_strn(&r->t->arena, from, n);
    if (!name) r->t->out_of_memory = true;
    return name ? nc_dim_sym(r->t, name) : NULL;
}

static const nc_dim *read_factor(reader *r, bool negative) {
    while (*r->s == ' ') r->s++;
    if (*r->s >= '0' && *r->s <= '9') return read_number(r, negative);
    const nc_dim *d = NULL;
    if (eat(r, '(')) {
        d = read_sum(r);
        if (!eat(r, ')')) return NULL;
    } else {
        d = read_symbol(r);
    }
    return negative ? nc_dim_mul(r->t, d, nc_dim_const(r->t, -1)) : d;
}

static const nc_dim *read_product(reader *r, bool negative) {
    const nc_dim *d = read_factor(r, negative);
    while (d && eat(r, '*')) d = nc_dim_mul(r->t, d, read_factor(r, false));
    return d;
}

static const nc_dim *read_sum(reader *r) {
    if (r->depth >= 64) return NULL;
    r->depth++;
    const nc_dim *d = read_product(r, eat(r, '-'));
    while (d) {
        bool minus = eat(r, '-');
        if (!minus && !eat(r, '+')) break;
        d = nc_dim_add(r->t, d, read_product(r, minus));
    }
    r->depth--;
    return d;
}

const nc_dim *nc_dim_parse(nc_dims *t, const char **s) {
    reader r = {.t = t, .s = *s};
    const nc_dim *d = read_sum(&r);
    if (d) *s = r.s;
    return d;
}
