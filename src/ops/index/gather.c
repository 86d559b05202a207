/* ops/index/gather.c: cards of Gather and of its gradient nacre.GatherGrad, which adds dY's slices up where they were
 * taken from. Each is the other's gradient. */
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code gather_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *i = nc_in(c, 1);
    const nc_dim *dims[2 * NC_MAX_RANK];
    int axis, n = 0;
    if (x == NULL) return NC_OK;
    if (x->rank < 0 || i == NULL || i->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "data has no axis to gather along");
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    for (int k = 0; k < axis; k++) dims[n++] = x->dims[k];
    for (int k = 0; k < i->rank; k++) dims[n++] = i->dims[k];
    for (int k = axis + 1; k < x->rank; k++) dims[n++] = x->dims[k];
    return nc_out(c, 0, x->elem, n, dims);
}

static nc_code gather_fold(nc_infer *c) {
    enum { MAX = 64 };
    int n, n_i, rank;
    int64_t at[MAX];
    const nc_dim *out[MAX];
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    if (elems == NULL || !nc_in_rank(c, 0, &rank) || rank != 1 || !nc_in_ints(c, 1, at, MAX, &n_i)) return NC_OK;
    for (int k = 0; k < n_i; k++) {
        if (at[k] < -n || at[k] >= n)
            NC_FAIL(c->w, NC_E_DATA, "index %lld is out of range for %d elements", (long long)at[k], n);
        out[k] = elems[at[k] < 0 ? at[k] + n : at[k]];
    }
    return nc_out_elems(c, 0, n_i, out);
}

static nc_code gather_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[3] = {nc_build_shape(g->b, nc_grad_like(g, 0)), nc_grad_x(g, 1), dy};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "axis")};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "GatherGrad", in, 3, &axis, 1));
    return nc_grad_end(g);
}

#define GATHER(types) IN({"data", types}, {"indices", T_INDEX}), OUT({"output", SAME(0)}), ATTR(A_INT("axis", 0))
static const nc_op_version gather_versions[] = {
    {.since = 13, GATHER(T_TENSOR_ALL)}, {.since = 11, GATHER(T_TENSOR)}, {.since = 1, GATHER(T_TENSOR)}, {0}};

const nc_card nc_card_gather = {.name = "Gather",
                                .doc = "Slices of data along an axis, picked by indices.",
                                .versions = gather_versions,
                                .no_grad_in = 1u << 1,
                                .infer = gather_infer,
                                .fold = gather_fold,
                                .grad = gather_grad};

/* ---- nacre.GatherGrad ---- */

static nc_code gather_grad_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 2);
    int axis;
    if (dy == NULL) return NC_OK;
    NC_TRY(nc_out_of_shape(c, dy->elem, 0, -1));
    int rank = c->out[0].type->rank;
    return rank < 0 ? NC_OK : nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis);
}

static nc_code gather_grad_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[2]) return NC_OK;
    nc_value *in[2] = {dy, nc_grad_x(g, 1)};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "axis")};
    nc_grad_set(g, 2, nc_build_attr1(g->b, "", "Gather", in, 2, &axis, 1));
    return nc_grad_end(g);
}

/* dY's slices are added up in a tensor of zeros. The dims of the indices become one, which stands for the axis. */
static nc_code gather_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *shape = n->in[0], *at = n->in[1], *dy = n->in[2];
    int64_t rank, all = -1, axis = nc_attr_int(n, "axis"), ones[NC_MAX_RANK];
    const nc_type *s = shape->type;
    if (!dy->type || !s || s->rank != 1 || !nc_dim_is_const(s->dims[0], &rank) || rank < 1 || rank > NC_MAX_RANK)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    if (axis < 0) axis += rank;
    for (int i = 0; i < rank; i++) ones[i] = i == axis ? -1 : 1;
    nc_value *zeros = nc_build1(b, "Expand", 2, nc_build_scalar(b, dy->type->elem, 0), shape);
    nc_attr mode = {.name = "reduction", .kind = NC_A_STRING, .s = {"add", 3}};
    nc_attr concat = {.name = "axis", .kind = NC_A_INT, .i = 0}, along = {.name = "axis", .kind = NC_A_INT, .i = axis};
    int64_t begin = 0, end = axis, after = axis + 1;
    nc_value *parts[3] = {nc_build1(b, "Slice", 3, shape, nc_build_ints(b, &begin, 1), nc_build_ints(b, &end, 1)),
                          nc_build_ints(b, &all, 1),
                          nc_build1(b, "Slice", 3, shape, nc_build_ints(b, &after, 1), nc_build_ints(b, &rank, 1))};
    nc_value *flat = nc_build1(b, "Reshape", 2, dy, nc_build_attr1(b, "", "Concat", parts, 3, &concat, 1));
    nc_value *where = nc_build1(b, "Reshape", 2, nc_build_cast(b, at, NC_INT64), nc_build_ints(b, ones, (int)rank));
    nc_value *in[3] = {zeros, nc_build_expand_like(b, where, flat), flat};
    out[0] = nc_build_attr1(b, "", "ScatterElements", in, 3, (const nc_attr[]){mode, along}, 2);
    return b->code;
}

static const nc_op_version gather_grad_versions[] = {{.since = 1,
                                                      IN({"shape", T_I64}, {"indices", T_INDEX}, {"dY", T_FLOAT_ALL}),
                                                      OUT({"dX", SAME(2)}),
                                                      ATTR(A_INT("axis", 0))},
                                                     {0}};

const nc_card nc_card_gather_grad = {.name = "GatherGrad",
                                     .domain = "nacre",
                                     .doc = "dY's slices added up where indices say, else 0.",
                                     .versions = gather_grad_versions,
                                     .host_in = 1,
                                     .no_grad_in = 3,
                                     .infer = gather_grad_infer,
                                     .grad = gather_grad_grad,
                                     .decompose = gather_grad_decompose};

/* ---- nacre.GatherGradOnto ---- */

static nc_code gather_grad_onto_infer(nc_infer *c) {
    int rank, axis;
    if (nc_in_rank(c, 0, &rank)) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    return nc_out_like(c, 0, 0);
}

static const nc_op_version gather_grad_onto_versions[] = {
    {.since = 1,
     IN({"sum", NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE)}, {"indices", T_INDEX}, {"dY", SAME(0)},
        {"overwrite", T_BOOL, SINGLE_OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("axis", 0))},
    {0}};

const nc_card nc_card_gather_grad_onto = {.name = "GatherGradOnto",
                                          .domain = "nacre",
                                          .no_grad = NC_LOWERED_NO_GRAD,
                                          .doc = "dY's slices added to a sum where indices say, or to 0 in its place.",
                                          .versions = gather_grad_onto_versions,
                                          .host_in = 1u << 3,
                                          .infer = gather_grad_onto_infer};
