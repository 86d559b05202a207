/* ops/training/index.c: gradients of what picks and cuts, as ONNX Runtime names them: dY added up, or put, where it was
 * taken from; and rows packed and padded again. */
#include "ops/training/training.h"

/* Output 0 of the type of input `of`, with the dims that input `shape` holds. The card's own says which. */
typedef struct picked_own {
    int of, shape;
} picked_own;

static nc_code picked_infer(nc_infer *c) {
    const picked_own *own = c->node->card->own;
    const nc_type *dy = nc_in(c, own->of);
    return dy != NULL ? nc_out_of_shape(c, dy->elem, own->shape, -1) : NC_OK;
}

static nc_code gather_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[3] = {nc_build_cast(b, n->in[0], NC_INT64), n->in[1], n->in[2]};
    return nc_training_as(b, n, "GatherGrad", in, 3, n->attrs, n->n_attrs, out);
}

/* ---- ShrunkenGather: a Gather that passes may move up ---- */

extern const nc_card nc_card_gather;

static nc_code shrunken_infer(nc_infer *c) { return nc_card_gather.infer(c); }

static nc_code shrunken_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build_attr1(b, "", "Gather", n->in, n->n_in, n->attrs, n->n_attrs);
    return b->code;
}

static nc_value *zeros_of_shape(nc_builder *b, nc_value *shape, nc_dtype t) {
    return nc_build1(b, "Expand", 2, nc_build_scalar(b, t, 0), shape);
}

static nc_code elements_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "reduction", .kind = NC_A_STRING, .s = {(char[]){"add"}, 3}}};
    nc_value *in[3] = {zeros_of_shape(b, n->in[1], nc_training_elem(n->in[0])), n->in[2], n->in[0]};
    out[0] = nc_build_attr1(b, "", "ScatterElements", in, 3, attrs, 2);
    return b->code;
}

static nc_code nd_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_training_as(b, n, "GatherNDGrad", n->in, 3, n->attrs, n->n_attrs, out);
}

static nc_code slice_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_training_as(b, n, "SliceGrad", n->in, n->n_in, NULL, 0, out);
}

static nc_code resize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[4] = {n->in[0], nc_build_shape(b, n->in[1]), nc_contrib_in(n, 2), nc_contrib_in(n, 3)};
    return nc_training_as(b, n, "ResizeGrad", in, 4, n->attrs, n->n_attrs, out);
}

static nc_code resize_infer(nc_infer *c) { return nc_out_like(c, 0, 1); }

/* ---- rows packed and padded again ---- */

/* Two dims of the input become one, of which the rows that indices name stay. */
static nc_code unpad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1);
    const nc_dim *dims[NC_MAX_RANK], *two = nc_dim_const(c->dims, 2);
    NC_TRY(nc_contrib_rank(c, 1, 1));
    if (at != NULL) NC_TRY(nc_out(c, 1, at->elem, 1, &two));
    if (x == NULL) return NC_OK;
    if (x->rank >= 0 && x->rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, at least 2 are expected", x->rank);
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    dims[0] = nc_in_dim(c, 1, 0) != NULL ? nc_in_dim(c, 1, 0) : nc_fresh(c, "rows");
    for (int i = 2; i < x->rank; i++) dims[i - 1] = x->dims[i];
    return nc_out(c, 0, x->elem, x->rank - 1, dims);
}

static nc_value *joined(nc_builder *b, nc_value *first, nc_value *second) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *in[2] = {first, second};
    return nc_build_attr1(b, "", "Concat", in, 2, &axis, 1);
}

/* The dims of x from axis `from` on. */
static nc_value *dims_from(nc_builder *b, nc_value *x, int from) {
    nc_attr start = {.name = "start", .kind = NC_A_INT, .i = from};
    return nc_build_attr1(b, "", "Shape", &x, 1, &start, 1);
}

static nc_code unpad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *minus = nc_build_ints(b, (const int64_t[]){-1}, 1);
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0}, end = {.name = "end", .kind = NC_A_INT, .i = 2};
    nc_value *in[2] = {nc_build1(b, "Reshape", 2, x, joined(b, minus, dims_from(b, x, 2))), n->in[1]};
    out[0] = nc_build_attr1(b, "", "Gather", in, 2, &axis, 1);
    if (nc_contrib_wants(n, 1))
        out[1] = nc_build_cast(b, nc_build_attr1(b, "", "Shape", &x, 1, &end, 1), nc_training_elem(n->in[1]));
    return b->code;
}

static nc_code pad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK + 2];
    int n;
    NC_TRY(nc_contrib_rank(c, 1, 1));
    if (x == NULL) return NC_OK;
    const nc_dim *const *first = nc_in_elems(c, 2, &n);
    if (first == NULL) {
        int64_t two = 0;
        bool known = nc_in_dim(c, 2, 0) != NULL && nc_dim_is_const(nc_in_dim(c, 2, 0), &two);
        if (!known) return nc_out_unknown(c, 0, x->elem, -1);
        n = (int)two;
    }
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank < 1 || n + x->rank - 1 > NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims and unflatten_dims %d elements", x->rank, n);
    for (int i = 0; i < n; i++) dims[i] = first != NULL ? first[i] : nc_fresh(c, "d");
    for (int i = 1; i < x->rank; i++) dims[n + i - 1] = x->dims[i];
    return nc_out(c, 0, x->elem, n + x->rank - 1, dims);
}

static nc_code pad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *first = nc_build_cast(b, n->in[2], NC_INT64), *rest = dims_from(b, x, 1);
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1}, axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *rows = nc_build_attr1(b, "", "ReduceProd", &first, 1, &keep, 1);
    nc_value *in[3] = {joined(b, rows, rest), n->in[1], x};
    nc_value *put = nc_build_attr1(b, "nacre", "GatherGrad", in, 3, &axis, 1);
    out[0] = nc_build1(b, "Reshape", 2, put, joined(b, first, rest));
    return b->code;
}

/* ---- cards ---- */

#define DX OUT({"dX", SAME(2)})
static const nc_op_version gather_versions[] = {
    {.since = 1, IN({"shape", T_INDEX}, {"indices", T_INDEX}, {"dY", T_FLOAT_ALL}), DX, ATTR(A_INT("axis", 0))}, {0}};
static const nc_op_version elements_versions[] = {{.since = 1,
                                                   IN({"dY", T_FLOAT_ALL}, {"shape", T_I64}, {"indices", T_INDEX}),
                                                   OUT({"dX", SAME(0)}),
                                                   ATTR(A_INT("axis", 0))},
                                                  {0}};
static const nc_op_version nd_versions[] = {{.since = 1,
                                             IN({"shape", T_I64}, {"indices", T_I64}, {"update", T_FLOAT_ALL}),
                                             OUT({"output", SAME(2)}),
                                             ATTR(A_INT("batch_dims", 0))},
                                            {0}};
static const nc_op_version slice_versions[] = {
    {.since = 1,
     IN({"dY", T_WHOLE}, {"shape", T_I64}, {"starts", T_INDEX}, {"ends", SAME(2)}, {"axes", SAME(2), OPTIONAL},
        {"steps", SAME(2), OPTIONAL}),
     OUT({"dX", SAME(0)}),
     NO_ATTR},
    {0}};
static const nc_op_version resize_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"roi", SAME(0), OPTIONAL}, {"scales", T_F32, OPTIONAL}),
     OUT({"dX", SAME(0)}),
     ATTR(A_INT("antialias", 0), A_INTS_OPT("axes"), A_STR("coordinate_transformation_mode", "half_pixel"),
          A_FLOAT("cubic_coeff_a", -0.75f), A_INT("exclude_outside", 0), A_FLOAT("extrapolation_value", 0.0f),
          A_STR("keep_aspect_ratio_policy", "stretch"), A_STR("mode", "nearest"),
          A_STR("nearest_mode", "round_prefer_floor"))},
    {0}};
static const nc_op_version unpad_versions[] = {{.since = 1,
                                                IN({"input", T_FLOAT_ALL | T_INDEX}, {"indices", T_INDEX}),
                                                OUT({"output", SAME(0)}, {"unflatten_dims", SAME(1)}),
                                                NO_ATTR},
                                               {0}};
static const nc_op_version pad_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"indices", T_INDEX}, {"unflatten_dims", T_INDEX}),
     OUT({"output", SAME(0)}),
     NO_ATTR},
    {0}};

#define PICKED(i_dy, i_shape) .own = (&(const picked_own){i_dy, i_shape}), .infer = picked_infer
static const nc_op_version shrunken_versions[] = {
    {.since = 1, IN({"data", T_TENSOR_ALL}, {"indices", T_INDEX}), OUT({"output", SAME(0)}), ATTR(A_INT("axis", 0))},
    {0}};
NC_TRAINING_CARD(shrunken_gather, "ShrunkenGather", "Slices that indices name.", shrunken_versions,
                 .infer = shrunken_infer, .no_grad_in = 2, .decompose = shrunken_decompose);
NC_TRAINING_CARD(gather_grad, "GatherGrad", "dY's slices added up where indices say, else 0.", gather_versions,
                 PICKED(2, 0), .host_in = 1, .no_grad_in = 3, .decompose = gather_decompose);
NC_TRAINING_CARD(gather_elements_grad, "GatherElementsGrad", "dY's elements added up where indices say, else 0.",
                 elements_versions, PICKED(0, 1), .host_in = 2, .no_grad_in = 6, .decompose = elements_decompose);
NC_TRAINING_CARD(gather_nd_grad, "GatherNDGrad", "dY's slices added up where the index tuples say, else 0.",
                 nd_versions, PICKED(2, 0), .host_in = 1, .no_grad_in = 3, .decompose = nd_decompose);
NC_TRAINING_CARD(slice_grad, "SliceGrad", "dY where a slice was taken from, else 0.", slice_versions, PICKED(0, 1),
                 .host_in = 0x3e, .no_grad_in = 0x3e, .decompose = slice_decompose);
NC_TRAINING_CARD(resize_grad, "ResizeGrad", "Gradient of Resize: dY's elements shared out as they were weighed.",
                 resize_versions, .infer = resize_infer, .host_in = 0xc, .no_grad_in = 0xe, .dims_only_in = 2,
                 .decompose = resize_decompose);
NC_TRAINING_CARD(flatten_and_unpad, "FlattenAndUnpad", "The first two dims as one, of which the rows in indices stay.",
                 unpad_versions, .infer = unpad_infer, .no_grad_in = 2, .decompose = unpad_decompose);
NC_TRAINING_CARD(pad_and_unflatten, "PadAndUnflatten", "Rows put where indices say, else 0, under other first dims.",
                 pad_versions, .infer = pad_infer, .host_in = 4, .no_grad_in = 6, .decompose = pad_decompose);
