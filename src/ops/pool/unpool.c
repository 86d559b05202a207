/* ops/pool/unpool.c: the card of MaxUnpool. The indices count within the size that undoes the pool; where output_shape
 * asks for more, that result lies in its first corner and the rest is 0. */
#include "ops/pool/unpool.h"

#include "ops/build.h"
#include "ops/card.h"

nc_code nc_unpool_read(nc_work *w, const nc_node *n, int n_spatial, nc_unpool *a) {
    int64_t k[NC_WINDOW_MAX_SPATIAL], pads[2 * NC_WINDOW_MAX_SPATIAL];
    if (n_spatial < 1 || n_spatial > NC_WINDOW_MAX_SPATIAL)
        NC_FAIL(w, NC_E_SHAPE, "%d spatial dims are not supported", n_spatial);
    *a = (nc_unpool){.n_spatial = n_spatial};
    NC_TRY(nc_window_ints(w, n, "strides", n_spatial, 1, 1, a->strides));
    NC_TRY(nc_window_ints(w, n, "kernel_shape", n_spatial, 1, 1, k));
    NC_TRY(nc_window_ints(w, n, "pads", 2 * n_spatial, 0, 0, pads));
    for (int i = 0; i < n_spatial; i++) a->more[i] = k[i] - pads[i] - pads[n_spatial + i];
    return NC_OK;
}

static nc_code unpool_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    nc_unpool a;
    int n;
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    NC_TRY(nc_unpool_read(c->w, c->node, x->rank - 2, &a));
    if (c->node->n_in > 2 && c->in[2].present) {
        const nc_dim *const *elems = nc_in_elems(c, 2, &n);
        if (elems == NULL) return nc_out_unknown(c, 0, x->elem, x->rank);
        if (n != x->rank) NC_FAIL(c->w, NC_E_SHAPE, "output_shape has %d numbers, %d are expected", n, x->rank);
        return nc_out(c, 0, x->elem, x->rank, elems);
    }
    for (int i = 0; i < x->rank; i++) {
        dims[i] = x->dims[i];
        if (i < 2) continue;
        const nc_dim *steps = nc_dim_sub(c->dims, dims[i], nc_dim_const(c->dims, 1));
        dims[i] = nc_dim_add(c->dims, nc_dim_mul(c->dims, steps, nc_dim_const(c->dims, a.strides[i - 2])),
                             nc_dim_const(c->dims, a.more[i - 2]));
    }
    return nc_out(c, 0, x->elem, x->rank, dims);
}

/* The spatial sizes that undo the pool, and their axes; NULL: b->code says why. */
static nc_value *undone(nc_builder *b, const nc_node *n, nc_value *x, int64_t *axes, nc_unpool *a) {
    const nc_type *t = n->in[0]->type;
    if (b->code == NC_OK && (t == NULL || t->rank < 0))
        b->code = nc_fail(b->w, NC_E_SHAPE, "the rank of X is not known, and output_shape is given");
    if (b->code == NC_OK) b->code = nc_unpool_read(b->w, n, t->rank - 2, a);
    if (b->code != NC_OK) return NULL;
    for (int i = 0; i < a->n_spatial; i++) axes[i] = i + 2;
    nc_value *sizes = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_ints(b, axes, a->n_spatial));
    nc_value *steps = nc_build1(b, "Sub", 2, sizes, nc_build_int(b, 1));
    return nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, steps, nc_build_ints(b, a->strides, a->n_spatial)),
                     nc_build_ints(b, a->more, a->n_spatial));
}

/* dy without what output_shape asked for beyond the size that undoes the pool. */
static nc_value *corner(nc_grad *g, nc_value *dy) {
    nc_unpool a;
    nc_builder *b = g->b;
    int64_t from[NC_WINDOW_MAX_SPATIAL] = {0}, axes[NC_WINDOW_MAX_SPATIAL];
    nc_value *ends = undone(b, g->node, nc_grad_like(g, 0), axes, &a);
    if (ends == NULL) return NULL;
    return nc_build1(b, "Slice", 4, dy, nc_build_ints(b, from, a.n_spatial), ends, nc_build_ints(b, axes, a.n_spatial));
}

/* Zeros of the size that undoes the pool, with the elements put at their places in order, and more zeros behind them
 * where output_shape asks for them. */
static nc_code unpool_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_unpool a;
    nc_value *x = n->in[0];
    int64_t axes[NC_WINDOW_MAX_SPATIAL], all = -1, both[2] = {0, 1}, none[NC_MAX_RANK] = {0};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT}, keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    nc_value *ends = undone(b, n, x, axes, &a), *flat = nc_build_ints(b, &all, 1);
    if (ends == NULL) return b->code;
    nc_value *parts[2] = {nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_ints(b, both, 2)), ends};
    nc_value *shape = nc_build_attr1(b, "", "Concat", parts, 2, &axis, 1);
    nc_value *count = nc_build_attr1(b, "", "ReduceProd", &shape, 1, &keep, 1);
    nc_value *in[3] = {nc_build1(b, "Expand", 2, nc_build_scalar(b, x->type->elem, 0), count),
                       nc_build1(b, "Reshape", 2, n->in[1], flat), nc_build1(b, "Reshape", 2, x, flat)};
    out[0] = nc_build1(b, "Reshape", 2, nc_build_newest1(b, "ScatterElements", in, 3, NULL, 0), shape);
    if (n->n_in < 3 || n->in[2] == NULL) return b->code;
    nc_value *pads[2] = {nc_build_ints(b, none, x->type->rank), nc_build1(b, "Sub", 2, n->in[2], shape)};
    nc_value *wide[2] = {out[0], nc_build_attr1(b, "", "Concat", pads, 2, &axis, 1)};
    out[0] = nc_build_newest1(b, "Pad", wide, 2, NULL, 0);
    return b->code;
}

/* What arrived at the places the elements went to. */
static nc_code unpool_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    if (g->node->n_in > 2 && g->node->in[2] != NULL) dy = corner(g, dy);
    int64_t all = -1;
    nc_value *flat = nc_build1(g->b, "Reshape", 2, dy, nc_build_ints(g->b, &all, 1));
    nc_grad_set(g, 0, nc_build1(g->b, "Gather", 2, flat, nc_grad_x(g, 1)));
    return nc_grad_end(g);
}

#define ROW(types)                                                                               \
    IN({"X", types}, {"I", T_I64}, {"output_shape", T_I64, OPTIONAL}), OUT({"output", SAME(0)}), \
        ATTR(A_INTS_OPT("pads"), A_INTS_OPT("strides"), A_INTS_REQ("kernel_shape"))
static const nc_op_version versions[] = {
    {.since = 22, ROW(T_FLOAT_ALL)}, {.since = 11, ROW(T_FLOAT)}, {.since = 9, ROW(T_FLOAT)}, {0}};

const nc_card nc_card_max_unpool = {.name = "MaxUnpool",
                                    .doc = "Puts the elements of X at the indices that MaxPool gave; the rest is 0.",
                                    .versions = versions,
                                    .infer = unpool_infer,
                                    .grad = unpool_grad,
                                    .decompose = unpool_decompose,
                                    .no_grad_in = 2 | 4,
                                    .host_in = 4};
