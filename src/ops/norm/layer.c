/* ops/norm/layer.c: cards of LayerNormalization, RMSNormalization, which ONNX Runtime calls
 * SimplifiedLayerNormalization, and nacre.NormGrad, their gradient: the dims from `axis` on are normalized together.
 * Kernels are in norm_cpu.c; a scale or bias that differs from row to row is left to the pieces. */
#include "ops/card.h"
#include "ops/norm/norm.h"

/* The own of LayerNormalization and RMSNormalization; NormGrad has an attribute instead. */
typedef struct layer_kind {
    bool centers;
} layer_kind;

static bool centers(const nc_node *n) {
    const layer_kind *kind = n->card->own;
    return kind != NULL ? kind->centers : nc_attr_int(n, "center") != 0;
}

static nc_code stat_out(nc_infer *c, int i, const nc_type *x, int axis) {
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1);
    nc_dtype elem = (nc_dtype)nc_attr_int(c->node, "stash_type");
    for (int k = 0; k < x->rank; k++) dims[k] = k < axis ? x->dims[k] : one;
    return nc_out(c, i, elem, x->rank, dims);
}

/* Scale and bias spread over X. */
static nc_code check_spread(nc_infer *c, int i, const nc_type *x) {
    int rank;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    if (rank > x->rank) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, X has %d", i, rank, x->rank);
    for (int k = 0; k < rank; k++) {
        int64_t have, want;
        int at = x->rank - rank + k;
        if (!nc_dim_is_const(nc_in_dim(c, i, k), &have) || have == 1) continue;
        if (nc_dim_is_const(x->dims[at], &want) && have != want)
            NC_FAIL(c->w, NC_E_SHAPE, "input %d: dim %d is %lld, expected 1 or X's %lld", i, k, (long long)have,
                    (long long)want);
    }
    return NC_OK;
}

static nc_code layer_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *scale = nc_in(c, 1);
    int64_t stash = nc_attr_int(c->node, "stash_type");
    int axis = 0;
    bool layer = centers(c->node);
    if (stash != NC_FLOAT && stash != NC_BFLOAT16 && (layer || (stash != NC_FLOAT16 && stash != NC_DOUBLE)))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "stash_type is %lld", (long long)stash);
    if (x == NULL || (!layer && scale == NULL)) return NC_OK;
    nc_dtype elem = scale != NULL ? scale->elem : x->elem;
    if (x->rank < 0) return nc_out_unknown(c, 0, elem, -1);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(check_spread(c, 1, x));
    NC_TRY(check_spread(c, 2, x));
    NC_TRY(nc_out(c, 0, elem, x->rank, x->dims));
    NC_TRY(stat_out(c, 1, x, axis));
    return layer ? stat_out(c, 2, x, axis) : NC_OK;
}

static nc_code axis_of(nc_builder *b, const nc_node *n, const nc_value *x, int *axis) {
    int64_t a = nc_attr_int(n, "axis");
    if (x->type == NULL || x->type->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    *axis = (int)(a < 0 ? a + x->type->rank : a);
    return NC_OK;
}

static nc_code layer_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    nc_value *x = in[0], *scale = in[1], *bias = n->n_in > 2 ? in[2] : NULL;
    int axis = 0;
    int64_t axes[NC_MAX_RANK];
    NC_TRY(axis_of(b, n, x, &axis));
    int n_axes = nc_norm_axes(axis, x->type->rank, axes);
    nc_dtype wide = nc_norm_wide(x->type->elem);
    nc_norm_pieces p =
        nc_norm_pieces_of(b, nc_build_cast(b, x, wide), axes, n_axes, nc_attr_float(n, "epsilon"), centers(n));
    nc_value *y = nc_build1(b, "Mul", 2, p.normal, nc_build_cast(b, scale, wide));
    if (bias != NULL) y = nc_build1(b, "Add", 2, y, nc_build_cast(b, bias, wide));
    if (b->code != NC_OK) return b->code;
    out[0] = nc_build_cast(b, y, n->out[0]->type != NULL ? n->out[0]->type->elem : scale->type->elem);
    nc_dtype stash = (nc_dtype)nc_attr_int(n, "stash_type");
    if (n->n_out > 1 && n->out[1] != NULL) out[1] = nc_build_cast(b, centers(n) ? p.mean : p.inv_std, stash);
    if (n->n_out > 2 && n->out[2] != NULL) out[2] = nc_build_cast(b, p.inv_std, stash);
    return b->code;
}

static nc_code layer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return layer_parts(b, n, n->in, out);
}

/* ---- gradients ---- */

static nc_code layer_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_node *n = g->node;
    const char *why;
    if (nc_grad_dy(g, 1) != NULL || nc_grad_dy(g, 2) != NULL || !nc_norm_fits_rows(n, &why))
        return nc_grad_by_parts(g, layer_parts);
    bool wanted[3] = {g->wants[0], g->wants[1], n->n_in > 2 && n->in[2] != NULL && g->wants[2]};
    if (dy == NULL || !(wanted[0] || wanted[1] || wanted[2])) return NC_OK;
    nc_value *x = nc_grad_x(g, 0), *scale = nc_grad_x(g, 1);
    if (g->b->code != NC_OK) return g->b->code;
    nc_dtype own = x->type->elem, t = scale->type->elem;
    nc_value *in[3] = {dy, nc_build_cast(g->b, x, t), scale};
    nc_attr attrs[3] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "center", .kind = NC_A_INT, .i = centers(n)}};
    nc_node *d = nc_build_wanted(g->b, "nacre", "NormGrad", in, 3, wanted, 3, attrs, 3);
    if (d == NULL) return g->b->code;
    if (wanted[0]) nc_grad_set(g, 0, nc_build_cast(g->b, d->out[0], own));
    for (int i = 1; i < 3; i++)
        if (wanted[i]) nc_grad_set(g, i, nc_grad_sum_to(g, d->out[i], i));
    return nc_grad_end(g);
}

static nc_code norm_grad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 1);
    int axis = 0;
    NC_TRY(nc_in_same(c, 0, 1));
    NC_TRY(nc_out_like(c, 0, 1));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) NC_FAIL(c->w, NC_E_UNSUPPORTED, "the gradient needs a known rank");
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(nc_out(c, 1, x->elem, x->rank - axis, x->dims + axis));
    return nc_out(c, 2, x->elem, x->rank - axis, x->dims + axis);
}

/* With g = dY * scale and h the normalized X: dX = (g - mean(g) - h * mean(g * h)) / std, the first mean only where X
 * is centred. */
static nc_code norm_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *x = n->in[1];
    int axis = 0;
    int64_t axes[NC_MAX_RANK], leading[NC_MAX_RANK];
    NC_TRY(axis_of(b, n, x, &axis));
    int n_axes = nc_norm_axes(axis, x->type->rank, axes), n_leading = nc_norm_axes(0, axis, leading);
    nc_norm_pieces p = nc_norm_pieces_of(b, x, axes, n_axes, nc_attr_float(n, "epsilon"), centers(n));
    if (n->out[0] != NULL) {
        nc_value *g = nc_build1(b, "Mul", 2, dy, n->in[2]);
        nc_value *along = nc_norm_mean_of(b, nc_build1(b, "Mul", 2, g, p.normal), axes, n_axes);
        nc_value *d = nc_build1(b, "Sub", 2, g, nc_build1(b, "Mul", 2, p.normal, along));
        if (centers(n)) d = nc_build1(b, "Sub", 2, d, nc_norm_mean_of(b, g, axes, n_axes));
        out[0] = nc_build1(b, "Mul", 2, d, p.inv_std);
    }
    if (n->n_out > 1 && n->out[1] != NULL)
        out[1] = nc_build_reduce_sum(b, nc_build1(b, "Mul", 2, dy, p.normal), leading, n_leading, false);
    if (n->n_out > 2 && n->out[2] != NULL) out[2] = nc_build_reduce_sum(b, dy, leading, n_leading, false);
    return b->code;
}

/* dX of NormGrad and another value; the sum in another type too, with a State after dropout by `ratio`, which draws as
 * the node of the same random id did, and what that adds up to over the rows. The mean and the inverse deviation of X's
 * rows are what the forward pass found: kernels may take them or find them anew. */
static nc_code norm_grad_add_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 1), *scale = nc_in(c, 2);
    int axis = 0;
    int64_t to = nc_attr_int(c->node, "to");
    NC_TRY(nc_in_same(c, 0, 1));
    NC_TRY(nc_in_same(c, 3, 1));
    NC_TRY(nc_out_like(c, 0, 3));
    if (x == NULL || scale == NULL) return NC_OK;
    if (x->rank < 0) NC_FAIL(c->w, NC_E_UNSUPPORTED, "the gradient needs a known rank");
    if (c->node->n_out > 3 && !nc_dtype_is_float((nc_dtype)to))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "to is %lld, expected a type of floats", (long long)to);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(nc_out(c, 1, scale->elem, x->rank - axis, x->dims + axis));
    NC_TRY(nc_out(c, 2, scale->elem, x->rank - axis, x->dims + axis));
    NC_TRY(nc_out(c, 3, (nc_dtype)to, x->rank, x->dims));
    return nc_out(c, 4, (nc_dtype)to, x->rank - axis, x->dims + axis);
}

static nc_code norm_grad_add_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = n->in[2]->type->elem;
    bool wanted[3] = {true, n->n_out > 1 && n->out[1] != NULL, n->n_out > 2 && n->out[2] != NULL};
    nc_value *in[3] = {nc_build_cast(b, n->in[0], t), nc_build_cast(b, n->in[1], t), n->in[2]};
    nc_attr attrs[3] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "center", .kind = NC_A_INT, .i = centers(n)}};
    nc_node *d = nc_build_wanted(b, "nacre", "NormGrad", in, 3, wanted, 3, attrs, 3);
    if (d == NULL) return b->code;
    for (int i = 1; i < 3; i++)
        if (wanted[i]) out[i] = d->out[i];
    out[0] = nc_build1(b, "Add", 2, nc_build_cast(b, d->out[0], n->in[3]->type->elem), n->in[3]);
    if (n->n_out < 4) return b->code;
    nc_value *narrow = nc_build_cast(b, out[0], (nc_dtype)nc_attr_int(n, "to"));
    if (n->n_in > 6) narrow = nc_norm_dropped(b, n, narrow, n->in[6]);
    if (n->out[3] != NULL) out[3] = narrow;
    if (n->n_out < 5 || n->out[4] == NULL) return b->code;
    int axis = 0;
    int64_t leading[NC_MAX_RANK];
    NC_TRY(axis_of(b, n, n->in[1], &axis));
    out[4] = nc_build_reduce_sum(b, narrow, leading, nc_norm_axes(0, axis, leading), false);
    return b->code;
}

#define STASH A_INT("stash_type", 1), A_FLOAT("epsilon", 1e-5f), A_INT("axis", -1)
#define T_STASH (NC_BIT(NC_FLOAT) | NC_BIT(NC_BFLOAT16))
static const nc_op_version layer_versions[] = {
    {.since = 17,
     IN({"X", T_FLOAT_ALL}, {"Scale", SAME(0)}, {"B", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}, {"Mean", T_STASH, OPTIONAL}, {"InvStdDev", T_STASH, OPTIONAL}),
     ATTR(STASH)},
    {.since = 1,
     .foreign = true,
     IN({"X", T_FLOAT_ALL}, {"Scale", T_FLOAT_ALL}, {"B", SAME(1), OPTIONAL}),
     OUT({"Y", SAME(1)}, {"Mean", T_STASH, OPTIONAL}, {"InvStdDev", T_STASH, OPTIONAL}),
     ATTR(STASH)},
    {0}};
static const nc_op_version simple_versions[] = {{.since = 1,
                                                 .foreign = true,
                                                 IN({"X", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL}),
                                                 OUT({"Y", SAME(1)}, {"inv_std_var", T_FLOAT_ALL, OPTIONAL}),
                                                 ATTR(STASH)},
                                                {0}};
static const nc_op_version rms_versions[] = {
    {.since = 23, IN({"X", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL}), OUT({"Y", SAME(1)}), ATTR(STASH)}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"Scale", SAME(0)}),
     OUT({"dX", SAME(0), OPTIONAL}, {"dScale", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL}),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_INT("axis", -1), A_INT("center", 1))},
    {0}};

static const nc_op_version grad_add_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", T_FLOAT_ALL}, {"Scale", T_FLOAT_ALL}, {"Other", T_FLOAT_ALL},
        {"Mean", T_FLOAT, OPTIONAL}, {"InvStdDev", T_FLOAT, OPTIONAL}, {"State", T_I64, OPTIONAL}),
     OUT({"Sum", SAME(3)}, {"dScale", SAME(2), OPTIONAL}, {"dB", SAME(2), OPTIONAL}, {"Narrow", T_FLOAT_ALL, OPTIONAL},
         {"NarrowSums", T_FLOAT_ALL, OPTIONAL}),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_INT("axis", -1), A_INT("center", 1), A_INT("to", 0), A_FLOAT("ratio", 0))},
    {0}};

const nc_card nc_card_layer_normalization = {.name = "LayerNormalization",
                                             .doc = "Mean 0 and variance 1 over the dims from an axis on, then scaled.",
                                             .versions = layer_versions,
                                             .traits = NC_NORMS,
                                             .own = &(const layer_kind){.centers = true},
                                             .infer = layer_infer,
                                             .grad = layer_grad,
                                             .decompose = layer_decompose};
const nc_card nc_card_rms_normalization = {.name = "RMSNormalization",
                                           .doc = "Mean square 1 over the dims from an axis on, then scaled.",
                                           .versions = rms_versions,
                                           .traits = NC_NORMS,
                                           .own = &(const layer_kind){.centers = false},
                                           .infer = layer_infer,
                                           .grad = layer_grad,
                                           .decompose = layer_decompose};
const nc_card nc_card_simplified_layer_normalization = {
    .name = "SimplifiedLayerNormalization",
    .doc = "RMSNormalization as ONNX Runtime knew it first; also gives 1 / the root of the mean square.",
    .versions = simple_versions,
    .traits = NC_NORMS,
    .infer = layer_infer,
    .grad = layer_grad,
    .decompose = layer_decompose};
const nc_card nc_card_norm_grad = {.name = "NormGrad",
                                   .domain = "nacre",
                                   .doc = "Gradients of LayerNormalization, or without `center` of RMSNormalization.",
                                   .versions = grad_versions,
                                   .infer = norm_grad_infer,
                                   .decompose = norm_grad_decompose};
const nc_card nc_card_norm_grad_add = {.name = "NormGradAdd",
                                       .domain = "nacre",
                                       .doc =
                                           "NormGrad with dX added to another value; also in a second type, added up.",
                                       .versions = grad_add_versions,
                                       .infer = norm_grad_add_infer,
                                       .decompose = norm_grad_add_decompose};
