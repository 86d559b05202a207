/* ops/nacre/sum_to.c: nacre.SumTo: X summed over the dims that broadcasting `shape` to X's shape added or widened.
 * Gradients emit it where which dims those are is known only in the run (nc_build_sum_to). */
#include "ops/build.h"
#include "ops/card.h"

static nc_code sum_to_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    return x != NULL ? nc_out_of_shape(c, x->elem, 1, -1) : NC_OK;
}

static nc_code sum_to_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy != NULL && g->wants[0]) nc_grad_set(g, 0, nc_build_expand_like(g->b, dy, nc_grad_x(g, 0)));
    return nc_grad_end(g);
}

/* Sums over every axis along which the shape, with ones in front, has one: where X has one too nothing is summed. */
static nc_code sum_to_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *shape = n->in[1];
    int64_t rank, all = -1, ones[NC_MAX_RANK];
    const nc_type *s = shape->type;
    if (!x->type || x->type->rank < 0 || !s || s->rank != 1 || !nc_dim_is_const(s->dims[0], &rank))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    int lead = x->type->rank - (int)rank;
    for (int i = 0; i < lead; i++) ones[i] = 1;
    nc_value *pair[2] = {nc_build_ints(b, ones, lead), shape};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0}, keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    nc_attr noop = {.name = "noop_with_empty_axes", .kind = NC_A_INT, .i = 1};
    nc_value *full = lead > 0 ? nc_build_attr1(b, "", "Concat", pair, 2, &axis, 1) : shape;
    nc_value *found = nc_build1(b, "NonZero", 1, nc_build1(b, "Equal", 2, full, nc_build_int(b, 1)));
    nc_value *sum[2] = {x, nc_build1(b, "Reshape", 2, found, nc_build_ints(b, &all, 1))};
    out[0] =
        nc_build1(b, "Reshape", 2, nc_build_attr1(b, "", "ReduceSum", sum, 2, (const nc_attr[]){keep, noop}, 2), shape);
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1, IN({"X", T_NUMBER_ALL}, {"shape", T_I64}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_sum_to = {.name = "SumTo",
                                .domain = "nacre",
                                .doc = "X summed to a shape that broadcasts to X's.",
                                .versions = versions,
                                .infer = sum_to_infer,
                                .grad = sum_to_grad,
                                .decompose = sum_to_decompose,
                                .host_in = 1u << 1,
                                .no_grad_in = 1u << 1};
