/* ops/select/onehot.c: the card of OneHot: a new axis of `depth` elements, `on` where the index says and `off`
 * elsewhere, also everywhere when the index is out of range. */
#include "ops/build.h"
#include "ops/card.h"

/* depth as a dim, a symbol of its own where it is not known before the run. */
static nc_code depth_of(nc_infer *c, const nc_dim **depth) {
    int n;
    int64_t v;
    bool known;
    const nc_dim *const *elems = nc_in_elems(c, 1, &n);
    NC_TRY(nc_in_number(c, 1, &v, &known));
    if (known && v < 0) NC_FAIL(c->w, NC_E_SHAPE, "depth is %lld, expected 0 or more", (long long)v);
    *depth = elems != NULL && n == 1 ? elems[0] : known ? nc_dim_const(c->dims, v) : nc_fresh(c, "depth");
    NC_NEED(c->w, *depth);
    return NC_OK;
}

static nc_code onehot_infer(nc_infer *c) {
    const nc_type *at = nc_in(c, 0), *values = nc_in(c, 2);
    const nc_dim *dims[NC_MAX_RANK + 1], *depth;
    int axis, from = 0;
    if (values == NULL) return NC_OK;
    if (values->rank >= 0 && values->rank != 1)
        NC_FAIL(c->w, NC_E_SHAPE, "values has %d dims, expected 1: off and on", values->rank);
    NC_TRY(nc_in_expect(c, 2, 0, nc_dim_const(c->dims, 2)));
    if (at == NULL || at->rank < 0) return nc_out_unknown(c, 0, values->elem, -1);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), at->rank + 1, &axis));
    NC_TRY(depth_of(c, &depth));
    for (int k = 0; k <= at->rank; k++) dims[k] = k == axis ? depth : at->dims[from++];
    return nc_out(c, 0, values->elem, at->rank + 1, dims);
}

static nc_value *joined(nc_builder *b, nc_value *off, nc_value *on) {
    const int64_t first = 0;
    nc_value *at = nc_build_ints(b, &first, 1);
    nc_value *in[2] = {nc_build1(b, "Unsqueeze", 2, off, at), nc_build1(b, "Unsqueeze", 2, on, at)};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "Concat", in, 2, &axis, 1);
}

/* The sum of dy where the result is on, or off. */
static nc_value *sum_where(nc_grad *g, nc_value *dy, bool on) {
    nc_builder *b = g->b;
    nc_dtype t = dy->type->elem;
    nc_value *in[3] = {nc_grad_x(g, 0), nc_grad_x(g, 1),
                       joined(b, nc_build_scalar(b, t, !on), nc_build_scalar(b, t, on))};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "axis")},
            keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    nc_value *picked = nc_build1(b, "Mul", 2, dy, nc_build_attr1(b, "", "OneHot", in, 3, &axis, 1));
    return nc_build_attr1(b, "", "ReduceSum", &picked, 1, &keep, 1);
}

static nc_code onehot_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[2]) return NC_OK;
    nc_grad_set(g, 2, joined(g->b, sum_where(g, dy, false), sum_where(g, dy, true)));
    return nc_grad_end(g);
}

#define ONEHOT(types)                                                                                    \
    IN({"indices", T_NUMBER}, {"depth", T_NUMBER, SINGLE}, {"values", types}), OUT({"output", SAME(2)}), \
        ATTR(A_INT("axis", -1))
static const nc_op_version versions[] = {
    {.since = 28, ONEHOT(T_TENSOR_ALL)}, {.since = 11, ONEHOT(T_TENSOR)}, {.since = 9, ONEHOT(T_TENSOR)}, {0}};

const nc_card nc_card_onehot = {.name = "OneHot",
                                .doc = "A new axis that is on where the index says and off elsewhere.",
                                .versions = versions,
                                .host_in = 1u << 1,
                                .no_grad_in = 3,
                                .infer = onehot_infer,
                                .grad = onehot_grad};
