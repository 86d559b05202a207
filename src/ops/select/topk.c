/* ops/select/topk.c: the card of TopK. Version 1 has k as an attribute. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code topk_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK], *k = NULL;
    int axis, n;
    int64_t have, want;
    if (x == NULL) return NC_OK;
    if (x->rank < 0) {
        NC_TRY(nc_out_unknown(c, 0, x->elem, -1));
        return nc_out_unknown(c, 1, NC_INT64, -1);
    }
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    if (nc_attr_has(c->node, "k")) {
        k = nc_dim_const(c->dims, nc_attr_int(c->node, "k"));
    } else {
        const nc_dim *const *elems = nc_in_elems(c, 1, &n);
        k = elems != NULL && n == 1 && elems[0] != NULL ? elems[0] : nc_fresh(c, "k");
    }
    NC_NEED(c->w, k);
    if (nc_dim_is_const(k, &want) && nc_dim_is_const(x->dims[axis], &have) && (want < 0 || want > have))
        NC_FAIL(c->w, NC_E_SHAPE, "K is %lld, the axis has %lld elements", (long long)want, (long long)have);
    for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? k : x->dims[i];
    NC_TRY(nc_out(c, 0, x->elem, x->rank, dims));
    return nc_out(c, 1, NC_INT64, x->rank, dims);
}

static nc_code topk_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[3] = {nc_build_zeros_like(g->b, nc_grad_like(g, 0)), nc_grad_y(g, 1), dy};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "axis")};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "ScatterElements", in, 3, &axis, 1));
    return nc_grad_end(g);
}

#define BOTH OUT({"Values", SAME(0)}, {"Indices", T_I64})
#define NEW(types) \
    IN({"X", types}, {"K", T_I64, SINGLE}), BOTH, ATTR(A_INT("axis", -1), A_INT("largest", 1), A_INT("sorted", 1))
static const nc_op_version versions[] = {
    {.since = 24, NEW(T_NUMBER_ALL)},
    {.since = 11, NEW(T_NUMBER)},
    {.since = 10, IN({"X", T_FLOAT}, {"K", T_I64, SINGLE}), BOTH, ATTR(A_INT("axis", -1))},
    {.since = 1, IN({"X", T_FLOAT}), BOTH, ATTR(A_INT("axis", -1), A_INT_REQ("k"))},
    {0}};

const nc_card nc_card_topk = {.name = "TopK",
                              .doc = "The K largest or smallest elements along an axis, and where they were.",
                              .versions = versions,
                              .host_in = 1u << 1,
                              .no_grad_in = 1u << 1,
                              .infer = topk_infer,
                              .grad = topk_grad};
