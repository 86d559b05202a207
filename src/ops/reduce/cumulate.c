/* ops/reduce/cumulate.c: cards of CumSum and CumProd, and of nacre.CumProd, which gradients emit whatever the model's
 * opset. The gradient of a running sum is the running sum from the other end; that of a running product comes from the
 * product of each prefix, written out as a matrix of prefixes. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code cumulate_infer(nc_infer *c) {
    int rank, at, n;
    int64_t axis;
    if (nc_in_rank(c, 0, &rank) && nc_in_ints(c, 1, &axis, 1, &n) && n == 1)
        NC_TRY(nc_axis(c, axis, rank > 0 ? rank : 1, &at));
    return nc_out_like(c, 0, 0);
}

static nc_code cum_sum_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[2] = {dy, nc_grad_x(g, 1)};
    nc_attr attrs[2] = {{.name = "exclusive", .kind = NC_A_INT, .i = nc_attr_int(g->node, "exclusive")},
                        {.name = "reverse", .kind = NC_A_INT, .i = nc_attr_int(g->node, "reverse") == 0}};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "CumSum", in, 2, attrs, 2));
    return nc_grad_end(g);
}

/* 0, 1, ... n-1, n the dim of x at `axis`. */
static nc_value *counting(nc_builder *b, nc_value *x, int64_t axis) {
    int64_t to = axis + 1;
    nc_value *size =
        nc_build1(b, "Slice", 3, nc_build_shape(b, x), nc_build_ints(b, &axis, 1), nc_build_ints(b, &to, 1));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), nc_build1(b, "Squeeze", 1, size), nc_build_int(b, 1));
}

static nc_value *insert_axis(nc_builder *b, nc_value *x, int64_t axis) {
    return nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, &axis, 1));
}

/* y_k is the product over j of (j is in k's prefix ? x_j : 1): x moved to the last axis, a row of it for every k. */
static nc_code cum_prod_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0];
    const nc_value *where = n->in[1];
    int64_t axis, count, perm[NC_MAX_RANK];
    if (x->type == NULL || x->type->rank < 1 || where->lit == NULL || !nc_literal_ints(where->lit, &axis, 1, &count))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank and a constant axis");
    int rank = x->type->rank;
    int64_t last = rank;
    if (axis < 0) axis += rank;
    for (int i = 0; i < rank; i++) perm[i] = i == axis ? rank - 1 : i == rank - 1 ? axis : i;
    nc_value *rows = insert_axis(b, nc_build_transpose(b, x, perm, rank), rank - 1); /* [..., 1, j] */
    nc_value *j = counting(b, x, axis), *k = insert_axis(b, j, 1);
    bool reverse = nc_attr_int(n, "reverse") != 0;
    const char *order = nc_attr_int(n, "exclusive") != 0 ? "Less" : "LessOrEqual";
    nc_value *taken = nc_build1(b, order, 2, reverse ? k : j, reverse ? j : k);
    rows = nc_build1(b, "Where", 3, taken, rows, nc_build_scalar(b, x->type->elem, 1));
    nc_value *in[2] = {rows, nc_build_ints(b, &last, 1)};
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    out[0] = nc_build_transpose(b, nc_build_attr1(b, "", "ReduceProd", in, 2, &keep, 1), perm, rank);
    return b->code;
}

#define ROW(types) \
    IN({"x", types}, {"axis", T_INDEX, SINGLE}), OUT({"y", SAME(0)}), ATTR(A_INT("exclusive", 0), A_INT("reverse", 0))
#define T_WIDE_INTS (T_INDEX | NC_BIT(NC_UINT32) | NC_BIT(NC_UINT64))
static const nc_op_version sum_versions[] = {
    {.since = 14, ROW(T_BIG_NUMBER_ALL)}, {.since = 11, ROW(NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | T_WIDE_INTS)}, {0}};
static const nc_op_version prod_versions[] = {{.since = 26, ROW(T_BIG_NUMBER_ALL)}, {0}};
static const nc_op_version own_versions[] = {{.since = 1, ROW(T_BIG_NUMBER_ALL)}, {0}};

const nc_card nc_card_cum_sum = {.name = "CumSum",
                                 .doc = "Running sums along an axis.",
                                 .versions = sum_versions,
                                 .infer = cumulate_infer,
                                 .host_in = 1u << 1,
                                 .no_grad_in = 1u << 1,
                                 .grad = cum_sum_grad};
const nc_card nc_card_cum_prod = {.name = "CumProd",
                                  .doc = "Running products along an axis.",
                                  .versions = prod_versions,
                                  .infer = cumulate_infer,
                                  .host_in = 1u << 1,
                                  .no_grad_in = 1u << 1,
                                  .decompose = cum_prod_decompose};
const nc_card nc_card_nacre_cum_prod = {.name = "CumProd",
                                        .domain = "nacre",
                                        .doc = "Running products along an axis.",
                                        .versions = own_versions,
                                        .infer = cumulate_infer,
                                        .host_in = 1u << 1,
                                        .no_grad_in = 1u << 1,
                                        .decompose = cum_prod_decompose};
