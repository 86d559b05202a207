/* ops/math/legacy.c: ops of ai.onnx that were experiments and left it, and that ONNX Runtime reads still: Affine,
 * ParametricSoftplus, ScaledTanh, ImageScaler, Scale, Crop, DynamicSlice. They run as what they are made of. */
#include "ops/contrib.h"

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_code like_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code needs_type(nc_builder *b, const nc_node *n) {
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    return NC_OK;
}

static nc_value *number(nc_builder *b, const nc_node *n, double v) {
    return nc_build_scalar(b, n->in[0]->type->elem, v);
}

static nc_value *times(nc_builder *b, const nc_node *n, nc_value *x, double v) {
    return nc_build1(b, "Mul", 2, x, number(b, n, v));
}

static nc_code affine_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    NC_TRY(needs_type(b, n));
    out[0] = nc_build1(b, "Add", 2, times(b, n, n->in[0], nc_attr_float(n, "alpha")),
                       number(b, n, nc_attr_float(n, "beta")));
    return b->code;
}

/* The card's own: the op between the two factors. */
static nc_code scaled_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    NC_TRY(needs_type(b, n));
    nc_value *x = times(b, n, n->in[0], nc_contrib_float(n, "beta", 1));
    out[0] = times(b, n, nc_build1(b, n->card->own, 1, x), nc_contrib_float(n, "alpha", 1));
    return b->code;
}

static nc_code scale_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    NC_TRY(needs_type(b, n));
    out[0] = times(b, n, n->in[0], nc_attr_float(n, "scale"));
    return b->code;
}

/* ---- ImageScaler: x (N,C,H,W) ---- */

static nc_code image_infer(nc_infer *c) {
    const nc_attr *bias = nc_node_attr(c->node, "bias");
    NC_TRY(nc_contrib_rank(c, 0, 4));
    int rank;
    int64_t channels;
    if (nc_in_rank(c, 0, &rank) && bias != NULL && nc_dim_is_const(nc_in_dim(c, 0, 1), &channels) &&
        channels != bias->n)
        NC_FAIL(c->w, NC_E_SHAPE, "bias has %d numbers, expected %lld", bias->n, (long long)channels);
    return nc_out_like(c, 0, 0);
}

static nc_code image_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_attr *bias = nc_node_attr(n, "bias");
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    NC_TRY(needs_type(b, n));
    nc_value *y = times(b, n, n->in[0], nc_attr_float(n, "scale"));
    if (bias != NULL && bias->n > 0) {
        nc_value *all = NULL;
        for (int i = 0; i < bias->n; i++) {
            nc_value *one = nc_build1(b, "Reshape", 2, number(b, n, (double)bias->floats[i]),
                                      nc_build_ints(b, (int64_t[]){1, 1, 1}, 3));
            all = i == 0 ? one : nc_build_attr1(b, "", "Concat", (nc_value *[]){all, one}, 2, &axis, 1);
        }
        y = nc_build1(b, "Add", 2, y, all);
    }
    out[0] = y;
    return b->code;
}

/* ---- Crop: x (N,C,H,W); border: left, top, right, bottom; scale: height, width ---- */

static nc_code crop_read(nc_work *w, const nc_node *n, const int64_t **border, const int64_t **scale) {
    int n_border = 0, n_scale = 0;
    *border = nc_attr_ints(n, "border", &n_border);
    *scale = nc_attr_ints(n, "scale", &n_scale);
    if (n_border != 4) NC_FAIL(w, NC_E_BAD_GRAPH, "border has %d numbers, expected 4", n_border);
    if (*scale != NULL && n_scale != 2 && n_scale != 0)
        NC_FAIL(w, NC_E_BAD_GRAPH, "scale has %d numbers, expected 2", n_scale);
    if (n_scale == 0) *scale = NULL;
    for (int i = 0; i < 4; i++)
        if ((*border)[i] < 0) NC_FAIL(w, NC_E_BAD_GRAPH, "border has a negative number, %lld", (long long)(*border)[i]);
    return NC_OK;
}

static nc_code crop_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const int64_t *border, *scale;
    NC_TRY(crop_read(c->w, c->node, &border, &scale));
    NC_TRY(nc_contrib_rank(c, 0, 4));
    if (x == NULL || x->rank < 0) return x == NULL ? NC_OK : nc_out_unknown(c, 0, x->elem, 4);
    const nc_dim *dims[4] = {x->dims[0], x->dims[1]};
    for (int i = 0; i < 2; i++) {
        int64_t cut = border[1 - i] + border[3 - i], size, need = border[1 - i] + (scale != NULL ? scale[i] : 0);
        bool known = nc_dim_is_const(x->dims[2 + i], &size);
        if (known && (size < cut || size < need))
            NC_FAIL(c->w, NC_E_SHAPE, "dim %d is %lld, less than what is cut", 2 + i, (long long)size);
        dims[2 + i] = scale != NULL ? nc_dim_const(c->dims, scale[i])
                                    : nc_dim_sub(c->dims, x->dims[2 + i], nc_dim_const(c->dims, cut));
    }
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_code crop_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const int64_t *border, *scale;
    nc_value *y = n->in[0];
    NC_TRY(needs_type(b, n));
    NC_TRY(crop_read(b->w, n, &border, &scale));
    for (int i = 0; i < 2; i++) {
        int64_t from = border[1 - i];
        nc_value *size = nc_contrib_size(b, n->in[0], 2 + i);
        nc_value *to = scale != NULL ? ints(b, from + scale[i]) : nc_build1(b, "Sub", 2, size, ints(b, border[3 - i]));
        y = nc_build1(b, "Slice", 4, y, ints(b, from), to, ints(b, 2 + i));
    }
    out[0] = y;
    return b->code;
}

/* ---- DynamicSlice ---- */

extern const nc_card nc_card_slice;

static nc_code slice_infer(nc_infer *c) { return nc_card_slice.infer(c); }

static nc_code slice_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build_attr1(b, "", "Slice", n->in, n->n_in, NULL, 0);
    return b->code;
}

/* ---- cards ---- */

#define OLD .since = 1, .foreign = true
#define ONE(x, y) IN({x, T_FLOAT_ALL}), OUT({y, SAME(0)})
static const nc_op_version affine_versions[] = {
    {OLD, ONE("X", "Y"), ATTR(A_FLOAT("alpha", 1.0f), A_FLOAT("beta", 0.0f))}, {0}};
static const nc_op_version softplus_versions[] = {{OLD, ONE("X", "Y"), ATTR(A_FLOAT_OPT("alpha"), A_FLOAT_OPT("beta"))},
                                                  {0}};
static const nc_op_version tanh_versions[] = {
    {OLD, ONE("input", "output"), ATTR(A_FLOAT_OPT("alpha"), A_FLOAT_OPT("beta"))}, {0}};
static const nc_op_version scale_versions[] = {{OLD, ONE("input", "output"), ATTR(A_FLOAT("scale", 1.0f))}, {0}};
static const nc_op_version image_versions[] = {
    {OLD, ONE("input", "output"), ATTR(A_FLOAT("scale", 1.0f), A_FLOATS_OPT("bias"))}, {0}};
static const nc_op_version crop_versions[] = {
    {OLD, ONE("input", "output"), ATTR(A_INTS_OPT("border"), A_INTS_OPT("scale"))}, {0}};
static const nc_op_version slice_versions[] = {
    {OLD, IN({"data", T_TENSOR_ALL}, {"starts", T_INDEX}, {"ends", SAME(1)}, {"axes", SAME(1), OPTIONAL}),
     OUT({"output", SAME(0)}), NO_ATTR},
    {0}};

const nc_card nc_card_affine = {.name = "Affine",
                                .doc = "alpha * X + beta.",
                                .versions = affine_versions,
                                .infer = like_infer,
                                .decompose = affine_decompose};
const nc_card nc_card_parametric_softplus = {.name = "ParametricSoftplus",
                                             .doc = "alpha * log(1 + exp(beta * X)).",
                                             .versions = softplus_versions,
                                             .own = "Softplus",
                                             .infer = like_infer,
                                             .decompose = scaled_decompose};
const nc_card nc_card_scaled_tanh = {.name = "ScaledTanh",
                                     .doc = "alpha * tanh(beta * input).",
                                     .versions = tanh_versions,
                                     .own = "Tanh",
                                     .infer = like_infer,
                                     .decompose = scaled_decompose};
const nc_card nc_card_scale = {.name = "Scale",
                               .doc = "The input times a number.",
                               .versions = scale_versions,
                               .infer = like_infer,
                               .decompose = scale_decompose};
const nc_card nc_card_image_scaler = {.name = "ImageScaler",
                                      .doc = "The input times a number, plus one for each channel.",
                                      .versions = image_versions,
                                      .infer = image_infer,
                                      .decompose = image_decompose};
const nc_card nc_card_crop = {.name = "Crop",
                              .doc = "An image without its borders, or a part of a given size.",
                              .versions = crop_versions,
                              .infer = crop_infer,
                              .decompose = crop_decompose};
const nc_card nc_card_dynamic_slice = {.name = "DynamicSlice",
                                       .doc = "Slice by its first name.",
                                       .versions = slice_versions,
                                       .host_in = 2 | 4 | 8,
                                       .no_grad_in = 2 | 4 | 8,
                                       .infer = slice_infer,
                                       .decompose = slice_decompose};
