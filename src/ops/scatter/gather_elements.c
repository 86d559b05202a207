/* ops/scatter/gather_elements.c: cards of GatherElements and ScatterElements (Scatter before opset 11): single elements
 * by indices along one axis. Each is in the other's gradient. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/scatter/scatter.h"

static nc_code check_axis(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1);
    int axis;
    if (x == NULL || x->rank < 0) return NC_OK;
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    if (at == NULL || at->rank < 0) return NC_OK;
    if (at->rank != x->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "indices has %d dims, data %d: expected as many", at->rank, x->rank);
    for (int k = 0; k < x->rank; k++) {
        int64_t a, b;
        if (k != axis && nc_dim_is_const(x->dims[k], &a) && nc_dim_is_const(at->dims[k], &b) && b > a)
            NC_FAIL(c->w, NC_E_SHAPE, "dim %d of indices is %lld, of data %lld: expected no more", k, (long long)b,
                    (long long)a);
    }
    return NC_OK;
}

/* ---- GatherElements ---- */

static nc_code gather_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1);
    NC_TRY(check_axis(c));
    if (x == NULL) return NC_OK;
    if (at == NULL || at->rank < 0) return nc_out_unknown(c, 0, x->elem, x->rank);
    return nc_out(c, 0, x->elem, at->rank, at->dims);
}

static nc_attr axis_attr(const nc_node *n) {
    return (nc_attr){.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")};
}

static nc_code gather_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *zeros = nc_build_zeros_like(g->b, nc_grad_like(g, 0));
    nc_value *in[3] = {zeros, nc_grad_x(g, 1), dy};
    nc_attr attrs[2] = {axis_attr(g->node), {.name = "reduction", .kind = NC_A_STRING, .s = {(char[]){"add"}, 3}}};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "ScatterElements", in, 3, attrs, 2));
    return nc_grad_end(g);
}

#define GATHER(types) IN({"data", types}, {"indices", T_INDEX}), OUT({"output", SAME(0)}), ATTR(A_INT("axis", 0))
static const nc_op_version gather_versions[] = {
    {.since = 13, GATHER(T_TENSOR_ALL)}, {.since = 11, GATHER(T_TENSOR)}, {0}};

const nc_card nc_card_gather_elements = {.name = "GatherElements",
                                         .doc = "Elements of data at their place, but along axis where indices say.",
                                         .versions = gather_versions,
                                         .no_grad_in = 1u << 1,
                                         .infer = gather_infer,
                                         .grad = gather_grad};

/* ---- ScatterElements, Scatter ---- */

static nc_code scatter_infer(nc_infer *c) {
    NC_TRY(check_axis(c));
    const nc_type *at = nc_in(c, 1), *u = nc_in(c, 2);
    if (at != NULL && u != NULL && at->rank >= 0 && u->rank >= 0 && at->rank != u->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "updates has %d dims, indices %d: expected as many", u->rank, at->rank);
    for (int k = 0; at != NULL && k < at->rank; k++) NC_TRY(nc_in_expect(c, 2, k, at->dims[k]));
    return nc_out_like(c, 0, 0);
}

static nc_code scatter_grad(nc_grad *g) {
    nc_attr axis = axis_attr(g->node);
    return nc_scatter_grad(g, &(const nc_scatter_pair){"ScatterElements", "GatherElements", &axis, 1});
}

#define SCATTER(types) IN({"data", types}, {"indices", T_INDEX}, {"updates", SAME(0)}), OUT({"output", SAME(0)})
#define PLAIN ATTR(A_INT("axis", 0))
#define REDUCES ATTR(A_INT("axis", 0), A_STR("reduction", "none"))
static const nc_op_version scatter_versions[] = {{.since = 18, SCATTER(T_TENSOR_ALL), REDUCES},
                                                 {.since = 16, SCATTER(T_TENSOR_ALL), REDUCES},
                                                 {.since = 13, SCATTER(T_TENSOR_ALL), PLAIN},
                                                 {.since = 11, SCATTER(T_TENSOR), PLAIN},
                                                 {0}};
static const nc_op_version old_versions[] = {
    {.since = 11, SCATTER(T_TENSOR), PLAIN, .removed = true}, {.since = 9, SCATTER(T_TENSOR), PLAIN}, {0}};

const nc_card nc_card_scatter_elements = {.name = "ScatterElements",
                                          .doc = "data with updates put, added, ... where indices say along axis.",
                                          .versions = scatter_versions,
                                          .no_grad_in = 1u << 1,
                                          .infer = scatter_infer,
                                          .grad = scatter_grad};

const nc_card nc_card_scatter = {.name = "Scatter",
                                 .doc = "ScatterElements under its first name.",
                                 .versions = old_versions,
                                 .no_grad_in = 1u << 1,
                                 .infer = scatter_infer,
                                 .grad = scatter_grad};
