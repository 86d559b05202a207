/* ir/dim_core.h: how dims are stored; private to the dim*.c files.
 *
 * A dim is a sorted sum of terms, a term an integer times a sorted product of atoms (a power repeats its atom).
 * Products are compared by the ids of their atoms, and a product comes before its own prefixes: that is
 * lexicographic order over exponents, so division by leading terms ends, and the constant stands last. No term has
 * coefficient 0; zero has no terms. */
#ifndef NC_IR_DIM_CORE_H
#define NC_IR_DIM_CORE_H

#include "base/map.h"
#include "ir/dim.h"

#define NC_DIM_MAX_TERMS 128 /* of one sum; what has more becomes a sum of boxes, see nc_dim_box */
#define NC_DIM_MAX_FACTORS 16
#define NC_DIM_MAX_PRINT 4096 /* size of an expression that is still printed; larger ones are printed as a name */

typedef enum nc_atom_kind {
    NC_ATOM_SYM,
    NC_ATOM_FLOOR,
    NC_ATOM_CEIL,
    NC_ATOM_MAX,
    NC_ATOM_MIN,
    NC_ATOM_SPREAD
} nc_atom_kind;

typedef struct nc_atom {
    int id; /* order of creation */
    nc_atom_kind kind;
    int sym;             /* SYM: its number */
    const char *name;    /* SYM */
    int n_fresh;         /* SYM: how many fresh symbols took this name as their hint */
    bool fresh;          /* SYM: made up by nc_dim_fresh, not named by the model */
    const char *sign;    /* SYM: dim_sign.h; may be NULL */
    const nc_dim *bound; /* SYM; may be NULL */
    const nc_dim *a, *b; /* others: operands */
    const nc_dim *self;  /* the dim that is this atom alone */
} nc_atom;

typedef struct nc_term {
    int64_t coef;
    int n; /* factors; 0: the constant */
    nc_atom *const *f;
} nc_term;

struct nc_dim {
    int id; /* order of creation */
    int n;
    const nc_term *terms;
    uint32_t size; /* atoms of the expression written out, at most UINT32_MAX */
};

struct nc_dims {
    nc_arena arena;
    nc_map dims, syms_by_name, functions;
    NC_VEC(nc_atom *) atoms;
    NC_VEC(nc_atom *) syms;
    int n_dims;
    bool out_of_memory; /* since the flag was last cleared: tells why a NULL came back */
};

/* The dim of these terms, in any order, products sorted; sums equal products. terms is scratch of the caller. */
const nc_dim *nc_dim_collect(nc_dims *t, nc_term *terms, int n);
const nc_dim *nc_dim_term(nc_dims *t, int64_t coef, nc_atom *const *f, int n);
const nc_dim *nc_dim_atom(nc_dims *t, nc_atom_kind kind, const nc_dim *a, const nc_dim *b); /* as it stands */
/* d as one atom, max(d,d): equal in value, though not the same pointer. Keeps sums and products within their limits. */
const nc_dim *nc_dim_box(nc_dims *t, const nc_dim *d);
bool nc_dim_ident(const char *s, size_t n); /* [A-Za-z_][A-Za-z0-9_]* */
/* What two sizes broadcast to: the larger one, but 0 where either is 0. Grows with both, so capacities may be given. */
int64_t nc_dim_spread_i64(int64_t a, int64_t b);
/* Quotient rounded down or up; false: b is 0 or overflow. */
bool nc_div_i64(int64_t a, int64_t b, bool up, int64_t *out);

#endif
