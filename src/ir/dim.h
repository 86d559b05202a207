/* ir/dim.h: dimensions as interned expressions over symbols: `batch`, `past+seq`, `ceil(h/2)`.
 *
 * A dim is a polynomial with integer coefficients over atoms; an atom is a symbol or one of floor(a/b), ceil(a/b),
 * max(a,b), min(a,b), spread(a,b). Equal expressions are the same pointer, so equality is ==. Functions return NULL on
 * out of memory or overflow and accept NULL, so a chain of calls is checked once at its end. A table is not
 * thread-safe; finished dims may be evaluated from several threads. */
#ifndef NC_IR_DIM_H
#define NC_IR_DIM_H

#include "base/text.h"

#include <stdint.h>

typedef struct nc_dim nc_dim;
typedef struct nc_dims nc_dims;

nc_dims *nc_dims_create(void);
void nc_dims_destroy(nc_dims *t);

const nc_dim *nc_dim_const(nc_dims *t, int64_t c);
const nc_dim *nc_dim_sym(nc_dims *t, const char *name); /* the symbol of that name, made at first use */
/* The same for a name that the model itself writes: a symbol made up before under that name gives it up. */
const nc_dim *nc_dim_declared(nc_dims *t, const char *name);
const nc_dim *nc_dim_fresh(nc_dims *t, const char *hint); /* a new symbol: hint, or hint_2, hint_3, ... */
const nc_dim *nc_dim_add(nc_dims *t, const nc_dim *a, const nc_dim *b);
const nc_dim *nc_dim_sub(nc_dims *t, const nc_dim *a, const nc_dim *b);
const nc_dim *nc_dim_mul(nc_dims *t, const nc_dim *a, const nc_dim *b);
const nc_dim *nc_dim_floordiv(nc_dims *t, const nc_dim *a,
                              const nc_dim *b); /* exact polynomials divide: 4*n / 2 = 2*n; x/x = 1 */
const nc_dim *nc_dim_ceildiv(nc_dims *t, const nc_dim *a, const nc_dim *b);
const nc_dim *nc_dim_max(nc_dims *t, const nc_dim *a, const nc_dim *b);
const nc_dim *nc_dim_min(nc_dims *t, const nc_dim *a, const nc_dim *b);
/* What a and b broadcast to where nothing decides before the run: equal, or one of them 1. Spreading what is already in
 * changes nothing, in whatever order, so that residual chains of unequal symbols keep one short form. */
const nc_dim *nc_dim_spread(nc_dims *t, const nc_dim *a, const nc_dim *b);
const nc_dim *nc_dim_parse(nc_dims *t, const char **s); /* the printed form, advances *s; NULL also on bad syntax */

bool nc_dim_is_const(const nc_dim *d, int64_t *c); /* c may be NULL */
int nc_dim_sym_id(const nc_dim *d);                /* >= 0 when d is exactly one symbol, else -1 */
int nc_dims_n_syms(const nc_dims *t);
const char *nc_dims_sym_name(const nc_dims *t, int sym);
bool nc_dims_sym_is_fresh(const nc_dims *t, int sym); /* its name was made up, no model gave it */
/* Marks every symbol of d in used[n_syms]. */
void nc_dim_mark(const nc_dim *d, bool *used);
/* The symbols of d, each once, into out (room for all symbols); their number. none[n_syms] is false everywhere, and so
 * again when it returns. */
int nc_dim_syms(const nc_dim *d, bool *none, int *out);
/* The value of d; false when a symbol is unknown (known[sym] false) or the arithmetic overflows or divides by zero. */
bool nc_dim_eval(const nc_dim *d, const int64_t *values, const bool *known, int64_t *out);
/* Never smaller at larger values of its symbols, as n-m and floor(n/m) may be; false also where that is not seen. */
bool nc_dim_grows(const nc_dim *d);
/* A symbol found at run time may have an upper bound over other symbols (the numel of NonZero's input). */
void nc_dim_set_bound(nc_dims *t, const nc_dim *sym, const nc_dim *bound);
const nc_dim *nc_dim_bound(const nc_dims *t, int sym); /* NULL: none */
/* d with every symbol replaced: by[sym] or itself when that is NULL. */
const nc_dim *nc_dim_subst(nc_dims *t, const nc_dim *d, const nc_dim *const *by);
/* A table with the same symbols (same ids), expressions and bounds. */
nc_dims *nc_dims_clone(const nc_dims *t);
/* d of another table as an expression of t: symbols correspond by id, so t must have at least those of d's table. */
const nc_dim *nc_dim_carry(nc_dims *t, const nc_dim *d);
/* A symbol's own name if it is an identifier, else in quotes. Expressions of thousands of atoms are only named. */
void nc_dim_print(nc_text *out, const nc_dim *d);

#endif
