/* ops/select/compress.c: cards of Compress and Unique, whose sizes the kernel finds: bounded by those of the input. */
#include "ops/build.h"
#include "ops/card.h"

static const nc_dim *all_of(nc_infer *c, const nc_type *x) {
    const nc_dim *all = nc_dim_const(c->dims, 1);
    for (int k = 0; k < x->rank; k++) all = nc_dim_mul(c->dims, all, x->dims[k]);
    return all;
}

/* A fresh dim of at most `bound`. */
static const nc_dim *at_most(nc_infer *c, const nc_dim *bound) {
    const nc_dim *n = nc_fresh(c, "n");
    if (n != NULL && bound != NULL) nc_dim_set_bound(c->dims, n, bound);
    return bound != NULL ? n : NULL;
}

static nc_code compress_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int axis;
    if (x == NULL) return NC_OK;
    bool flat = !nc_attr_has(c->node, "axis");
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, flat ? 1 : -1);
    if (flat) {
        dims[0] = at_most(c, all_of(c, x));
        return nc_out(c, 0, x->elem, 1, dims);
    }
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    for (int k = 0; k < x->rank; k++) dims[k] = k == axis ? at_most(c, x->dims[k]) : x->dims[k];
    return nc_out(c, 0, x->elem, x->rank, dims);
}

/* Back to the slices whose condition is true. */
static nc_code compress_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0), *x = nc_grad_like(g, 0);
    nc_builder *b = g->b;
    int64_t all = -1;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    bool flat = !nc_attr_has(g->node, "axis");
    nc_value *shape = nc_build_shape(b, x), *one = nc_build_ints(b, &all, 1);
    nc_value *at = nc_build1(b, "Reshape", 2, nc_build1(b, "NonZero", 1, nc_grad_x(g, 1)), one);
    if (flat) shape = nc_build1(b, "Reshape", 2, nc_build1(b, "Size", 1, x), one);
    nc_value *in[3] = {shape, at, dy};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = flat ? 0 : nc_attr_int(g->node, "axis")};
    nc_value *dx = nc_build_attr1(b, "nacre", "GatherGrad", in, 3, &axis, 1);
    nc_grad_set(g, 0, flat && dx != NULL ? nc_build_reshape_like(b, dx, x) : dx);
    return nc_grad_end(g);
}

#define COMPRESS(types) IN({"input", types}, {"condition", T_BOOL}), OUT({"output", SAME(0)}), ATTR(A_INT_OPT("axis"))
static const nc_op_version compress_versions[] = {
    {.since = 28, COMPRESS(T_TENSOR_ALL)}, {.since = 11, COMPRESS(T_TENSOR)}, {.since = 9, COMPRESS(T_TENSOR)}, {0}};

const nc_card nc_card_compress = {.name = "Compress",
                                  .doc = "The slices along an axis whose condition is true.",
                                  .versions = compress_versions,
                                  .no_grad_in = 1u << 1,
                                  .infer = compress_infer,
                                  .grad = compress_grad};

static nc_code unique_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK], *rows, *n;
    int axis = 0;
    if (x == NULL) return NC_OK;
    bool flat = !nc_attr_has(c->node, "axis");
    if (x->rank < 0) {
        NC_TRY(nc_out_unknown(c, 0, x->elem, flat ? 1 : -1));
        for (int i = 1; i < 4; i++) NC_TRY(nc_out_unknown(c, i, NC_INT64, 1));
        return NC_OK;
    }
    if (!flat) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    rows = flat ? all_of(c, x) : x->dims[axis];
    n = at_most(c, rows);
    for (int k = 0; k < x->rank; k++) dims[k] = k == axis ? n : x->dims[k];
    NC_TRY(nc_out(c, 0, x->elem, flat ? 1 : x->rank, flat ? &n : dims));
    NC_TRY(nc_out(c, 1, NC_INT64, 1, &n));
    NC_TRY(nc_out(c, 2, NC_INT64, 1, &rows));
    return nc_out(c, 3, NC_INT64, 1, &n);
}

#define UNIQUE(types)                                                                           \
    IN({"X", types}),                                                                           \
        OUT({"Y", SAME(0)}, {"indices", T_I64, OPTIONAL}, {"inverse_indices", T_I64, OPTIONAL}, \
            {"counts", T_I64, OPTIONAL}),                                                       \
        ATTR(A_INT("sorted", 1), A_INT_OPT("axis"))
static const nc_op_version unique_versions[] = {
    {.since = 28, UNIQUE(T_TENSOR_ALL)}, {.since = 11, UNIQUE(T_TENSOR)}, {0}};

const nc_card nc_card_unique = {.name = "Unique",
                                .doc = "The different elements or slices, where each came first, and how often.",
                                .versions = unique_versions,
                                .infer = unique_infer,
                                .no_grad = "the size of the result jumps where elements become equal"};
