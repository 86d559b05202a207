/* ops/reduce/arg.c: cards of ArgMax, ArgMin and Hardmax. Hardmax is 1 where ArgMax points, over one axis, or before
 * version 13 over all dims from `axis` on. */
#include "ops/build.h"
#include "ops/reduce/reduce_card.h"

#include <math.h>

static nc_code arg_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    bool keep = nc_attr_int(c->node, "keepdims") != 0;
    int rank, axis, n = 0;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, NC_INT64, -1);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank > 0 ? rank : 1, &axis)); /* of a scalar 0 and -1 are allowed */
    if (rank == 0) return nc_out(c, 0, NC_INT64, 0, NULL);
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1);
    NC_NEED(c->w, one);
    for (int i = 0; i < rank; i++) {
        if (i != axis)
            dims[n++] = x->dims[i];
        else if (keep)
            dims[n++] = one;
    }
    return nc_out(c, 0, NC_INT64, n, dims);
}

#define ARG(types) IN({"data", types}), OUT({"reduced", T_I64})
#define PLACE A_INT("axis", 0), A_INT("keepdims", 1)
static const nc_op_version arg_versions[] = {
    {.since = 13, ARG(T_NUMBER_ALL), ATTR(PLACE, A_INT("select_last_index", 0))},
    {.since = 12, ARG(T_NUMBER), ATTR(PLACE, A_INT("select_last_index", 0))},
    {.since = 11, ARG(T_NUMBER), ATTR(PLACE)},
    {.since = 1, ARG(T_NUMBER), ATTR(PLACE)},
    {0}};

const nc_card nc_card_arg_max = {.name = "ArgMax",
                                 .doc = "The index of the largest element along an axis.",
                                 .versions = arg_versions,
                                 .infer = arg_infer,
                                 .cost = nc_reduce_cost,
                                 .zero_grad = true};
const nc_card nc_card_arg_min = {.name = "ArgMin",
                                 .doc = "The index of the smallest element along an axis.",
                                 .versions = arg_versions,
                                 .infer = arg_infer,
                                 .cost = nc_reduce_cost,
                                 .zero_grad = true};

/* ---- Hardmax ---- */

static nc_code hardmax_infer(nc_infer *c) {
    int rank, axis;
    if (nc_in_rank(c, 0, &rank)) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    return nc_out_like(c, 0, 0);
}

/* 0, 1, ... along `axis` of x, its dims of 1 elsewhere behind it. */
static nc_value *places(nc_builder *b, nc_value *x, int axis, int rank) {
    int64_t from = axis, to = axis + 1, behind[NC_MAX_RANK];
    nc_value *shape = nc_build_shape(b, x), *zero = nc_build_int(b, 0);
    nc_value *size = nc_build1(b, "Slice", 3, shape, nc_build_ints(b, &from, 1), nc_build_ints(b, &to, 1));
    nc_value *end = nc_build1(b, "Squeeze", 1, size);
    nc_value *k = nc_build1(b, "Range", 3, zero, end, nc_build_int(b, 1));
    for (int i = 0; i < rank - 1 - axis; i++) behind[i] = i + 1;
    return rank - 1 > axis ? nc_build1(b, "Unsqueeze", 2, k, nc_build_ints(b, behind, rank - 1 - axis)) : k;
}

/* x with one element behind each row that is never the first largest, unless the row is known to have some: ArgMax
 * finds nothing in an empty one. */
static nc_value *never_empty(nc_builder *b, nc_value *x, int axis) {
    int64_t size, pads[2 * NC_MAX_RANK] = {0};
    if (b->code != NC_OK || (nc_dim_is_const(x->type->dims[axis], &size) && size > 0)) return x;
    pads[x->type->rank + axis] = 1;
    nc_value *in[3] = {x, nc_build_ints(b, pads, 2 * x->type->rank), nc_build_scalar(b, x->type->elem, -INFINITY)};
    return nc_build_newest1(b, "Pad", in, 3, NULL, 0);
}

static nc_code hardmax_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0];
    const nc_type *t = x->type;
    if (t == NULL || t->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "the rank of its input must be known");
    int64_t axis = nc_attr_int(n, "axis");
    int rank = t->rank, at = (int)(axis < 0 ? axis + rank : axis);
    bool flat = n->version->since < 13;
    if (flat) {
        nc_attr from = {.name = "axis", .kind = NC_A_INT, .i = at};
        x = nc_build_attr1(b, "", "Flatten", &x, 1, &from, 1);
        at = 1, rank = 2;
    }
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = at}, {.name = "keepdims", .kind = NC_A_INT, .i = 1}};
    nc_value *rows = never_empty(b, x, at), *top = nc_build_attr1(b, "", "ArgMax", &rows, 1, attrs, 2);
    nc_value *y = nc_build_cast(b, nc_build1(b, "Equal", 2, top, places(b, x, at, rank)), t->elem);
    out[0] = flat ? nc_build_reshape_like(b, y, n->in[0]) : y;
    return b->code;
}

#define HARD(types, axis) IN({"input", types}), OUT({"output", SAME(0)}), ATTR(A_INT("axis", axis))
static const nc_op_version hardmax_versions[] = {
    {.since = 13, HARD(T_FLOAT_ALL, -1)}, {.since = 11, HARD(T_FLOAT, 1)}, {.since = 1, HARD(T_FLOAT, 1)}, {0}};

const nc_card nc_card_hardmax = {.name = "Hardmax",
                                 .doc = "1 at the first largest element along an axis, else 0.",
                                 .versions = hardmax_versions,
                                 .infer = hardmax_infer,
                                 .decompose = hardmax_decompose,
                                 .zero_grad = true};
