/* ops/math/clip.c: the card of Clip. Bounds were attributes before version 11 and are optional inputs since. It runs as
 * Max and Min, so that it joins chains; its gradient goes to X where X is kept, bounds included, else to the bound. */
#include "ops/build.h"
#include "ops/math/math.h"

static nc_dtype elem_of(const nc_value *v) { return v->type != NULL ? v->type->elem : NC_UNDEFINED; }

/* A bound with more dims than X would give the result more dims too. */
static bool is_longer(const nc_value *bound, const nc_value *x) {
    return bound->type != NULL && x->type != NULL && bound->type->rank > x->type->rank;
}

/* The bound, as a scalar if it has more dims than x. */
static nc_value *scalar_of(nc_builder *b, nc_value *bound, const nc_value *x) {
    if (b->code != NC_OK || bound == NULL || !is_longer(bound, x)) return bound;
    return nc_build1(b, "Reshape", 2, bound, nc_build_ints(b, NULL, 0));
}

/* The bound that input i (1: min, 2: max) or attribute gives; NULL: none. */
static nc_value *bound_of(nc_builder *b, const nc_node *n, int i) {
    if (n->version->since >= 11) return i < n->n_in ? scalar_of(b, n->in[i], n->in[0]) : NULL;
    const char *name = i == 1 ? "min" : "max";
    if (n->version->since < 6 && !nc_attr_has(n, name)) return NULL;
    return nc_build_scalar(b, elem_of(n->in[0]), nc_attr_float(n, name));
}

static nc_code clip_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *lo = bound_of(b, n, 1), *hi = bound_of(b, n, 2), *y = n->in[0];
    if (lo != NULL) y = nc_build1(b, "Max", 2, y, lo);
    if (hi != NULL) y = nc_build1(b, "Min", 2, y, hi);
    out[0] = y == n->in[0] ? nc_build1(b, "Identity", 1, y) : y;
    return b->code;
}

/* The forward value of a bound, seen from the gradient. */
static nc_value *kept_bound(nc_grad *g, int i) {
    bool is_input = g->node->version->since >= 11;
    if (is_input && (i >= g->node->n_in || g->node->in[i] == NULL)) return NULL;
    return is_input ? scalar_of(g->b, nc_grad_x(g, i), g->node->in[0]) : bound_of(g->b, g->node, i);
}

/* All of d, as bound i is laid. */
static nc_value *bound_grad(nc_grad *g, nc_value *d, int i) {
    if (!is_longer(g->node->in[i], g->node->in[0])) return nc_grad_sum_to(g, d, i);
    return nc_build_reshape_like(g->b, nc_build1(g->b, "ReduceSum", 1, d), nc_grad_like(g, i));
}

/* Where both bounds leave X's place, max has the last word. */
static nc_code clip_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    nc_builder *b = g->b;
    nc_value *x = nc_grad_x(g, 0), *lo = kept_bound(g, 1), *hi = kept_bound(g, 2), *zero, *below = NULL, *above = NULL;
    zero = nc_build_scalar(b, elem_of(dy), 0);
    nc_value *dx = dy, *dlo = zero, *raised = x;
    if (lo != NULL) {
        below = nc_build1(b, "Less", 2, x, lo);
        raised = nc_build1(b, "Max", 2, x, lo);
        dlo = nc_build1(b, "Where", 3, below, dy, zero);
        dx = nc_build1(b, "Where", 3, below, zero, dy);
    }
    if (hi != NULL) {
        above = nc_build1(b, "Less", 2, hi, raised);
        dlo = nc_build1(b, "Where", 3, above, zero, dlo);
        dx = nc_build1(b, "Where", 3, above, zero, dx);
    }
    if (g->wants[0]) nc_grad_set(g, 0, dx);
    if (g->node->n_in > 1 && g->wants[1]) nc_grad_set(g, 1, bound_grad(g, dlo, 1));
    if (g->node->n_in > 2 && g->wants[2])
        nc_grad_set(g, 2, bound_grad(g, nc_build1(b, "Where", 3, above, dy, zero), 2));
    return nc_grad_end(g);
}

static nc_code clip_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

#define BOUNDS(types)                                                                           \
    IN({"input", types}, {"min", SAME(0), SINGLE_OPTIONAL}, {"max", SAME(0), SINGLE_OPTIONAL}), \
        OUT({"output", SAME(0)}), NO_ATTR
#define X_ONLY IN({"input", T_FLOAT}), OUT({"output", SAME(0)})
#define MOST 3.4028234663852886e+38f
static const nc_op_version clip_versions[] = {
    {.since = 13, BOUNDS(T_NUMBER_ALL)},
    {.since = 12, BOUNDS(T_NUMBER)},
    {.since = 11, BOUNDS(T_FLOAT)},
    {.since = 6, X_ONLY, ATTR(A_FLOAT("max", MOST), A_FLOAT("min", -MOST))},
    {.since = 1, X_ONLY, ATTR(A_INTS_OPT("consumed_inputs"), A_FLOAT_OPT("max"), A_FLOAT_OPT("min"))},
    {0}};

const nc_card nc_card_clip = {.name = "Clip",
                              .doc = "X, at least min and then at most max; NaN passes.",
                              .versions = clip_versions,
                              .infer = clip_infer,
                              .fold = nc_math_fold_clip,
                              .grad = clip_grad,
                              .decompose = clip_decompose};
