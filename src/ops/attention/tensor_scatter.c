/* ops/attention/tensor_scatter.c: the card of TensorScatter: writes new rows into a cache at a place of each batch's
 * own, around its end in circular mode. The kernel is in tensor_scatter_cpu.c. */
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
                                        .infer = tensor_scatter_infer};
