/* transform/infer/powers.c: Pow of floats by 2, 3, 1/2, -1 and -1/2 as products, roots and reciprocals, which are
 * single instructions where Pow takes some hundred. A root of -0 is then -0, and one of minus infinity NaN, as PyTorch
 * has them, where C's pow gives 0 and infinity. */
#include "transform/pattern.h"
#include "transform/transform.h"

static bool exponent_of(const nc_match *m, double *v) {
    const nc_value *x = nc_match_value(m, "x"), *e = nc_match_value(m, "e");
    return nc_rewrite_tensor(x) && nc_dtype_is_float(x->type->elem) && nc_rewrite_same_type(m->root->out[0], x) &&
           nc_rewrite_number(e->lit, 0, v) && nc_rewrite_all(e->lit, *v, false);
}

/* op(x, ...) of what was found, in front of it. */
static nc_code inner(nc_work *w, const nc_match *m, const char *op, nc_made *made) {
    nc_value *x = made->in[0], *in[2] = {x, x};
    NC_TRY(nc_rewrite_insert(w, m->root, op, in, made->n_in, NULL, 0, x->type, &made->in[0]));
    NC_NEED(w, made->in[0]);
    return NC_OK;
}

static nc_code as_product(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    double v;
    bool product, root;
    *fits = exponent_of(m, &v);
    if (!*fits) return NC_OK;
    product = v == 2 || v == 3, root = v == 0.5 || v == -0.5;
    *fits = product || root || v == -1;
    if (!*fits) return NC_OK;
    made->in[1] = made->in[0];
    made->n_in = product ? 2 : 1;
    made->op = product ? "Mul" : v == 0.5 ? "Sqrt" : "Reciprocal";
    if (v == 3) return inner(w, m, "Mul", made);
    return v == -0.5 ? inner(w, m, "Sqrt", made) : NC_OK;
}

static const nc_pattern rows[] = {{.text = "Pow(x, #e)", .op = "Mul", .inputs = "x", .where = as_product}};

nc_code nc_pass_powers(nc_work *w, nc_graph *g, int *n_changes) { return nc_pattern_apply(w, g, rows, 1, n_changes); }
