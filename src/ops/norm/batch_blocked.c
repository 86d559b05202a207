/* ops/norm/batch_blocked.c: nacre.BatchNormBlocked and nacre.BatchNormGradBlocked, BatchNormalization and its gradient
 * on channels in blocks, and when a node takes that form: all operands f32, one scale per channel. Statistics, scale
 * and bias stay plain, as do the results that are not laid out like X. */
#include "ops/blocked.h"
#include "ops/card.h"
#include "ops/norm/batch.h"

static bool can_block(const nc_node *n, nc_blocking *k, int n_blocked) {
    k->why = "one block holds all channels";
    if (k->block == NC_BLOCK_ALL) return false;
    for (int i = 0; i < n->n_in; i++) {
        k->why = "operands are not all f32";
        if (n->in[i] != NULL && (n->in[i]->type == NULL || n->in[i]->type->elem != NC_FLOAT)) return false;
        if (i < n_blocked && !nc_blocks_input(n, i, k)) return false;
    }
    k->rest_plain = true;
    return true;
}

bool nc_batch_blocks(const nc_node *n, nc_blocking *k) {
    k->why = "every position has a scale of its own, or statistics are kept as old versions do";
    return nc_batch_is_spatial(n) && n->n_out <= 3 && can_block(n, k, 1);
}

bool nc_batch_grad_blocks(const nc_node *n, nc_blocking *k) {
    k->why = "every position has a scale of its own";
    return nc_attr_int(n, "spatial") != 0 && can_block(n, k, 2);
}

static nc_value *build_like(nc_builder *b, const nc_node *n, const char *op, nc_value *const *in, const nc_attr *attrs,
                            int n_attrs) {
    bool wanted[3] = {false};
    for (int i = 0; i < n->n_out && i < 3; i++) wanted[i] = n->out[i] != NULL;
    nc_node *made = nc_build_wanted(b, "nacre", op, in, n->n_in, wanted, n->n_out, attrs, n_attrs);
    return made != NULL ? made->out[0] : NULL;
}

nc_value *nc_batch_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    nc_attr attrs[3] = {{.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "momentum", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "momentum")},
                        {.name = "training", .kind = NC_A_INT, .i = nc_batch_trains(n)}};
    (void)k;
    return build_like(b, n, "BatchNormBlocked", in, attrs, 3);
}

nc_value *nc_batch_grad_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    nc_attr attrs[2] = {{.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "constant", .kind = NC_A_INT, .i = nc_attr_int(n, "constant")}};
    (void)k;
    return build_like(b, n, "BatchNormGradBlocked", in, attrs, 2);
}

/* Scale, which says how many channels there are, and the vectors like it, against the blocks of input i. */
static nc_code check_vectors(nc_infer *c, int i, int first, int end) {
    const nc_type *x = nc_in(c, i);
    if (x == NULL) return NC_OK;
    if (x->rank < 4) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 4 are expected", x->rank);
    const nc_dim *C = nc_in_dim(c, first, 0);
    if (C != NULL) NC_TRY(nc_in_expect(c, i, 1, nc_dim_ceildiv(c->dims, C, x->dims[x->rank - 1])));
    for (int v = first + 1; v < end && C != NULL; v++) NC_TRY(nc_in_expect(c, v, 0, C));
    return NC_OK;
}

static nc_code blocked_infer(nc_infer *c) {
    NC_TRY(check_vectors(c, 0, 1, 5));
    NC_TRY(nc_out_like(c, 0, 0));
    NC_TRY(nc_out_like(c, 1, 3));
    return nc_out_like(c, 2, 4);
}

static nc_code grad_blocked_infer(nc_infer *c) {
    if (nc_in(c, 3) == NULL && nc_attr_int(c->node, "constant") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "statistics that do not follow X are expected as inputs 3 and 4");
    NC_TRY(nc_in_same(c, 0, 1));
    NC_TRY(check_vectors(c, 1, 2, 5));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    return nc_out_like(c, 2, 2);
}

#define F32 NC_BIT(NC_FLOAT)
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"X", F32}, {"scale", SAME(0)}, {"B", SAME(0)}, {"mean", SAME(0)}, {"var", SAME(0)}),
     OUT({"Y", SAME(0)}, {"running_mean", SAME(0), OPTIONAL}, {"running_var", SAME(0), OPTIONAL}),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_FLOAT("momentum", 0.9f), A_INT("training", 0))},
    {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN({"dY", F32}, {"X", SAME(0)}, {"scale", SAME(0)}, {"mean", SAME(0), OPTIONAL}, {"inv_std", SAME(0), OPTIONAL}),
     OUT({"dX", SAME(0)}, {"dScale", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL}),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_INT("constant", 0))},
    {0}};

const nc_card nc_card_batch_norm_blocked = {.name = "BatchNormBlocked",
                                            .domain = "nacre",
                                            .no_grad = NC_LOWERED_NO_GRAD,
                                            .doc = "BatchNormalization on channels in blocks.",
                                            .versions = versions,
                                            .infer = blocked_infer};
const nc_card nc_card_batch_norm_grad_blocked = {.name = "BatchNormGradBlocked",
                                                 .domain = "nacre",
                                                 .no_grad = NC_LOWERED_NO_GRAD,
                                                 .doc = "Gradients of BatchNormalization on channels in blocks.",
                                                 .versions = grad_versions,
                                                 .infer = grad_blocked_infer};
