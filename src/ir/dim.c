/* ir/dim.c: the table of interned dims: symbols, sums and products, evaluation, substitution. Division, max,
 * min and broadcasting are in dim_div.c, the printed form in dim_text.c. Storage is described in dim_core.h. */
#include "ir/dim.h"

#include "base/mem.h"
#include "base/shape.h"
#include "ir/dim_core.h"
#include "ir/dim_sign.h"

#include <stdlib.h>
#include <string.h>

nc_dims *nc_dims_create(void) {
    nc_dims *t = nc_alloc_zero(1, sizeof *t);
    if (!t) return NULL;
    nc_arena_init(&t->arena);
    nc_map_init(&t->dims, &t->arena);
    nc_map_init(&t->syms_by_name, &t->arena);
    nc_map_init(&t->functions, &t->arena);
    return t;
}

void nc_dims_destroy(nc_dims *t) {
    if (!t) return;
    nc_arena_release(&t->arena);
    nc_free(t);
}

static void *no_memory(nc_dims *t) {
    t->out_of_memory = true;
    return NULL;
}

/* ---- interning ---- */

static int compare_products(const nc_term *a, const nc_term *b) {
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->f[i] != b->f[i]) return a->f[i]->id < b->f[i]->id ? -1 : 1;
    return (a->n < b->n) - (a->n > b->n);
}

static int compare_terms(const void *a, const void *b) { return compare_products(a, b); }

/* Parts are shared, so what is written out may be exponentially larger than what is stored. */
static uint32_t size_of(const nc_term *terms, int n) {
    uint64_t size = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms[i].n; k++) {
            const nc_atom *x = terms[i].f[k];
            size += x->kind == NC_ATOM_SYM ? 1 : 1 + (uint64_t)x->a->size + x->b->size;
            if (size > UINT32_MAX) return UINT32_MAX;
        }
    return (uint32_t)size;
}

/* Copies the terms and their key (coefficient, count, atom ids per term) into the arena and enters the dim. */
static const nc_dim *enter(nc_dims *t, const nc_term *terms, int n, const int64_t *key, size_t n_key) {
    nc_dim *d = nc_arena_alloc(&t->arena, sizeof *d);
    nc_term *copy = nc_arena_array(&t->arena, (size_t)n + 1, sizeof *copy);
    int64_t *key_copy = nc_arena_array(&t->arena, n_key + 1, sizeof *key_copy);
    if (!d || !copy || !key_copy) return no_memory(t);
    memcpy(key_copy, key, n_key * sizeof *key);
    for (int i = 0; i < n; i++) {
        nc_atom **f = nc_arena_array(&t->arena, (size_t)terms[i].n + 1, sizeof *f);
        if (!f) return no_memory(t);
        if (terms[i].n) memcpy(f, terms[i].f, (size_t)terms[i].n * sizeof *f);
        copy[i] = (nc_term){terms[i].coef, terms[i].n, f};
    }
    *d = (nc_dim){.id = t->n_dims, .n = n, .terms = copy, .size = size_of(terms, n)};
    if (!nc_map_put_bytes(&t->dims, key_copy, n_key * sizeof *key, d)) return no_memory(t);
    t->n_dims++;
    return d;
}

static const nc_dim *intern(nc_dims *t, const nc_term *terms, int n) {
    int64_t small[64];
    size_t n_key = 0, room = 1;
    for (int i = 0; i < n; i++) room += 2 + (size_t)terms[i].n;
    int64_t *key = room <= 64 ? small : nc_alloc(room * sizeof *key);
    if (!key) return no_memory(t);
    key[n_key++] = n;
    for (int i = 0; i < n; i++) {
        key[n_key++] = terms[i].coef;
        key[n_key++] = terms[i].n;
        for (int k = 0; k < terms[i].n; k++) key[n_key++] = terms[i].f[k]->id;
    }
    const nc_dim *d = nc_map_get_bytes(&t->dims, key, n_key * sizeof *key);
    if (!d) d = enter(t, terms, n, key, n_key);
    if (key != small) nc_free(key);
    return d;
}

const nc_dim *nc_dim_collect(nc_dims *t, nc_term *terms, int n) {
    if (n > 1) qsort(terms, (size_t)n, sizeof *terms, compare_terms);
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (k && compare_products(&terms[k - 1], &terms[i]) == 0) {
            if (!nc_add_i64(terms[k - 1].coef, terms[i].coef, &terms[k - 1].coef)) return NULL;
        } else {
            if (k && terms[k - 1].coef == 0) k--;
            terms[k++] = terms[i];
        }
    }
    if (k && terms[k - 1].coef == 0) k--;
    return k > NC_DIM_MAX_TERMS ? NULL : intern(t, terms, k);
}

const nc_dim *nc_dim_term(nc_dims *t, int64_t coef, nc_atom *const *f, int n) {
    nc_term term = {coef, n, f};
    return intern(t, &term, coef != 0);
}

const nc_dim *nc_dim_const(nc_dims *t, int64_t c) { return nc_dim_term(t, c, NULL, 0); }

static nc_atom *new_atom(nc_dims *t, nc_atom_kind kind, const nc_dim *a, const nc_dim *b) {
    nc_atom *x = nc_arena_alloc(&t->arena, sizeof *x);
    if (!x) return no_memory(t);
    x->id = t->atoms.n;
    x->kind = kind;
    x->a = a;
    x->b = b;
    nc_atom *const f[] = {x};
    if (!NC_PUSH(&t->arena, t->atoms, x)) return no_memory(t);
    if (!(x->self = nc_dim_term(t, 1, f, 1))) t->atoms.n--;
    return x->self ? x : NULL;
}

const nc_dim *nc_dim_atom(nc_dims *t, nc_atom_kind kind, const nc_dim *a, const nc_dim *b) {
    int key[3] = {(int)kind, a->id, b->id};
    nc_atom *x = nc_map_get_bytes(&t->functions, key, sizeof key);
    if (x) return x->self;
    const void *kept = nc_arena_copy(&t->arena, key, sizeof key);
    if (!kept || !(x = new_atom(t, kind, a, b))) return no_memory(t);
    return nc_map_put_bytes(&t->functions, kept, sizeof key, x) ? x->self : no_memory(t);
}

const nc_dim *nc_dim_box(nc_dims *t, const nc_dim *d) {
    if (!d || d->n == 0 || (d->n == 1 && d->terms[0].n <= 1)) return d;
    return nc_dim_atom(t, NC_ATOM_MAX, d, d);
}

/* ---- symbols ---- */

const nc_dim *nc_dim_sym(nc_dims *t, const char *name) {
    nc_atom *x = nc_map_get(&t->syms_by_name, name);
    if (x) return x->self;
    const char *copy = nc_arena_str(&t->arena, name);
    if (!copy || !(x = new_atom(t, NC_ATOM_SYM, NULL, NULL))) return no_memory(t);
    x->name = copy;
    x->sym = t->syms.n;
    if (!NC_PUSH(&t->arena, t->syms, x) || !nc_map_put(&t->syms_by_name, copy, x)) return no_memory(t);
    return x->self;
}

static const nc_dim *made_up(nc_dims *t, const nc_dim *d) {
    int id = nc_dim_sym_id(d);
    if (id >= 0) t->syms.v[id]->fresh = true;
    return d;
}

const nc_dim *nc_dim_fresh(nc_dims *t, const char *hint) {
    if (!hint || !*hint) hint = "d";
    nc_atom *first = nc_map_get(&t->syms_by_name, hint);
    if (!first) return made_up(t, nc_dim_sym(t, hint));
    for (;;) {
        int k = ++first->n_fresh + 1;
        const char *name = nc_arena_printf(&t->arena, "%s_%d", hint, k);
        if (!name) return no_memory(t);
        if (!nc_map_get(&t->syms_by_name, name)) return made_up(t, nc_dim_sym(t, name));
    }
}

const nc_dim *nc_dim_signed(nc_dims *t, const char *hint, const char *sign) {
    const char *copy = nc_arena_str(&t->arena, sign);
    const nc_dim *d = copy ? nc_dim_fresh(t, hint) : no_memory(t);
    int id = d ? nc_dim_sym_id(d) : -1;
    if (id >= 0) t->syms.v[id]->sign = copy;
    return d;
}

const char *nc_dims_sym_sign(const nc_dims *t, int sym) { return t->syms.v[sym]->sign; }

const nc_dim *nc_dim_declared(nc_dims *t, const char *name) {
    nc_atom *x = nc_map_get(&t->syms_by_name, name);
    if (!x || !x->fresh) return nc_dim_sym(t, name);
    const char *other = NULL;
    do {
        if (!(other = nc_arena_printf(&t->arena, "%s_%d", name, ++x->n_fresh + 1))) return no_memory(t);
    } while (nc_map_get(&t->syms_by_name, other));
    if (!nc_map_put(&t->syms_by_name, other, x)) return no_memory(t);
    x->name = other;
    /* The map keeps the entry of the old name: the declared symbol takes it over. */
    const char *copy = nc_arena_str(&t->arena, name);
    nc_atom *y = copy ? new_atom(t, NC_ATOM_SYM, NULL, NULL) : NULL;
    if (!y) return no_memory(t);
    y->name = copy;
    y->sym = t->syms.n;
    if (!NC_PUSH(&t->arena, t->syms, y) || !nc_map_put(&t->syms_by_name, copy, y)) return no_memory(t);
    return y->self;
}

int nc_dims_n_syms(const nc_dims *t) { return t->syms.n; }

const char *nc_dims_sym_name(const nc_dims *t, int sym) { return t->syms.v[sym]->name; }

bool nc_dims_sym_is_fresh(const nc_dims *t, int sym) { return t->syms.v[sym]->fresh; }

void nc_dim_set_bound(nc_dims *t, const nc_dim *sym, const nc_dim *bound) {
    int id = nc_dim_sym_id(sym);
    if (id >= 0) t->syms.v[id]->bound = bound;
}

const nc_dim *nc_dim_bound(const nc_dims *t, int sym) { return t->syms.v[sym]->bound; }

bool nc_dim_is_const(const nc_dim *d, int64_t *c) {
    if (!d || d->n > 1 || (d->n == 1 && d->terms[0].n)) return false;
    if (c) *c = d->n ? d->terms[0].coef : 0;
    return true;
}

int nc_dim_sym_id(const nc_dim *d) {
    if (!d || d->n != 1 || d->terms[0].coef != 1 || d->terms[0].n != 1) return -1;
    const nc_atom *x = d->terms[0].f[0];
    return x->kind == NC_ATOM_SYM ? x->sym : -1;
}

/* ---- sums and products ---- */

/* a + k*b */
static const nc_dim *add_scaled(nc_dims *t, const nc_dim *a, const nc_dim *b, int64_t k) {
    if (!a || !b) return NULL;
    nc_term terms[2 * NC_DIM_MAX_TERMS];
    int n = 0;
    if (a->n + b->n > NC_DIM_MAX_TERMS) {
        a = a->n > NC_DIM_MAX_TERMS / 2 ? nc_dim_box(t, a) : a;
        b = b->n > NC_DIM_MAX_TERMS / 2 ? nc_dim_box(t, b) : b;
        if (!a || !b) return NULL;
    }
    for (int i = 0; i < a->n; i++) terms[n++] = a->terms[i];
    for (int i = 0; i < b->n; i++, n++) {
        terms[n] = b->terms[i];
        if (!nc_mul_i64(terms[n].coef, k, &terms[n].coef)) return NULL;
    }
    return nc_dim_collect(t, terms, n);
}

const nc_dim *nc_dim_add(nc_dims *t, const nc_dim *a, const nc_dim *b) { return add_scaled(t, a, b, 1); }

const nc_dim *nc_dim_sub(nc_dims *t, const nc_dim *a, const nc_dim *b) { return add_scaled(t, a, b, -1); }

static void merge_factors(const nc_term *a, const nc_term *b, nc_atom **out) {
    int i = 0, j = 0, n = 0;
    while (i < a->n || j < b->n) {
        bool from_a = j >= b->n || (i < a->n && a->f[i]->id <= b->f[j]->id);
        out[n++] = from_a ? a->f[i++] : b->f[j++];
    }
}

static int most_factors(const nc_dim *d) {
    int n = 0;
    for (int i = 0; i < d->n; i++) n = d->terms[i].n > n ? d->terms[i].n : n;
    return n;
}

const nc_dim *nc_dim_mul(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    if (!a || !b) return NULL;
    if (a->n * b->n > NC_DIM_MAX_TERMS || most_factors(a) + most_factors(b) > NC_DIM_MAX_FACTORS) {
        a = nc_dim_box(t, a);
        b = nc_dim_box(t, b);
        if (!a || !b) return NULL;
    }
    int n_pairs = a->n * b->n, n = 0;
    size_t n_factors = 0;
    for (int i = 0; i < a->n; i++) n_factors += (size_t)a->terms[i].n * (size_t)b->n;
    for (int j = 0; j < b->n; j++) n_factors += (size_t)b->terms[j].n * (size_t)a->n;
    nc_term *terms = nc_alloc((size_t)n_pairs * sizeof *terms + n_factors * sizeof(nc_atom *));
    if (!terms) return no_memory(t);
    nc_atom **f = (nc_atom **)(terms + n_pairs);
    bool fits = true;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++, n++) {
            const nc_term *x = &a->terms[i], *y = &b->terms[j];
            terms[n] = (nc_term){0, x->n + y->n, f};
            fits = fits && nc_mul_i64(x->coef, y->coef, &terms[n].coef) && terms[n].n <= NC_DIM_MAX_FACTORS;
            merge_factors(x, y, f);
            f += terms[n].n;
        }
    const nc_dim *d = fits ? nc_dim_collect(t, terms, n) : NULL;
    nc_free(terms);
    return d;
}

/* ---- walking an expression ---- */

/* What a walk found of the atoms that it met last. A part that is used several times is met again soon after it was
 * done, so that few places are enough to walk each part once. Small expressions do without (NULL). */
enum { N_MEMO = 128, MEMO_FROM = 64 };

typedef struct memo {
    const nc_atom *atom[N_MEMO];
    union {
        int64_t value;
        const nc_dim *dim;
    } of[N_MEMO];
} memo;

static bool memo_has(const memo *m, const nc_atom *x) { return m && m->atom[x->id % N_MEMO] == x; }

/* Marks symbols in used; those that were not marked before are appended to list, where there is one. */
typedef struct marker {
    bool *used;
    int *list, n;
} marker;

static void mark(const nc_dim *d, marker *to, memo *m) {
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->terms[i].n; k++) {
            const nc_atom *x = d->terms[i].f[k];
            if (x->kind == NC_ATOM_SYM) {
                if (to->list && !to->used[x->sym]) to->list[to->n++] = x->sym;
                to->used[x->sym] = true;
            } else if (!memo_has(m, x)) {
                mark(x->a, to, m);
                if (x->b != x->a) mark(x->b, to, m);
                if (m) m->atom[x->id % N_MEMO] = x;
            }
        }
}

static void mark_all(const nc_dim *d, marker *to) {
    memo m;
    if (d->size >= MEMO_FROM) memset(&m.atom, 0, sizeof m.atom);
    mark(d, to, d->size >= MEMO_FROM ? &m : NULL);
}

void nc_dim_mark(const nc_dim *d, bool *used) {
    marker to = {.used = used};
    mark_all(d, &to);
}

int nc_dim_syms(const nc_dim *d, bool *none, int *out) {
    marker to = {.used = none, .list = out};
    mark_all(d, &to);
    for (int i = 0; i < to.n; i++) none[out[i]] = false;
    return to.n;
}

static bool atom_grows(const nc_atom *x) {
    int64_t c;
    if (x->kind == NC_ATOM_SYM) return true;
    if (x->kind == NC_ATOM_FLOOR || x->kind == NC_ATOM_CEIL)
        return nc_dim_is_const(x->b, &c) && c > 0 && nc_dim_grows(x->a);
    return nc_dim_grows(x->a) && nc_dim_grows(x->b);
}

bool nc_dim_grows(const nc_dim *d) {
    if (d->size > NC_DIM_MAX_PRINT) return false; /* parts that are shared would be walked over and over */
    for (int i = 0; i < d->n; i++) {
        if (d->terms[i].coef < 0 && d->terms[i].n > 0) return false;
        for (int k = 0; k < d->terms[i].n; k++)
            if (!atom_grows(d->terms[i].f[k])) return false;
    }
    return true;
}

bool nc_div_i64(int64_t a, int64_t b, bool up, int64_t *out) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    int64_t q = a / b, r = a % b;
    if (r != 0 && ((r < 0) == (b < 0)) == up) q += up ? 1 : -1;
    *out = q;
    return true;
}

typedef struct binding {
    const int64_t *values;
    const bool *known;
    memo *m;
} binding;

static bool eval(const nc_dim *d, const binding *s, int64_t *out);

static bool eval_function(const nc_atom *x, const binding *s, int64_t *out) {
    int64_t a, b;
    if (!eval(x->a, s, &a)) return false;
    if (x->b == x->a) {
        b = a;
    } else if (!eval(x->b, s, &b)) {
        return false;
    }
    switch (x->kind) {
    case NC_ATOM_FLOOR: return nc_div_i64(a, b, false, out);
    case NC_ATOM_CEIL: return nc_div_i64(a, b, true, out);
    case NC_ATOM_MAX: *out = a > b ? a : b; return true;
    case NC_ATOM_SPREAD: *out = nc_dim_spread_i64(a, b); return true;
    default: *out = a < b ? a : b; return true;
    }
}

static bool eval_atom(const nc_atom *x, const binding *s, int64_t *out) {
    if (x->kind == NC_ATOM_SYM) {
        if (!s->known[x->sym]) return false;
        *out = s->values[x->sym];
        return true;
    }
    int at = x->id % N_MEMO;
    if (memo_has(s->m, x)) {
        *out = s->m->of[at].value;
        return true;
    }
    if (!eval_function(x, s, out)) return false;
    if (s->m) s->m->atom[at] = x, s->m->of[at].value = *out;
    return true;
}

static bool eval(const nc_dim *d, const binding *s, int64_t *out) {
    int64_t sum = 0;
    for (int i = 0; i < d->n; i++) {
        int64_t product = d->terms[i].coef, x;
        for (int k = 0; k < d->terms[i].n; k++)
            if (!eval_atom(d->terms[i].f[k], s, &x) || !nc_mul_i64(product, x, &product)) return false;
        if (!nc_add_i64(sum, product, &sum)) return false;
    }
    *out = sum;
    return true;
}

bool nc_dim_eval(const nc_dim *d, const int64_t *values, const bool *known, int64_t *out) {
    if (!d) return false;
    if (d->size < MEMO_FROM) return eval(d, &(binding){values, known, NULL}, out);
    memo m;
    memset(&m.atom, 0, sizeof m.atom);
    return eval(d, &(binding){values, known, &m}, out);
}

static const nc_dim *rebuild(nc_dims *t, const nc_dim *d, const nc_dim *const *by, memo *m);

/* by NULL: d comes from another table, whose canonical form is kept as it is. */
static const nc_dim *rebuild_function(nc_dims *t, const nc_atom *x, const nc_dim *const *by, memo *m) {
    const nc_dim *a = rebuild(t, x->a, by, m), *b = x->b == x->a ? a : rebuild(t, x->b, by, m);
    if (!a || !b) return NULL;
    if (!by) return nc_dim_atom(t, x->kind, a, b);
    switch (x->kind) {
    case NC_ATOM_FLOOR: return nc_dim_floordiv(t, a, b);
    case NC_ATOM_CEIL: return nc_dim_ceildiv(t, a, b);
    case NC_ATOM_MAX: return nc_dim_max(t, a, b);
    case NC_ATOM_SPREAD: return nc_dim_spread(t, a, b);
    default: return nc_dim_min(t, a, b);
    }
}

static const nc_dim *rebuild_atom(nc_dims *t, const nc_atom *x, const nc_dim *const *by, memo *m) {
    if (x->kind == NC_ATOM_SYM) {
        if (by && by[x->sym]) return by[x->sym];
        return x->sym < t->syms.n ? t->syms.v[x->sym]->self : NULL;
    }
    int at = x->id % N_MEMO;
    if (memo_has(m, x)) return m->of[at].dim;
    const nc_dim *d = rebuild_function(t, x, by, m);
    if (m && d) m->atom[at] = x, m->of[at].dim = d;
    return d;
}

static const nc_dim *rebuild(nc_dims *t, const nc_dim *d, const nc_dim *const *by, memo *m) {
    const nc_dim *sum = nc_dim_const(t, 0);
    for (int i = 0; i < d->n && sum; i++) {
        const nc_dim *product = nc_dim_const(t, d->terms[i].coef);
        for (int k = 0; k < d->terms[i].n; k++)
            product = nc_dim_mul(t, product, rebuild_atom(t, d->terms[i].f[k], by, m));
        sum = nc_dim_add(t, sum, product);
    }
    return sum;
}

const nc_dim *nc_dim_subst(nc_dims *t, const nc_dim *d, const nc_dim *const *by) {
    if (!d) return NULL;
    if (d->size < MEMO_FROM) return rebuild(t, d, by, NULL);
    memo m;
    memset(&m.atom, 0, sizeof m.atom);
    return rebuild(t, d, by, &m);
}

const nc_dim *nc_dim_carry(nc_dims *t, const nc_dim *d) { return nc_dim_subst(t, d, NULL); }

/* The clone gets the same atoms in the same order, so those that d is made of are there under their ids. */
static const nc_dim *clone_dim(nc_dims *t, const nc_dim *d) {
    const nc_dim *sum = nc_dim_const(t, 0);
    for (int i = 0; i < d->n && sum; i++) {
        nc_atom *f[NC_DIM_MAX_FACTORS];
        for (int k = 0; k < d->terms[i].n; k++) f[k] = t->atoms.v[d->terms[i].f[k]->id];
        sum = nc_dim_add(t, sum, nc_dim_term(t, d->terms[i].coef, f, d->terms[i].n));
    }
    return sum;
}

static bool clone_atom(nc_dims *t, const nc_atom *x) {
    if (x->kind == NC_ATOM_SYM) {
        if (!nc_dim_sym(t, x->name)) return false;
        t->syms.v[x->sym]->n_fresh = x->n_fresh;
        return true;
    }
    const nc_dim *a = clone_dim(t, x->a), *b = clone_dim(t, x->b);
    return a && b && nc_dim_atom(t, x->kind, a, b);
}

nc_dims *nc_dims_clone(const nc_dims *from) {
    nc_dims *t = nc_dims_create();
    bool ok = t != NULL;
    for (int i = 0; ok && i < from->atoms.n; i++) ok = clone_atom(t, from->atoms.v[i]);
    for (int i = 0; ok && i < from->syms.n; i++) {
        const nc_dim *bound = from->syms.v[i]->bound;
        t->syms.v[i]->fresh = from->syms.v[i]->fresh;
        const char *sign = from->syms.v[i]->sign;
        ok = !sign || (t->syms.v[i]->sign = nc_arena_str(&t->arena, sign)) != NULL;
        if (!ok) break;
        ok = !bound || (t->syms.v[i]->bound = clone_dim(t, bound)) != NULL;
    }
    if (ok) return t;
    nc_dims_destroy(t);
    return NULL;
}
