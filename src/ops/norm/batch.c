/* ops/norm/batch.c: the card of BatchNormalization. In training the statistics are the batch's, and the running ones
 * move towards them; else the running ones serve. Versions say training in three ways (batch.h). Before version 9
 * `spatial` may be 0: then every position has statistics of its own. The gradient is in batch_grad.c. */
#include "ops/norm/batch.h"

#include "ops/card.h"
#include "ops/norm/norm.h"

static nc_code check_stats(nc_infer *c) {
    int rank, have;
    bool spatial = nc_batch_is_spatial(c->node);
    if (!nc_in_rank(c, 0, &rank)) return NC_OK;
    if (rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
    for (int i = 1; i < 5; i++) {
        int64_t a, b;
        if (!nc_in_rank(c, i, &have)) continue;
        if (have != (spatial ? 1 : rank - 1))
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, %d are expected", i, have, spatial ? 1 : rank - 1);
        for (int k = 0; k < have; k++)
            if (nc_dim_is_const(nc_in_dim(c, i, k), &a) && nc_dim_is_const(nc_in_dim(c, 0, 1 + k), &b) && a != b)
                NC_FAIL(c->w, NC_E_SHAPE, "input %d: dim %d is %lld, X has %lld", i, k, (long long)a, (long long)b);
    }
    return NC_OK;
}

static nc_code batch_infer(nc_infer *c) {
    NC_TRY(check_stats(c));
    if (c->node->version->since >= 14 && !nc_batch_trains(c->node) && c->node->n_out > 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "there are %d outputs; without training_mode 1 is expected", c->node->n_out);
    NC_TRY(nc_out_like(c, 0, 0));
    for (int i = 1; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, i % 2 == 1 ? 3 : 4));
    return NC_OK;
}

/* old * momentum + new * (1 - momentum), in old's type */
static nc_value *moved(nc_builder *b, const nc_node *n, nc_value *old, nc_value *now) {
    double m = nc_attr_float(n, "momentum");
    if (b->code != NC_OK) return NULL;
    nc_dtype t = old->type->elem, wide = nc_norm_wide(t);
    nc_value *a = nc_build1(b, "Mul", 2, nc_build_cast(b, old, wide), nc_build_scalar(b, wide, m));
    nc_value *c = nc_build1(b, "Mul", 2, nc_build_cast(b, now, wide), nc_build_scalar(b, wide, 1 - m));
    return nc_build_cast(b, nc_build1(b, "Add", 2, a, c), t);
}

/* A statistic with dims kept as 1, as the running one is shaped. */
static nc_value *flat(nc_builder *b, nc_value *v, const int64_t *axes, int n) {
    return nc_build1(b, "Squeeze", 2, v, nc_build_ints(b, axes, n));
}

nc_code nc_batch_parts(nc_builder *b, const nc_node *n, nc_value *const *from, nc_value **out) {
    int rank, n_axes = 1;
    int64_t axes[NC_MAX_RANK] = {0};
    bool spatial = nc_batch_is_spatial(n);
    NC_TRY(nc_norm_rank(b, n, 2, &rank));
    if (spatial) n_axes += nc_norm_axes(2, rank, axes + 1);
    nc_dtype t = n->in[0]->type->elem, wide = nc_norm_wide(t);
    nc_value *x = nc_build_cast(b, from[0], wide), *in[5];
    for (int i = 1; i < 5; i++) {
        in[i] = nc_build_cast(b, from[i], wide);
        if (spatial) in[i] = nc_norm_channels(b, in[i], rank);
    }
    nc_norm_pieces p = {NULL};
    double epsilon = nc_attr_float(n, "epsilon");
    if (nc_batch_trains(n)) {
        p = nc_norm_pieces_of(b, x, axes, n_axes, epsilon, true);
        nc_value *stats[2] = {flat(b, p.mean, axes, n_axes), flat(b, p.var, axes, n_axes)};
        for (int i = 1; i < n->n_out && b->code == NC_OK; i++) {
            nc_value *old = from[i % 2 == 1 ? 3 : 4], *now = stats[i % 2 == 1 ? 0 : 1];
            if (n->out[i] != NULL) out[i] = i < 3 ? moved(b, n, old, now) : nc_build_cast(b, now, old->type->elem);
        }
    } else {
        nc_value *inverse = nc_norm_inverse(b, in[4], epsilon);
        p.normal = nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, x, in[3]), inverse);
    }
    nc_value *y = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, p.normal, in[1]), in[2]);
    out[0] = nc_build_cast(b, y, t);
    return b->code;
}

static nc_code batch_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_batch_parts(b, n, n->in, out);
}

#define OLD_IO                                                                                   \
    IN({"X", T_FLOAT}, {"scale", SAME(0)}, {"B", SAME(0)}, {"mean", SAME(0)}, {"var", SAME(0)}), \
        OUT({"Y", SAME(0)}, {"mean", SAME(0), OPTIONAL}, {"var", SAME(0), OPTIONAL},             \
            {"saved_mean", SAME(0), OPTIONAL}, {"saved_var", SAME(0), OPTIONAL})
#define NEW_OUT OUT({"Y", SAME(0)}, {"running_mean", SAME(3), OPTIONAL}, {"running_var", SAME(3), OPTIONAL})
#define NEW_ATTR ATTR(A_INT("training_mode", 0), MOVES)
#define MOVES A_FLOAT("momentum", 0.9f), A_FLOAT("epsilon", 1e-5f)
static const nc_op_version versions[] = {
    {.since = 15,
     IN({"X", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL}, {"B", SAME(1)}, {"input_mean", T_FLOAT_ALL},
        {"input_var", SAME(3)}),
     NEW_OUT,
     NEW_ATTR},
    {.since = 14,
     IN({"X", T_FLOAT_ALL}, {"scale", SAME(0)}, {"B", SAME(0)}, {"input_mean", T_FLOAT_ALL}, {"input_var", SAME(3)}),
     NEW_OUT,
     NEW_ATTR},
    {.since = 9, OLD_IO, ATTR(MOVES)},
    {.since = 7, OLD_IO, ATTR(MOVES, A_INT("spatial", 1))},
    {.since = 6, OLD_IO, ATTR(MOVES, A_INT("is_test", 0), A_INT("spatial", 1))},
    {.since = 1, OLD_IO, ATTR(A_INTS_REQ("consumed_inputs"), MOVES, A_INT("is_test", 0), A_INT("spatial", 1))},
    {0}};

const nc_card nc_card_batch_normalization = {.name = "BatchNormalization",
                                             .doc = "Channels normalized by statistics of the batch or running ones.",
                                             .versions = versions,
                                             .infer = batch_infer,
                                             .grad = nc_batch_card_grad,
                                             .settings_in = 3u << 3,
                                             .decompose = batch_decompose,
                                             .blocks = nc_batch_blocks,
                                             .blocked = nc_batch_blocked};
