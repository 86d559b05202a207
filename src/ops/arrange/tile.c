/* ops/arrange/tile.c: cards of Tile, ReverseSequence and EyeLike. */
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

/* ---- Tile ---- */

/* Version 1: how often along which one axis, both numbers of data's type. */
static nc_code tile_1_infer(nc_infer *c, const nc_type *x) {
    const nc_dim *dims[NC_MAX_RANK];
    int64_t tiles, at;
    int axis;
    bool tiles_known, at_known;
    NC_TRY(nc_in_number(c, 1, &tiles, &tiles_known));
    NC_TRY(nc_in_number(c, 2, &at, &at_known));
    if (!tiles_known || !at_known) return nc_out_unknown(c, 0, x->elem, x->rank);
    NC_TRY(nc_axis(c, at, x->rank, &axis));
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    dims[axis] = nc_dim_mul(c->dims, x->dims[axis], nc_dim_const(c->dims, tiles));
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code tile_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int n;
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (c->node->version->since == 1) return tile_1_infer(c, x);
    const nc_dim *const *repeats = nc_in_elems(c, 1, &n);
    if (repeats == NULL) return nc_out_unknown(c, 0, x->elem, x->rank);
    if (n != x->rank) NC_FAIL(c->w, NC_E_SHAPE, "repeats has %d elements, input has %d dims", n, x->rank);
    for (int k = 0; k < n; k++) {
        dims[k] = repeats[k] != NULL ? nc_dim_mul(c->dims, x->dims[k], repeats[k]) : nc_fresh(c, "d");
    }
    return nc_out(c, 0, x->elem, x->rank, dims);
}

/* dy as (repeats[0], dims[0], repeats[1], ...), summed over the repeats. */
static nc_code tile_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_builder *b = g->b;
    const nc_type *x = g->node->in[0]->type;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    if (g->node->version->since == 1 || x == NULL || x->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "no gradient before version 6, or without a known rank");
    if (x->rank == 0) {
        nc_grad_set(g, 0, dy);
        return nc_grad_end(g);
    }
    int64_t one = 1, all = -1, axes[NC_MAX_RANK];
    for (int k = 0; k < x->rank; k++) axes[k] = 2 * k;
    nc_value *column = nc_build_ints(b, &one, 1);
    nc_value *pairs[2] = {nc_build1(b, "Unsqueeze", 2, nc_grad_x(g, 1), column),
                          nc_build1(b, "Unsqueeze", 2, nc_build_shape(b, nc_grad_like(g, 0)), column)};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    nc_value *both = nc_build_attr1(b, "", "Concat", pairs, 2, &axis, 1);
    nc_value *in[2] = {dy, nc_build1(b, "Reshape", 2, both, nc_build_ints(b, &all, 1))};
    nc_attr zeros = {.name = "allowzero", .kind = NC_A_INT, .i = 1}; /* none of x, where repeats has a 0 */
    nc_value *split = nc_build_attr1(b, "", "Reshape", in, 2, &zeros, 1);
    nc_grad_set(g, 0, nc_build_reduce_sum(b, split, axes, x->rank, false));
    return nc_grad_end(g);
}

static bool tile_is_identity(const nc_node *n) {
    int64_t repeats[NC_MAX_RANK], count;
    const nc_literal *l = n->version->since > 1 && n->in[1] != NULL ? n->in[1]->lit : NULL;
    if (l == NULL || !nc_literal_ints(l, repeats, NC_MAX_RANK, &count)) return false;
    for (int64_t k = 0; k < count; k++)
        if (repeats[k] != 1) return false;
    return true;
}

#define TILE(types) IN({"input", types}, {"repeats", T_I64}), OUT({"output", SAME(0)}), NO_ATTR
static const nc_op_version tile_versions[] = {
    {.since = 13, TILE(T_TENSOR_ALL)},
    {.since = 6, TILE(T_TENSOR)},
    {.since = 1, IN({"input", T_FLOAT}, {"tiles", SAME(0)}, {"axis", SAME(0)}), OUT({"output", SAME(0)}), NO_ATTR},
    {0}};

const nc_card nc_card_tile = {.name = "Tile",
                              .doc = "Its input repeated along every axis.",
                              .versions = tile_versions,
                              .host_in = 3u << 1,
                              .is_identity = tile_is_identity,
                              .no_grad_in = 3u << 1,
                              .infer = tile_infer,
                              .grad = tile_grad};

/* ---- ReverseSequence ---- */

static nc_code reverse_infer(nc_infer *c) {
    int rank;
    int64_t batch = nc_attr_int(c->node, "batch_axis"), time = nc_attr_int(c->node, "time_axis");
    if (batch + time != 1 || (batch != 0 && batch != 1))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "batch_axis %lld and time_axis %lld, expected 0 and 1 or 1 and 0",
                (long long)batch, (long long)time);
    if (nc_in_rank(c, 0, &rank) && rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 2 or more", rank);
    return nc_out_like(c, 0, 0);
}

static nc_code reverse_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[2] = {dy, nc_grad_x(g, 1)};
    nc_attr axes[2] = {{.name = "batch_axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "batch_axis")},
                       {.name = "time_axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "time_axis")}};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "ReverseSequence", in, 2, axes, 2));
    return nc_grad_end(g);
}

#define REVERSE(types)                                                   \
    IN({"input", types}, {"sequence_lens", T_I64}), OUT({"Y", SAME(0)}), \
        ATTR(A_INT("batch_axis", 1), A_INT("time_axis", 0))
static const nc_op_version reverse_versions[] = {
    {.since = 28, REVERSE(T_TENSOR_ALL)}, {.since = 10, REVERSE(T_TENSOR)}, {0}};

const nc_card nc_card_reverse_sequence = {.name = "ReverseSequence",
                                          .doc = "The first sequence_lens[b] steps of every batch b in reverse.",
                                          .versions = reverse_versions,
                                          .no_grad_in = 1u << 1,
                                          .infer = reverse_infer,
                                          .grad = reverse_grad};

/* ---- EyeLike ---- */

static nc_code eye_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return NC_OK;
    nc_dtype t = nc_attr_has(c->node, "dtype") ? (nc_dtype)nc_attr_int(c->node, "dtype") : x->elem;
    if (x->rank >= 0 && x->rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 2", x->rank);
    return x->rank < 0 ? nc_out_unknown(c, 0, t, 2) : nc_out(c, 0, t, 2, x->dims);
}

#define EYE(types) IN({"input", types}), OUT({"output", types}), ATTR(A_INT_OPT("dtype"), A_INT("k", 0))
static const nc_op_version eye_versions[] = {
    {.since = 22, EYE(T_NUMBER_ALL | T_BOOL)}, {.since = 9, EYE(T_NUMBER | T_BOOL)}, {0}};

const nc_card nc_card_eye_like = {.name = "EyeLike",
                                  .doc = "Ones on the k-th diagonal, zeros elsewhere, in the shape of its input.",
                                  .versions = eye_versions,
                                  .dims_only_in = 1,
                                  .infer = eye_infer,
                                  .zero_grad = true};
