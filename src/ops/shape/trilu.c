/* ops/shape/trilu.c: the card of Trilu: a triangle of the last two dims is kept, the rest is 0. Made of Where and
 * counted rows and columns. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code trilu_infer(nc_infer *c) {
    int rank;
    if (nc_in_rank(c, 0, &rank) && rank < 2)
        NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, at least 2 are needed", rank);
    return nc_out_like(c, 0, 0);
}

/* 0, 1, ... along dim `axis` (negative) of x. */
static nc_value *counting(nc_builder *b, nc_value *shape, int64_t axis) {
    nc_value *size = nc_build1(b, "Gather", 2, shape, nc_build_int(b, axis));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), size, nc_build_int(b, 1));
}

/* Kept: column - row >= k, or <= k in the lower triangle. */
static nc_code trilu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t behind = 1;
    nc_value *x = n->in[0], *shape = nc_build_shape(b, x);
    nc_dtype t = x->type != NULL ? x->type->elem : NC_UNDEFINED;
    nc_value *row = nc_build1(b, "Unsqueeze", 2, counting(b, shape, -2), nc_build_ints(b, &behind, 1));
    nc_value *diagonal = nc_build1(b, "Sub", 2, counting(b, shape, -1), row);
    nc_value *k = n->n_in > 1 && n->in[1] != NULL ? n->in[1] : nc_build_int(b, 0);
    bool upper = nc_attr_int(n, "upper") != 0;
    nc_value *kept = nc_build1(b, "LessOrEqual", 2, upper ? k : diagonal, upper ? diagonal : k);
    out[0] = nc_build1(b, "Where", 3, kept, x, nc_build_scalar(b, t, 0));
    return b->code;
}

static const nc_op_version trilu_versions[] = {{.since = 14,
                                                IN({"input", T_TENSOR_ALL}, {"k", T_I64, SINGLE_OPTIONAL}),
                                                OUT({"output", SAME(0)}),
                                                ATTR(A_INT("upper", 1))},
                                               {0}};
const nc_card nc_card_trilu = {.name = "Trilu",
                               .doc = "The upper or lower triangle of matrices, from diagonal k on.",
                               .versions = trilu_versions,
                               .infer = trilu_infer,
                               .no_grad_in = 1u << 1,
                               .decompose = trilu_decompose};
