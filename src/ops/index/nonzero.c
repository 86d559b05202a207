/* ops/index/nonzero.c: the card of NonZero. How many elements are not zero is found by the kernel; the bound is all of
 * them. */
#include "ops/card.h"

static nc_code nonzero_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL || x->rank < 0) return nc_out_unknown(c, 0, NC_INT64, 2);
    const nc_dim *all = nc_dim_const(c->dims, 1);
    for (int k = 0; k < x->rank; k++) all = nc_dim_mul(c->dims, all, x->dims[k]);
    const nc_dim *dims[2] = {nc_dim_const(c->dims, x->rank), nc_fresh(c, "n")};
    NC_NEED(c->w, all);
    NC_NEED(c->w, dims[1]);
    nc_dim_set_bound(c->dims, dims[1], all);
    return nc_out(c, 0, NC_INT64, 2, dims);
}

#define NONZERO(types) IN({"X", types}), OUT({"Y", T_I64}), NO_ATTR
static const nc_op_version versions[] = {{.since = 13, NONZERO(T_TENSOR_ALL)}, {.since = 9, NONZERO(T_TENSOR)}, {0}};

const nc_card nc_card_nonzero = {.name = "NonZero",
                                 .doc = "The indices of the elements that are not zero, one row per dim.",
                                 .versions = versions,
                                 .infer = nonzero_infer,
                                 .zero_grad = true};
