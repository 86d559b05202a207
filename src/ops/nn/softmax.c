/* ops/nn/softmax.c: cards of Softmax and LogSoftmax and of their gradient ops. Before version 13 the input counts as
 * a matrix whose columns are all dims from `axis` on; gradient ops say that by `flat`. Kernels are in softmax_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code softmax_infer(nc_infer *c) {
    int rank, axis;
    if (nc_in_rank(c, 0, &rank)) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    return nc_out_like(c, 0, 0);
}

/* The card's own: the name of the gradient op. */
static nc_code softmax_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[2] = {dy, nc_grad_y(g, 0)};
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "axis")},
                        {.name = "flat", .kind = NC_A_INT, .i = g->node->version->since < 13}};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", g->node->card->own, in, 2, attrs, 2));
    return nc_grad_end(g);
}

/* x summed along the axes of the softmax, kept as 1. NULL: b->code says why. */
static nc_value *sum_row(nc_builder *b, const nc_node *n, nc_value *x) {
    int64_t axes[NC_MAX_RANK], axis = nc_attr_int(n, "axis");
    int n_axes = 0, rank = n->in[0]->type != NULL ? n->in[0]->type->rank : -1;
    if (b->code == NC_OK && rank < 0)
        b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "the gradient's gradient needs a known rank");
    if (b->code != NC_OK) return NULL;
    axes[n_axes++] = axis < 0 ? axis + rank : axis;
    while (nc_attr_int(n, "flat") != 0 && axes[n_axes - 1] + 1 < rank) {
        axes[n_axes] = axes[n_axes - 1] + 1;
        n_axes++;
    }
    return nc_build_reduce_sum(b, x, axes, n_axes, true);
}

static nc_code softmax_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *y = n->in[1];
    nc_value *sum = sum_row(b, n, nc_build1(b, "Mul", 2, dy, y));
    out[0] = nc_build1(b, "Mul", 2, y, nc_build1(b, "Sub", 2, dy, sum));
    return b->code;
}

static nc_code log_softmax_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *y = n->in[1];
    nc_value *part = nc_build1(b, "Mul", 2, nc_build1(b, "Exp", 1, y), sum_row(b, n, dy));
    out[0] = nc_build1(b, "Sub", 2, dy, part);
    return b->code;
}

#define ROW(types, axis) IN({"input", types}), OUT({"output", SAME(0)}), ATTR(A_INT("axis", axis))
static const nc_op_version versions[] = {
    {.since = 13, ROW(T_FLOAT_ALL, -1)}, {.since = 11, ROW(T_FLOAT, 1)}, {.since = 1, ROW(T_FLOAT, 1)}, {0}};

static const nc_op_version grad_versions[] = {{.since = 1,
                                               IN({"dY", T_FLOAT_ALL}, {"Y", SAME(0)}),
                                               OUT({"dX", SAME(0)}),
                                               ATTR(A_INT("axis", -1), A_INT("flat", 0))},
                                              {0}};

const nc_card nc_card_softmax = {.name = "Softmax",
                                 .doc = "exp(x) over its sum along an axis.",
                                 .versions = versions,
                                 .infer = softmax_infer,
                                 .grad = softmax_grad,
                                 .own = "SoftmaxGrad"};
const nc_card nc_card_log_softmax = {.name = "LogSoftmax",
                                     .doc = "The logarithm of Softmax.",
                                     .versions = versions,
                                     .infer = softmax_infer,
                                     .grad = softmax_grad,
                                     .own = "LogSoftmaxGrad"};
const nc_card nc_card_softmax_grad = {.name = "SoftmaxGrad",
                                      .domain = "nacre",
                                      .doc = "Gradient of Softmax from its result Y.",
                                      .versions = grad_versions,
                                      .infer = softmax_infer,
                                      .decompose = softmax_grad_decompose};
const nc_card nc_card_log_softmax_grad = {.name = "LogSoftmaxGrad",
                                          .domain = "nacre",
                                          .doc = "Gradient of LogSoftmax from its result Y.",
                                          .versions = grad_versions,
                                          .infer = softmax_infer,
                                          .decompose = log_softmax_grad_decompose};
