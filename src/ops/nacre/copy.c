/* ops/nacre/copy.c: nacre.Copy: the same value in memory of its own; nacre.Assign: a variable's next version,
 * written over the one before. Made by planning: for dense operands, outputs of the graph, other devices, and updates.
 * */
#include "ops/build.h"
#include "ops/card.h"

static nc_code like_first(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code copy_grad(nc_grad *g) {
    nc_grad_set(g, 0, nc_grad_dy(g, 0));
    return nc_grad_end(g);
}

static nc_code assign_infer(nc_infer *c) {
    const nc_type *var = nc_in(c, 0), *value = nc_in(c, 1);
    if (var != NULL && value != NULL && var->rank >= 0 && value->rank >= 0) {
        if (var->rank != value->rank)
            NC_FAIL(c->w, NC_E_SHAPE, "the variable has %d dims, the value %d", var->rank, value->rank);
        for (int i = 0; i < var->rank; i++) {
            int64_t a, b;
            if (nc_dim_is_const(var->dims[i], &a) && nc_dim_is_const(value->dims[i], &b) && a != b)
                NC_FAIL(c->w, NC_E_SHAPE, "dim %d of the variable is %lld, of the value %lld", i, (long long)a,
                        (long long)b);
        }
    }
    return nc_out_like(c, 0, 0);
}

/* Nothing of the old content is left, so nothing flows to it. */
static nc_code assign_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    if (g->wants[0]) nc_grad_set(g, 0, nc_build_zeros_like(g->b, dy));
    nc_grad_set(g, 1, dy);
    return nc_grad_end(g);
}

static const nc_op_version copy_versions[] = {{.since = 1, IN({"X", T_ANYTHING}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version assign_versions[] = {
    {.since = 1,
     IN({"var", (T_TENSOR_ALL & ~T_STRING) | T_NARROW_28}, {"value", SAME(0)}),
     OUT({"next", SAME(0)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_copy = {.name = "Copy",
                              .domain = "nacre",
                              .doc = "X in memory of its own.",
                              .versions = copy_versions,
                              .traits = NC_COPIES,
                              .infer = like_first,
                              .grad = copy_grad};
const nc_card nc_card_assign = {.name = "Assign",
                                .domain = "nacre",
                                .doc = "The variable with the value as its new content.",
                                .versions = assign_versions,
                                .traits = NC_IN_PLACE,
                                .n_updates = 1,
                                .infer = assign_infer,
                                .grad = assign_grad};
