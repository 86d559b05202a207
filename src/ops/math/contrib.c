/* ops/math/contrib.c: cards of com.microsoft that work element by element: Gelu and its relatives with a bias, gates
 * and sums. Two of them are lanes (kernels/lanes/activation.h); the others run as what they are made of. */
#include "ops/contrib.h"
#include "ops/math/math.h"

/* A bias over the last axis of input 0. */
static nc_code last_axis_bias(nc_infer *c, int i) {
    int rank;
    if (!nc_in_rank(c, 0, &rank)) return nc_contrib_rank(c, i, 1);
    if (rank < 1) NC_FAIL(c->w, NC_E_SHAPE, "%s is a scalar, at least 1 dim is expected", c->node->version->in[0].name);
    return nc_contrib_vector(c, i, nc_in_dim(c, 0, rank - 1));
}

static nc_code bias_infer(nc_infer *c) {
    NC_TRY(last_axis_bias(c, 1));
    return nc_out_like(c, 0, 0);
}

/* The card's own: the op of domain nacre that input 0 plus the bias goes through. */
static nc_code gelu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = nc_contrib_add(b, n->in[0], nc_contrib_in(n, 1));
    out[0] = nc_build_attr1(b, "nacre", n->card->own, &x, 1, NULL, 0);
    return b->code;
}

static nc_code add_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank;
    NC_TRY(last_axis_bias(c, 1));
    for (int i = 0; x != NULL && nc_in_rank(c, 2, &rank) && i < x->rank; i++) {
        NC_TRY(nc_contrib_rank(c, 2, x->rank));
        NC_TRY(nc_in_expect(c, 2, i, x->dims[i]));
    }
    return nc_out_like(c, 0, 0);
}

static nc_code add_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_contrib_add(b, nc_contrib_add(b, n->in[0], n->in[1]), n->in[2]);
    return b->code;
}

/* ---- GEGLU ---- */

static nc_code split_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int64_t size;
    NC_TRY(last_axis_bias(c, 1));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    if (nc_dim_is_const(dims[x->rank - 1], &size) && size % 2 != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "X has %lld columns, an even number is expected", (long long)size);
    dims[x->rank - 1] = nc_dim_floordiv(c->dims, dims[x->rank - 1], nc_dim_const(c->dims, 2));
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code split_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    nc_value *x = nc_contrib_add(b, n->in[0], n->in[1]);
    nc_node *halves = nc_build(b, "", "Split", &x, 1, 2, attrs, 2);
    if (halves == NULL) return b->code;
    nc_value *gate = nc_build_attr1(b, "nacre", "GeluErf", &halves->out[1], 1, NULL, 0);
    out[0] = nc_build1(b, "Mul", 2, halves->out[0], gate);
    return b->code;
}

/* ---- gates ---- */

static nc_code gated_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    for (int i = 0; x != NULL && i < x->rank; i++) {
        NC_TRY(nc_contrib_rank(c, 1, x->rank));
        NC_TRY(nc_in_expect(c, 1, i, x->dims[i]));
        NC_TRY(nc_contrib_rank(c, 2, x->rank));
        NC_TRY(nc_in_expect(c, 2, i, i < x->rank - 1 ? x->dims[i] : nc_dim_const(c->dims, 1)));
    }
    return nc_out_like(c, 0, 0);
}

static nc_code gated_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = nc_contrib_wide(b, n->in[0]), *y = nc_contrib_wide(b, n->in[1]), *gate = nc_contrib_wide(b, n->in[2]);
    if (b->code != NC_OK || n->in[0]->type == NULL) return b->code;
    out[0] = nc_build_cast(b, nc_build1(b, "Add", 2, x, nc_build1(b, "Mul", 2, y, gate)), n->in[0]->type->elem);
    return b->code;
}

/* ---- cards ---- */

#define ONE(x, y, types) IN({x, types}), OUT({y, SAME(0)})
static const nc_op_version gelu_versions[] = {{.since = 1, ONE("X", "Y", T_FLOAT_ALL), NO_ATTR}, {0}};
static const nc_op_version quick_versions[] = {{.since = 1, ONE("X", "Y", T_FLOAT_ALL), ATTR(A_FLOAT("alpha", 1.702f))},
                                               {0}};
static const nc_op_version bias_gelu_versions[] = {
    {.since = 1, IN({"A", T_FLOAT_ALL}, {"B", SAME(0)}), OUT({"C", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version fast_gelu_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL}, {"bias", SAME(0), OPTIONAL}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version bias_add_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL}, {"bias", SAME(0)}, {"skip", SAME(0)}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version split_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL}, {"bias", SAME(0)}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version gated_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL}, {"Y", SAME(0)}, {"gate", SAME(0)}), OUT({"output", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_ms_gelu = {.name = "Gelu",
                                 .domain = NC_MICROSOFT,
                                 .doc = "X times the normal distribution's integral up to X.",
                                 .versions = gelu_versions,
                                 NC_LANE(gelu)};
const nc_card nc_card_quick_gelu = {.name = "QuickGelu",
                                    .domain = NC_MICROSOFT,
                                    .doc = "X * sigmoid(alpha * X).",
                                    .versions = quick_versions,
                                    NC_LANE(swish),
                                    .lane_params = {"alpha"}};
const nc_card nc_card_bias_gelu = {.name = "BiasGelu",
                                   .domain = NC_MICROSOFT,
                                   .doc = "Gelu of A plus a bias over the last axis.",
                                   .versions = bias_gelu_versions,
                                   .traits = NC_ELEMENTWISE,
                                   .own = "GeluErf",
                                   .infer = bias_infer,
                                   .decompose = gelu_decompose};
const nc_card nc_card_fast_gelu = {.name = "FastGelu",
                                   .domain = NC_MICROSOFT,
                                   .doc = "Gelu by a formula of tanh, of X plus a bias over the last axis.",
                                   .versions = fast_gelu_versions,
                                   .traits = NC_ELEMENTWISE,
                                   .own = "GeluTanh",
                                   .infer = bias_infer,
                                   .decompose = gelu_decompose};
const nc_card nc_card_bias_add = {.name = "BiasAdd",
                                  .domain = NC_MICROSOFT,
                                  .doc = "X plus a bias over the last axis plus skip.",
                                  .versions = bias_add_versions,
                                  .infer = add_infer,
                                  .decompose = add_decompose};
const nc_card nc_card_bias_split_gelu = {.name = "BiasSplitGelu",
                                         .domain = NC_MICROSOFT,
                                         .doc = "X plus a bias, in two halves: the first times Gelu of the second.",
                                         .versions = split_versions,
                                         .infer = split_infer,
                                         .decompose = split_decompose};
const nc_card nc_card_gated_add = {.name = "GatedAdd",
                                   .domain = NC_MICROSOFT,
                                   .doc = "X plus Y times a gate per row.",
                                   .versions = gated_versions,
                                   .infer = gated_infer,
                                   .decompose = gated_decompose};
