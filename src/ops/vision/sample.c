/* ops/vision/sample.c: cards of AffineGrid and NonMaxSuppression. AffineGrid is
 * linear in theta: its gradient needs only the grid of the identity. */
#include "ops/vision/vision.h"

/* ---- AffineGrid ---- */

static nc_code affine_infer(nc_infer *c) {
    const nc_type *t = nc_in(c, 0);
    const nc_dim *dims[5];
    int n, from = 0;
    if (t == NULL) return NC_OK;
    const nc_dim *const *size = nc_in_elems(c, 1, &n);
    if (size == NULL) {
        int64_t rank;
        const nc_dim *len = nc_in_dim(c, 1, 0);
        bool known = len != NULL && nc_dim_is_const(len, &rank) && (rank == 4 || rank == 5);
        return nc_out_unknown(c, 0, t->elem, known ? (int)rank : -1);
    }
    if (n != 4 && n != 5) NC_FAIL(c->w, NC_E_SHAPE, "size has %d elements, expected 4 or 5", n);
    for (int k = 0; k < n; k++)
        if (k != 1) dims[from++] = size[k] != NULL ? size[k] : nc_fresh(c, "d");
    dims[from] = nc_dim_const(c->dims, n - 2);
    return nc_out(c, 0, t->elem, n, dims);
}

/* dtheta = dY as (N, dims, places) times (x, y, ..., 1) as (N, places, dims + 1). */
static nc_code affine_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_builder *b = g->b;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    if (dy->type == NULL || dy->type->rank < 4) NC_FAIL(b->w, NC_E_UNSUPPORTED, "the gradient needs a known rank");
    int dims = dy->type->rank - 2;
    int64_t shape[2] = {dims, dims + 1}, flat[3] = {0, -1, dims}, last = -1;
    float eye[12] = {0};
    for (int k = 0; k < dims; k++) eye[k * (dims + 2)] = 1;
    const nc_literal *l = nc_edit_literal(b->graph->model, NC_FLOAT, 2, shape, eye);
    NC_NEED(b->w, l);
    nc_attr value = {.name = "value", .kind = NC_A_TENSOR, .tensor = l};
    nc_value *same = nc_build_cast(b, nc_build_attr1(b, "", "Constant", NULL, 0, &value, 1), dy->type->elem);
    nc_value *base_in[2] = {nc_build_expand_like(b, same, nc_grad_x(g, 0)), nc_grad_x(g, 1)};
    nc_attr align = {.name = "align_corners", .kind = NC_A_INT, .i = nc_attr_int(g->node, "align_corners")};
    nc_value *base = nc_build_attr1(b, "", "AffineGrid", base_in, 2, &align, 1);
    nc_value *rows = nc_build_ints(b, flat, 3);
    base = nc_build1(b, "Reshape", 2, base, rows);
    nc_value *first = nc_build_reduce_sum(b, base, &last, 1, true);
    nc_value *ones = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, first, nc_build_scalar(b, dy->type->elem, 0)),
                               nc_build_scalar(b, dy->type->elem, 1));
    nc_value *parts[2] = {base, ones};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 2};
    nc_value *all = nc_build_attr1(b, "", "Concat", parts, 2, &axis, 1);
    nc_value *turned = nc_build_swap_last(b, nc_build1(b, "Reshape", 2, dy, rows));
    nc_grad_set(g, 0, nc_build1(b, "MatMul", 2, turned, all));
    return nc_grad_end(g);
}

/* The places of an axis' pixels in -1..1, as a column for each pixel of the whole grid; k: which of its `dims` axes. */
static nc_value *affine_axis(nc_builder *b, const nc_node *n, int k, int dims, nc_value *all) {
    bool align = nc_attr_int(n, "align_corners") != 0;
    int64_t shape[3] = {1, 1, 1}, column[2] = {-1, 1};
    nc_value *one = nc_build_scalar(b, NC_DOUBLE, 1), *two = nc_build_scalar(b, NC_DOUBLE, 2);
    nc_value *d = nc_build1(b, "Gather", 2, n->in[1], nc_build_int(b, 2 + k));
    nc_value *i = nc_build1(b, "Range", 3, nc_build_int(b, 0), d, nc_build_int(b, 1));
    nc_value *x = nc_build1(b, "Mul", 2, nc_build_cast(b, i, NC_DOUBLE), two), *by = nc_build_cast(b, d, NC_DOUBLE);
    if (align)
        by = nc_build1(b, "Max", 2, nc_build1(b, "Sub", 2, by, one), one);
    else
        x = nc_build1(b, "Add", 2, x, one);
    x = nc_build1(b, "Sub", 2, nc_build1(b, "Div", 2, x, by), one);
    shape[k] = -1;
    x = nc_build1(b, "Expand", 2, nc_build1(b, "Reshape", 2, x, nc_build_ints(b, shape, dims)), all);
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, column, 2));
}

/* (x, y, ..., 1) of all pixels times theta turned, in double as the kernel has it. */
static nc_code affine_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *t = n->in[0]->type, *y = n->out[0]->type;
    if (t == NULL || y == NULL || y->rank < 4) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    int dims = y->rank - 2;
    const int64_t from = 2, to = dims + 2, first = 0, last = dims;
    nc_attr behind = {.name = "axis", .kind = NC_A_INT, .i = 1}, front = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_attr zeros = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    nc_value *all = nc_build1(b, "Slice", 3, n->in[1], nc_build_ints(b, &from, 1), nc_build_ints(b, &to, 1));
    nc_value *columns[4], *shape[3] = {NULL, all, nc_build_ints(b, &last, 1)};
    for (int k = 0; k < dims; k++) columns[k] = affine_axis(b, n, dims - 1 - k, dims, all);
    columns[dims] = nc_build_expand_like(b, nc_build_scalar(b, NC_DOUBLE, 1), columns[0]);
    nc_value *base = nc_build_attr1(b, "", "Concat", columns, dims + 1, &behind, 1);
    nc_value *grid = nc_build1(b, "MatMul", 2, base, nc_build_swap_last(b, nc_build_cast(b, n->in[0], NC_DOUBLE)));
    shape[0] = nc_build1(b, "Gather", 2, n->in[1], nc_build_ints(b, &first, 1));
    nc_value *in[2] = {grid, nc_build_attr1(b, "", "Concat", shape, 3, &front, 1)};
    out[0] = nc_build_cast(b, nc_build_attr1(b, "", "Reshape", in, 2, &zeros, 1), t->elem);
    return b->code;
}

static const nc_op_version affine_versions[] = {
    {.since = 20, IN({"theta", T_FLOAT_ALL}, {"size", T_I64}), OUT({"grid", SAME(0)}), ATTR(A_INT("align_corners", 0))},
    {0}};

const nc_card nc_card_affine_grid = {.name = "AffineGrid",
                                     .doc = "The places that an affine map gives for every pixel of a size.",
                                     .versions = affine_versions,
                                     .host_in = 2,
                                     .no_grad_in = 2,
                                     .infer = affine_infer,
                                     .decompose = affine_decompose,
                                     .grad = affine_grad};

/* ---- NonMaxSuppression ---- */

static nc_code nms_infer(nc_infer *c) {
    const nc_type *scores = nc_in(c, 1);
    const nc_dim *dims[2] = {nc_fresh(c, "n"), nc_dim_const(c->dims, 3)};
    NC_NEED(c->w, dims[0]);
    if (scores != NULL && scores->rank >= 0) {
        int n;
        if (scores->rank != 3) NC_FAIL(c->w, NC_E_SHAPE, "scores has %d dims, expected 3", scores->rank);
        NC_TRY(nc_in_expect(c, 0, 2, nc_dim_const(c->dims, 4)));
        NC_TRY(nc_in_expect(c, 0, 1, scores->dims[2]));
        NC_TRY(nc_in_expect(c, 0, 0, scores->dims[0]));
        const nc_dim *each = scores->dims[2];
        const nc_dim *const *most = nc_in_elems(c, 2, &n);
        int64_t limit;
        if (most != NULL && n == 1 && most[0] != NULL && nc_dim_is_const(most[0], &limit) && limit >= 0)
            each = nc_dim_min(c->dims, each, most[0]);
        const nc_dim *all = nc_dim_mul(c->dims, nc_dim_mul(c->dims, scores->dims[0], scores->dims[1]), each);
        NC_NEED(c->w, all);
        nc_dim_set_bound(c->dims, dims[0], all);
    }
    return nc_out(c, 0, NC_INT64, 2, dims);
}

#define NMS                                                                                                          \
    IN({"boxes", NC_BIT(NC_FLOAT)}, {"scores", NC_BIT(NC_FLOAT)},                                                    \
       {"max_output_boxes_per_class", T_I64, SINGLE_OPTIONAL}, {"iou_threshold", NC_BIT(NC_FLOAT), SINGLE_OPTIONAL}, \
       {"score_threshold", NC_BIT(NC_FLOAT), SINGLE_OPTIONAL}),                                                      \
        OUT({"selected_indices", T_I64}), ATTR(A_INT("center_point_box", 0))
static const nc_op_version nms_versions[] = {{.since = 11, NMS}, {.since = 10, NMS}, {0}};

const nc_card nc_card_non_max_suppression = {.name = "NonMaxSuppression",
                                             .doc = "The boxes that remain when those that overlap better ones go.",
                                             .versions = nms_versions,
                                             .host_in = 0x1c,
                                             .infer = nms_infer,
                                             .zero_grad = true};
