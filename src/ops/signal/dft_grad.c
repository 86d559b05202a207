/* ops/signal/dft_grad.c: the gradient of DFT, which is a DFT again, and the words of dft_parts.h.
 *
 * The transform of length n is x times a symmetric matrix A, so that dx = conj(A conj(dy)), cut or followed by zeros as
 * x was; dy of bins that were left out is zero. Between real signals and halves, y_k = sum_j x_j w_jk one way and
 * y_j = sum_k t_k Re(x_k conj(w_jk)) / n back, t_k being 1 for bins that are their own mirror and 2 for others: the
 * gradient of one is the other, of dy n / t_k or times t_k / n. */
#include "ops/build.h"
#include "ops/signal/dft_parts.h"
#include "ops/signal/signal.h"

nc_value *nc_dft_range(nc_builder *b, nc_value *end) {
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), end, nc_build_int(b, 1));
}

nc_value *nc_dft_dim(nc_builder *b, nc_value *v, int64_t i) {
    return nc_build1(b, "Gather", 2, nc_build_shape(b, v), nc_build_int(b, i));
}

nc_value *nc_dft_joined(nc_builder *b, nc_value *const *dims, int n) {
    nc_attr at = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "Concat", dims, n, &at, 1);
}

nc_value *nc_dft_cut(nc_builder *b, nc_value *x, nc_value *length, int64_t axis) {
    static const int64_t zero;
    nc_value *from = nc_build_ints(b, &zero, 1), *axes = nc_build_ints(b, &axis, 1);
    return nc_build1(b, "Slice", 4, x, from, nc_build1(b, "Unsqueeze", 2, length, from), axes);
}

nc_value *nc_dft_length(nc_builder *b, const nc_node *n, nc_value *given, nc_value *dim) {
    if (given != NULL)
        return nc_build1(b, "Reshape", 2, nc_build_cast(b, given, NC_INT64), nc_build_ints(b, NULL, 0));
    if (nc_attr_int(n, "inverse") == 0 || nc_attr_int(n, "onesided") == 0) return dim;
    return nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, dim, nc_build_int(b, 1)), nc_build_int(b, 2));
}

nc_value *nc_dft_half(nc_builder *b, nc_value *length) {
    return nc_build1(b, "Add", 2, nc_build1(b, "Div", 2, length, nc_build_int(b, 2)), nc_build_int(b, 1));
}

nc_value *nc_dft_times(nc_builder *b, nc_dtype t, nc_value *length, nc_value *bins, int n_behind) {
    int64_t behind[NC_MAX_RANK];
    for (int i = 0; i < n_behind; i++) behind[i] = i + 1;
    nc_value *k = nc_build1(b, "Unsqueeze", 2, nc_dft_range(b, bins), nc_build_ints(b, behind, n_behind));
    nc_value *first = nc_build1(b, "Equal", 2, k, nc_build_int(b, 0));
    nc_value *middle = nc_build1(b, "Equal", 2, nc_build1(b, "Mul", 2, k, nc_build_int(b, 2)), length);
    nc_value *once = nc_build1(b, "Or", 2, first, middle);
    return nc_build1(b, "Where", 3, once, nc_build_scalar(b, t, 1), nc_build_scalar(b, t, 2));
}

static nc_value *product_of(nc_builder *b, nc_value *dims) {
    return nc_build_newest1(b, "ReduceProd", &dims, 1, NULL, 0);
}

nc_value *nc_dft_flat(nc_builder *b, nc_value *v, nc_value *axis, int64_t parts, nc_value **before, nc_value **behind) {
    if (b->code != NC_OK) return NULL;
    int64_t rank = v->type->rank, zero = 0, one = 1, end = rank - 1;
    nc_value *first = nc_build_ints(b, &zero, 1), *last = nc_build_ints(b, &end, 1), *step = nc_build_ints(b, &one, 1);
    axis = nc_build1(b, "Reshape", 2, nc_build_cast(b, axis, NC_INT64), step);
    nc_value *negative = nc_build_cast(b, nc_build1(b, "Less", 2, axis, first), NC_INT64);
    axis = nc_build1(b, "Add", 2, axis, nc_build1(b, "Mul", 2, negative, nc_build_ints(b, &rank, 1)));
    nc_value *dims = nc_build1(b, "Slice", 3, nc_build_shape(b, v), first, last);
    *before = nc_build1(b, "Slice", 3, dims, first, axis);
    *behind = nc_build1(b, "Slice", 3, dims, nc_build1(b, "Add", 2, axis, step), last);
    nc_value *four[4] = {product_of(b, *before), nc_build1(b, "Gather", 2, dims, axis), product_of(b, *behind),
                         nc_build_ints(b, &parts, 1)};
    return nc_build1(b, "Reshape", 2, v, nc_dft_joined(b, four, 4));
}

/* ---- the gradient ---- */

/* A DFT of the version that n has. */
static nc_value *transform(nc_builder *b, const nc_node *n, nc_value *x, nc_value *length, int64_t axis, bool inverse,
                           bool onesided) {
    nc_attr attrs[3] = {{.name = "inverse", .kind = NC_A_INT, .i = inverse},
                        {.name = "onesided", .kind = NC_A_INT, .i = onesided},
                        {.name = "axis", .kind = NC_A_INT, .i = axis}};
    nc_value *in[3] = {x, length, NULL};
    if (n->version->since < 20) return nc_build_attr1(b, "", "DFT", in, length != NULL ? 2 : 1, attrs, 3);
    in[2] = nc_build_int(b, axis);
    return nc_build_newest1(b, "DFT", in, 3, attrs, 2);
}

static nc_value *conjugate(nc_builder *b, nc_value *x) {
    static const int64_t signs[2] = {1, -1};
    if (b->code != NC_OK) return NULL;
    return nc_build1(b, "Mul", 2, x, nc_build_cast(b, nc_build_ints(b, signs, 2), x->type->elem));
}

/* What of dx is there, cut or followed by zeros to `dim` along the axis. */
static nc_value *fitted(nc_builder *b, nc_value *dx, nc_value *dim, int64_t axis) {
    static int64_t zeros[NC_MAX_RANK]; /* not const: no bytes of the library */
    if (b->code != NC_OK) return NULL;
    dx = nc_dft_cut(b, dx, dim, axis);
    if (b->code != NC_OK) return NULL;
    int rank = dx->type->rank;
    nc_value *lack = nc_build1(b, "Sub", 2, dim, nc_dft_dim(b, dx, axis));
    nc_value *pads[4] = {nc_build_ints(b, zeros, rank), nc_build_ints(b, zeros, (int)axis),
                         nc_build1(b, "Unsqueeze", 2, lack, nc_build_ints(b, zeros, 1)),
                         nc_build_ints(b, zeros, rank - 1 - (int)axis)};
    return nc_build1(b, "Pad", 2, dx, nc_dft_joined(b, pads, 4));
}

/* From a real signal to a half (forward) or back, in floats at least: sums of n numbers stand between. */
static nc_value *between_halves(nc_builder *b, const nc_node *n, nc_value *dy, nc_value *length, int64_t axis) {
    bool inverse = nc_attr_int(n, "inverse") != 0;
    nc_dtype t = dy->type->elem, wide = t == NC_DOUBLE ? t : NC_FLOAT;
    int n_behind = dy->type->rank - 1 - (int)axis;
    nc_value *times = nc_dft_times(b, wide, length, nc_dft_half(b, length), n_behind);
    nc_value *all = nc_build_cast(b, length, wide);
    dy = nc_build_cast(b, dy, wide);
    if (inverse)
        dy = nc_build1(b, "Mul", 2, transform(b, n, dy, NULL, axis, false, true), nc_build1(b, "Div", 2, times, all));
    else
        dy = transform(b, n, nc_build1(b, "Mul", 2, dy, nc_build1(b, "Div", 2, all, times)), length, axis, true, true);
    return nc_build_cast(b, dy, t);
}

/* dx of a signal of dim `dim` and so many parts along an axis that is known; given: the length, or NULL. */
static nc_value *turned_back(nc_builder *b, const nc_node *n, nc_value *dy, nc_value *given, nc_value *dim,
                             int64_t parts, int64_t axis) {
    bool inverse = nc_attr_int(n, "inverse") != 0, onesided = nc_attr_int(n, "onesided") != 0;
    nc_value *length = nc_dft_length(b, n, given, dim), *dx;
    if (b->code != NC_OK) return NULL;
    int64_t last = dy->type->rank - 1;
    bool of_half = onesided && (inverse || parts == 1);
    if (of_half)
        dx = between_halves(b, n, dy, length, axis);
    else
        dx = transform(b, n, conjugate(b, dy), onesided ? length : NULL, axis, inverse, false);
    if (parts == 1 && !(of_half && !inverse)) dx = nc_dft_cut(b, dx, nc_build_int(b, 1), last);
    if (parts == 2 && !of_half) dx = conjugate(b, dx);
    return given != NULL ? fitted(b, dx, dim, axis) : dx;
}

nc_code nc_dft_grad(nc_grad *g) {
    nc_builder *b = g->b;
    const nc_node *n = g->node;
    const nc_type *t = n->in[0]->type;
    int64_t axis, parts;
    if (t == NULL || t->rank < 2 || !nc_dim_is_const(t->dims[t->rank - 1], &parts))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its gradient needs a known rank and last dim");
    nc_value *x = nc_grad_like(g, 0), *dy = nc_grad_dy(g, 0), *before, *behind;
    nc_value *given = n->n_in > 1 && n->in[1] != NULL ? nc_grad_x(g, 1) : NULL;
    if (nc_dft_axis(n, &axis)) {
        axis += axis < 0 ? t->rank : 0;
        nc_grad_set(g, 0, turned_back(b, n, dy, given, nc_dft_dim(b, x, axis), parts, axis));
        return nc_grad_end(g);
    }
    nc_value *at = nc_grad_x(g, 2);
    int64_t y_parts = nc_attr_int(n, "inverse") != 0 && nc_attr_int(n, "onesided") != 0 ? 1 : 2;
    nc_value *dim = nc_build1(b, "Gather", 2, nc_build_shape(b, x),
                              nc_build1(b, "Reshape", 2, nc_build_cast(b, at, NC_INT64), nc_build_ints(b, NULL, 0)));
    dy = nc_dft_flat(b, dy, at, y_parts, &before, &behind);
    nc_grad_set(g, 0, nc_build_reshape_like(b, turned_back(b, n, dy, given, dim, parts, 1), x));
    return nc_grad_end(g);
}
