/* transform/infer/attention_causal.c: a mask that hides from every query the keys behind its own place becomes
 * `is_causal` of its Attention, whose kernels then leave out what nobody sees.
 *
 * What a mask is made of is looked at as three pictures of its last two dims: one number everywhere, places counted
 * along one dim, or a band: one number where column - row <= by, another elsewhere. The dims in front only repeat it.
 * A band is a causal mask where there are as many keys as queries, the same dim: is_causal of an Attention without a
 * past begins with the first key. With a past in the keys the mask stays. */
#include "transform/infer/attention.h"
#include "transform/rewrite.h"

#include <math.h>
#include <string.h>

extern const nc_card nc_card_attention_dropout;

enum { MOST = 256 /* values behind a mask that are looked at, those used twice counted twice */ };

typedef enum picture_kind { NOTHING, FULL, PLACES, BAND } picture_kind;

typedef struct picture {
    picture_kind kind;
    double in, out; /* FULL: in; BAND: in where column - row <= by, else out */
    int64_t by;     /* PLACES: the number at place 0 */
    bool rows;      /* PLACES: along the last dim but one, not the last */
} picture;

static const picture none = {.kind = NOTHING};

static picture full(double v) { return (picture){.kind = FULL, .in = v, .out = v}; }
static picture band(int64_t by, double in, double out) {
    return (picture){.kind = BAND, .in = in, .out = out, .by = by};
}

static picture see(const nc_value *v, int *left);
static picture see_in(const nc_node *n, int i, int *left) { return i < n->n_in ? see(n->in[i], left) : none; }

/* ---- dims ---- */

static bool is_one(const nc_dim *d) {
    int64_t c;
    return nc_dim_is_const(d, &c) && c == 1;
}

static const nc_dim *dim_from_end(const nc_value *v, int i) {
    return nc_rewrite_tensor(v) && i <= v->type->rank ? v->type->dims[v->type->rank - i] : NULL;
}

static bool same_dim(const nc_value *a, const nc_value *b, int from_end) {
    const nc_dim *d = dim_from_end(a, from_end);
    return d != NULL && d == dim_from_end(b, from_end);
}

/* p of value a is still the picture of b, whose dims are a's or broadcast from them. */
static bool lasts(picture p, const nc_value *a, const nc_value *b) {
    if (p.kind == FULL) return true;
    if (p.kind == PLACES) return same_dim(a, b, p.rows ? 2 : 1);
    return p.kind == BAND && same_dim(a, b, 1) && same_dim(a, b, 2);
}

/* Places in the order of the only dim of v that is not 1, which must be one of the last two. */
static picture places_of(const nc_value *v, int64_t first) {
    int at = 0, n = 0;
    if (!nc_rewrite_tensor(v)) return none;
    for (int i = 1; i <= v->type->rank; i++)
        if (!is_one(dim_from_end(v, i))) at = i, n++;
    return n == 1 && at <= 2 ? (picture){.kind = PLACES, .by = first, .rows = at == 2} : none;
}

/* ---- constants ---- */

static picture literal_places(const nc_value *v) {
    double first, x;
    if (!nc_rewrite_number(v->lit, 0, &first) || fabs(first) > 1e9 || first != floor(first)) return none;
    for (int64_t i = 1; i < v->lit->n; i++)
        if (!nc_rewrite_number(v->lit, i, &x) || x != first + (double)i) return none;
    return places_of(v, (int64_t)first);
}

/* The lower triangle of a matrix, with what stands beside it. */
static picture literal_band(const nc_literal *l) {
    double in, out, x;
    if (l->rank < 2) return none;
    int64_t columns = l->dims[l->rank - 1], rows = l->dims[l->rank - 2];
    if (columns < 2 || l->n != rows * columns || !nc_rewrite_number(l, 0, &in) ||
        !nc_rewrite_number(l, columns - 1, &out))
        return none;
    for (int64_t i = 0; i < l->n; i++)
        if (!nc_rewrite_number(l, i, &x) || x != (i % columns <= i / columns ? in : out)) return none;
    return band(0, in, out);
}

static picture see_literal(const nc_value *v) {
    double x, y;
    if (!nc_rewrite_fixed(v) || !nc_rewrite_number(v->lit, 0, &x)) return none;
    int64_t i = 1;
    while (i < v->lit->n && nc_rewrite_number(v->lit, i, &y) && y == x) i++;
    if (i == v->lit->n) return full(x);
    picture p = literal_places(v);
    return p.kind != NOTHING ? p : literal_band(v->lit);
}

/* Integer i of v, as far as it is known. */
static bool known(const nc_value *v, int i, int64_t *out) {
    double x;
    if (v == NULL) return false;
    if (v->lit != NULL && v->var == NULL)
        return nc_rewrite_number(v->lit, i, &x) && fabs(x) < 1e15 && (*out = (int64_t)x, true);
    return v->elems != NULL && i < v->n_elems && v->elems[i] != NULL && nc_dim_is_const(v->elems[i], out);
}

/* ---- what ops make of pictures ---- */

static picture see_constant_of_shape(const nc_node *n, int *left) {
    const nc_attr *a = nc_node_attr(n, "value");
    double v = 0;
    (void)left;
    return a == NULL || nc_rewrite_number(a->tensor, 0, &v) ? full(v) : none;
}

static picture see_range(const nc_node *n, int *left) {
    int64_t first, step;
    (void)left;
    return known(n->in[0], 0, &first) && known(n->in[2], 0, &step) && step == 1 ? places_of(n->out[0], first) : none;
}

/* Elements keep their order: Reshape, Squeeze, Unsqueeze. */
static picture see_reshaped(const nc_node *n, int *left) {
    picture p = see_in(n, 0, left);
    if (p.kind == PLACES && places_of(n->in[0], 0).kind == PLACES) return places_of(n->out[0], p.by);
    return p.kind == FULL || (p.kind == BAND && lasts(p, n->in[0], n->out[0])) ? p : none;
}

static picture see_spread(const nc_node *n, int *left) {
    picture p = see_in(n, 0, left);
    return lasts(p, n->in[0], n->out[0]) ? p : none;
}

static picture see_cast(const nc_node *n, int *left) {
    picture p = see_in(n, 0, left);
    if (!nc_rewrite_tensor(n->out[0])) return none;
    nc_dtype to = n->out[0]->type->elem;
    if (to == NC_BOOL && p.kind != PLACES) p.in = p.in != 0, p.out = p.out != 0;
    return to == NC_BOOL && p.kind == PLACES ? none : p;
}

/* Kept where column - row <= k, or with `upper` >= k; 0 elsewhere. */
static picture see_trilu(const nc_node *n, int *left) {
    picture p = see_in(n, 0, left);
    bool upper = nc_attr_int(n, "upper") != 0;
    int64_t k = 0;
    if (p.kind != FULL || (n->n_in > 1 && n->in[1] != NULL && !known(n->in[1], 0, &k))) return none;
    if (k < -(1 << 30) || k > 1 << 30) return none;
    return upper ? band(k - 1, 0, p.in) : band(k, p.in, 0);
}

/* Rows and columns from `starts` on, one after the other. */
static picture see_slice(const nc_node *n, int *left) {
    picture p = see_in(n, 0, left);
    int64_t axis, start, step;
    int rank = nc_rewrite_tensor(n->in[0]) ? n->in[0]->type->rank : 0;
    if (p.kind == FULL) return p;
    if (p.kind != BAND || n->n_in < 4 || n->in[3] == NULL || !nc_rewrite_tensor(n->in[3])) return none;
    int64_t count;
    if (n->in[3]->type->rank != 1 || !nc_dim_is_const(n->in[3]->type->dims[0], &count)) return none;
    for (int i = 0; i < count; i++) {
        bool steps = n->n_in > 4 && n->in[4] != NULL;
        if (!known(n->in[3], i, &axis) || !known(n->in[1], i, &start) || (steps && !known(n->in[4], i, &step)) ||
            (steps && step != 1) || start < 0 || start > 1 << 30)
            return none;
        axis = axis < 0 ? axis + rank : axis;
        if (axis == rank - 2) p.by += start;
        if (axis == rank - 1) p.by -= start;
    }
    return p;
}

static picture see_not(const nc_node *n, int *left) {
    picture p = see_in(n, 0, left);
    p.in = p.in == 0, p.out = p.out == 0;
    return p.kind == PLACES ? none : p;
}

typedef double formula(double a, double b);
static double f_add(double a, double b) { return a + b; }
static double f_sub(double a, double b) { return a - b; }
static double f_mul(double a, double b) { return a * b; }
static double f_equal(double a, double b) { return a == b; }
static double f_and(double a, double b) { return a != 0 && b != 0; }
static double f_less(double a, double b) { return a < b; }
static double f_less_equal(double a, double b) { return a <= b; }
static double f_greater(double a, double b) { return a > b; }
static double f_greater_equal(double a, double b) { return a >= b; }

/* Places along columns against places along rows. */
static picture compared(formula *f, picture a, picture b) {
    /* a is column + a.by, b is row + b.by: where is column - row <= b.by - a.by? */
    if (f == f_less_equal) return band(b.by - a.by, 1, 0);
    if (f == f_less) return band(b.by - a.by - 1, 1, 0);
    if (f == f_greater) return band(b.by - a.by, 0, 1);
    if (f == f_greater_equal) return band(b.by - a.by - 1, 0, 1);
    return none;
}

static formula *turned(formula *f) {
    return f == f_less            ? f_greater
           : f == f_less_equal    ? f_greater_equal
           : f == f_greater       ? f_less
           : f == f_greater_equal ? f_less_equal
                                  : f;
}

static picture moved(picture places, double by) {
    if (fabs(by) > 1e9 || by != floor(by)) return none;
    places.by += (int64_t)by;
    return places;
}

static picture see_binary(const nc_node *n, int *left, formula *f) {
    picture a = see_in(n, 0, left), b = a.kind == NOTHING ? none : see_in(n, 1, left);
    if (!lasts(a, n->in[0], n->out[0]) || b.kind == NOTHING || !lasts(b, n->in[1], n->out[0])) return none;
    if (a.kind == PLACES && b.kind == PLACES && a.rows != b.rows)
        return a.rows ? compared(turned(f), b, a) : compared(f, a, b);
    if ((f == f_add || f == f_sub) && a.kind == PLACES && b.kind == FULL) return moved(a, f(0, b.in));
    if (f == f_add && b.kind == PLACES && a.kind == FULL) return moved(b, a.in);
    if (a.kind == PLACES || b.kind == PLACES || (a.kind == BAND && b.kind == BAND && a.by != b.by)) return none;
    picture p = a.kind == BAND ? a : b;
    p.in = f(a.in, b.in), p.out = f(a.out, b.out);
    return p;
}

static picture see_where(const nc_node *n, int *left) {
    picture c = see_in(n, 0, left), a = c.kind == NOTHING ? none : see_in(n, 1, left), b = see_in(n, 2, left);
    if (a.kind != FULL || b.kind != FULL || c.kind == PLACES || !lasts(c, n->in[0], n->out[0])) return none;
    c.in = c.in != 0 ? a.in : b.in, c.out = c.out != 0 ? a.in : b.in;
    return c;
}

/* ---- masks ---- */

static picture see(const nc_value *v, int *left) {
    static const struct {
        const char *op;
        picture (*see)(const nc_node *n, int *left);
        formula *f;
    } words[] = {{"ConstantOfShape", see_constant_of_shape, NULL},
                 {"Range", see_range, NULL},
                 {"Reshape", see_reshaped, NULL},
                 {"Unsqueeze", see_reshaped, NULL},
                 {"Squeeze", see_reshaped, NULL},
                 {"Expand", see_spread, NULL},
                 {"Cast", see_cast, NULL},
                 {"Trilu", see_trilu, NULL},
                 {"Slice", see_slice, NULL},
                 {"Not", see_not, NULL},
                 {"Where", see_where, NULL},
                 {"Add", NULL, f_add},
                 {"Sub", NULL, f_sub},
                 {"Mul", NULL, f_mul},
                 {"And", NULL, f_and},
                 {"Equal", NULL, f_equal},
                 {"Less", NULL, f_less},
                 {"LessOrEqual", NULL, f_less_equal},
                 {"Greater", NULL, f_greater},
                 {"GreaterOrEqual", NULL, f_greater_equal}};
    if (v == NULL || (*left)-- <= 0) return none;
    if (v->lit != NULL) return see_literal(v);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const nc_node *n = nc_rewrite_def(v, words[i].op);
        if (n != NULL) return words[i].f ? see_binary(n, left, words[i].f) : words[i].see(n, left);
    }
    return none;
}

/* Hides what comes after a query's own place, and nothing else: with false, or with a number so low that no score
 * matters beside it. */
static bool is_causal(const nc_value *mask, const nc_dim *length) {
    if (dim_from_end(mask, 1) != length || dim_from_end(mask, 2) != length) return false;
    int left = MOST;
    picture p = see(mask, &left);
    if (p.kind != BAND || p.by != 0) return false;
    if (mask->type->elem == NC_BOOL) return p.in != 0 && p.out == 0;
    return p.in == 0 && p.out <= (mask->type->elem == NC_FLOAT16 ? -6e4 : -1e30);
}

/* What is left of a mask without its triangle; *rest NULL: nothing. */
static bool without_triangle(nc_value *mask, const nc_dim *length, nc_value **rest) {
    *rest = NULL;
    if (!nc_rewrite_tensor(mask)) return false;
    if (is_causal(mask, length)) return true;
    const nc_node *join = nc_rewrite_def(mask, mask->type->elem == NC_BOOL ? "And" : "Add");
    for (int i = 0; join != NULL && i < 2; i++) {
        *rest = join->in[1 - i];
        bool stands = nc_rewrite_tensor(*rest) && (*rest)->type->rank >= 2 && dim_from_end(*rest, 1) == length;
        if (stands && nc_rewrite_tensor(join->in[i]) && is_causal(join->in[i], length)) return true;
    }
    return false;
}

static bool has(const nc_node *n, int i) { return i < n->n_in && n->in[i] != NULL; }

/* As many queries as keys, no past, and nobody looks at the scores. */
static const nc_dim *length_of(const nc_node *n) {
    if (n->card != &nc_card_attention_dropout && !nc_rewrite_is(n, "Attention")) return NULL;
    if (!has(n, 3) || has(n, 4) || has(n, 6) || !nc_rewrite_free_draw(n)) return NULL;
    if (nc_attr_int(n, "is_causal") != 0 || !same_dim(n->in[0], n->in[1], 2)) return NULL;
    return dim_from_end(n->in[0], 2);
}

nc_code nc_attention_causal(nc_work *w, nc_graph *g, int *n_changes) {
    nc_attr causal = {.name = "is_causal", .kind = NC_A_INT, .i = 1};
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        const nc_dim *length = length_of(n);
        nc_value *rest;
        if (length == NULL || !without_triangle(n->in[3], length, &rest)) continue;
        if (nc_edit_set_attr(n, &causal) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
        nc_edit_set_in(n, 3, rest);
        (*n_changes)++;
    }
    return NC_OK;
}
