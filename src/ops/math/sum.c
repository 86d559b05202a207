/* ops/math/sum.c: cards of Sum and Mean over any number of broadcast inputs. Sum folds the lane add from the left, Mean
 * divides it by their number. */
#include "ops/build.h"
#include "ops/math/math.h"

static nc_code sum_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    for (int i = 0; i < g->node->n_in; i++)
        if (g->wants[i]) nc_grad_set(g, i, nc_grad_sum_to(g, dy, i));
    return nc_grad_end(g);
}

static bool is_of_one(const nc_node *n) { return n->n_in == 1; }

static nc_code sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = n->in[0];
    for (int i = 1; i < n->n_in; i++) out[0] = nc_build1(b, "Add", 2, out[0], n->in[i]);
    return b->code;
}

static nc_code mean_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *sum = nc_build_attr1(b, "", "Sum", n->in, n->n_in, NULL, 0);
    nc_dtype t = n->in[0]->type != NULL ? n->in[0]->type->elem : NC_FLOAT;
    out[0] = n->n_in == 1 ? sum : nc_build1(b, "Div", 2, sum, nc_build_scalar(b, t, n->n_in));
    return b->code;
}

#define DATA(out_name, types) IN({"data_0", types, VARIADIC}), OUT({out_name, SAME(0)})
#define ROWS(symbol, out_name)                                                      \
    static const nc_op_version symbol##_versions[] = {                              \
        {.since = 13, DATA(out_name, T_FLOAT_ALL), NO_ATTR},                        \
        {.since = 8, DATA(out_name, T_FLOAT), NO_ATTR},                             \
        {.since = 6, DATA(out_name, T_FLOAT), NO_ATTR},                             \
        {.since = 1, DATA(out_name, T_FLOAT), ATTR(A_INTS_OPT("consumed_inputs"))}, \
        {0}};
ROWS(sum, "sum")
ROWS(mean, "mean")

const nc_card nc_card_sum = {.name = "Sum",
                             .doc = "The sum of the inputs, broadcast.",
                             .versions = sum_versions,
                             NC_LANE_WITH(add, NC_COMMUTES),
                             .grad = sum_grad,
                             .is_identity = is_of_one,
                             .decompose = sum_decompose};
const nc_card nc_card_mean = {.name = "Mean",
                              .doc = "The mean of the inputs, broadcast.",
                              .versions = mean_versions,
                              .traits = NC_ELEMENTWISE,
                              .infer = nc_lane_infer,
                              .is_identity = is_of_one,
                              .decompose = mean_decompose};
