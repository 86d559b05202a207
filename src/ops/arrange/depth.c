/* ops/arrange/depth.c: cards of DepthToSpace, SpaceToDepth and CenterCropPad. The first two are a reshape, a transpose
 * and a reshape, and each is in the other's gradient. CenterCropPad is its own. */
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code block_of(nc_infer *c, const nc_dim **b) {
    int64_t size = nc_attr_int(c->node, "blocksize");
    if (size < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "blocksize is %lld, expected 1 or more", (long long)size);
    *b = nc_dim_const(c->dims, size);
    NC_NEED(c->w, *b);
    return NC_OK;
}

static nc_code check_rank(nc_infer *c, const nc_type *x) {
    if (x->rank >= 0 && x->rank != 4) NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 4", x->rank);
    return NC_OK;
}

/* A size that must be a multiple of by. */
static nc_code divided(nc_infer *c, const nc_dim *d, const nc_dim *by, const char *what, const nc_dim **out) {
    int64_t a, b;
    if (nc_dim_is_const(d, &a) && nc_dim_is_const(by, &b) && a % b != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "%s is %lld, expected a multiple of %lld", what, (long long)a, (long long)b);
    *out = nc_dim_floordiv(c->dims, d, by);
    return NC_OK;
}

/* ---- DepthToSpace ---- */

static nc_code to_space_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *b, *dims[4];
    if (x == NULL) return NC_OK;
    NC_TRY(block_of(c, &b));
    NC_TRY(check_rank(c, x));
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, 4);
    dims[0] = x->dims[0];
    NC_TRY(divided(c, x->dims[1], nc_dim_mul(c->dims, b, b), "the number of channels", &dims[1]));
    dims[2] = nc_dim_mul(c->dims, x->dims[2], b);
    dims[3] = nc_dim_mul(c->dims, x->dims[3], b);
    return nc_out(c, 0, x->elem, 4, dims);
}

static bool is_crd(const nc_node *n) { return nc_attr_has(n, "mode") && strcmp(nc_attr_str(n, "mode"), "CRD") == 0; }

static nc_value *size_of(nc_builder *b, nc_value *x, int axis) {
    nc_attr range[2] = {{.name = "start", .kind = NC_A_INT, .i = axis},
                        {.name = "end", .kind = NC_A_INT, .i = axis + 1}};
    return nc_build_attr1(b, "", "Shape", &x, 1, range, 2);
}

static nc_value *joined(nc_builder *b, nc_value **parts, int n) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "Concat", parts, n, &axis, 1);
}

static nc_value *to_space(nc_builder *b, nc_value *x, int64_t size, bool crd) {
    static const int64_t order[6] = {0, 3, 4, 1, 5, 2}, order_crd[6] = {0, 1, 4, 2, 5, 3};
    int64_t square = size * size;
    nc_value *bs = nc_build_ints(b, &size, 1), *d[4];
    for (int k = 0; k < 4; k++) d[k] = size_of(b, x, k);
    nc_value *c = nc_build1(b, "Div", 2, d[1], nc_build_ints(b, &square, 1));
    nc_value *six[6] = {d[0], crd ? c : bs, bs, crd ? bs : c, d[2], d[3]};
    nc_value *four[4] = {d[0], c, nc_build1(b, "Mul", 2, d[2], bs), nc_build1(b, "Mul", 2, d[3], bs)};
    nc_value *wide = nc_build1(b, "Reshape", 2, x, joined(b, six, 6));
    nc_value *turned = nc_build_transpose(b, wide, crd ? order_crd : order, 6);
    return nc_build1(b, "Reshape", 2, turned, joined(b, four, 4));
}

static nc_value *to_depth(nc_builder *b, nc_value *x, int64_t size, bool crd) {
    static const int64_t order[6] = {0, 3, 5, 1, 2, 4}, order_crd[6] = {0, 1, 3, 5, 2, 4};
    int64_t square = size * size;
    nc_value *bs = nc_build_ints(b, &size, 1), *d[4];
    for (int k = 0; k < 4; k++) d[k] = size_of(b, x, k);
    nc_value *h = nc_build1(b, "Div", 2, d[2], bs), *w = nc_build1(b, "Div", 2, d[3], bs);
    nc_value *six[6] = {d[0], d[1], h, bs, w, bs};
    nc_value *four[4] = {d[0], nc_build1(b, "Mul", 2, d[1], nc_build_ints(b, &square, 1)), h, w};
    nc_value *wide = nc_build1(b, "Reshape", 2, x, joined(b, six, 6));
    nc_value *turned = nc_build_transpose(b, wide, crd ? order_crd : order, 6);
    return nc_build1(b, "Reshape", 2, turned, joined(b, four, 4));
}

static nc_code to_space_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = to_space(b, n->in[0], nc_attr_int(n, "blocksize"), is_crd(n));
    return b->code;
}

static nc_code to_space_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_grad_set(g, 0, to_depth(g->b, dy, nc_attr_int(g->node, "blocksize"), is_crd(g->node)));
    return nc_grad_end(g);
}

#define BLOCK IN({"input", T_TENSOR_ALL}), OUT({"output", SAME(0)})
#define BLOCK_11 IN({"input", T_TENSOR}), OUT({"output", SAME(0)})
#define MODE ATTR(A_INT_REQ("blocksize"), A_STR("mode", "DCR"))
#define SIZE ATTR(A_INT_REQ("blocksize"))
static const nc_op_version to_space_versions[] = {{.since = 28, BLOCK, MODE},
                                                  {.since = 13, BLOCK, MODE},
                                                  {.since = 11, BLOCK_11, MODE},
                                                  {.since = 1, BLOCK_11, SIZE},
                                                  {0}};

const nc_card nc_card_depth_to_space = {.name = "DepthToSpace",
                                        .doc = "Blocks of channels laid out as blocks of pixels.",
                                        .versions = to_space_versions,
                                        .infer = to_space_infer,
                                        .grad = to_space_grad,
                                        .decompose = to_space_decompose};

/* ---- SpaceToDepth ---- */

static nc_code to_depth_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *b, *dims[4];
    if (x == NULL) return NC_OK;
    NC_TRY(block_of(c, &b));
    NC_TRY(check_rank(c, x));
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, 4);
    dims[0] = x->dims[0];
    dims[1] = nc_dim_mul(c->dims, x->dims[1], nc_dim_mul(c->dims, b, b));
    NC_TRY(divided(c, x->dims[2], b, "the height", &dims[2]));
    NC_TRY(divided(c, x->dims[3], b, "the width", &dims[3]));
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_code to_depth_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = to_depth(b, n->in[0], nc_attr_int(n, "blocksize"), is_crd(n));
    return b->code;
}

static nc_code to_depth_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_grad_set(g, 0, to_space(g->b, dy, nc_attr_int(g->node, "blocksize"), is_crd(g->node)));
    return nc_grad_end(g);
}

static const nc_op_version to_depth_versions[] = {
    {.since = 28, BLOCK, MODE}, {.since = 13, BLOCK, SIZE}, {.since = 1, BLOCK_11, SIZE}, {0}};

const nc_card nc_card_space_to_depth = {.name = "SpaceToDepth",
                                        .doc = "Blocks of pixels laid out as blocks of channels.",
                                        .versions = to_depth_versions,
                                        .infer = to_depth_infer,
                                        .grad = to_depth_grad,
                                        .decompose = to_depth_decompose};

/* ---- CenterCropPad ---- */

static nc_code center_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int n, n_axes, axis;
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    const nc_dim *const *shape = nc_in_elems(c, 1, &n);
    const int64_t *axes = nc_attr_ints(c->node, "axes", &n_axes);
    if (axes == NULL) n_axes = x->rank;
    if (shape != NULL && n != n_axes) NC_FAIL(c->w, NC_E_SHAPE, "shape has %d elements, expected %d", n, n_axes);
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    for (int k = 0; k < n_axes; k++) {
        NC_TRY(nc_axis(c, axes != NULL ? axes[k] : k, x->rank, &axis));
        dims[axis] = shape != NULL && shape[k] != NULL ? shape[k] : nc_fresh(c, "d");
    }
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code center_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    int n;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    const int64_t *axes = nc_attr_ints(g->node, "axes", &n);
    nc_value *shape = nc_build_shape(g->b, nc_grad_like(g, 0));
    if (axes != NULL) shape = nc_build1(g->b, "Gather", 2, shape, nc_build_ints(g->b, axes, n));
    nc_value *in[2] = {dy, shape};
    nc_attr which = {.name = "axes", .kind = NC_A_INTS, .n = n, .ints = axes};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "CenterCropPad", in, 2, &which, axes != NULL));
    return nc_grad_end(g);
}

static const nc_op_version center_versions[] = {{.since = 18,
                                                 IN({"input_data", T_TENSOR_ALL}, {"shape", T_INDEX}),
                                                 OUT({"output_data", SAME(0)}),
                                                 ATTR(A_INTS_OPT("axes"))},
                                                {0}};

const nc_card nc_card_center_crop_pad = {.name = "CenterCropPad",
                                         .doc = "Its input cropped or padded with zeros to a shape, centered.",
                                         .versions = center_versions,
                                         .host_in = 1u << 1,
                                         .no_grad_in = 1u << 1,
                                         .infer = center_infer,
                                         .grad = center_grad};
