/* ops/norm/skip.c: cards of com.microsoft that normalize a sum: SkipLayerNormalization and
 * SkipSimplifiedLayerNormalization over the last axis, GatedRMSNorm, GroupNorm and SkipGroupNorm over groups of
 * channels. They run, and are differentiated, as sums and the normalizations of ai.onnx. */
#include "ops/contrib.h"
#include "ops/norm/norm.h"

#include <string.h>

/* What tells the two cards of sums over the last axis apart; beta is an input of the one that centres. */
typedef struct skip_kind {
    const char *norm;
    int i_beta, i_bias;
} skip_kind;

enum { X, SKIP, GAMMA };

/* Input i spreads over input 0 without widening it. */
static nc_code check_within(nc_infer *c, int i, const nc_type *x) {
    int rank;
    if (!nc_in_rank(c, i, &rank) || x->rank < 0) return NC_OK;
    if (rank > x->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, at most %d are expected", c->node->version->in[i].name, rank,
                x->rank);
    for (int k = 0; k < rank; k++) {
        int64_t size;
        if (nc_dim_is_const(nc_in_dim(c, i, k), &size) && size == 1) continue;
        NC_TRY(nc_in_expect(c, i, k, x->dims[x->rank - rank + k]));
    }
    return NC_OK;
}

static nc_code skip_infer(nc_infer *c) {
    const skip_kind *kind = c->node->card->own;
    const nc_type *x = nc_in(c, X);
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    if (x->rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "input is a scalar, at least 1 dim is expected");
    const nc_dim *columns = nc_in_dim(c, X, x->rank - 1);
    NC_TRY(check_within(c, SKIP, x));
    NC_TRY(nc_contrib_vector(c, GAMMA, columns));
    if (kind->i_beta > 0) NC_TRY(nc_contrib_vector(c, kind->i_beta, columns));
    NC_TRY(nc_contrib_vector(c, kind->i_bias, columns));
    NC_TRY(nc_out_like(c, 0, X));
    NC_TRY(nc_out_like(c, 3, X));
    for (int i = 1; i < 3; i++) {
        if (x->rank < 0) {
            NC_TRY(nc_out_unknown(c, i, NC_FLOAT, -1));
            continue;
        }
        for (int k = 0; k < x->rank; k++) dims[k] = k < x->rank - 1 ? x->dims[k] : nc_dim_const(c->dims, 1);
        NC_TRY(nc_out(c, i, NC_FLOAT, x->rank, dims));
    }
    return NC_OK;
}

/* The mean of rows: given by the normalization that centres, else by itself. */
static nc_value *row_mean(nc_builder *b, nc_value *x) {
    int64_t last = -1;
    return nc_build_cast(b, nc_norm_mean_of(b, x, &last, 1), NC_FLOAT);
}

static nc_code skip_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const skip_kind *kind = n->card->own;
    if (n->in[X]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_dtype t = n->in[X]->type->elem;
    nc_value *sum = nc_contrib_add(b, nc_contrib_wide(b, n->in[X]), nc_contrib_wide(b, n->in[SKIP]));
    sum = nc_contrib_add(b, sum, nc_contrib_wide(b, nc_contrib_in(n, kind->i_bias)));
    nc_value *beta = kind->i_beta > 0 ? nc_contrib_wide(b, nc_contrib_in(n, kind->i_beta)) : NULL;
    nc_value *in[3] = {sum, nc_contrib_wide(b, n->in[GAMMA]), beta};
    nc_attr eps = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")};
    bool centers = kind->i_beta > 0, wants_mean = nc_contrib_wants(n, 1), wants_std = nc_contrib_wants(n, 2);
    bool wanted[3] = {true, centers ? wants_mean : wants_std, centers && wants_std};
    nc_node *norm = nc_build_wanted(b, "", kind->norm, in, beta != NULL ? 3 : 2, wanted, centers ? 3 : 2, &eps, 1);
    if (norm == NULL) return b->code;
    out[0] = nc_build_cast(b, norm->out[0], t);
    if (wants_mean) out[1] = centers ? norm->out[1] : row_mean(b, sum);
    if (wants_std) out[2] = norm->out[centers ? 2 : 1];
    if (nc_contrib_wants(n, 3)) out[3] = nc_build_cast(b, sum, t);
    return b->code;
}

/* ---- GatedRMSNorm ---- */

static nc_code gated_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    const char *how = nc_attr_str(c->node, "activation");
    if (strcmp(how, "silu") != 0 && strcmp(how, "sigmoid") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "activation is '%.60s', expected silu or sigmoid", how);
    if (x == NULL) return NC_OK;
    if (x->rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "X is a scalar, at least 1 dim is expected");
    NC_TRY(nc_contrib_vector(c, 1, nc_in_dim(c, X, x->rank - 1)));
    for (int k = 0; k < x->rank; k++) {
        NC_TRY(nc_contrib_rank(c, 2, x->rank));
        NC_TRY(nc_in_expect(c, 2, k, x->dims[k]));
    }
    return nc_out_like(c, 0, X);
}

static nc_value *silu(nc_builder *b, nc_value *x) { return nc_build1(b, "Mul", 2, x, nc_build1(b, "Sigmoid", 1, x)); }

static nc_code gated_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->in[X]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *in[2] = {nc_contrib_wide(b, n->in[X]), nc_contrib_wide(b, n->in[1])};
    nc_attr eps = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")};
    nc_value *y = nc_build_attr1(b, "", "SimplifiedLayerNormalization", in, 2, &eps, 1);
    nc_value *gate = nc_contrib_wide(b, n->in[2]);
    bool is_silu = strcmp(nc_attr_str(n, "activation"), "silu") == 0;
    gate = is_silu ? silu(b, gate) : nc_build1(b, "Sigmoid", 1, gate);
    out[0] = nc_build_cast(b, nc_build1(b, "Mul", 2, y, gate), n->in[X]->type->elem);
    return b->code;
}

/* ---- groups of channels ---- */

enum { BETA = 2, GROUP_SKIP = 3, GROUP_BIAS = 4 };

static nc_code group_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    int64_t groups = nc_attr_int(c->node, "groups"), how = nc_attr_int(c->node, "activation"), channels;
    if (groups < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "groups is %lld, expected at least 1", (long long)groups);
    if (how != 0 && how != 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "activation is %lld, expected 0 or 1", (long long)how);
    NC_TRY(nc_contrib_rank(c, X, 4));
    NC_TRY(nc_out_like(c, 0, X));
    NC_TRY(nc_out_like(c, 1, X));
    if (x == NULL || x->rank < 0) return NC_OK;
    const nc_dim *C = x->dims[nc_attr_int(c->node, "channels_last") != 0 ? 3 : 1];
    if (nc_dim_is_const(C, &channels) && channels % groups != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "%lld channels do not divide into %lld groups", (long long)channels,
                (long long)groups);
    NC_TRY(nc_contrib_vector(c, GAMMA - 1, C));
    NC_TRY(nc_contrib_vector(c, BETA, C));
    NC_TRY(nc_contrib_vector(c, GROUP_BIAS, C));
    return NC_OK;
}

/* skip (N,C) counts as (N,1,1,C), a bias (C) likewise, in the layout of x. */
static nc_value *channel_operand(nc_builder *b, nc_value *v, bool last) {
    int64_t between[2] = {1, 2}, behind[2] = {-2, -1};
    if (b->code != NC_OK || v == NULL || v->type == NULL || v->type->rank == 4) return v;
    if (v->type->rank == 2) return nc_build1(b, "Unsqueeze", 2, v, nc_build_ints(b, last ? between : behind, 2));
    return last ? v : nc_build1(b, "Unsqueeze", 2, v, nc_build_ints(b, behind, 2));
}

static nc_code group_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->in[X]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    bool last = nc_attr_int(n, "channels_last") != 0;
    nc_dtype t = n->in[X]->type->elem;
    nc_value *sum = nc_contrib_wide(b, n->in[X]);
    sum = nc_contrib_add(b, sum, channel_operand(b, nc_contrib_wide(b, nc_contrib_in(n, GROUP_SKIP)), last));
    sum = nc_contrib_add(b, sum, channel_operand(b, nc_contrib_wide(b, nc_contrib_in(n, GROUP_BIAS)), last));
    nc_value *x = last ? nc_build_transpose(b, sum, (int64_t[]){0, 3, 1, 2}, 4) : sum;
    nc_value *in[3] = {x, nc_contrib_wide(b, n->in[1]), nc_contrib_wide(b, n->in[2])};
    nc_attr attrs[2] = {{.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "num_groups", .kind = NC_A_INT, .i = nc_attr_int(n, "groups")}};
    nc_value *y = nc_build_newest1(b, "GroupNormalization", in, 3, attrs, 2);
    if (nc_attr_int(n, "activation") != 0) y = silu(b, y);
    if (last) y = nc_build_transpose(b, y, (int64_t[]){0, 2, 3, 1}, 4);
    out[0] = nc_build_cast(b, y, t);
    if (nc_contrib_wants(n, 1)) out[1] = nc_build_cast(b, sum, t);
    return b->code;
}

/* ---- cards ---- */

#define STATS                                                                             \
    OUT({"output", SAME(0)}, {"mean", T_F32, OPTIONAL}, {"inv_std_var", T_F32, OPTIONAL}, \
        {"input_skip_bias_sum", SAME(0), OPTIONAL}),                                      \
        ATTR(A_FLOAT("epsilon", 1e-12f))
static const nc_op_version skip_versions[] = {{.since = 1,
                                               IN({"input", T_FLOAT_ALL}, {"skip", SAME(0)}, {"gamma", SAME(0)},
                                                  {"beta", SAME(0), OPTIONAL}, {"bias", SAME(0), OPTIONAL}),
                                               STATS},
                                              {0}};
static const nc_op_version simple_versions[] = {
    {.since = 1, IN({"input", T_FLOAT_ALL}, {"skip", SAME(0)}, {"gamma", SAME(0)}, {"bias", SAME(0), OPTIONAL}), STATS},
    {0}};
static const nc_op_version gated_versions[] = {{.since = 1,
                                                IN({"X", T_FLOAT_ALL}, {"scale", SAME(0)}, {"gate", SAME(0)}),
                                                OUT({"Y", SAME(0)}),
                                                ATTR(A_FLOAT("epsilon", 1e-5f), A_STR("activation", "silu"))},
                                               {0}};
#define GROUP_ATTR \
    ATTR(A_FLOAT("epsilon", 1e-5f), A_INT_REQ("groups"), A_INT_REQ("activation"), A_INT("channels_last", 1))
static const nc_op_version group_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL}, {"gamma", T_FLOAT_ALL}, {"beta", SAME(1)}), OUT({"Y", SAME(0)}), GROUP_ATTR},
    {0}};
static const nc_op_version skip_group_versions[] = {
    {.since = 1,
     IN({"X", T_FLOAT_ALL}, {"gamma", T_FLOAT_ALL}, {"beta", SAME(1)}, {"skip", SAME(0)}, {"bias", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}, {"S", SAME(0), OPTIONAL}),
     GROUP_ATTR},
    {0}};

const nc_card nc_card_skip_layer_normalization = {
    .name = "SkipLayerNormalization",
    .domain = NC_MICROSOFT,
    .doc = "LayerNormalization over the last axis of input + skip + bias; also gives the sum.",
    .versions = skip_versions,
    .traits = NC_NORMS,
    .own = &(const skip_kind){"LayerNormalization", 3, 4},
    .infer = skip_infer,
    .decompose = skip_decompose};
const nc_card nc_card_skip_simplified_layer_normalization = {
    .name = "SkipSimplifiedLayerNormalization",
    .domain = NC_MICROSOFT,
    .doc = "RMSNormalization over the last axis of input + skip + bias; also gives the sum.",
    .versions = simple_versions,
    .traits = NC_NORMS,
    .own = &(const skip_kind){"SimplifiedLayerNormalization", 0, 3},
    .infer = skip_infer,
    .decompose = skip_decompose};
const nc_card nc_card_gated_rms_norm = {.name = "GatedRMSNorm",
                                        .domain = NC_MICROSOFT,
                                        .doc = "RMSNormalization over the last axis times an activation of the gate.",
                                        .versions = gated_versions,
                                        .infer = gated_infer,
                                        .decompose = gated_decompose};
const nc_card nc_card_group_norm = {.name = "GroupNorm",
                                    .domain = NC_MICROSOFT,
                                    .doc = "GroupNormalization of channels first or last, with SiLU on demand.",
                                    .versions = group_versions,
                                    .infer = group_infer,
                                    .decompose = group_decompose};
const nc_card nc_card_skip_group_norm = {.name = "SkipGroupNorm",
                                         .domain = NC_MICROSOFT,
                                         .doc = "GroupNorm of X + skip + bias; also gives the sum.",
                                         .versions = skip_group_versions,
                                         .infer = group_infer,
                                         .decompose = group_decompose};
