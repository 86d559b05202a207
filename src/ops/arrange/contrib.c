/* ops/arrange/contrib.c: cards of com.microsoft that lay elements out anew. Most are ops that ONNX has taken over since
 * (Trilu, Pad, GridSample, GatherND, Range, ExpandDims, Unique), in the form they had before; UnfoldTensor,
 * TorchEmbedding, SampleOp and the two that take padding out of a batch and put it back are compositions; of
 * org.pytorch.aten's ATen, an operator of PyTorch by its name, some. All run, and are differentiated, as ops of
 * ai.onnx. */
#include <string.h>

#include "ops/contrib.h"

extern const nc_card nc_card_trilu, nc_card_pad, nc_card_grid_sample, nc_card_range;

/* ---- words ---- */

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_value *gather(nc_builder *b, nc_value *x, nc_value *at, int64_t axis) {
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return nc_build_attr1(b, "", "Gather", (nc_value *[]){x, at}, 2, &attr, 1);
}

static nc_value *concat(nc_builder *b, nc_value *x, nc_value *y) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "Concat", (nc_value *[]){x, y}, 2, &axis, 1);
}

/* 0, 1, ... below n (rank 1, one element). */
static nc_value *counted(nc_builder *b, nc_value *n) {
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), nc_build1(b, "Squeeze", 2, n, ints(b, 0)), nc_build_int(b, 1));
}

static nc_code needs_rank(nc_builder *b, const nc_node *n, int i) {
    if (n->in[i]->type == NULL || n->in[i]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    return NC_OK;
}

/* ---- what ONNX has under the same name: the card's own is that op's card ---- */

static nc_code same_infer(nc_infer *c) { return ((const nc_card *)c->node->card->own)->infer(c); }

static nc_code same_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_card *same = n->card->own;
    out[0] = nc_build_newest1(b, same->name, n->in, n->n_in, n->attrs, n->n_attrs);
    return b->code;
}

static nc_code range_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *delta = nc_contrib_in(n, 2);
    if (delta == NULL && n->in[0]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    if (delta == NULL) delta = nc_build_scalar(b, n->in[0]->type->elem, 1);
    out[0] = nc_build1(b, "Range", 3, n->in[0], n->in[1], delta);
    return b->code;
}

static nc_code gather_nd_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1);
    const nc_dim *dims[NC_MAX_RANK];
    int64_t depth;
    int rank = 0;
    if (x == NULL) return NC_OK;
    if (x->rank < 0 || at == NULL || at->rank < 1 || !nc_dim_is_const(at->dims[at->rank - 1], &depth))
        return nc_out_unknown(c, 0, x->elem, -1);
    if (depth < 1 || depth > x->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "indices have %lld numbers each, expected 1 to %d", (long long)depth, x->rank);
    if (at->rank - 1 + x->rank - (int)depth > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "the result has too many dims");
    for (int i = 0; i < at->rank - 1; i++) dims[rank++] = at->dims[i];
    for (int i = (int)depth; i < x->rank; i++) dims[rank++] = x->dims[i];
    return nc_out(c, 0, x->elem, rank, dims);
}

static nc_code gather_nd_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build1(b, "GatherND", 2, n->in[0], nc_build_cast(b, n->in[1], NC_INT64));
    return b->code;
}

static nc_code expand_dims_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int64_t at = 0;
    bool known = false;
    int axis;
    NC_TRY(nc_in_number(c, 1, &at, &known));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank == NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "the result has too many dims");
    if (!known) return nc_out_unknown(c, 0, x->elem, x->rank + 1);
    NC_TRY(nc_axis(c, at, x->rank + 1, &axis));
    for (int i = 0, from = 0; i <= x->rank; i++) dims[i] = i == axis ? nc_dim_const(c->dims, 1) : x->dims[from++];
    return nc_out(c, 0, x->elem, x->rank + 1, dims);
}

static nc_code expand_dims_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *axis = nc_build1(b, "Reshape", 2, nc_build_cast(b, n->in[1], NC_INT64), ints(b, 1));
    out[0] = nc_build1(b, "Unsqueeze", 2, n->in[0], axis);
    return b->code;
}

/* ---- Unique ---- */

static nc_code unique_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_contrib_rank(c, 0, 1));
    if (x == NULL) return NC_OK;
    const nc_dim *n = x->rank == 1 ? x->dims[0] : nc_fresh(c, "n"), *different = nc_fresh(c, "different");
    NC_NEED(c->w, different);
    nc_dim_set_bound(c->dims, different, n);
    NC_TRY(nc_out(c, 0, x->elem, 1, &different));
    NC_TRY(nc_out(c, 1, NC_INT64, 1, &n));
    return nc_out(c, 2, NC_INT64, 1, &different);
}

static nc_code unique_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr unsorted = {.name = "sorted", .kind = NC_A_INT, .i = 0};
    nc_node *all = nc_build_newest(b, "Unique", n->in, 1, (const bool[]){true, false, true, true}, 4, &unsorted, 1);
    if (all == NULL) return b->code;
    out[0] = all->out[0];
    out[1] = all->out[2];
    out[2] = all->out[3];
    return b->code;
}

/* ---- UnfoldTensor ---- */

static nc_code unfold_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int64_t size = nc_attr_int(c->node, "size"), step = nc_attr_int(c->node, "step"), length;
    int axis;
    if (size < 1 || step < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "size is %lld and step %lld, expected at least 1", (long long)size,
                (long long)step);
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank == NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "the result has too many dims");
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "dim"), x->rank, &axis));
    if (nc_dim_is_const(x->dims[axis], &length) && length < size)
        NC_FAIL(c->w, NC_E_SHAPE, "dim %d is %lld, expected at least size, which is %lld", axis, (long long)length,
                (long long)size);
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    const nc_dim *room = nc_dim_add(c->dims, x->dims[axis], nc_dim_const(c->dims, step - size));
    dims[axis] = nc_dim_floordiv(c->dims, room, nc_dim_const(c->dims, step));
    dims[x->rank] = nc_dim_const(c->dims, size);
    return nc_out(c, 0, x->elem, x->rank + 1, dims);
}

/* Gathered by a matrix of places (windows, size); then the axis of a window's elements goes to the end. */
static nc_code unfold_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t size = nc_attr_int(n, "size"), step = nc_attr_int(n, "step"), dim = nc_attr_int(n, "dim");
    int64_t perm[NC_MAX_RANK];
    NC_TRY(needs_rank(b, n, 0));
    int rank = n->in[0]->type->rank, axis = (int)(dim < 0 ? dim + rank : dim), k = 0;
    nc_value *room = nc_build1(b, "Add", 2, nc_contrib_size(b, n->in[0], axis), ints(b, step - size));
    nc_value *first = nc_build1(b, "Mul", 2, counted(b, nc_build1(b, "Div", 2, room, ints(b, step))), ints(b, step));
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Unsqueeze", 2, first, ints(b, 1)), counted(b, ints(b, size)));
    nc_value *y = gather(b, n->in[0], at, axis);
    for (int i = 0; i <= rank; i++)
        if (i != axis + 1) perm[k++] = i;
    perm[k] = axis + 1;
    out[0] = nc_build_transpose(b, y, perm, rank + 1);
    return b->code;
}

/* ---- TorchEmbedding, and ATen's embedding: table, numbers of rows, the row of padding (below 0: none) ---- */

static nc_code embedding_infer(nc_infer *c) {
    const nc_type *w = nc_in(c, 0), *at = nc_in(c, 1);
    const nc_dim *dims[NC_MAX_RANK];
    NC_TRY(nc_contrib_rank(c, 0, 2));
    if (w == NULL) return NC_OK;
    if (w->rank < 0 || at == NULL || at->rank < 0) return nc_out_unknown(c, 0, w->elem, -1);
    if (at->rank == NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "the result has too many dims");
    for (int i = 0; i < at->rank; i++) dims[i] = at->dims[i];
    dims[at->rank] = w->dims[1];
    return nc_out(c, 0, w->elem, at->rank + 1, dims);
}

static nc_code embedding_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *pad = nc_contrib_in(n, 2), *y = gather(b, n->in[0], n->in[1], 0);
    int64_t row = 0, count;
    bool none = pad == NULL || (pad->lit != NULL && nc_literal_ints(pad->lit, &row, 1, &count) && row < 0);
    if (!none && b->code == NC_OK) { /* no gradient reaches it */
        nc_value *is = nc_build1(b, "Equal", 2, n->in[1], nc_build_cast(b, pad, n->in[1]->type->elem));
        y = nc_build1(b, "Where", 3, nc_build1(b, "Unsqueeze", 2, is, ints(b, -1)), nc_build_stop(b, y), y);
    }
    out[0] = y;
    return b->code;
}

/* ---- ATen ---- */

/* Its operator without the name space; NULL: none that is known. */
static const char *aten_operator(const nc_node *n) {
    const char *name = nc_attr_str(n, "operator");
    if (strncmp(name, "aten::", 6) == 0) name += 6;
    bool known = (strcmp(name, "embedding") == 0 && n->n_in >= 2) || (strcmp(name, "numpy_T") == 0 && n->n_in == 1);
    return known ? name : NULL;
}

static nc_code aten_infer(nc_infer *c) {
    const char *name = aten_operator(c->node);
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    if (name == NULL)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "operator is '%s' of %d inputs, expected embedding or numpy_T",
                nc_attr_str(c->node, "operator"), c->node->n_in);
    if (*name == 'e') return embedding_infer(c);
    if (x == NULL) return NC_OK;
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[x->rank - 1 - i];
    return x->rank < 0 ? nc_out_unknown(c, 0, x->elem, -1) : nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code aten_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const char *name = aten_operator(n);
    if (name == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "the operator is not known");
    if (*name == 'e') return embedding_decompose(b, n, out);
    out[0] = nc_build1(b, "Transpose", 1, n->in[0]);
    return b->code;
}

/* ---- RemovePadding, RestorePadding: input (B,S,H) and as many tokens as each row has; tokens (T,H) ---- */

static nc_code remove_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *count = nc_in(c, 1);
    NC_TRY(nc_contrib_rank(c, 0, 3));
    NC_TRY(nc_contrib_rank(c, 1, 1));
    const nc_dim *one = nc_dim_const(c->dims, 1), *rows = NULL;
    if (x != NULL && x->rank == 3) {
        NC_TRY(nc_in_expect(c, 1, 0, x->dims[0]));
        NC_TRY(nc_out(c, 0, x->elem, 2, (const nc_dim *[]){nc_fresh(c, "tokens"), x->dims[2]}));
        NC_TRY(nc_out(c, 1, NC_INT32, 2, x->dims));
        rows = x->dims[0];
    } else {
        if (x != NULL) NC_TRY(nc_out_unknown(c, 0, x->elem, 2));
        NC_TRY(nc_out_unknown(c, 1, NC_INT32, 2));
        if (count != NULL && count->rank == 1) rows = count->dims[0];
    }
    const nc_dim *ends = rows != NULL ? nc_dim_add(c->dims, rows, one) : nc_fresh(c, "ends");
    NC_TRY(nc_out(c, 2, NC_INT32, 1, &ends));
    return nc_out(c, 3, NC_INT32, 1, &one);
}

/* Where in the batch laid out in a row the tokens are that `there` (B,S) names. */
static nc_value *places(nc_builder *b, nc_value *there) {
    nc_value *flat = nc_build1(b, "Reshape", 2, there, ints(b, -1));
    return nc_build1(b, "Reshape", 2, nc_build1(b, "NonZero", 1, flat), ints(b, -1));
}

static nc_value *int32(nc_builder *b, nc_value *x) { return nc_build_cast(b, x, NC_INT32); }

static nc_code remove_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0];
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    NC_TRY(needs_rank(b, n, 0));
    nc_value *count = nc_build_cast(b, n->in[1], NC_INT64), *size = nc_contrib_size(b, x, 1);
    nc_value *there = nc_build1(b, "Less", 2, counted(b, size), nc_build1(b, "Unsqueeze", 2, count, ints(b, 1)));
    nc_value *tokens = places(b, there), *others = places(b, nc_build1(b, "Not", 1, there));
    nc_value *rows = nc_build1(b, "Reshape", 2, x, concat(b, ints(b, -1), nc_contrib_size(b, x, 2)));
    out[0] = gather(b, rows, tokens, 0);
    nc_value *all = nc_build1(b, "Reshape", 2, concat(b, tokens, others),
                              concat(b, nc_contrib_size(b, x, 0), nc_contrib_size(b, x, 1)));
    out[1] = int32(b, all);
    out[2] = int32(b, concat(b, ints(b, 0), nc_build1(b, "CumSum", 2, count, nc_build_int(b, 0))));
    out[3] = int32(b, nc_build_attr1(b, "", "ReduceMax", (nc_value *[]){count, ints(b, 0)}, 2, &keep, 1));
    return b->code;
}

static nc_code restore_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1);
    NC_TRY(nc_contrib_rank(c, 0, 2));
    NC_TRY(nc_contrib_rank(c, 1, 2));
    if (x == NULL) return NC_OK;
    if (x->rank != 2 || at == NULL || at->rank != 2) return nc_out_unknown(c, 0, x->elem, 3);
    return nc_out(c, 0, x->elem, 3, (const nc_dim *[]){at->dims[0], at->dims[1], x->dims[1]});
}

static nc_code restore_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *at = n->in[1];
    NC_TRY(needs_rank(b, n, 0));
    NC_TRY(needs_rank(b, n, 1));
    nc_value *flat = nc_build1(b, "Reshape", 2, nc_build_cast(b, at, NC_INT64), ints(b, -1));
    nc_value *used = nc_build1(b, "Slice", 4, flat, ints(b, 0), nc_contrib_size(b, x, 0), ints(b, 0));
    nc_value *width = nc_contrib_size(b, x, 1);
    nc_value *empty = nc_build1(b, "Expand", 2, nc_build_scalar(b, x->type->elem, 0),
                                concat(b, nc_build1(b, "Shape", 1, flat), width));
    nc_value *rows = nc_build1(b, "ScatterND", 3, empty, nc_build1(b, "Unsqueeze", 2, used, ints(b, 1)), x);
    nc_value *batch = concat(b, nc_contrib_size(b, at, 0), nc_contrib_size(b, at, 1));
    out[0] = nc_build1(b, "Reshape", 2, rows, concat(b, batch, width));
    return b->code;
}

/* ---- SampleOp ---- */

static nc_code sample_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code sample_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build1(b, "Identity", 1, n->in[0]);
    return b->code;
}

/* ---- cards ---- */

#define ONE(x, y, types) IN({x, types}), OUT({y, SAME(0)})
#define RANGE_TYPES (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT16) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
static const nc_op_version trilu_versions[] = {{.since = 1,
                                                IN({"X", T_NUMBER_ALL | T_BOOL}, {"k", T_I64, SINGLE_OPTIONAL}),
                                                OUT({"Y", SAME(0)}),
                                                ATTR(A_INT("upper", 1))},
                                               {0}};
static const nc_op_version pad_versions[] = {{.since = 1,
                                              IN({"data", T_FLOAT}, {"pads", T_I64}, {"value", SAME(0), OPTIONAL}),
                                              OUT({"output", SAME(0)}),
                                              ATTR(A_STR("mode", "constant"))},
                                             {0}};
static const nc_op_version grid_versions[] = {
    {.since = 1,
     IN({"X", T_TENSOR}, {"Grid", SAME(0)}),
     OUT({"Y", T_FLOAT}),
     ATTR(A_STR("mode", "bilinear"), A_STR("padding_mode", "zeros"), A_INT("align_corners", 0))},
    {0}};
static const nc_op_version range_versions[] = {
    {.since = 1,
     IN({"start", RANGE_TYPES, SINGLE}, {"limit", SAME(0), SINGLE}, {"delta", SAME(0), SINGLE_OPTIONAL}),
     OUT({"Y", SAME(0)}),
     NO_ATTR},
    {0}};
static const nc_op_version gather_nd_versions[] = {
    {.since = 1, IN({"data", T_TENSOR}, {"indices", T_INDEX}), OUT({"output", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version expand_versions[] = {
    {.since = 1, IN({"X", T_TENSOR}, {"axis", T_I32}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version unique_versions[] = {
    {.since = 1, IN({"x", T_TENSOR}), OUT({"y", SAME(0)}, {"idx", T_I64}, {"counts", T_I64}), NO_ATTR}, {0}};
static const nc_op_version unfold_versions[] = {
    {.since = 1, ONE("input", "output", T_TENSOR_ALL), ATTR(A_INT("dim", -1), A_INT_REQ("size"), A_INT("step", 1))},
    {0}};
static const nc_op_version sample_versions[] = {{.since = 1, ONE("X", "Y", T_BIG_NUMBER), NO_ATTR}, {0}};
static const nc_op_version embedding_versions[] = {
    {.since = 1,
     IN({"weight", T_NUMBER_ALL}, {"indices", T_I64}, {"padding_idx", T_I64, OPTIONAL},
        {"scale_grad_by_freq", T_BOOL, OPTIONAL}),
     OUT({"Y", SAME(0)}),
     NO_ATTR},
    {0}};
static const nc_op_version remove_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"sequence_token_count", T_I32}),
     OUT({"output", SAME(0)}, {"token_offset", T_I32}, {"cumulated_seq_len", T_I32}, {"max_seq_len", T_I32}),
     NO_ATTR},
    {0}};
static const nc_op_version restore_versions[] = {
    {.since = 1, IN({"input", T_FLOAT_ALL}, {"token_offset", T_I32}), OUT({"output", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_ms_trilu = {.name = "Trilu",
                                  .domain = NC_MICROSOFT,
                                  .doc = "Trilu as it was before ONNX had it.",
                                  .versions = trilu_versions,
                                  .own = &nc_card_trilu,
                                  .no_grad_in = 2,
                                  .infer = same_infer,
                                  .decompose = same_decompose};
const nc_card nc_card_ms_pad = {.name = "Pad",
                                .domain = NC_MICROSOFT,
                                .doc = "Pad with its borders as an input.",
                                .versions = pad_versions,
                                .own = &nc_card_pad,
                                .host_in = 2,
                                .no_grad_in = 2,
                                .infer = same_infer,
                                .decompose = same_decompose};
const nc_card nc_card_ms_grid_sample = {.name = "GridSample",
                                        .domain = NC_MICROSOFT,
                                        .doc = "GridSample as it was before ONNX had it.",
                                        .versions = grid_versions,
                                        .own = &nc_card_grid_sample,
                                        .infer = same_infer,
                                        .decompose = same_decompose};
const nc_card nc_card_ms_range = {.name = "Range",
                                  .domain = NC_MICROSOFT,
                                  .doc = "Range whose step may be left out.",
                                  .versions = range_versions,
                                  .own = &nc_card_range,
                                  .host_in = 7,
                                  .no_grad_in = 2,
                                  .infer = same_infer,
                                  .decompose = range_decompose};
const nc_card nc_card_ms_gather_nd = {.name = "GatherND",
                                      .domain = NC_MICROSOFT,
                                      .doc = "GatherND as it was before ONNX had it.",
                                      .versions = gather_nd_versions,
                                      .no_grad_in = 2,
                                      .infer = gather_nd_infer,
                                      .decompose = gather_nd_decompose};
const nc_card nc_card_expand_dims = {.name = "ExpandDims",
                                     .domain = NC_MICROSOFT,
                                     .doc = "With a dim of 1 put in at an axis.",
                                     .versions = expand_versions,
                                     .host_in = 2,
                                     .no_grad_in = 2,
                                     .infer = expand_dims_infer,
                                     .decompose = expand_dims_decompose};
const nc_card nc_card_ms_unique = {.name = "Unique",
                                   .domain = NC_MICROSOFT,
                                   .doc = "The different elements in the order they come, which each is, how often.",
                                   .versions = unique_versions,
                                   .infer = unique_infer,
                                   .no_grad = "the size of the result jumps where elements become equal",
                                   .decompose = unique_decompose};
const nc_card nc_card_unfold_tensor = {.name = "UnfoldTensor",
                                       .domain = NC_MICROSOFT,
                                       .doc = "Windows along a dim; their elements are the last dim.",
                                       .versions = unfold_versions,
                                       .infer = unfold_infer,
                                       .decompose = unfold_decompose};
const nc_card nc_card_torch_embedding = {.name = "TorchEmbedding",
                                         .domain = NC_MICROSOFT,
                                         .doc = "Rows of a table by their numbers.",
                                         .versions = embedding_versions,
                                         .no_grad_in = 2 | 4 | 8,
                                         .infer = embedding_infer,
                                         .decompose = embedding_decompose};
static const nc_op_version aten_versions[] = {{.since = 1,
                                               IN({"inputs", T_TENSOR_ALL, MIXED}),
                                               OUT({"outputs", T_TENSOR_ALL, MIXED}),
                                               ATTR(A_STR_REQ("operator"), A_STR("overload_name", ""),
                                                    A_INTS_OPT("cpu_input_args"), A_INTS_OPT("cpu_output_args"))},
                                              {0}};
const nc_card nc_card_aten = {.name = "ATen",
                              .domain = "org.pytorch.aten",
                              .doc = "An operator of PyTorch by its name: embedding or numpy_T.",
                              .versions = aten_versions,
                              .no_grad_in = ~(uint32_t)1,
                              .infer = aten_infer,
                              .decompose = aten_decompose};
const nc_card nc_card_remove_padding = {.name = "RemovePadding",
                                        .domain = NC_MICROSOFT,
                                        .doc = "The tokens of a batch without those that only fill it up.",
                                        .versions = remove_versions,
                                        .no_grad_in = 2,
                                        .infer = remove_infer,
                                        .decompose = remove_decompose};
const nc_card nc_card_restore_padding = {.name = "RestorePadding",
                                         .domain = NC_MICROSOFT,
                                         .doc = "Tokens back in their batch, zeros between them.",
                                         .versions = restore_versions,
                                         .no_grad_in = 2,
                                         .infer = restore_infer,
                                         .decompose = restore_decompose};
const nc_card nc_card_sample_op = {.name = "SampleOp",
                                   .domain = NC_MICROSOFT,
                                   .doc = "X itself: the example of an operator.",
                                   .versions = sample_versions,
                                   .infer = sample_infer,
                                   .decompose = sample_decompose};
