/* ops/attention/tensor_scatter.c: the card of TensorScatter: writes new rows into a cache at a place of each batch's
 * own, around its end in circular mode. The kernel is in tensor_scatter_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code tensor_scatter_infer(nc_infer *c) {
    int rank, rank_u, axis;
    const char *mode = nc_attr_str(c->node, "mode");
    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "mode is '%s', expected linear or circular", mode);
    if (!nc_in_rank(c, 0, &rank)) return nc_out_like(c, 0, 0);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    if (axis == 0) NC_FAIL(c->w, NC_E_BAD_GRAPH, "axis is the batch, a later one is expected");
    if (nc_in_rank(c, 1, &rank_u) && rank_u != rank)
        NC_FAIL(c->w, NC_E_SHAPE, "update has %d dims, past_cache has %d", rank_u, rank);
    for (int i = 0; i < rank; i++) {
        int64_t have, got;
        if (nc_in_dim(c, 1, i) == NULL || !nc_dim_is_const(nc_in_dim(c, 1, i), &got) ||
            !nc_dim_is_const(nc_in_dim(c, 0, i), &have))
            continue;
        if (i == axis ? got > have : got != have)
            NC_FAIL(c->w, NC_E_SHAPE, "update has %lld at dim %d, past_cache %lld", (long long)got, i, (long long)have);
    }
    return nc_out_like(c, 0, 0);
}

/* Which row of the cache each element of update went to, of update's shape. */
static nc_value *rows_of(nc_grad *g, int64_t axis, int rank) {
    nc_builder *b = g->b;
    int64_t dims[NC_MAX_RANK];
    nc_value *shape = nc_build_shape(b, nc_grad_like(g, 1)), *at = nc_grad_x(g, 2);
    nc_value *count = nc_build1(b, "Gather", 2, shape, nc_build_int(b, axis));
    nc_value *rows = nc_build1(b, "Range", 3, nc_build_int(b, 0), count, nc_build_int(b, 1));
    for (int i = 0; i < rank; i++) dims[i] = i == axis ? -1 : 1;
    rows = nc_build1(b, "Reshape", 2, rows, nc_build_ints(b, dims, rank));
    if (at != NULL) {
        for (int i = 0; i < rank; i++) dims[i] = i == 0 ? -1 : 1;
        rows = nc_build1(b, "Add", 2, rows, nc_build1(b, "Reshape", 2, at, nc_build_ints(b, dims, rank)));
    }
    if (strcmp(nc_attr_str(g->node, "mode"), "circular") == 0) {
        nc_value *all = nc_build_shape(b, nc_grad_like(g, 0));
        rows = nc_build1(b, "Mod", 2, rows, nc_build1(b, "Gather", 2, all, nc_build_int(b, axis)));
    }
    return nc_build1(b, "Expand", 2, rows, shape);
}

static nc_code tensor_scatter_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_type *t = g->node->in[0]->type;
    if (dy == NULL) return NC_OK;
    if (t == NULL || t->rank < 0) NC_FAIL(g->b->w, NC_E_SHAPE, "the rank of past_cache is not known");
    int64_t axis = nc_attr_int(g->node, "axis");
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis < 0 ? axis + t->rank : axis};
    if (g->wants[0]) {
        nc_value *in[3] = {dy, nc_build_zeros_like(g->b, nc_grad_like(g, 1)), nc_grad_x(g, 2)};
        nc_grad_set(
            g, 0, nc_build_newest1(g->b, "TensorScatter", in, in[2] != NULL ? 3 : 2, g->node->attrs, g->node->n_attrs));
    }
    if (g->wants[1]) {
        nc_value *in[2] = {dy, rows_of(g, attr.i, t->rank)};
        nc_grad_set(g, 1, nc_build_attr1(g->b, "", "GatherElements", in, 2, &attr, 1));
    }
    return nc_grad_end(g);
}

static const nc_op_version versions[] = {
    {.since = 24,
     IN({"past_cache", T_TENSOR_ALL | T_NARROW_24}, {"update", SAME(0)}, {"write_indices", T_I64, OPTIONAL}),
     OUT({"present_cache", SAME(0)}),
     ATTR(A_INT("axis", -2), A_STR("mode", "linear"))},
    {0}};

const nc_card nc_card_tensor_scatter = {.name = "TensorScatter",
                                        .doc = "Writes rows into a cache at a place per batch.",
                                        .versions = versions,
                                        .no_grad_in = 1u << 2,
                                        .infer = tensor_scatter_infer,
                                        .grad = tensor_scatter_grad};
