/* ir/dim_div.c: division, max, min and broadcasting of dims, with the rewrites that make equal expressions the same
 * pointer.
 *
 * floor(a/b): exact quotients divide as polynomials; a common factor cancels; by a constant c whole multiples
 * leave the floor, so a's coefficients lie in [0,c). ceil with a constant in its numerator becomes a floor and
 * floor((x+c-1)/c) becomes ceil(x/c): each function of x has one form. A divisor over symbols is taken to be
 * positive. */
#include "base/shape.h"
#include "ir/dim_core.h"

#include <string.h>

static const nc_term *constant_term(const nc_dim *d) {
    return d->n && d->terms[d->n - 1].n == 0 ? &d->terms[d->n - 1] : NULL;
}

/* x / y as a term; the factors go into f. */
static bool divide_term(const nc_term *x, const nc_term *y, nc_atom **f, nc_term *out) {
    if (x->coef == INT64_MIN && y->coef == -1) return false;
    if (x->coef % y->coef != 0) return false;
    int j = 0, n = 0;
    for (int i = 0; i < x->n; i++)
        if (j < y->n && x->f[i] == y->f[j])
            j++;
        else
            f[n++] = x->f[i];
    *out = (nc_term){x->coef / y->coef, n, f};
    return j == y->n;
}

static const nc_dim *divide_by_term(nc_dims *t, const nc_dim *a, const nc_term *y) {
    nc_term terms[NC_DIM_MAX_TERMS];
    nc_atom *f[NC_DIM_MAX_TERMS][NC_DIM_MAX_FACTORS];
    for (int i = 0; i < a->n; i++)
        if (!divide_term(&a->terms[i], y, f[i], &terms[i])) return NULL;
    return nc_dim_collect(t, terms, a->n);
}

/* The polynomial q with q*b == a; NULL: there is none, or a failure that t->out_of_memory tells apart. */
static const nc_dim *divide_exact(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    if (b->n == 1) return divide_by_term(t, a, &b->terms[0]);
    const nc_dim *q = nc_dim_const(t, 0);
    for (int step = 0; a && q && step < 32; step++) {
        if (a->n == 0) return q;
        nc_atom *f[NC_DIM_MAX_FACTORS];
        nc_term x;
        if (!divide_term(&a->terms[0], &b->terms[0], f, &x)) return NULL;
        const nc_dim *m = nc_dim_term(t, x.coef, x.f, x.n);
        q = nc_dim_add(t, q, m);
        a = nc_dim_sub(t, a, nc_dim_mul(t, m, b));
    }
    return NULL;
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Keeps in f those of the n factors that x has too. */
static int common_factors(nc_atom **f, int n, const nc_term *x) {
    int k = 0, j = 0;
    for (int i = 0; i < n; i++) {
        while (j < x->n && x->f[j]->id < f[i]->id) j++;
        if (j < x->n && x->f[j] == f[i]) {
            f[k++] = f[i];
            j++;
        }
    }
    return k;
}

/* The largest term that divides every term of a and b. */
static bool content(const nc_dim *a, const nc_dim *b, nc_atom **f, nc_term *out) {
    uint64_t g = 0;
    int n = a->terms[0].n;
    memcpy(f, a->terms[0].f, (size_t)n * sizeof *f);
    for (int i = 0; i < a->n + b->n; i++) {
        const nc_term *x = i < a->n ? &a->terms[i] : &b->terms[i - a->n];
        g = gcd(g, x->coef < 0 ? 0 - (uint64_t)x->coef : (uint64_t)x->coef);
        n = common_factors(f, n, x);
    }
    if (g > INT64_MAX) return false;
    *out = (nc_term){(int64_t)g, n, f};
    return g > 1 || n > 0;
}

static const nc_dim *add_const(nc_dims *t, const nc_dim *d, int64_t c) { return nc_dim_add(t, d, nc_dim_const(t, c)); }

/* r has coefficients in [0,c) and is not constant. */
static const nc_dim *round_by_const(nc_dims *t, bool up, const nc_dim *r, int64_t c) {
    const nc_term *k = constant_term(r);
    int64_t shift = k ? k->coef : 0;
    const nc_dim *by = nc_dim_const(t, c), *plus = nc_dim_const(t, 0);
    if (up && shift > 0) {
        up = false;
        shift--;
        r = add_const(t, r, -1);
        plus = nc_dim_const(t, 1);
    }
    if (!up && shift == c - 1) {
        up = true;
        r = add_const(t, r, -shift);
    }
    if (!r || !by) return NULL;
    return nc_dim_add(t, plus, nc_dim_atom(t, up ? NC_ATOM_CEIL : NC_ATOM_FLOOR, r, by));
}

static const nc_dim *divide_by_const(nc_dims *t, bool up, const nc_dim *a, int64_t c) {
    nc_term whole[NC_DIM_MAX_TERMS], rest[NC_DIM_MAX_TERMS];
    for (int i = 0; i < a->n; i++) {
        whole[i] = rest[i] = a->terms[i];
        if (!nc_div_i64(a->terms[i].coef, c, false, &whole[i].coef)) return NULL;
        rest[i].coef = a->terms[i].coef % c;
        if (rest[i].coef < 0) rest[i].coef += c;
    }
    const nc_dim *q = nc_dim_collect(t, whole, a->n), *r = nc_dim_collect(t, rest, a->n);
    int64_t left;
    if (!q || !r) return NULL;
    if (nc_dim_is_const(r, &left)) return add_const(t, q, up && left > 0);
    return nc_dim_add(t, q, round_by_const(t, up, r, c));
}

static const nc_dim *divide(nc_dims *t, bool up, const nc_dim *a, const nc_dim *b) {
    if (!a || !b || b->n == 0) return NULL;
    if (a->n == 0) return a;
    t->out_of_memory = false;
    const nc_dim *q = divide_exact(t, a, b);
    if (q || t->out_of_memory) return q;
    nc_atom *f[NC_DIM_MAX_FACTORS];
    nc_term common;
    if (content(a, b, f, &common)) {
        a = divide_by_term(t, a, &common);
        b = divide_by_term(t, b, &common);
    }
    int64_t c;
    if (nc_dim_is_const(b, &c) && c < 0) {
        const nc_dim *zero = nc_dim_const(t, 0);
        a = nc_dim_sub(t, zero, a);
        b = nc_dim_sub(t, zero, b);
    }
    if (!a || !b) return NULL;
    if (nc_dim_is_const(b, &c)) return divide_by_const(t, up, a, c);
    return nc_dim_atom(t, up ? NC_ATOM_CEIL : NC_ATOM_FLOOR, a, b);
}

const nc_dim *nc_dim_floordiv(nc_dims *t, const nc_dim *a, const nc_dim *b) { return divide(t, false, a, b); }

const nc_dim *nc_dim_ceildiv(nc_dims *t, const nc_dim *a, const nc_dim *b) { return divide(t, true, a, b); }

static const nc_dim *extreme(nc_dims *t, nc_atom_kind kind, const nc_dim *a, const nc_dim *b) {
    if (!a || !b) return NULL;
    if (a == b) return a;
    int64_t diff;
    t->out_of_memory = false;
    const nc_dim *d = nc_dim_sub(t, a, b);
    if (!d && t->out_of_memory) return NULL;
    if (nc_dim_is_const(d, &diff)) return (diff > 0) == (kind == NC_ATOM_MAX) ? a : b;
    int64_t ca, cb;
    if (nc_dim_is_const(a, &ca) && nc_dim_is_const(b, &cb)) return (ca > cb) == (kind == NC_ATOM_MAX) ? a : b;
    return a->id < b->id ? nc_dim_atom(t, kind, a, b) : nc_dim_atom(t, kind, b, a);
}

const nc_dim *nc_dim_max(nc_dims *t, const nc_dim *a, const nc_dim *b) { return extreme(t, NC_ATOM_MAX, a, b); }

const nc_dim *nc_dim_min(nc_dims *t, const nc_dim *a, const nc_dim *b) { return extreme(t, NC_ATOM_MIN, a, b); }

/* ---- broadcasting ---- */

int64_t nc_dim_spread_i64(int64_t a, int64_t b) { return a == 0 || b == 0 ? 0 : a > b ? a : b; }

/* spread(spread(x,y),z): the parts stand in order of their ids, the last one outermost. NULL: d is no spread. */
static const nc_atom *spread_of(const nc_dim *d) {
    bool one = d->n == 1 && d->terms[0].coef == 1 && d->terms[0].n == 1;
    return one && d->terms[0].f[0]->kind == NC_ATOM_SPREAD ? d->terms[0].f[0] : NULL;
}

/* Is x min(d,c) with c at least 1? Then it spreads to d: rows that a table of c is cut to. */
static bool caps(const nc_dim *x, const nc_dim *d) {
    int64_t c;
    bool one = x->n == 1 && x->terms[0].coef == 1 && x->terms[0].n == 1;
    const nc_atom *m = one ? x->terms[0].f[0] : NULL;
    if (m == NULL || m->kind != NC_ATOM_MIN || (m->a != d && m->b != d)) return false;
    return nc_dim_is_const(m->a == d ? m->b : m->a, &c) && c >= 1;
}

static bool capped_in(const nc_dim *x, const nc_dim *d) {
    for (const nc_atom *s; (s = spread_of(d)) != NULL; d = s->a)
        if (caps(x, s->b)) return true;
    return caps(x, d);
}

/* d with part x, which is no spread itself, at its place. */
static const nc_dim *spread_part(nc_dims *t, const nc_dim *d, const nc_dim *x) {
    const nc_dim *later[NC_DIM_MAX_TERMS];
    int n = 0;
    if (capped_in(x, d)) return d;
    if (caps(d, x)) return x;
    for (const nc_atom *s; (s = spread_of(d)) != NULL && s->b->id > x->id; d = s->a) {
        if (n == NC_DIM_MAX_TERMS) return NULL;
        later[n++] = s->b;
    }
    const nc_atom *s = spread_of(d);
    const nc_dim *last = s != NULL ? s->b : d;
    if (last != x) d = last->id < x->id ? nc_dim_atom(t, NC_ATOM_SPREAD, d, x) : nc_dim_atom(t, NC_ATOM_SPREAD, x, d);
    while (d && n > 0) d = nc_dim_atom(t, NC_ATOM_SPREAD, d, later[--n]);
    return d;
}

const nc_dim *nc_dim_spread(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    int64_t ca = -1, cb = -1;
    if (!a || !b) return NULL;
    bool const_a = nc_dim_is_const(a, &ca), const_b = nc_dim_is_const(b, &cb);
    if (a == b || ca == 1) return b;
    if (cb == 1) return a;
    if (const_a && const_b) return nc_dim_const(t, nc_dim_spread_i64(ca, cb));
    if (const_a || const_b) return const_a ? a : b;
    for (const nc_atom *s; a && (s = spread_of(b)) != NULL; b = s->a) a = spread_part(t, a, s->b);
    return a ? spread_part(t, a, b) : NULL;
}
